package modelstest

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/wire"
)

// Canned is an HTTP response without a server.
type Canned struct {
	Status int // 0 means 200
	Type   string
	Body   string
	// Slow gives the body byte by byte, and Pause by halves after this time each.
	Slow  bool
	Pause time.Duration
}

// RoundTrip implements http.RoundTripper.
func (c Canned) RoundTrip(r *http.Request) (*http.Response, error) {
	var body io.Reader = strings.NewReader(c.Body)
	if c.Slow {
		body = iotest.OneByteReader(body)
	}
	if c.Pause > 0 {
		body = &paused{rest: c.Body, pause: c.Pause, gone: r.Context()}
	}
	header, status := http.Header{}, http.StatusOK
	if c.Status != 0 {
		status = c.Status
	}
	if c.Type != "" {
		header.Set("Content-Type", c.Type)
	}
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(body), Request: r,
	}, nil
}

// paused is a body that gives half of what is left after each pause.
type paused struct {
	rest  string
	pause time.Duration
	gone  context.Context //nolint:containedctx // the body ends with its request
}

// Read implements io.Reader.
func (p *paused) Read(b []byte) (int, error) {
	select {
	case <-p.gone.Done():
		return 0, p.gone.Err()
	case <-time.After(p.pause):
	}
	if p.rest == "" {
		return 0, io.EOF
	}
	n := copy(b, p.rest[:(len(p.rest)+1)/2])
	p.rest = p.rest[n:]
	return n, nil
}

// Ask sends a question to a provider that gets this response, and checks what holds for every answer and every error.
func (c Canned) Ask(tb testing.TB, kit Kit) (models.Answer, *models.Error) {
	tb.Helper()
	p := kit.New(wire.Config{
		BaseURL: "http://model.example/v1", Key: func() (string, error) { return Key, nil }, Client: &http.Client{Transport: c},
	})
	a, _, err := ask(tb, p, Question("go"))
	return a, err
}

// stream returns the stream of an answer.
func (d dialect) stream(a models.Answer) string {
	var out strings.Builder
	for _, frame := range d.frames(a, 5) {
		out.WriteString(frame.text())
	}
	return out.String()
}

// Fuzz fuzzes the parser of a provider's streams.
func Fuzz(f *testing.F, kit Kit, seeds ...string) {
	f.Helper()
	d := dialectOf(kit.Wire)
	for _, a := range []models.Answer{
		Said(models.StopEnd, text("Hello, world.")),
		Said(models.StopCalls, append(kit.Opaque, text("I read."), call("id_0", `{"path":"a"}`), call("id_1", `{}`))...),
	} {
		f.Add(d.stream(a))
	}
	for _, seed := range seeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, stream string) {
		a, err := Canned{Body: stream}.Ask(t, kit)
		again, errAgain := Canned{Body: stream, Slow: true}.Ask(t, kit)
		assert.Equal(t, a, again)
		require.Equal(t, err, errAgain)
		if err != nil {
			assert.Empty(t, a)
			return
		}
		assert.NotEmpty(t, a.Stop)
		assert.GreaterOrEqual(t, min(a.Usage.Input, a.Usage.CacheRead, a.Usage.CacheWrite, a.Usage.Output), int64(0))
	})
}
