package server

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// sieve lets lines through that are messages. Any other is answered with an error, and ends nothing: the SDK would
// give the connection up.
type sieve struct {
	io.Closer
	in  *bufio.Reader
	out io.Writer
	// rest is what was not read yet of a line.
	rest []byte
}

// Read implements io.Reader.
func (s *sieve) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		line, err := s.line()
		if len(bytes.TrimSpace(line)) > 0 && s.fits(line) {
			line = append(line, '\n')
			s.rest = line
			break
		}
		if err != nil {
			return 0, err
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// line reads a line without its end; of one that is too large only so much that this can be seen.
func (s *sieve) line() (line []byte, err error) {
	for {
		part, err := s.in.ReadSlice('\n')
		if len(line) <= MaxBody {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimRight(line, "\r\n"), err
		}
	}
}

func (s *sieve) fits(line []byte) bool {
	var p peek
	wrong := &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the message is larger than 4 MiB"}
	if len(line) <= MaxBody {
		p, wrong = look(line)
	}
	if wrong == nil {
		if _, err := jsonrpc.DecodeMessage(line); err != nil {
			p.ID, wrong = nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the line is not one JSON-RPC message"}
		}
	}
	if wrong != nil {
		_, _ = s.out.Write(append(refusal(p.ID, wrong), '\n')) // one that does not read hears nothing
	}
	return wrong == nil
}

// oneByOne writes each message whole.
type oneByOne struct {
	io.WriteCloser
	mu sync.Mutex
}

// Write implements io.Writer.
func (o *oneByOne) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.WriteCloser.Write(p)
}
