package registry_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/registry"
)

func TestRegistryHandshake(t *testing.T) { // S1-070…S1-073
	t.Parallel()
	w := newWorld(t)
	w.define("good", "good", map[string]any{"capabilities": []string{"tools", "slow", "good.pid"}})
	w.define("lacking", "good", map[string]any{"capabilities": []string{"slow", "fly"}})
	w.define("silent", "silent", map[string]any{"timeout": "600ms"})
	w.define("garbage", "garbage")
	w.define("chatty", "chatty")
	w.define("missing", "good", map[string]any{"command": "no-such-program"})
	w.define("elsewhere", "good", map[string]any{"command": "/no/such/program"})
	w.start()

	report, err := w.Test(t.Context(), "good")
	require.NoError(t, err)
	assert.Equal(t, registry.Ready, report.Status)
	assert.True(t, report.Handshake)
	assert.Positive(t, report.HandshakeLatency)
	assert.Equal(t, []string{"tools", "slow", "good.pid"}, report.Capabilities)
	assert.Equal(t, "child 1", report.Server)
	assert.Contains(t, report.Tools, "slow")
	assert.Equal(t, []string{"config", "connect", "initialize", "tools", "ping"}, stages(report))

	report, err = w.Test(t.Context(), "lacking")
	require.NoError(t, err)
	assert.Equal(t, registry.Degraded, report.Status)
	assert.Equal(t, []string{"fly"}, report.Missing)
	assert.Equal(t, registry.Degraded, w.get("lacking").Status)
	assert.Contains(t, w.get("lacking").LastError, "fly")
	w.call("lacking", "pid")

	report, err = w.Test(t.Context(), "chatty")
	require.NoError(t, err)
	assert.Contains(t, report.Stderr, "stdout: Welcome!")

	for name, want := range map[string]struct {
		text  string
		stage string
	}{
		"silent":    {"no answer in time", "initialize"},
		"garbage":   {"1000 lines on stdout were not JSON", "initialize"},
		"missing":   {"no-such-program is not in PATH", "connect"},
		"elsewhere": {"cannot be started", "connect"},
	} {
		report, err := w.Test(t.Context(), name)
		require.ErrorIs(t, err, registry.ErrHandshakeFailed, name)
		assert.Contains(t, report.LastError, want.text, name)
		assert.Equal(t, registry.Offline, report.Status)
		last := report.Stages[len(report.Stages)-1]
		assert.Equal(t, want.stage, last.Name)
		assert.NotEmpty(t, last.Error)
	}
	_, err = w.Test(t.Context(), "none")
	require.ErrorIs(t, err, registry.ErrToolNotFound)
}

func stages(report registry.MCPHealthReport) []string {
	var names []string
	for _, s := range report.Stages {
		names = append(names, s.Name)
	}
	return names
}

// webServer is a server of a generation behind a bearer token.
func webServer(t *testing.T, stateless bool) *httptest.Server {
	t.Helper()
	server := newServer()
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: stateless})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer web-secret" || r.Header.Get("X-Team") != "blue" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	return web
}

func (w *world) defineWeb(name, url, token string) {
	w.put(name+".json", `{"schemaVersion":"1.0.0","name":"`+name+`","transport":"http","baseURL":"`+url+`","bearer":"`+token+`","headers":{"x-team":"${TEAM:-blue}"},"capabilities":["tools","pid"],"timeout":"30s"}`)
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stateless bool
		version   string
	}{
		"sessions":  {false, "2025-11-25"},
		"stateless": {true, "2026-07-28"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			web := webServer(t, test.stateless)
			w := newWorld(t)
			w.env["WEB_TOKEN"] = "web-secret"
			w.defineWeb("one", web.URL, "${WEB_TOKEN}")
			w.defineWeb("stranger", web.URL, "wrong-secret")
			w.start()
			assert.Equal(t, registry.Ready, w.get("one").Status, w.get("one").LastError)
			w.call("one", "pid")
			report, err := w.Test(t.Context(), "one")
			require.NoError(t, err)
			assert.Equal(t, test.version, report.ProtocolVersion)
			assert.Contains(t, w.get("stranger").LastError, "401")
			w.call("one", "grow")
			require.Eventually(t, func() bool { return w.get("one").Tools == 7 }, maxDebounce, 10*time.Millisecond)
			require.NoError(t, w.Close(t.Context(), maxDebounce))
			assert.NotContains(t, w.log.String(), "secret")
		})
	}
}

// What is sent goes to the server of the definition alone.
func TestHTTPRedirectDoesNotLeak(t *testing.T) {
	t.Parallel()
	var reached atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	t.Cleanup(other.Close)
	web := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	t.Cleanup(web.Close)
	w := newWorld(t)
	w.defineWeb("one", web.URL, "web-secret")
	w.start()
	assert.Equal(t, registry.Degraded, w.get("one").Status)
	assert.Contains(t, w.get("one").LastError, "the server redirects to "+other.URL)
	assert.False(t, reached.Load())
}

func TestHTTPServerOfPoorTaste(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		chunk := make([]byte, 1<<20)
		for range 100 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	t.Cleanup(web.Close)
	w := newWorld(t)
	w.defineWeb("huge", web.URL, "x")
	w.defineWeb("nowhere", "http://127.0.0.1:1/mcp", "x")
	w.start()
	assert.Equal(t, registry.Degraded, w.get("huge").Status)
	_, err := w.try(t.Context(), "nowhere", "pid", "")
	assert.True(t, fault.Has(err, fault.ToolUnavailable))
}
