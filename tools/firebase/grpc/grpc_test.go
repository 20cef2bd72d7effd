package grpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/tools/firebase/grpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const method = "some.Service/Method"

// serve starts a server of HTTP/2 and returns a client of it.
func serve(t *testing.T, answer http.HandlerFunc) *grpc.Client {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &http.Server{Handler: answer, Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute}
	s.Protocols.SetUnencryptedHTTP2(true)
	served := make(chan struct{})
	go func() {
		defer close(served)
		assert.ErrorIs(t, s.Serve(l), http.ErrServerClosed)
	}()
	t.Cleanup(func() { assert.NoError(t, s.Close()); <-served })
	return client(t, l.Addr().String())
}

func client(t *testing.T, target string) *grpc.Client {
	t.Helper()
	c := grpc.New(grpc.Config{
		Target: target, Agent: "test", Authorize: func(context.Context) (string, error) { return "Bearer t", nil },
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		},
	})
	t.Cleanup(c.Close)
	return c
}

// frame is a message as it is sent.
func frame(text string) string { return "\x00\x00\x00\x00" + string(rune(len(text))) + text }

func say(t *testing.T, w http.ResponseWriter, text string) {
	t.Helper()
	_, err := io.WriteString(w, text)
	assert.NoError(t, err)
	assert.NoError(t, http.NewResponseController(w).Flush())
}

func TestRequest(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/"+method, r.URL.Path)
		for name, want := range map[string]string{
			"Content-Type": "application/grpc", "Te": "trailers", "Authorization": "Bearer t", "User-Agent": "test", "A-B": "c",
		} {
			assert.Equal(t, []string{want}, r.Header.Values(name), name)
		}
		left, err := time.ParseDuration(r.Header.Get("Grpc-Timeout") + "s") // the unit m is that of milliseconds there
		assert.NoError(t, err)
		assert.Greater(t, left, 50*time.Second)
		assert.LessOrEqual(t, left, time.Minute)
		assert.Empty(t, r.Header.Values("Accept-Encoding"))
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		assert.Equal(t, frame("hello"), string(body))
		w.Header().Set("Content-Type", "application/grpc+proto")
		w.Header().Set("Trailer", "Grpc-Status")
		say(t, w, frame("world"))
		w.Header().Set("Grpc-Status", "0")
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	answer, err := c.One(ctx, grpc.Call{Method: method, Header: map[string]string{"a-b": "c"}, Request: []byte("hello")})
	require.NoError(t, err)
	assert.Equal(t, "world", string(answer))
}

