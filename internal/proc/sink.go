package proc

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/orch-dev/orch/internal/secret"
)

// sink receives the output of a process. It stores the beginning of each stream and counts all bytes.
type sink struct {
	mu       sync.Mutex
	onOutput func(stream string, n int64)
	output   func(p []byte)
	secrets  *secret.Set
	out, err stream
}

// stream is the standard output or standard error of a process.
type stream struct {
	sink  *sink
	name  string
	limit int64
	seen  int64
	kept  []byte
	copy  io.Writer
	// line is the incomplete line that was not passed to Output yet.
	line []byte
}

// maxLine bounds the buffered incomplete line, in bytes.
const maxLine = 16 << 10

func newSink(c Command) *sink {
	limit := c.Limit
	if limit <= 0 {
		limit = DefaultLimit
	}
	s := &sink{onOutput: c.OnOutput, output: c.Output, secrets: c.Secrets}
	s.out = stream{sink: s, name: "stdout", limit: limit, copy: c.Stdout}
	s.err = stream{sink: s, name: "stderr", limit: limit}
	return s
}

// Write stores up to the limit and reports all of p as written, so that the process is never blocked.
func (s *stream) Write(p []byte) (int, error) {
	s.sink.mu.Lock()
	defer s.sink.mu.Unlock()
	if s.copy != nil {
		if n, err := s.copy.Write(p); err != nil {
			return n, err
		}
	} else if room := s.limit - int64(len(s.kept)); room > 0 {
		s.kept = append(s.kept, p[:min(int64(len(p)), room)]...)
	}
	s.seen += int64(len(p))
	s.passLines(p)
	if s.sink.onOutput != nil {
		s.sink.onOutput(s.name, s.seen)
	}
	return len(p), nil
}

// passLines passes whole lines to Command.Output, so that lines of the two streams are not mixed.
func (s *stream) passLines(p []byte) {
	if s.sink.output == nil {
		return
	}
	if len(s.line) > 0 {
		s.line = append(s.line, p...)
		p = s.line
	}
	end := bytes.LastIndexAny(p, "\r\n") + 1
	if len(p)-end > maxLine {
		end = len(p)
	}
	if end > 0 {
		s.sink.output(p[:end])
	}
	s.line = append(s.line[:0], p[end:]...)
}

func (s *sink) result() Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, s := range []*stream{&s.out, &s.err} {
		if len(s.line) > 0 {
			s.sink.output(s.line)
			s.line = nil
		}
	}
	return Result{Stdout: s.out.text(), Stderr: s.err.text(), Truncated: s.out.truncated() || s.err.truncated()}
}

func (s *stream) truncated() bool { return s.copy == nil && s.seen > s.limit }

func (s *stream) text() string {
	kept := s.kept
	kept, _ = s.sink.secrets.Redact(kept)
	if s.truncated() {
		kept = trimPartial(s.sink.secrets.Trim(kept))
	}
	return strings.ToValidUTF8(string(kept), string(utf8.RuneError))
}

// trimPartial drops an incomplete rune at the end.
func trimPartial(b []byte) []byte {
	for i := 1; i <= min(utf8.UTFMax-1, len(b)); i++ {
		if tail := b[len(b)-i:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}
