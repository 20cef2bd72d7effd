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

// maxProgressLine limits the bytes of a line of a program that watchers see.
const maxProgressLine = 200

// progressLines converts the output of a program to progress: its newest line, and the ratio if a line begins with done/total.
type progressLines struct {
	show func(work.Progress)

	mu   sync.Mutex
	last work.Progress
}

// stream returns a writer for one of the streams of the program.
func (s *progressLines) stream() io.Writer { return &lineSplitter{all: s} }

// farForm matches a line such as "3/10 linking".
var farForm = regexp.MustCompile(`^(\d{1,9})/(\d{1,9})(?:\s+(.*))?$`)

// report reports a line.
func (s *progressLines) report(line string) {
	line = strings.TrimSpace(strings.ToValidUTF8(line, "\ufffd"))
	if line == "" || s.show == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if far := farForm.FindStringSubmatch(line); far != nil {
		s.last.Done, _ = strconv.ParseFloat(far[1], 64)
		s.last.Total, _ = strconv.ParseFloat(far[2], 64)
		line = far[3]
	}
	s.last.Message = line
	s.show(s.last)
}

// lineSplitter splits a stream into lines and keeps the beginning of each.
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
