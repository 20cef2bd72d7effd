package fs_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/fs"
	"github.com/orch-dev/orch/tools/toolstest"
)

// bench is a root directory with a workspace, and an Env for it.
type bench struct {
	t    *testing.T
	root string
	env  *tools.Env
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return newBenchIn(t, t.TempDir())
}

func newBenchIn(t *testing.T, dir string) *bench {
	t.Helper()
	root, err := filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	guard, err := pathguard.Open(root)
	require.NoError(t, err)
	t.Cleanup(func() { guard.Close() })
	b := &bench{t: t, root: root}
	b.env = &tools.Env{
		Task: "TASK_01JD0000000000000000000000", State: statemachine.InProgress, Root: guard,
		Workspace: filepath.Join(root, "Working", "TASK_01JD0000000000000000000000"),
		Log:       slog.New(slog.DiscardHandler), Now: time.Now, Reads: map[string]string{},
		Progress: func(float64, float64, string) {},
		Record: func(_ events.Kind, data events.Payload) {
			read, ok := data.(*events.Read)
			require.True(t, ok)
			b.env.Reads[read.Path] = read.SHA256
		},
	}
	require.NoError(t, os.MkdirAll(b.env.Workspace, 0o755))
	return b
}

// path returns the absolute path of a name below the root.
func (b *bench) path(name string) string { return filepath.Join(b.root, name) }

// file writes a file below the root and returns its absolute path.
func (b *bench) file(name, content string) string {
	b.t.Helper()
	path := b.path(name)
	require.NoError(b.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(b.t, os.WriteFile(path, []byte(content), 0o644))
	return path
}

// content returns the bytes of a file as text.
func (b *bench) content(path string) string {
	b.t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(b.t, err)
	return string(data)
}

type args map[string]any

// call checks the arguments and runs the tool, as the dispatcher does.
func (b *bench) call(name string, in args) (map[string]any, error) {
	b.t.Helper()
	return b.callContext(b.t.Context(), name, in)
}

func (b *bench) callContext(ctx context.Context, name string, in args) (map[string]any, error) {
	b.t.Helper()
	tool, result, err := b.run(ctx, name, in)
	if err != nil {
		return nil, err
	}
	toolstest.Output(b.t, tool, result)
	var out map[string]any
	require.NoError(b.t, json.Unmarshal(result, &out))
	return out, nil
}

// tool returns a tool of the family.
func (b *bench) tool(name string) tools.Tool {
	b.t.Helper()
	all := fs.Tools()
	i := slices.IndexFunc(all, func(tool tools.Tool) bool { return tool.Spec().Name == name })
	require.GreaterOrEqual(b.t, i, 0, "no tool %s", name)
	return all[i]
}

// run is callContext without decoding the result.
func (b *bench) run(ctx context.Context, name string, in args) (tools.Tool, json.RawMessage, error) {
	b.t.Helper()
	tool := b.tool(name)
	raw, err := json.Marshal(in)
	require.NoError(b.t, err)
	if raw, err = tool.Check(raw); err != nil {
		return nil, nil, err
	}
	result, err := tool.Call(ctx, b.env, raw)
	return tool, result, err
}

// must is call for a call that has to succeed.
func (b *bench) must(name string, in args) map[string]any {
	b.t.Helper()
	out, err := b.call(name, in)
	require.NoError(b.t, err)
	return out
}
