package realtime

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
)

// message is one event of a stream of server-sent events.
type message struct {
	name string
	data []byte
}

// reader reads server-sent events.
type reader struct {
	lines *bufio.Scanner
	limit int64
}

func newReader(body io.Reader, limit int64) *reader {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, int(limit)+len("data: \r\n"))
	return &reader{lines, limit}
}

// next returns the next event. It drops an incomplete last event. Errors: errTooLarge, those of the body, and io.EOF
// at the end of the body.
func (r *reader) next() (message, error) {
	var m message
	for r.lines.Scan() {
		line := r.lines.Bytes()
		if len(line) == 0 {
			if m.name != "" || m.data != nil {
				return m, nil
			}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			m.name = string(value)
		case "data":
			if m.data != nil {
				m.data = append(m.data, '\n')
			}
			m.data = append(m.data, value...)
		}
		if int64(len(m.data)) > r.limit {
			return message{}, errTooLarge
		}
	}
	switch err := r.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return message{}, errTooLarge
	case err != nil:
		return message{}, err
	default:
		return message{}, io.EOF
	}
}

// change is the data of an event "put" or "patch".
type change struct {
	// Path is relative to the watched path, with a slash before each key.
	Path string `json:"path"`
	Data any    `json:"data"`
}

// keys returns the keys of the path.
func (c change) keys() []string {
	if path := strings.Trim(c.Path, "/"); path != "" {
		return strings.Split(path, "/")
	}
	return nil
}
