package registry_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/registry"
)

func TestErrorTexts(t *testing.T) { // S1-080
	t.Parallel()
	for err, want := range map[error]string{
		registry.ErrToolNotFound:     "mcp: tool not found in registry",
		registry.ErrToolDisabled:     "mcp: tool is administratively disabled",
		registry.ErrNoConfigDirs:     "mcp: no config directories found or accessible",
		registry.ErrSchemaLoadFailed: "mcp: failed to load MCP config schema",
		registry.ErrCloseTimeout:     "mcp: timeout exceeded during close",
		registry.ErrFileNotFound:     "mcp: config file not found",
		registry.ErrInvalidJSON:      "mcp: invalid JSON in config file",
		registry.ErrHandshakeFailed:  "mcp: handshake with tool failed",
		registry.ErrNotInitialized:   "mcp: registry not initialized",
	} {
		require.EqualError(t, err, want)
	}
}

func TestRegistryInit(t *testing.T) { // S1-002…S1-015, A-60, A-62, S1-086
	t.Parallel()
	t.Run("three locations", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		extra := t.TempDir()
		w.env["ORCH_MCP_PATH"] = extra
		w.define("one", "good")
		w.put(filepath.Join(w.home, ".orch/mcp/two.json"), definition(t, "two", "good"))
		w.put(filepath.Join(extra, "three.json"), definition(t, "three", "good"))
		w.put("notes.txt", "no definition")
		w.put("sub/four.json", definition(t, "four", "good"))
		n, err := w.Init(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 3, n)
		n, err = w.Init(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 3, n)
		tools, err := w.List(t.Context())
		require.NoError(t, err)
		require.Len(t, tools, 3)
		for _, tool := range tools {
			assert.Equal(t, registry.Ready, tool.Status, tool.LastError)
		}
	})
	t.Run("precedence", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		extra := t.TempDir()
		w.env["ORCH_MCP_PATH"] = extra
		top := w.define("same", "good")
		middle := w.put(filepath.Join(w.home, ".orch/mcp/same.json"), definition(t, "same", "good", map[string]any{"description": "global"}))
		low := w.put(filepath.Join(extra, "same.json"), definition(t, "same", "good", map[string]any{"description": "env"}))
		w.start()
		assert.Equal(t, top, w.get("same").Source)
		assert.Contains(t, w.log.String(), "mcp_config_overridden server=same used="+top+" ignored="+middle)
		assert.Contains(t, w.log.String(), "ignored="+low)
		for _, next := range []string{middle, low} { // S1-038
			require.NoError(t, os.Remove(w.get("same").Source))
			n, err := w.Reload(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 1, n)
			assert.Equal(t, next, w.get("same").Source)
		}
	})
	t.Run("bad files and dead servers", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.define("good", "good")
		w.define("fine", "chatty")
		w.define("silent", "silent", map[string]any{"timeout": "600ms"})
		w.define("dead", "failing")
		w.put("bad.json", `{"name": 1}`)
		begin := time.Now()
		n, err := w.Init(t.Context())
		require.NoError(t, err)
		assert.Less(t, time.Since(begin), maxDebounce)
		assert.Equal(t, 2, n)
		assert.Contains(t, w.log.String(), "mcp_config_invalid")
		tools, err := w.List(t.Context())
		require.NoError(t, err)
		require.Len(t, tools, 4)
		assert.Equal(t, registry.Degraded, w.get("silent").Status)
		assert.Contains(t, w.get("dead").LastError, "exit status 3")
	})
}

func TestInitWithLittle(t *testing.T) { // S1-008, S1-010, S1-042, A-63, A-66
	t.Parallel()
	t.Run("nothing there", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		_, err := w.List(t.Context())
		require.ErrorIs(t, err, registry.ErrNotInitialized)
		n, err := w.Init(t.Context())
		require.ErrorIs(t, err, registry.ErrNoConfigDirs)
		assert.Zero(t, n)
		tools, err := w.List(t.Context())
		require.NoError(t, err)
		assert.Empty(t, tools)
	})
	t.Run("switched off", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, func(c *registry.Config) { c.Off = true })
		w.define("one", "good")
		w.start()
		tools, err := w.List(t.Context())
		require.NoError(t, err)
		assert.Empty(t, tools)
	})
}

