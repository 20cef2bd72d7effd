package main

import (
	"bytes"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/orch-dev/orch/work"
)

// maxProgressLine limits the bytes of a line of output that is reported as progress.
const maxProgressLine = 200

// progressLines converts the output of a program to progress: the newest line, and the ratio if the line begins with done/total.
type progressLines struct {
	show func(work.Progress)

	mu   sync.Mutex
	last work.Progress
}

// stream returns a writer for one of the streams of the program.
func (s *progressLines) stream() io.Writer { return &lineSplitter{all: s} }

// ratioLine matches a line such as "3/10 linking".
var ratioLine = regexp.MustCompile(`^(\d{1,9})/(\d{1,9})(?:\s+(.*))?$`)

// report reports a line as progress.
func (s *progressLines) report(line string) {
	line = strings.TrimSpace(strings.ToValidUTF8(line, "\ufffd"))
	if line == "" || s.show == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ratio := ratioLine.FindStringSubmatch(line); ratio != nil {
		s.last.Done, _ = strconv.ParseFloat(ratio[1], 64)
		s.last.Total, _ = strconv.ParseFloat(ratio[2], 64)
		line = ratio[3]
	}
	s.last.Message = line
	s.show(s.last)
}

// lineSplitter splits a stream into lines and truncates long ones.
type lineSplitter struct {
	all  *progressLines
	line []byte
}

// Write implements io.Writer. It never fails, because the output is only for information.
func (w *lineSplitter) Write(b []byte) (int, error) {
	n := len(b)
	for {
		text, rest, whole := bytes.Cut(b, []byte("\n"))
		w.line = append(w.line, text[:min(len(text), maxProgressLine-len(w.line))]...)
		if !whole {
			return n, nil
		}
		w.all.report(string(w.line))
		w.line, b = w.line[:0], rest
	}
}
