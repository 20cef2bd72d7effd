package realtime_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/realtime"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// token is a secret of a database, which no error and no log may contain.
const token = "hunter2/+secret"

// patience limits the waits of a test.
const patience = time.Minute

// serve starts a server that stops with the test, after the watches of the test.
func serve(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	return s.URL
}

// at returns a client of a server, with a token.
func at(t *testing.T, url string, change ...func(*realtime.Config)) *realtime.Client {
	t.Helper()
	cfg := realtime.Config{URL: url, Token: token, Retry: time.Millisecond}
	for _, c := range change {
		c(&cfg)
	}
	c, err := realtime.Open(cfg)
	require.NoError(t, err)
	return c
}

// refused fails the test unless err has the reason, with its code, and repeats no secret.
func refused(t *testing.T, err error, reason string) {
	t.Helper()
	require.Error(t, err)
	e := fault.From(err)
	assert.Equal(t, reason, e.Reason, "%v", err)
	assert.Equal(t, refusal.Code(reason), e.Code)
	for cause := err; cause != nil; {
		assert.NotContains(t, cause.Error(), "hunter2")
		next, ok := cause.(interface{ Unwrap() error })
		if !ok {
			break
		}
		cause = next.Unwrap()
	}
	assert.NotContains(t, e.Hint, "hunter2")
}

// reply writes a response.
func reply(t *testing.T, w http.ResponseWriter, status int, body string) {
	t.Helper()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("ETag", "v1")
	w.WriteHeader(status)
	_, err := fmt.Fprint(w, body)
	assert.NoError(t, err)
}

// say writes parts of a stream and flushes them.
func say(t *testing.T, w http.ResponseWriter, text string) {
	t.Helper()
	w.Header().Set("Content-Type", "text/event-stream")
	_, err := fmt.Fprint(w, text)
	assert.NoError(t, err)
	assert.NoError(t, http.NewResponseController(w).Flush())
}

// put returns a put event of a stream.
func put(path, data string) string {
	return fmt.Sprintf("event: put\ndata: {\"path\":%q,\"data\":%s}\n\n", path, data)
}

// listener is a watch of a test.
type listener struct {
	t       *testing.T
	initial any
	next    func() (firebase.Event, error, bool)
}

func listen(t *testing.T, c *realtime.Client, events firebase.EventType) *listener {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	w, err := c.Watch(ctx, "w", events)
	require.NoError(t, err)
	next, stop := iter.Pull2(w.Events)
	t.Cleanup(stop)
	return &listener{t: t, initial: w.Initial.Data, next: next}
}

// hears fails the test unless the next events have the data.
func (l *listener) hears(data ...any) {
	l.t.Helper()
	for _, want := range data {
		e, err, ok := l.next()
		require.NoError(l.t, err)
		require.True(l.t, ok, "the events ended")
		assert.Equal(l.t, want, e.Data)
	}
}

// ends fails the test unless the events end with the reason.
func (l *listener) ends(reason string) {
	l.t.Helper()
	_, err, ok := l.next()
	require.True(l.t, ok, "the events ended without an error")
	refused(l.t, err, reason)
	_, _, ok = l.next()
	assert.False(l.t, ok, "nothing follows the error")
}
