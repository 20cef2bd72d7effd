package netguard_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/netguard"
)

func stream(ctx context.Context, t *testing.T, raw string, header http.Header) (*netguard.Stream, error) {
	t.Helper()
	c := netguard.New(open())
	u, err := c.Parse(raw)
	require.NoError(t, err)
	s, err := c.Stream(ctx, netguard.Request{Method: http.MethodGet, URL: u, Header: header})
	if err == nil {
		t.Cleanup(func() { s.Body.Close() })
	}
	return s, err
}

// Data can be read as soon as it arrives, and not after the context has ended.
func TestStream(t *testing.T) {
	t.Parallel()
	more := make(chan string)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for {
			select {
			case <-r.Context().Done():
				return
			case text := <-more:
				reply(t, w, "%s", text)
				assert.NoError(t, http.NewResponseController(w).Flush())
			}
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun := make(chan struct{})
	go func() {
		defer close(begun)
		more <- "one"
	}()
	s, err := stream(ctx, t, url+"/?secret=hunter2", nil)
	require.NoError(t, err)
	<-begun
	got := make([]byte, 3)
	for _, want := range []string{"one", "two"} {
		if want == "two" {
			more <- want
		}
		_, err = io.ReadFull(s.Body, got)
		require.NoError(t, err)
		assert.Equal(t, want, string(got))
	}
	assert.Equal(t, http.StatusOK, s.Status)
	cancel()
	_, err = s.Body.Read(got)
	assert.Equal(t, fault.Cancelled, fault.CodeOf(err))
}

// The error of a broken stream contains nothing of the request; a complete stream ends with io.EOF.
func TestStreamsThatEnd(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]fault.Code{
		"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhunter2": fault.NetworkError,
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx":         "",
	} {
		s, err := stream(t.Context(), t, raw(t, answer)+"/?secret=hunter2", http.Header{"Authorization": {"hunter2"}})
		require.NoError(t, err)
		_, err = io.ReadAll(s.Body)
		if want == "" {
			require.NoError(t, err)
			continue
		}
		assert.Equal(t, want, fault.CodeOf(err))
		assert.NotContains(t, err.Error(), "hunter2")
	}
	other := serve(t, nil)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other, http.StatusTemporaryRedirect) })
	s, err := stream(t.Context(), t, url, nil)
	require.NoError(t, err)
	assert.Equal(t, http.StatusTemporaryRedirect, s.Status)
	assert.Contains(t, s.Refused, "which this call may not access")
}

func TestDial(t *testing.T) {
	t.Parallel()
	listed := parsed(t, serve(t, nil)).Host
	conn, err := netguard.New(open()).Dial(t.Context(), listed)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	_, err = netguard.New(netguard.Config{}).Dial(t.Context(), listed)
	require.ErrorContains(t, err, "not public")
}
