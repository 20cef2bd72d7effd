package web_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/toolstest"
	"github.com/orch-dev/orch/tools/web"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open permits 127.0.0.2, which represents public addresses in these tests.
func open() web.Config {
	return web.Config{Net: netguard.Config{Prefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}}}
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.2:0")
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(h)
	require.NoError(t, s.Listener.Close())
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

// page starts a server with one page.
func page(t *testing.T, contentType, text string) string {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, err := w.Write([]byte(text))
		if err != nil {
			return // the reader may close at its limit
		}
	})
}

func newEnv() *tools.Env {
	return &tools.Env{
		Task: "TASK_01JD0000000000000000000000", Step: "call", Key: "TASK_01JD0000000000000000000000/call",
		State: statemachine.InProgress, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Progress: func(float64, float64, string) {},
		Record:   func(events.Kind, events.Payload) {},
	}
}

func tool(t *testing.T, cfg web.Config, name string) tools.Tool {
	t.Helper()
	for _, tool := range web.Tools(cfg) {
		if tool.Spec().Name == name {
			return tool
		}
	}
	require.FailNow(t, "no tool "+name)
	return nil
}

// call checks the arguments, runs the tool and validates its output against its schema.
func call[Out any](t *testing.T, tool tools.Tool, env *tools.Env, args map[string]any) (Out, error) {
	t.Helper()
	var out Out
	raw, err := json.Marshal(args)
	require.NoError(t, err)
	if raw, err = tool.Check(raw); err != nil {
		return out, err
	}
	data, err := tool.Call(t.Context(), env, raw)
	if err == nil {
		toolstest.Output(t, tool, data)
		require.NoError(t, json.Unmarshal(data, &out))
	}
	return out, err
}

// reply writes the body of a response.
func reply(t *testing.T, w io.Writer, format string, args ...any) {
	t.Helper()
	_, err := fmt.Fprintf(w, format, args...)
	assert.NoError(t, err)
}
