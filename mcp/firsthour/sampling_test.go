package firsthour_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The node is killed while the model of a client works on the turn of an agent. The answer counts although it comes late; a client of
// 2025-11-25 whose connection has ended is asked again. Then another turn follows, and the agent ends.
func TestKilledWhileClientIsAsked(t *testing.T) {
	t.Parallel()
	for _, over := range []string{"stdio", "http"} {
		for _, version := range []string{"2025-11-25", "2026-07-28"} {
			t.Run(over+" "+version, func(t *testing.T) {
				t.Parallel()
				w := worldOf(t, func(w *world) {
					folder := filepath.Join(w.project, ".orch", "agents")
					require.NoError(t, os.MkdirAll(folder, 0o700))
					require.NoError(t, os.WriteFile(filepath.Join(folder, "asker.yaml"), []byte("model: 'sampling:'\ntools: [FILE_READ]\n"), 0o600))
				})
				killedWhileAsked(t, w, over, version)
			})
		}
	}
}

func killedWhileAsked(t *testing.T, w *world, over, version string) {
	t.Helper()
	var asked atomic.Int64
	held, back := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(back) })
	client := mcp.NewClient(&mcp.Implementation{Name: "sampler", Version: "1"}, &mcp.ClientOptions{
		CreateMessageWithToolsHandler: func(_ context.Context, r *mcp.CreateMessageWithToolsRequest) (*mcp.CreateMessageWithToolsResult, error) {
			if asked.Add(1) == 1 {
				close(held)
				<-back
			} else {
				release()
			}
			answer := &mcp.CreateMessageWithToolsResult{Model: "m", Role: "assistant", Content: []mcp.Content{&mcp.TextContent{Text: "Here."}}}
			if len(r.Params.Messages) == 1 { // the first turn
				answer.Content = []mcp.Content{&mcp.ToolUseContent{ID: "a", Name: "NO_SUCH_TOOL", Input: map[string]any{}}}
			}
			return answer, nil
		},
	})
	transport := w.transport(w.installed(over))
	if web, ok := transport.(*mcp.StreamableClientTransport); ok {
		web.DisableStandaloneSSE = false // the question comes on it after the crash
	}
	session, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	require.NoError(t, err)
	called := make(chan string, 1)
	go func() {
		r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "agent", Arguments: map[string]any{"subagent_type": "asker", "prompt": "Go."}})
		raw, _ := json.Marshal(r)
		called <- fmt.Sprint(err, string(raw))
	}()
	select {
	case <-held:
	case got := <-called:
		t.Fatal("nobody was asked: " + got)
	}
	agent := w.askingAgent()
	w.crash()
	asksAgain := over == "http" && version == "2025-11-25"
	if !asksAgain {
		release()
	}
	got := w.run("result", agent, "--timeout", "1m", "--approval-wait", "1m", "-o", "json")
	assert.Contains(t, got, `"report": "Here."`)
	if asksAgain {
		assert.EqualValues(t, 3, asked.Load())
	} else {
		assert.EqualValues(t, 2, asked.Load())
	}
	_ = session.Close() // over HTTP the call may have ended with its connection
}

// askingAgent returns the id of the only task that another has started.
func (w *world) askingAgent() string {
	w.t.Helper()
	var list struct {
		Tasks []struct{ ID, Parent string }
	}
	require.NoError(w.t, json.Unmarshal([]byte(w.run("list", "-o", "json")), &list))
	for _, task := range list.Tasks {
		if task.Parent != "" {
			return task.ID
		}
	}
	w.t.Fatalf("there is no agent: %+v", list)
	return ""
}
