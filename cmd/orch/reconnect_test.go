package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/statemachine"
)

// served runs a node, as orch serve does, and returns a function that stops it.
func served(t *testing.T, nodes nodes, cfg config.Config) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- nodes.Serve(ctx, cfg, func(bus.Holder) {}, func(string, string) { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		require.NoError(t, err)
	}
	return func() {
		cancel()
		require.NoError(t, <-ended)
	}
}

func reconnectConfig(t *testing.T) config.Config {
	t.Helper()
	root, home := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "a.txt"), []byte("a"), 0o600))
	cfg, err := config.Load(config.Sources{
		Flags:  map[string]string{"root": root, "data_dir": filepath.Join(home, "data"), "durability": "relaxed", "http": "off"},
		Getenv: func(string) string { return "" }, Dir: root, Home: home,
	})
	require.NoError(t, err)
	return cfg
}

func reconnectingOn(t *testing.T, n nodes, cfg config.Config) *reconnectingSession {
	t.Helper()
	s, err := n.Open(t.Context(), cfg, working)
	require.NoError(t, err)
	return newReconnectingSession(s, func() (session, error) { return dialOrOpen(t.Context(), n, cfg, working) }, time.Now)
}

func reading(file string) json.RawMessage {
	plan, _ := json.Marshal(map[string]any{"orch": "v1", "name": "read", "steps": []any{ // only strings
		map[string]any{"id": "a", "tool": "FILE_READ", "with": map[string]string{"file_path": file}},
	}})
	return plan
}

// errgroup runs functions concurrently and joins their errors.
type errgroup struct {
	group sync.WaitGroup
	mu    sync.Mutex
	err   error
}

func (g *errgroup) run(do func() error) {
	g.group.Go(func() {
		err := do()
		g.mu.Lock()
		defer g.mu.Unlock()
		g.err = errors.Join(g.err, err)
	})
}

func (g *errgroup) wait() error {
	g.group.Wait()
	return g.err
}

// TestASessionOutlivesItsNode checks that if the node ends while requests wait and others arrive, all are answered by the next
// one, which has to be started here, and that no task exists twice.
func TestASessionOutlivesItsNode(t *testing.T) {
	t.Parallel()
	nodes, cfg := newProcessNodes(io.Discard), reconnectConfig(t)
	stop := served(t, nodes, cfg)
	l := reconnectingOn(t, nodes, cfg)
	require.False(t, l.Embedded())
	plan := reading(filepath.Join(cfg.Root, "a.txt"))
	first, err := l.Submit(t.Context(), api.SubmitRequest{Plan: plan, Delay: time.Hour})
	require.NoError(t, err)
	stop()

	var group errgroup
	for range 8 {
		group.run(func() error {
			got, err := l.Submit(t.Context(), api.SubmitRequest{Plan: plan})
			if err != nil {
				return err
			}
			end, err := l.Result(t.Context(), api.ResultRequest{ID: got.ID, Wait: time.Minute})
			if err == nil && end.State != statemachine.Done {
				return errors.New(string(end.State))
			}
			return err
		})
	}
	require.NoError(t, group.wait())
	assert.True(t, l.Embedded())
	kept, err := l.Get(t.Context(), api.GetRequest{ID: first.ID})
	require.NoError(t, err)
	assert.Equal(t, first.ID, kept.ID)
	all, err := l.List(t.Context(), api.ListRequest{Limit: 100})
	require.NoError(t, err)
	assert.Len(t, all.Tasks, 9)
	require.NoError(t, l.Close(t.Context()))
}

// TestARestartedNodeIsTaken checks that no node is started beside one that restarts.
func TestARestartedNodeIsTaken(t *testing.T) {
	t.Parallel()
	nodes, cfg := newProcessNodes(io.Discard), reconnectConfig(t)
	stop := served(t, nodes, cfg)
	l := reconnectingOn(t, nodes, cfg)
	stop()
	var group errgroup
	group.run(func() error {
		_, err := l.Submit(t.Context(), api.SubmitRequest{Plan: reading("a"), Delay: time.Hour})
		return err
	})
	again := served(t, nodes, cfg)
	require.NoError(t, group.wait())
	assert.False(t, l.Embedded())
	require.NoError(t, l.Close(t.Context()))
	again()
}

// TestWhatMayHappenTwiceIsNotRepeated checks that the caller gets the error of a lost node, and that the next request works.
func TestWhatMayHappenTwiceIsNotRepeated(t *testing.T) {
	t.Parallel()
	nodes, cfg := newProcessNodes(io.Discard), reconnectConfig(t)
	stop := served(t, nodes, cfg)
	l := reconnectingOn(t, nodes, cfg)
	task, err := l.Submit(t.Context(), api.SubmitRequest{Plan: reading("a"), Delay: time.Hour})
	require.NoError(t, err)
	stop()
	_, err = l.Signal(t.Context(), api.SignalRequest{ID: task.ID, Name: "go"})
	require.ErrorIs(t, err, fault.New(fault.Unavailable, ""))
	_, err = l.Signal(t.Context(), api.SignalRequest{ID: task.ID, Name: "go"})
	require.NotErrorIs(t, err, fault.New(fault.Unavailable, ""))
	require.NoError(t, l.Close(t.Context()))
}

// TestAShortCommandIsRepeatedAtTheNodeThatTakesOver checks that an operation that fails because the node of the command was
// handed over is repeated at the other node.
func TestAShortCommandIsRepeatedAtTheNodeThatTakesOver(t *testing.T) {
	t.Parallel()
	nodes, cfg := newProcessNodes(io.Discard), reconnectConfig(t)
	calls, stop := 0, func() {}
	require.NoError(t, nodes.Tokens(t.Context(), cfg, func(tokens bus.TokenStore) error {
		if calls++; calls == 1 {
			stop = served(t, nodes, cfg)
		}
		_, err := tokens.CreateToken(t.Context(), bus.NewToken{Name: "ci", Role: "operator", Actor: "user:ada", SHA256: strings.Repeat("0", 64)})
		return err
	}))
	assert.Equal(t, 2, calls)
	stop()
}
