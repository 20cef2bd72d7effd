package registry_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/registry"
)

// Close waits for calls in flight, accepts no new ones meanwhile, and then ends the processes (S1-020, S1-022).
func TestCloseWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hot)
	w.define("one", "good")
	w.start()
	pid := w.call("one", "pid")
	answered := make(chan error, 1)
	go func() {
		_, err := w.try(t.Context(), "one", "slow", `{"ms": 3000}`)
		answered <- err
	}()
	require.Eventually(t, func() bool { return w.busy(t, "one") }, maxDebounce, time.Millisecond)
	closed := make(chan error, 1)
	go func() { closed <- w.Close(t.Context(), maxDebounce) }()
	require.Eventually(t, func() bool {
		_, err := w.try(t.Context(), "one", "pid", "")
		return fault.Has(err, fault.Unavailable)
	}, maxDebounce, time.Millisecond)
	select {
	case err := <-answered:
		t.Errorf("the call was over before Close was tried: %v", err)
	default:
	}
	require.NoError(t, <-answered)
	require.NoError(t, <-closed)
	gone(t, pid)
	require.NoError(t, w.Close(t.Context(), maxDebounce), "twice is once")
	for name, err := range map[string]error{
		"Enable": w.Enable(t.Context(), "one"), "Disable": w.Disable(t.Context(), "one"),
		"CancelTask": w.CancelTask(t.Context(), "one", nil),
	} {
		assert.True(t, fault.Has(err, fault.Unavailable), name)
	}
	_, err := w.Reload(t.Context())
	assert.True(t, fault.Has(err, fault.Unavailable))
	assert.Equal(t, registry.Offline, w.get("one").Status)
}

func TestCloseTimeout(t *testing.T) { // S1-021
	t.Parallel()
	w := newWorld(t)
	w.define("one", "stubborn")
	w.start()
	pid := w.call("one", "pid")
	failed := make(chan error, 1)
	go func() {
		_, err := w.try(t.Context(), "one", "slow", `{"ms": 60000}`)
		failed <- err
	}()
	require.Eventually(t, func() bool { return w.busy(t, "one") }, maxDebounce, 5*time.Millisecond)
	require.ErrorIs(t, w.Close(t.Context(), 10*time.Millisecond), registry.ErrCloseTimeout)
	require.Error(t, <-failed)
	gone(t, pid)
}

// busy reports whether a call is in flight: it is not counted yet, but the process works on it.
func (w *world) busy(t *testing.T, name string) bool {
	t.Helper()
	return w.InFlight(name) > 0
}

func TestConcurrentUse(t *testing.T) { // S1-081
	t.Parallel()
	w := newWorld(t, hot)
	w.define("one", "good")
	w.define("two", "good")
	w.start()
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			for range 3 {
				if _, err := w.List(t.Context()); err != nil {
					t.Error(err)
				}
				_, _ = w.try(t.Context(), "one", "pid", "")
				switch i % 10 {
				case 0:
					assert.NoError(t, w.Disable(t.Context(), "two"))
				case 1:
					assert.NoError(t, w.Enable(t.Context(), "two"))
				case 2:
					if _, err := w.Reload(t.Context()); err != nil {
						t.Error(err)
					}
				case 3:
					if _, err := w.Test(t.Context(), "two"); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	group.Wait()
	require.NoError(t, w.Close(t.Context(), maxDebounce))
}

// Lists and single servers can be had at every moment of the life of a registry, and of its definitions (S1-081).
func TestWholeLifeAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.define("one", "good")
	stop := make(chan struct{})
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				list, err := w.List(t.Context())
				if err != nil && !errors.Is(err, registry.ErrNotInitialized) {
					t.Error(err)
					return
				}
				for i := range list {
					list[i].Config.Env[modeVariable] = "mine"
				}
				_, err = w.Get(t.Context(), "one")
				if err != nil && !errors.Is(err, registry.ErrNotInitialized) && !errors.Is(err, registry.ErrToolNotFound) {
					t.Error(err)
					return
				}
			}
		})
	}
	var lives sync.WaitGroup
	for range 2 {
		lives.Go(func() {
			_, err := w.Init(t.Context())
			assert.NoError(t, err)
		})
	}
	lives.Wait()
	pid := w.call("one", "pid")
	for _, change := range []func() error{
		func() error { return w.Disable(t.Context(), "one") },
		func() error { return w.Enable(t.Context(), "one") },
		func() error { _, err := w.Reload(t.Context()); return err },
	} {
		require.NoError(t, change())
	}
	for range 2 {
		lives.Go(func() { assert.NoError(t, w.Close(t.Context(), maxDebounce)) })
	}
	lives.Wait()
	close(stop)
	group.Wait()
	gone(t, pid)
}

// Of each two places the project's counts more than the user's, and that more than the environment's (S1-004, A-61).
func TestPrecedenceOfPairs(t *testing.T) {
	t.Parallel()
	for name, places := range map[string][2]int{"project, global": {0, 1}, "project, environment": {0, 2}, "global, environment": {1, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			extra := t.TempDir()
			w.env["ORCH_MCP_PATH"] = extra
			dirs := [3]string{w.dir(), filepath.Join(w.home, ".orch/mcp"), extra}
			for _, place := range places {
				w.put(filepath.Join(dirs[place], "same.json"), `{"mcpServers": {"same": {"command": "x", "disabled": true}}}`)
			}
			w.start()
			assert.Equal(t, filepath.Join(dirs[places[0]], "same.json"), w.get("same").Source)
		})
	}
}

// Without hot reload files are read only on request (S1-008).
func TestStill(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hot)
	file := w.define("one", "good")
	w.start()
	still := w.another()
	_, err := still.Init(t.Context())
	require.NoError(t, err)
	require.NoError(t, os.Remove(file))
	w.forgotten("one")
	_, err = still.Get(t.Context(), "one")
	require.NoError(t, err)
	_, err = still.Reload(t.Context())
	require.NoError(t, err)
	_, err = still.Get(t.Context(), "one")
	require.ErrorIs(t, err, registry.ErrToolNotFound)
}
