// Package sse reads and writes streams of server-sent events.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// ErrTooLong is returned for a line or an event that exceeds the limit of the Reader.
var ErrTooLong = errors.New("an event is longer than the limit")

// Event is an event of a stream.
type Event struct {
	// Name is the type of the event; "" means message.
	Name string
	// Data is valid until the next call of Next.
	Data []byte
}

// Reader reads the events of a stream.
type Reader struct {
	in      *bufio.Reader
	limit   int
	line    []byte
	data    []byte
	started bool // the first line was read
	afterCR bool // the last line ended with CR, so that an LF belongs to it
}

// NewReader returns a reader of the events in r. limit is the maximum size of a line and of the data of an event, in
// bytes.
func NewReader(r io.Reader, limit int) *Reader {
	return &Reader{in: bufio.NewReader(r), limit: limit}
}

// Next returns the next event that has data. At the end of the stream it returns io.EOF, after an event without the empty
// line behind it. Half a line at the end is left out.
func (r *Reader) Next() (Event, error) {
	event, found := Event{}, false
	r.data = r.data[:0]
	for {
		line, err := r.next()
		switch {
		case err != nil && (!found || !errors.Is(err, io.EOF)):
			return Event{}, err
		case err != nil, len(line) == 0 && found:
			event.Data = r.data
			return event, nil //nolint:nilerr // the end of the stream ends the event
		case len(line) == 0:
			event = Event{}
			continue
		}
		name, value := field(line)
		switch name {
		case "event":
			event.Name = string(value)
		case "data":
			if err := r.add(value, found); err != nil {
				return Event{}, err
			}
			found = true
		}
	}
}

// add appends a line to the data of the event.
func (r *Reader) add(value []byte, found bool) error {
	if found {
		r.data = append(r.data, '\n')
	}
	if r.data = append(r.data, value...); len(r.data) > r.limit {
		return ErrTooLong
	}
	return nil
}

// field splits a line into the name and the value of a field. The name of a comment is empty.
func field(line []byte) (name string, value []byte) {
	before, after, _ := bytes.Cut(line, []byte(":"))
	return string(before), bytes.TrimPrefix(after, []byte(" "))
}

// next returns the next line without its end, which is CR, LF or both.
func (r *Reader) next() ([]byte, error) {
	r.line = r.line[:0]
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			return nil, err
		}
		second := c == '\n' && r.afterCR
		r.afterCR = c == '\r'
		switch {
		case second:
		case c == '\n', c == '\r':
			return r.withoutMark(), nil
		default:
			r.line = append(append(r.line, c), r.run()...)
		}
		if len(r.line) > r.limit {
			return nil, ErrTooLong
		}
	}
}

// run returns what is in the buffer in front of the end of the line.
func (r *Reader) run() []byte {
	buffered, err := r.in.Peek(r.in.Buffered())
	if err != nil {
		return nil // cannot be: the buffer has these bytes
	}
	n := bytes.IndexAny(buffered, "\r\n")
	if n < 0 {
		n = len(buffered)
	}
	_, _ = r.in.Discard(n) // they are in the buffer
	return buffered[:n]
}

// withoutMark returns the line, without the byte order mark that the first line may begin with.
func (r *Reader) withoutMark() []byte {
	if r.started {
		return r.line
	}
	r.started = true
	return bytes.TrimPrefix(r.line, []byte("\ufeff"))
}
