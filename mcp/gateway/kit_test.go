package gateway_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/internal/logtest"
	"github.com/orch-dev/orch/mcp/gateway"
	"github.com/orch-dev/orch/mcp/registry"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

const patience = time.Minute

// world is a user with the server lab and a gateway.
type world struct {
	*gateway.Gateway

	t         *testing.T
	home, dir string
	catalogue *tools.Catalogue
	log       *logtest.Buffer

	mu      sync.Mutex
	changes []registry.Change
}

// newWorld returns a world whose gateway is started.
func newWorld(t *testing.T, change ...func(*gateway.Config)) *world {
	t.Helper()
	w := &world{t: t, home: t.TempDir(), dir: t.TempDir(), log: &logtest.Buffer{}}
	w.define("lab", nil)
	w.open(change...)
	return w
}

// newOlder returns a world whose server uses the older generation.
func newOlder(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.define("lab", map[string]any{"env": map[string]string{labVariable: w.dir, olderVariable: "1"}})
	w.open()
	return w
}

// define writes the definition of a server that is the lab, with further properties.
func (w *world) define(name string, more map[string]any) {
	w.t.Helper()
	exe, err := os.Executable()
	require.NoError(w.t, err)
	d := map[string]any{
		"schemaVersion": "1.0.0", "name": name, "transport": "stdio", "command": exe, "capabilities": []string{"tools"},
		"env": map[string]string{labVariable: w.dir}, "timeout": "2m", // a busy machine needs more than the usual 30 s for 4 MiB
	}
	maps.Copy(d, more)
	raw, err := json.Marshal(d)
	require.NoError(w.t, err)
	dir := filepath.Join(w.home, ".orch", "mcp")
	require.NoError(w.t, os.MkdirAll(dir, 0o700))
	require.NoError(w.t, os.WriteFile(filepath.Join(dir, name+".json"), raw, 0o600))
}

// open starts a gateway, after the former one has ended.
func (w *world) open(change ...func(*gateway.Config)) {
	w.t.Helper()
	w.close()
	var err error
	w.catalogue, err = tools.New()
	require.NoError(w.t, err)
	c := gateway.Config{
		Servers: registry.Config{
			Dir: w.home, Home: w.home, Still: true, Handshake: patience,
			Getenv: func(name string) string { return map[string]string{"PATH": os.Getenv("PATH"), "HOME": w.home}[name] },
		},
		Catalogue: w.catalogue, Connect: gateway.OnCall, Logger: slog.New(slog.NewTextHandler(w.log, nil)),
		OnChange: func(_ context.Context, c registry.Change) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.changes = append(w.changes, c)
		},
	}
	for _, f := range change {
		f(&c)
	}
	w.Gateway, err = gateway.New(c)
	require.NoError(w.t, err)
	g := w.Gateway
	w.t.Cleanup(func() { require.NoError(w.t, g.Close(context.Background())) })
	require.NoError(w.t, w.Start(w.t.Context()))
}

func (w *world) close() {
	w.t.Helper()
	if w.Gateway != nil {
		require.NoError(w.t, w.Close(context.Background()))
	}
}

// tool returns a tool of the catalogue.
func (w *world) tool(name string) tools.Tool {
	w.t.Helper()
	tool, ok := w.catalogue.Get(name)
	require.True(w.t, ok, "%s is not among %v", name, w.catalogue.Names())
	return tool
}

// env returns the environment of the first attempt of a call.
func env(step string) *tools.Env {
	return &tools.Env{
		Task: "TASK_1", Step: step, Attempt: 1, State: statemachine.InProgress, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Progress: func(float64, float64, string) {}, Record: func(events.Kind, events.Payload) {}, Answers: map[string]json.RawMessage{},
	}
}

// call checks and calls.
func (w *world) call(name, args string) (string, error) {
	w.t.Helper()
	return w.attempt(w.t.Context(), env(name), name, args)
}

func (w *world) attempt(ctx context.Context, e *tools.Env, name, args string) (string, error) {
	w.t.Helper()
	tool := w.tool(name)
	checked, err := tool.Check(json.RawMessage(args))
	if err != nil {
		return "", err
	}
	out, err := tool.Call(ctx, e, checked)
	return string(out), err
}

// ledger returns the log of the lab.
func (w *world) ledger() string {
	w.t.Helper()
	content, _ := os.ReadFile(filepath.Join(w.dir, "ledger"))
	return string(content)
}

func (w *world) write(name, content string) {
	w.t.Helper()
	require.NoError(w.t, os.WriteFile(filepath.Join(w.dir, name), []byte(content), 0o600))
}
