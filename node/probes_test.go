package node_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/node"
)

// fetch sends a GET request with a token, or with no token if that is empty.
func fetch(t *testing.T, url, token string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	r.Close = true
	answer, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	data, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(data)
}

const (
	healthy    = `{"status":"ok"}`
	notReadyAs = `{"status":"unavailable","reason":%q}`
)

// assertUnready checks that a node is alive, and not ready for a reason.
func assertUnready(t *testing.T, site, reason string) {
	t.Helper()
	status, body := fetch(t, site+"/healthz", "")
	assert.Equal(t, http.StatusOK, status)
	assert.JSONEq(t, healthy, body)
	status, body = fetch(t, site+"/readyz", "")
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.JSONEq(t, fmt.Sprintf(notReadyAs, reason), body)
}

// assertReady checks that a node is alive and ready.
func assertReady(t *testing.T, site string) {
	t.Helper()
	for _, path := range []string{"/healthz", "/readyz"} {
		status, body := fetch(t, site+path, "")
		assert.Equal(t, http.StatusOK, status, path)
		assert.JSONEq(t, healthy, body, path)
	}
}

// Probes need no token. They answer GET and HEAD under the names of the machine alone.
func TestProbes(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	assertReady(t, e.site(""))
	for _, path := range []string{"/healthz", "/readyz"} {
		status, body, _ := e.request(http.MethodHead, path, "", "")
		assert.Equal(t, http.StatusOK, status, path)
		assert.Empty(t, body)
		status, _, h := e.request(http.MethodPost, path, "", "")
		assert.Equal(t, http.StatusMethodNotAllowed, status, path)
		assert.Equal(t, "GET, HEAD", h.Get("Allow"))
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.site(path), http.NoBody)
		require.NoError(t, err)
		r.Host = "evil.example"
		answer, err := http.DefaultTransport.RoundTrip(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		assert.Equal(t, http.StatusMisdirectedRequest, answer.StatusCode, path)
	}
}

// freeAddress returns an address at which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// A node that starts is alive, and not ready yet. Other requests wait for the start.
func TestProbesOfANodeThatStarts(t *testing.T) {
	t.Parallel()
	address, asked, waited := freeAddress(t), false, make(chan int, 1)
	var once sync.Once
	var early int
	e := serveRPC(t, func(c *node.Config) {
		c.Faces.HTTP = address
		c.Wall = func() time.Time { // the clock is asked for the time while the log is read
			once.Do(func() { early, _ = fetch(t, "http://"+address+"/readyz", "") })
			return time.Now()
		}
		c.Faces.Face = func(*server.Config) { // nearly everything has started, and it is not served yet
			asked = true
			assertUnready(t, "http://"+address, "STARTING")
			go func() {
				defer close(waited)
				if answer, err := http.Get("http://" + address + "/api/v1/status"); err == nil {
					waited <- answer.StatusCode
					_ = answer.Body.Close()
				}
			}()
		}
	})
	require.True(t, asked)
	assert.Equal(t, http.StatusUnauthorized, <-waited)
	assert.Equal(t, http.StatusServiceUnavailable, early)
	assertReady(t, e.site(""))
	assert.Equal(t, "http://"+address, e.site(""))
}

// An address that is in use is reported before the log is read, and the data directory is free again.
func TestStartAtAnAddressInUse(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	cfg := config(t)
	cfg.Faces.HTTP, cfg.User = l.Addr().String(), "ada"
	_, err = node.Start(t.Context(), cfg)
	assert.Equal(t, fault.Unavailable, fault.CodeOf(err))
	assert.Equal(t, "http", fault.From(err).Field)
	cfg.Faces.HTTP = "127.0.0.1:0"
	start(t, cfg)
}

// A node whose disk is full is alive, and accepts no tasks.
func TestProbesOfAFullDisk(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Faces.HTTP, cfg.User = "127.0.0.1:0", "ada"
	require.NoError(t, start(t, cfg).Stop(t.Context()))
	cfg.Storage.MinFree = 1 << 60
	assertUnready(t, siteOf(start(t, cfg)), string(fault.DiskFull))
}

// siteOf returns the origin of a node.
func siteOf(n *node.Node) string { return strings.TrimSuffix(n.PageURL(), "/ui/") }

// harm removes a commit behind the back of a node, which then refuses to append.
func harm(t *testing.T, dir string, n *node.Node) {
	t.Helper()
	for range 3 {
		run(t, n.API(), "orch: v1\nsteps: [{id: say, tool: LOG_WRITE, with: {level: INFO, message: hi}}]\n")
	}
	nc, err := bustest.ConnectPlain(n.Address(), bustest.Operator(t, dir))
	require.NoError(t, err)
	defer nc.Close()
	answer, err := nc.Request("$JS.API.STREAM.MSG.DELETE.ORCH_EVENTS", []byte(`{"seq":2}`), time.Minute)
	require.NoError(t, err)
	require.Contains(t, string(answer.Data), `"success":true`)
	report, err := n.Store().Verify(t.Context(), func(uint64, uint64) {})
	require.NoError(t, err)
	require.NotEmpty(t, report.Problems)
}

// A node that has lost a commit is alive, and accepts no tasks.
func TestProbesOfADamagedLog(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Faces.HTTP, cfg.User = "127.0.0.1:0", "ada"
	n := start(t, cfg)
	assertReady(t, siteOf(n))
	harm(t, cfg.DataDir, n)
	assertUnready(t, siteOf(n), string(fault.DataLoss))
}

// site returns the origin of a member.
func (s *served) site() string { return strings.TrimSuffix(s.mcp, "/mcp") }

// A member that stands by is ready while the active one is, because it forwards requests to it.
func TestProbesOfAStandby(t *testing.T) {
	t.Parallel()
	nats := natsServer(t)
	first, second := serveMember(t, nats), serveMember(t, nats)
	for _, s := range []*served{first, second} {
		assertReady(t, s.site())
	}
	first.shutDown()
	require.Eventually(t, func() bool {
		status, body := fetch(t, second.site()+"/readyz", "")
		alive, _ := fetch(t, second.site()+"/healthz", "")
		assert.Equal(t, http.StatusOK, alive)
		if status != http.StatusOK {
			assert.JSONEq(t, fmt.Sprintf(notReadyAs, "NO_ACTIVE_NODE"), body)
		}
		return status == http.StatusOK
	}, time.Minute, 10*time.Millisecond)
	_, err := os.Stat(filepath.Join(second.cfg.DataDir, bus.LocalTokenFile))
	require.NoError(t, err)
}
