package sse_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/internal/sse"
)

const limit = 32

// all returns the events of a stream as NAME=DATA, and the error at its end.
func all(r io.Reader) (events []string, err error) {
	reader := sse.NewReader(r, limit)
	for {
		event, err := reader.Next()
		if err != nil {
			return events, err
		}
		events = append(events, event.Name+"="+string(event.Data))
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stream string
		want   []string
		err    error
	}{
		"nothing":                 {"", nil, io.EOF},
		"one":                     {"data: a\n\n", []string{"=a"}, io.EOF},
		"no space":                {"data:a\n\n", []string{"=a"}, io.EOF},
		"two spaces":              {"data:  a\n\n", []string{"= a"}, io.EOF},
		"name":                    {"event: x\ndata: a\n\ndata: b\n\n", []string{"x=a", "=b"}, io.EOF},
		"name without data":       {"event: x\n\ndata: b\n\n", []string{"=b"}, io.EOF},
		"lines":                   {"data: a\ndata:\ndata: b\n\n", []string{"=a\n\nb"}, io.EOF},
		"empty data":              {"data\n\n", []string{"="}, io.EOF},
		"comments, other fields":  {": x\nid: 1\nretry: 5\nhello\ndata: a\n\n", []string{"=a"}, io.EOF},
		"carriage returns":        {"data: a\r\rdata: b\r\n\r\ndata: c\n\r\n", []string{"=a", "=b", "=c"}, io.EOF},
		"byte order mark":         {"\ufeffdata: a\n\n", []string{"=a"}, io.EOF},
		"no empty line at end":    {"data: a\n", []string{"=a"}, io.EOF},
		"half a line at end":      {"data: a\n\ndata: b", []string{"=a"}, io.EOF},
		"longest line":            {"data: " + strings.Repeat("a", limit-6) + "\n\n", []string{"=" + strings.Repeat("a", limit-6)}, io.EOF},
		"line too long":           {"data: " + strings.Repeat("a", limit-5) + "\n\n", nil, sse.ErrTooLong},
		"comment too long":        {":" + strings.Repeat("a", limit), nil, sse.ErrTooLong},
		"event too long by lines": {strings.Repeat("data: 0123456789\n", 4) + "\n", nil, sse.ErrTooLong},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events, err := all(iotest.OneByteReader(strings.NewReader(test.stream)))
			assert.Equal(t, test.want, events)
			assert.ErrorIs(t, err, test.err)
		})
	}
}

// A connection that breaks is not the end of the stream: the event before it is not complete.
func TestNextAfterAnError(t *testing.T) {
	t.Parallel()
	broken := errors.New("reset")
	events, err := all(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken)))
	assert.Equal(t, []string{"=a"}, events)
	assert.ErrorIs(t, err, broken)
}

func FuzzNext(f *testing.F) {
	f.Add("event: x\ndata: a\r\n\r\n: c\rdata: b\n\n")
	f.Add("\ufeffdata\n\ndata: a")
	f.Fuzz(func(t *testing.T, stream string) {
		whole, err := all(strings.NewReader(stream))
		require.Error(t, err)
		bytewise, again := all(iotest.OneByteReader(strings.NewReader(stream)))
		assert.Equal(t, whole, bytewise)
		assert.Equal(t, err, again)
		for _, event := range whole {
			_, data, _ := strings.Cut(event, "=")
			assert.NotContains(t, data, "\r")
		}
	})
}