// What a server may answer with, and what a call for one answer makes of it.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status  int
		content string
		header  map[string]string // of the answer
		body    string
		trailer map[string]string
		code    grpc.Code
		message string
	}{
		"failure":              {trailer: map[string]string{"Grpc-Status": "7", "Grpc-Message": "no %e2%82%ac 100%25"}, code: grpc.PermissionDenied, message: "no € 100%"},
		"odd message":          {trailer: map[string]string{"Grpc-Status": "5", "Grpc-Message": "100% sure"}, code: grpc.NotFound, message: "100% sure"},
		"failure later":        {body: frame("a"), trailer: map[string]string{"Grpc-Status": "10"}, code: grpc.Aborted},
		"failure at once":      {header: map[string]string{"Grpc-Status": "16", "Grpc-Message": "who"}, code: grpc.Unauthenticated, message: "who"},
		"odd status":           {trailer: map[string]string{"Grpc-Status": "good"}, code: grpc.Unknown, message: `the server ended the call with the status "good"`},
		"new status":           {trailer: map[string]string{"Grpc-Status": "99"}, code: 99},
		"no status":            {body: frame("a"), code: grpc.Internal, message: "the server ended the call without a status"},
		"no answer":            {trailer: map[string]string{"Grpc-Status": "0"}, code: grpc.Internal, message: "the server answered nothing"},
		"no answer at once":    {header: map[string]string{"Grpc-Status": "0"}, code: grpc.Internal, message: "the server answered nothing"},
		"two answers":          {body: frame("a") + frame("b"), trailer: map[string]string{"Grpc-Status": "0"}, code: grpc.Internal, message: "the server answered more than once"},
		"compressed":           {body: "\x01\x00\x00\x00\x01a", code: grpc.Internal, message: "the server sent a compressed message"},
		"large":                {body: "\x00\xff\xff\xff\xffa", code: grpc.ResourceExhausted, message: "the server sent a message of 4294967295 bytes, at most 67108864 are read"},
		"broken off":           {body: "\x00\x00\x00\x00\x09a", code: grpc.Internal, message: "the server broke off an answer"},
		"broken off in prefix": {body: "\x00\x00", code: grpc.Internal, message: "the server broke off an answer"},
		"proxy":                {status: http.StatusBadGateway, content: "text/html", code: grpc.Unavailable, message: `the server answered with the HTTP status 502 and the content type "text/html"`},
		"proxy that refuses":   {status: http.StatusForbidden, content: "text/html", code: grpc.PermissionDenied, message: `the server answered with the HTTP status 403 and the content type "text/html"`},
		"no such service":      {status: http.StatusNotFound, code: grpc.Unimplemented, message: `the server answered with the HTTP status 404 and the content type "application/grpc"`},
		"page":                 {content: "text/html", code: grpc.Unknown, message: `the server answered with the HTTP status 200 and the content type "text/html"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/grpc")
				if test.content != "" {
					w.Header().Set("Content-Type", test.content)
				}
				for name, value := range test.header {
					w.Header().Set(name, value)
				}
				w.WriteHeader(max(test.status, http.StatusOK))
				_, _ = io.WriteString(w, test.body) // the status may have ended the call already
				_ = http.NewResponseController(w).Flush()
				for name, value := range test.trailer {
					w.Header().Set(http.TrailerPrefix+name, value)
				}
			})
			_, err := c.One(t.Context(), grpc.Call{Method: method})
			var e *grpc.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, grpc.Error{Code: test.code, Message: test.message}, *e)
			assert.Equal(t, test.code, grpc.CodeOf(err))
			assert.Equal(t, test.message, grpc.MessageOf(err))
			assert.Contains(t, err.Error(), test.message)
		})
	}
}

func TestErrorsOfOthers(t *testing.T) {
	t.Parallel()
	assert.Equal(t, grpc.OK, grpc.CodeOf(nil))
	assert.Equal(t, grpc.Unknown, grpc.CodeOf(io.ErrNoProgress))
	assert.Equal(t, io.ErrNoProgress.Error(), grpc.MessageOf(io.ErrNoProgress))
}

// A server answers an open call while the client may still speak; the call ends with either of the two.
func TestOpenCall(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		begin := make([]byte, len(frame("hello")))
		_, err := io.ReadFull(r.Body, begin)
		assert.NoError(t, err)
		assert.Equal(t, frame("hello"), string(begin))
		w.Header().Set("Content-Type", "application/grpc")
		say(t, w, frame("one"))
		say(t, w, frame("two"))
		_, err = r.Body.Read(begin)
		assert.Error(t, err)
		<-r.Context().Done()
	})
	answers, err := c.Do(t.Context(), grpc.Call{Method: method, Request: []byte("hello"), Open: true})
	require.NoError(t, err)
	for _, want := range []string{"one", "two"} {
		answer, err := answers.Next()
		require.NoError(t, err)
		assert.Equal(t, want, string(answer))
	}
	answers.Close()
	<-ended
}

func TestServerEndsOpenCall(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		say(t, w, frame("one"))
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	})
	answers, err := c.Do(t.Context(), grpc.Call{Method: method, Open: true})
	require.NoError(t, err)
	defer answers.Close()
	_, err = answers.Next()
	require.NoError(t, err)
	_, err = answers.Next()
	require.ErrorIs(t, err, io.EOF)
}

// silent is a server that answers once and then says nothing.
func silent(t *testing.T) *grpc.Client {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		say(t, w, frame("one"))
		<-r.Context().Done()
	})
}

func TestTime(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := silent(t).One(ctx, grpc.Call{Method: method})
	assert.Equal(t, grpc.DeadlineExceeded, grpc.CodeOf(err), "%v", err)
}

func TestCancel(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	answers, err := silent(t).Do(ctx, grpc.Call{Method: method, Open: true})
	require.NoError(t, err)
	defer answers.Close()
	_, err = answers.Next()
	require.NoError(t, err)
	cancel()
	_, err = answers.Next()
	assert.Equal(t, grpc.Canceled, grpc.CodeOf(err), "%v", err)
}

// The end of a client is that of its calls; none begins afterwards.
func TestClose(t *testing.T) {
	t.Parallel()
	c := silent(t)
	answers, err := c.Do(t.Context(), grpc.Call{Method: method, Open: true})
	require.NoError(t, err)
	defer answers.Close()
	_, err = answers.Next()
	require.NoError(t, err)
	time.AfterFunc(20*time.Millisecond, c.Close)
	_, err = answers.Next()
	assert.Equal(t, grpc.Canceled, grpc.CodeOf(err), "%v", err)
	assert.Equal(t, "the client was closed", grpc.MessageOf(err))
	_, err = c.One(t.Context(), grpc.Call{Method: method})
	assert.Equal(t, grpc.Canceled, grpc.CodeOf(err), "%v", err)
}

func TestServerThatIsAway(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	_, err = client(t, l.Addr().String()).One(t.Context(), grpc.Call{Method: method})
	var e *grpc.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, grpc.Unavailable, e.Code)
	assert.True(t, e.Unanswered)
	assert.NotContains(t, e.Message, method)
}

func TestConnectionThatBreaks(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		say(t, w, frame("one"))
		panic(http.ErrAbortHandler)
	})
	answers, err := c.Do(t.Context(), grpc.Call{Method: method})
	require.NoError(t, err)
	defer answers.Close()
	_, err = answers.Next()
	require.NoError(t, err)
	_, err = answers.Next()
	assert.Equal(t, grpc.Unavailable, grpc.CodeOf(err), "%v", err)
}

func TestAuthorization(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	refusal := errors.New("no")
	for _, test := range []struct {
		err  error
		code grpc.Code
	}{{&grpc.Error{Code: grpc.PermissionDenied, Message: "no"}, grpc.PermissionDenied}, {refusal, grpc.Unavailable}} {
		c := grpc.New(grpc.Config{
			Target: "127.0.0.1:1", Authorize: func(context.Context) (string, error) { return "", test.err },
			Dial: func(context.Context, string) (net.Conn, error) { asked.Add(1); return nil, io.EOF },
		})
		_, err := c.One(t.Context(), grpc.Call{Method: method})
		assert.Equal(t, test.code, grpc.CodeOf(err))
		assert.Equal(t, "no", grpc.MessageOf(err))
		c.Close()
	}
	assert.Zero(t, asked.Load(), "nothing is sent without an authorization")
}

// More calls may run at once than a server takes on one connection.
func TestManyCalls(t *testing.T) {
	t.Parallel()
	const calls = 600
	c := silent(t)
	for range calls {
		answers, err := c.Do(t.Context(), grpc.Call{Method: method, Request: []byte(strings.Repeat("x", 100)), Open: true})
		require.NoError(t, err)
		defer answers.Close()
		_, err = answers.Next()
		require.NoError(t, err)
	}
}
