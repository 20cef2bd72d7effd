package registry_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/internal/logtest"
	"github.com/orch-dev/orch/mcp/registry"
)

var _ registry.MCPRegistry = (*registry.Registry)(nil) // S1-001

const maxDebounce = time.Minute

// world is a home, a project and a registry.
type world struct {
	*registry.Registry

	t             *testing.T
	project, home string
	env           map[string]string
	log           *logtest.Buffer

	mu      sync.Mutex
	changes []registry.Change
}

// newWorld returns a world whose registry is not started.
func newWorld(t *testing.T, change ...func(*registry.Config)) *world {
	t.Helper()
	w := &world{t: t, project: t.TempDir(), home: t.TempDir(), env: map[string]string{"PATH": os.Getenv("PATH")}, log: &logtest.Buffer{}}
	w.env["HOME"] = w.home
	w.Registry = w.another(change...)
	return w
}

// another makes another registry in the same world.
func (w *world) another(change ...func(*registry.Config)) *registry.Registry {
	w.t.Helper()
	c := registry.Config{
		Dir: w.project, Home: w.home, Getenv: func(name string) string { return w.env[name] },
		Logger: slog.New(slog.NewTextHandler(w.log, nil)), Still: true, Handshake: maxDebounce,
		Notify: func(c registry.Change) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.changes = append(w.changes, c)
		},
	}
	for _, f := range change {
		f(&c)
	}
	r, err := registry.New(c)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { assert.NoError(w.t, r.Close(w.t.Context(), maxDebounce)) })
	return r
}

func hot(c *registry.Config) { c.Still = false }

func (w *world) told() []registry.Change {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]registry.Change(nil), w.changes...)
}

// dir is the directory of definitions of the project.
func (w *world) dir() string { return filepath.Join(w.project, ".orch", "mcp") }

// put writes a file, below the project unless it is absolute.
func (w *world) put(file, content string) string {
	w.t.Helper()
	if !filepath.IsAbs(file) {
		file = filepath.Join(w.dir(), file)
	}
	require.NoError(w.t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(w.t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

// define writes the definition of a child server and returns its file.
func (w *world) define(name, mode string, more ...map[string]any) string {
	w.t.Helper()
	return w.put(name+".json", definition(w.t, name, mode, more...))
}

func definition(t *testing.T, name, mode string, more ...map[string]any) string {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	d := map[string]any{
		"schemaVersion": "1.0.0", "name": name, "transport": "stdio", "command": exe, "capabilities": []string{"tools"},
		"env": map[string]string{modeVariable: mode},
	}
	for _, m := range more {
		maps.Copy(d, m)
	}
	raw, err := json.MarshalIndent(d, "", "  ")
	require.NoError(t, err)
	return string(raw)
}

// start calls Init.
func (w *world) start() {
	w.t.Helper()
	_, err := w.Init(w.t.Context())
	require.NoError(w.t, err)
}

func (w *world) get(name string) registry.MCPTool {
	w.t.Helper()
	tool, err := w.Get(w.t.Context(), name)
	require.NoError(w.t, err)
	return tool
}

// offered are the tools of a server that calls can use now.
func (w *world) offered(name string) []string {
	w.t.Helper()
	all, err := w.Defined()
	require.NoError(w.t, err)
	var names []string
	for _, tool := range all[name].Tools {
		if all[name].Offers(tool.Name) {
			names = append(names, tool.Name)
		}
	}
	return names
}

// become waits until a server has a status.
func (w *world) become(name string, status registry.Status) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		tool, err := w.Get(w.t.Context(), name)
		return err == nil && tool.Status == status
	}, maxDebounce, 10*time.Millisecond, "%s never was %s", name, status)
}

// becameDegraded waits until a ready server was degraded the given number of times: it may be ready again at once.
// It returns the newest reason.
func (w *world) becameDegraded(name string, times int) (reason string) {
	w.t.Helper()
	told := "mcp_tool_status server=" + name + " from=ready to=degraded "
	require.Eventually(w.t, func() bool { return strings.Count(w.log.String(), told) >= times }, maxDebounce, 10*time.Millisecond)
	log := w.log.String()
	reason, _, _ = strings.Cut(log[strings.LastIndex(log, told):], "\n")
	return reason
}

// try calls a tool with arguments; "" for none.
func (w *world) try(ctx context.Context, server, tool, args string) (json.RawMessage, error) {
	reply, err := w.Call(ctx, registry.CallRequest{Server: server, Tool: tool, Args: json.RawMessage(args)})
	return reply.Result, err
}

// call calls a tool that must work and returns its text.
func (w *world) call(server, tool string) string {
	w.t.Helper()
	result, err := w.try(w.t.Context(), server, tool, "")
	require.NoError(w.t, err)
	return text(w.t, result)
}

// text is the one text of a result that is no error.
func text(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var result mcp.CallToolResult
	require.NoError(t, json.Unmarshal(raw, &result), "%s", raw)
	require.False(t, result.IsError, "%s", raw)
	require.Len(t, result.Content, 1, "%s", raw)
	content, ok := result.Content[0].(*mcp.TextContent)
	require.True(t, ok)
	return content.Text
}

// gone waits until a process has ended.
func gone(t *testing.T, pid string) {
	t.Helper()
	number, err := strconv.Atoi(pid)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return syscall.Kill(number, 0) != nil }, maxDebounce, 10*time.Millisecond)
}

func itoa(n int) string { return strconv.Itoa(n) }