func TestInitFails(t *testing.T) { // S1-011, S1-012, S1-015, A-64
	t.Parallel()
	t.Run("broken schema", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, func(c *registry.Config) { c.Schema = []byte(`{"type": 7}`) })
		_, err := w.Init(t.Context())
		require.ErrorIs(t, err, registry.ErrSchemaLoadFailed)
	})
	t.Run("malformed path", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		for _, path := range []string{"/a::/b", ":", "/a\x00b", file} {
			w := newWorld(t)
			w.env["ORCH_MCP_PATH"] = path
			_, err := w.Init(t.Context())
			require.ErrorIs(t, err, registry.ErrInvalidPath, "%q", path)
		}
	})
	t.Run("state cannot be written", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.define("one", "good")
		w.put(filepath.Join(w.home, ".orch/state"), "a file")
		_, err := w.Init(t.Context())
		require.ErrorIs(t, err, registry.ErrStateNotWritable)
	})
	t.Run("after Close", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.define("one", "good")
		w.start()
		pid := w.call("one", "pid")
		require.NoError(t, w.Close(t.Context(), maxDebounce))
		gone(t, pid)
		_, err := w.Init(t.Context())
		require.True(t, fault.Has(err, fault.Unavailable))
		_, err = w.try(t.Context(), "one", "pid", "")
		require.True(t, fault.Has(err, fault.Unavailable)) // S1-022
	})
}

func TestRegistryList(t *testing.T) { // S1-040, S1-041
	t.Parallel()
	w := newWorld(t)
	const servers = 1000
	for i := range servers {
		w.put(fmt.Sprintf("f%d.json", servers-i), fmt.Sprintf(
			`{"mcpServers": {"s%04d": {"command": "nothing", "args": ["a"], "env": {"A": "${B}"}, "disabled": true}}}`, i))
	}
	begin := time.Now()
	w.start()
	assert.Less(t, time.Since(begin), maxDebounce)
	tools, err := w.List(t.Context())
	require.NoError(t, err)
	require.Len(t, tools, servers)
	for i, tool := range tools {
		require.Equal(t, fmt.Sprintf("s%04d", i), tool.Name)
		require.Equal(t, registry.Offline, tool.Status)
	}
	tools[0].Config.Args[0], tools[0].Config.Env["A"], tools[0].Config.Capabilities[0] = "x", "x", "x"
	fresh := w.get("s0000").Config
	assert.Equal(t, []string{"a"}, fresh.Args)
	assert.Equal(t, map[string]string{"A": "${B}"}, fresh.Env)
	assert.Equal(t, []string{"tools"}, fresh.Capabilities)
}

func TestRegistryGet(t *testing.T) { // S1-045
	t.Parallel()
	w := newWorld(t)
	w.define("one", "good", map[string]any{"env": map[string]string{modeVariable: "good", "PASSWORD": "hunter2!"}, "metadata": map[string]any{"a": []any{"b"}}})
	w.start()
	one := w.get("one")
	assert.Equal(t, registry.Ready, one.Status)
	assert.True(t, one.Enabled)
	assert.Equal(t, 6, one.Tools)
	assert.Positive(t, one.Metrics.HandshakeLatency)
	one.Config.Metadata["a"] = 1
	assert.Equal(t, []any{"b"}, w.get("one").Config.Metadata["a"])
	raw, err := json.Marshal(w.get("one"))
	require.NoError(t, err)
	assert.NotContains(t, string(raw), "hunter2")
	_, err = w.Get(t.Context(), "none")
	require.ErrorIs(t, err, registry.ErrToolNotFound)
	_, err = w.try(t.Context(), "none", "x", "")
	require.ErrorIs(t, err, registry.ErrToolNotFound)
}

func TestRegistryEnableDisable(t *testing.T) { // S1-014, S1-050…S1-055
	t.Parallel()
	w := newWorld(t)
	w.define("one", "good")
	w.define("dead", "failing")
	w.start()
	pid := w.call("one", "pid")
	for range 2 {
		require.NoError(t, w.Disable(t.Context(), "one"))
	}
	gone(t, pid)
	assert.Equal(t, registry.Offline, w.get("one").Status)
	_, err := w.try(t.Context(), "one", "pid", "")
	require.ErrorIs(t, err, registry.ErrToolDisabled)
	require.True(t, fault.Has(err, fault.ToolDisabled))
	assert.Empty(t, w.offered("one"))

	file := filepath.Join(w.home, ".orch/state/mcp-tools.json")
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.JSONEq(t, `{"one": {"enabled": false}}`, string(content))
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	later := w.another()
	_, err = later.Init(t.Context())
	require.NoError(t, err)
	tool, err := later.Get(t.Context(), "one")
	require.NoError(t, err)
	assert.Equal(t, registry.Offline, tool.Status)
	assert.False(t, tool.Enabled)

	for range 2 {
		require.NoError(t, w.Enable(t.Context(), "one"))
		require.NoError(t, w.Enable(t.Context(), "dead"))
	}
	assert.Equal(t, registry.Ready, w.get("one").Status)
	assert.NotEqual(t, registry.Ready, w.get("dead").Status)
	assert.Contains(t, w.told(), registry.Change{Kind: registry.ToolDisabled, Server: "one"})
	assert.Contains(t, w.told(), registry.Change{Kind: registry.ToolEnabled, Server: "one"})
	require.ErrorIs(t, w.Enable(t.Context(), "none"), registry.ErrToolNotFound)
	require.ErrorIs(t, w.Disable(t.Context(), "none"), registry.ErrToolNotFound)
}

