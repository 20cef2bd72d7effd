package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/mcp/gateway"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/builtin"
)

// defineWiki defines a server with a recorded tool in a home directory. The server does not start.
func defineWiki(t *testing.T, home string) {
	t.Helper()
	for path, text := range map[string]string{
		"mcp/wiki.json":             `{"schemaVersion":"1.0.0","name":"wiki","transport":"stdio","command":"no-such-program","capabilities":["tools"]}`,
		"state/mcp-tools/wiki.json": `{"tools":{"search":{"accepted":{"name":"search","inputSchema":{"type":"object"}},"by":"first use"}}}`,
	} {
		path = filepath.Join(home, ".orch", path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
}

// until waits until the catalogue satisfies a condition.
func until(t *testing.T, c *tools.Catalogue, is func() bool) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		replaced := c.Replaced()
		if is() {
			return
		}
		select {
		case <-replaced:
		case <-limit:
			require.Fail(t, "the catalogue never came to be as it should", "it has %v and %v", c.Names(), c.Refused())
		}
	}
}

// A face offers the tools of its node's servers, also of the next node.
func TestToolsOfANodeAreFollowed(t *testing.T) {
	t.Parallel()
	nodes, cfg := newProcessNodes(io.Discard), reconnectConfig(t)
	defineWiki(t, cfg.Home)
	stop := served(t, nodes, cfg)
	l := reconnectingOn(t, nodes, cfg)
	admin := node.NewAdmin(l)
	catalogue, err := tools.New(builtin.All(builtin.Config{})...)
	require.NoError(t, err)
	stopFollowing := followTools(t.Context(), admin, catalogue, slog.New(slog.DiscardHandler))
	defer stopFollowing()
	assert.Contains(t, catalogue.Names(), "wiki__search", "from the beginning")

	_, err = admin.Disable(t.Context(), "wiki")
	require.NoError(t, err)
	until(t, catalogue, func() bool { return len(catalogue.Refused()) == 1 })
	stop()
	require.NoError(t, os.Remove(filepath.Join(cfg.Home, ".orch", "state", "mcp-tools.json")))
	assert.Equal(t, []string{"wiki__search"}, catalogue.Refused(), "they stay while the node is gone")
	again := served(t, nodes, cfg)
	until(t, catalogue, func() bool { return len(catalogue.Refused()) == 0 })
	assert.Contains(t, catalogue.Names(), "wiki__search")
	require.NoError(t, os.Remove(filepath.Join(cfg.Home, ".orch", "mcp", "wiki.json")))
	_, err = admin.Reload(t.Context())
	require.NoError(t, err)
	until(t, catalogue, func() bool { _, ok := catalogue.Get("wiki__search"); return !ok })
	require.NoError(t, l.Close(t.Context()))
	again()
}

// The node is asked once, and only for tools that this program does not have.
func TestTheNodeIsAskedForOutsideTools(t *testing.T) {
	t.Parallel()
	asked := 0
	s := &fakeSession{asked: map[string]func(any) any{"catalogue": func(any) any {
		asked++
		return map[string]any{"version": "v", "items": []gateway.Entry{{
			Server: "wiki", Tool: "search", Input: []byte(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`),
			Spec: tools.Spec{Name: "wiki__search", Purpose: "Searches\x1b[2J", Effect: tools.Read, Gate: tools.InProgress},
		}}}
	}}}
	p := newProbe(t, s)
	require.Zero(t, p.run(t.Context(), []string{"tools", "show", "file_read"}))
	p.write(t, "own.yaml", "orch: v1\nname: own\nsteps:\n  - {id: a, tool: FILE_READ, with: {file_path: a}}\n")
	require.Zero(t, p.run(t.Context(), []string{"plan", "validate", "own.yaml"}))
	assert.Zero(t, asked)
	p.out.Reset()
	require.Zero(t, p.run(t.Context(), []string{"tools", "show", "wiki.search"}))
	assert.Contains(t, p.out.String(), "wiki__search\n  Searches\\x1b[2J\n")
	p.write(t, "wiki.yaml", "orch: v1\nname: wiki\nsteps:\n  - {id: a, tool: wiki.search, with: {text: a, more: b}}\n")
	require.Zero(t, p.run(t.Context(), []string{"plan", "validate", "wiki.yaml"}), p.err.String())
	require.Equal(t, exitNotFound, p.run(t.Context(), []string{"tools", "show", "wiki__serch"}))
	assert.Contains(t, p.err.String(), "did you mean wiki__search?")
	assert.Equal(t, 1, asked)
	assert.True(t, s.closed)
}

// Without a node the recorded tools are listed, and no server is started.
func TestRecordedToolsAreListed(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	defineWiki(t, p.home)
	require.Zero(t, p.run(context.Background(), []string{"tools", "list", "-o", "name"}))
	assert.Contains(t, p.out.String(), "\nwiki__search\n")
	assert.NoFileExists(t, filepath.Join(p.home, ".orch", "state", "mcp-tools.json"))
}

// Names that servers chose are completed only if they are harmless for a shell.
func TestWaitingToolsAreCompleted(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	defineWiki(t, p.home)
	waiting := `{"seen":{"name":"x","inputSchema":{"type":"object"}}}`
	text := `{"tools":{"search":` + waiting + `,"$(reboot)":` + waiting + `,"a b":` + waiting + `,"--yes":` + waiting + `,"calm":{"accepted":{"name":"calm","inputSchema":{"type":"object"}}}}}`
	require.NoError(t, os.WriteFile(filepath.Join(p.home, ".orch", "state", "mcp-tools", "wiki.json"), []byte(text), 0o600))
	require.Zero(t, p.run(t.Context(), []string{"__complete", "mcp", "accept", "wiki", ""}))
	assert.Equal(t, "search\n:4\n", p.out.String())
	p.out.Reset()
	require.Zero(t, p.run(t.Context(), []string{"__complete", "mcp", "enable", ""}))
	assert.Equal(t, "wiki\n:4\n", p.out.String())
}
