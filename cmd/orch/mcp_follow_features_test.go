package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/mcp/fixture"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/node"
)

// defineFixture defines a server wiki with the features of the fixture in a home directory.
func defineFixture(t *testing.T, home string) {
	t.Helper()
	var f fixture.Fixture
	cfg := newProcessNodes(io.Discard).config(reconnectConfig(t), working)
	cfg.Faces.HTTP, cfg.Faces.Tokens = "127.0.0.1:0", staticToken{"secret", server.Identity{Name: "user:ada", Role: server.Operator}}
	cfg.Faces.Face = func(c *server.Config) { c.Hooks.Extend = f.Extend }
	n, err := node.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, n.Stop(context.Background())) })
	path := filepath.Join(home, ".orch", "mcp", "wiki.json")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(`{"schemaVersion":"1.0.0","name":"wiki","transport":"http","baseURL":"`+n.FaceURL()+`","bearer":"secret","capabilities":["prompts","resources"]}`), 0o600))
}

// agentOnStdio is a client of orch mcp serve.
type agentOnStdio struct {
	t     *testing.T
	in    io.WriteCloser
	lines chan string
	ended chan int
	id    int
}

// newAgent starts orch mcp serve and initializes the connection.
func newAgent(t *testing.T, cfg config.Config) *agentOnStdio {
	t.Helper()
	in, toFace := io.Pipe()
	fromFace, out := io.Pipe()
	p := newProbe(t)
	p.in, p.app.out, p.app.err, p.home, p.nodes = in, out, io.Discard, cfg.Home, newProcessNodes(io.Discard)
	p.now = time.Now
	a := &agentOnStdio{t: t, in: toFace, lines: make(chan string), ended: make(chan int, 1)}
	go func() {
		a.ended <- p.run(context.WithoutCancel(t.Context()), []string{"mcp", "serve", "--root", cfg.Root, "--data-dir", cfg.DataDir, "--durability", "relaxed"})
		_ = out.Close()
	}()
	go func() {
		defer close(a.lines)
		scanner := bufio.NewScanner(fromFace)
		scanner.Buffer(nil, 8<<20)
		for scanner.Scan() {
			a.lines <- scanner.Text()
		}
	}()
	a.ask("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"agent","version":"1"}}`)
	a.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return a
}

func (a *agentOnStdio) send(line string) {
	a.t.Helper()
	_, err := io.WriteString(a.in, line+"\n")
	require.NoError(a.t, err)
}

// line returns the next line that matches; it skips the others.
func (a *agentOnStdio) line(is func(string) bool) string {
	a.t.Helper()
	limit := time.After(time.Minute)
	for {
		select {
		case line, ok := <-a.lines:
			require.True(a.t, ok, "the face has ended")
			if is(line) {
				return line
			}
		case <-limit:
			require.Fail(a.t, "the face does not say it")
		}
	}
}

// ask sends a request and returns the answer.
func (a *agentOnStdio) ask(method, params string) string {
	a.t.Helper()
	a.id++
	id, err := json.Marshal(a.id)
	require.NoError(a.t, err)
	a.send(`{"jsonrpc":"2.0","id":` + string(id) + `,"method":"` + method + `","params":` + params + `}`)
	return a.line(func(line string) bool { return strings.Contains(line, `"id":`+string(id)+`,`) })
}

// until waits until a list of the face contains a text, or no longer does.
func (a *agentOnStdio) until(method, text string, there bool) {
	a.t.Helper()
	for strings.Contains(a.ask(method, `{}`), text) != there {
		a.line(func(line string) bool { return strings.Contains(line, "/list_changed") })
	}
}

// prompts waits until the face lists the prompt of the server, or no longer does.
func (a *agentOnStdio) prompts(there bool) {
	a.t.Helper()
	a.until("prompts/list", "wiki__test_simple_prompt", there)
}

// end closes the stream, which ends the face.
func (a *agentOnStdio) end() {
	a.t.Helper()
	require.NoError(a.t, a.in.Close())
	for range a.lines { // until it is closed
		continue
	}
	assert.Zero(a.t, <-a.ended)
}

const (
	staticText = `{"uri":"orch://server/wiki/test://static-text"}`
	listing    = `{"name":"orch_list","arguments":{}}`
)

// A face offers the resources and prompts of its node's servers: of a node in another process, after its restart, and of a node
// that the face itself starts.
func TestFeaturesOfANodeAreFollowed(t *testing.T) {
	t.Parallel()
	nodes, cfg := newProcessNodes(io.Discard), reconnectConfig(t)
	defineFixture(t, cfg.Home)
	stop := served(t, nodes, cfg)
	agent := newAgent(t, cfg)
	agent.prompts(true)
	agent.until("resources/list", "orch://server/wiki/test://static-text", true)
	agent.until("resources/templates/list", "orch://server/wiki/test://template/{id}/data", true)
	assert.Contains(t, agent.ask("resources/read", staticText), "This is the content")
	assert.Contains(t, agent.ask("resources/read", `{"uri":"orch://server/wiki/test://template/7/data"}`), "Data for ID: 7")
	assert.Contains(t, agent.ask("prompts/get", `{"name":"wiki__test_simple_prompt"}`), "This is a simple prompt")

	s, err := nodes.Dial(t.Context(), cfg)
	require.NoError(t, err)
	_, err = node.NewAdmin(s).Disable(t.Context(), "wiki")
	require.NoError(t, err)
	agent.prompts(false)
	_, err = node.NewAdmin(s).Enable(t.Context(), "wiki")
	require.NoError(t, err)
	agent.prompts(true)
	require.NoError(t, s.Close(t.Context()))

	stop()
	agent.prompts(true) // as before
	assert.Contains(t, agent.ask("resources/read", staticText), "UNAVAILABLE")
	stop = served(t, nodes, cfg)
	assert.NotContains(t, agent.ask("tools/call", listing), "UNAVAILABLE", "the node is there again")
	assert.Contains(t, agent.ask("resources/read", staticText), "This is the content")
	agent.prompts(true)

	stop()
	assert.NotContains(t, agent.ask("tools/call", listing), "UNAVAILABLE", "it starts a node itself")
	assert.Contains(t, agent.ask("resources/read", staticText), "This is the content")
	agent.prompts(true)
	agent.end()
}