func TestBrokenStateIsNoState(t *testing.T) { // S1-055
	t.Parallel()
	w := newWorld(t)
	w.define("one", "good")
	w.put(filepath.Join(w.home, ".orch/state/mcp-tools.json"), `{"one": `)
	w.start()
	assert.True(t, w.get("one").Enabled)
	assert.Contains(t, w.log.String(), "mcp_state_unreadable")
}

func TestReload(t *testing.T) { // S1-030…S1-035, A-65
	t.Parallel()
	w := newWorld(t)
	w.define("kept", "good")
	w.define("changed", "good")
	w.define("removed", "good")
	invalid := w.define("invalid", "good")
	w.start()
	kept, changed, removed, before := w.call("kept", "pid"), w.call("changed", "pid"), w.call("removed", "pid"), w.call("invalid", "pid")
	w.define("changed", "good", map[string]any{"description": "other"})
	w.define("added", "good")
	require.NoError(t, os.Remove(filepath.Join(w.dir(), "removed.json")))
	w.put(invalid, "{")
	n, err := w.Reload(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 2, n)
	assert.Equal(t, kept, w.call("kept", "pid"))
	assert.Equal(t, before, w.call("invalid", "pid"))
	assert.NotEqual(t, changed, w.call("changed", "pid"))
	w.call("added", "pid")
	_, err = w.Get(t.Context(), "removed")
	require.ErrorIs(t, err, registry.ErrToolNotFound)
	gone(t, removed)
	gone(t, changed)
	for _, line := range []string{"mcp_tool_loaded server=added", "mcp_tool_removed server=removed", "mcp_config_invalid file=" + invalid} {
		assert.Contains(t, w.log.String(), line)
	}
}

// A changed definition that does not work leaves the former connection to calls.
func TestReloadToABrokenServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.define("one", "good")
	w.start()
	pid := w.call("one", "pid")
	w.define("one", "failing")
	n, err := w.Reload(t.Context())
	require.NoError(t, err)
	assert.Zero(t, n)
	assert.Equal(t, registry.Degraded, w.get("one").Status)
	assert.Equal(t, pid, w.call("one", "pid"))
}

func TestSwapWithoutAFailedCall(t *testing.T) { // S1-033
	t.Parallel()
	w := newWorld(t)
	w.define("one", "good")
	w.start()
	const callers, reloads = 100, 20
	var group sync.WaitGroup
	stop := make(chan struct{})
	pids := sync.Map{}
	for range callers {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				result, err := w.try(t.Context(), "one", "slow", `{"ms": 20}`)
				if err != nil {
					t.Error(err)
					return
				}
				pids.Store(text(t, result), true)
			}
		})
	}
	for i := range reloads {
		w.define("one", "good", map[string]any{"description": strconv.Itoa(i)})
		n, err := w.Reload(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, n)
		pid := w.call("one", "pid")
		require.Eventually(t, func() bool { _, ok := pids.Load(pid); return ok }, maxDebounce, time.Millisecond)
	}
	close(stop)
	group.Wait()
}

func TestCrash(t *testing.T) { // S1-087
	t.Parallel()
	w := newWorld(t)
	w.define("one", "good")
	w.start()
	_, err := w.try(t.Context(), "one", "crash", "")
	require.Error(t, err)
	assert.True(t, fault.Has(err, fault.ToolUnavailable), "%v", err)
	assert.Contains(t, w.becameDegraded("one", 1), "out of luck")
	w.become("one", registry.Ready)
	pid := w.call("one", "pid")
	number, err := strconv.Atoi(pid)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(number, syscall.SIGKILL))
	w.becameDegraded("one", 2)
	w.become("one", registry.Ready)
}

func TestRecovery(t *testing.T) { // S1-084
	t.Parallel()
	w := newWorld(t)
	up := filepath.Join(t.TempDir(), "up")
	w.define("one", "down", map[string]any{"env": map[string]string{modeVariable: "down", "UP_FILE": up}})
	w.start()
	assert.Equal(t, registry.Degraded, w.get("one").Status)
	require.NoError(t, os.WriteFile(up, nil, 0o600))
	w.become("one", registry.Ready)
}

func TestListChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.define("one", "good")
	w.start()
	w.call("one", "grow")
	require.Eventually(t, func() bool { return w.get("one").Tools == 7 }, maxDebounce, 10*time.Millisecond)
	assert.Len(t, w.offered("one"), 7)
}

// A server that reports changed tools in quick succession is read only from time to time.
func TestListChangesAgainAndAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.define("one", "good")
	w.start()
	before, begin := len(w.told()), time.Now()
	for time.Since(begin) < time.Second || len(w.told()) < before+2 {
		w.call("one", "grow")
		_, err := w.try(t.Context(), "one", "slow", `{"ms": 20}`) // the server gathers changes itself for half of that
		require.NoError(t, err)
	}
	heard := len(w.told()) - before
	assert.LessOrEqual(t, heard, 2+int(time.Since(begin)/(250*time.Millisecond)))
	assert.Greater(t, heard, 1)
	require.Eventually(t, func() bool { return w.get("one").Tools == 7 }, maxDebounce, 10*time.Millisecond)
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.define("one", "good")
	w.start()
	for range 3 {
		w.call("one", "pid")
	}
	_, err := w.try(t.Context(), "one", "none", "")
	require.Error(t, err)
	reply, err := w.Call(t.Context(), registry.CallRequest{Server: "one", Tool: "pid", Args: json.RawMessage(`{"no such":1}`)})
	require.NoError(t, err)
	require.Contains(t, string(reply.Result), `"isError":true`)
	m := w.get("one").Metrics
	assert.Equal(t, int64(5), m.Invocations)
	assert.Equal(t, int64(3), m.Successes)
	assert.Equal(t, int64(2), m.Errors)
	assert.Positive(t, m.AverageLatency)
}

// S1-066: variables are expanded, hidden everywhere, and missed when they are unset.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const secret = "very-secret-value"
	w.env["SERVICE_TOKEN"], w.env["OTHER"] = secret, "inherited"
	env := map[string]any{"env": map[string]string{modeVariable: "good", "SERVICE_TOKEN": "${SERVICE_TOKEN}", "QUOTED_TOKEN": `quo"ted\secret`, "GONE": "${UNSET_ONE}"}}
	w.define("one", "good", env)
	env["env"].(map[string]string)[modeVariable] = "failing"
	w.define("failing", "failing", env)
	w.define("argv", "good", map[string]any{"args": []string{"--token=${SERVICE_TOKEN}"}})
	w.start()
	seen := strings.Split(w.call("one", "env"), "\n")
	assert.ElementsMatch(t, []string{"HOME=" + w.home, "PATH=" + w.env["PATH"], modeVariable + "=good", "SERVICE_TOKEN=***", "QUOTED_TOKEN=***", "GONE="}, seen)
	assert.Contains(t, w.log.String(), "variable=UNSET_ONE")
	report, err := w.Test(t.Context(), "failing")
	require.ErrorIs(t, err, registry.ErrHandshakeFailed)
	assert.Contains(t, report.Stderr, "cannot log in with ***")
	assert.Contains(t, w.get("argv").LastError, "SERVICE_TOKEN")
	tools, err := w.List(t.Context())
	require.NoError(t, err)
	raw, err := json.Marshal([]any{tools, report, err})
	require.NoError(t, err)
	assert.NotContains(t, string(raw)+w.log.String(), secret)
}

// A server that hangs is noticed by the health monitor and replaced; one that works is left in peace.
func TestHang(t *testing.T) { // S1-082, S1-083
	t.Parallel()
	w := newWorld(t, func(c *registry.Config) { c.Handshake, c.Ping = 4*time.Second, 50*time.Millisecond })
	w.define("one", "good")
	w.start()
	require.Eventually(t, func() bool { return w.get("one").Status == registry.Ready }, maxDebounce, time.Millisecond)
	first := w.get("one").LastHealthCheck
	require.Eventually(t, func() bool { return w.get("one").LastHealthCheck.After(first) }, maxDebounce, time.Millisecond)
	pid := w.call("one", "pid")
	number, err := strconv.Atoi(pid)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(number, syscall.SIGSTOP))
	assert.Contains(t, w.becameDegraded("one", 1), "does not answer a ping")
	w.become("one", registry.Ready)
	assert.NotEqual(t, pid, w.call("one", "pid"))
	gone(t, pid)
	assert.Contains(t, w.log.String(), "mcp_tool_status server=one from=ready to=degraded")
}
