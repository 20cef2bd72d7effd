package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/mcp/server"
)

// agentFolder lists agents as they are set.
type agentFolder struct {
	files atomic.Pointer[[]server.AgentFile]
}

// AgentFiles implements server.Agents.
func (f *agentFolder) AgentFiles() []server.AgentFile { return *f.files.Load() }

// Each agent file is a prompt and in the description of TASK_SPAWN; the client is notified of a new one.
func TestAgentFilesArePrompts(t *testing.T) {
	t.Parallel()
	folder := &agentFolder{}
	folder.files.Store(&[]server.AgentFile{{Name: "buyer", About: "You say what to buy."}})
	s := startNode(t).face(func(c *server.Config) { c.Stores.Agents, c.HTTP.Tokens = folder, tokens{} })
	web := httptest.NewServer(s.Handler())
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	changed := make(chan struct{}, 1)
	client := mcp.NewClient(&mcp.Implementation{Name: "agents", Version: "1"}, &mcp.ClientOptions{
		PromptListChangedHandler: func(context.Context, *mcp.PromptListChangedRequest) {
			select {
			case changed <- struct{}{}:
			default:
			}
		},
	})
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: web.URL + "?profile=coding", HTTPClient: &http.Client{Transport: bearer{"ada.operator"}}},
		&mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	for tool, err := range session.Tools(t.Context(), nil) {
		require.NoError(t, err)
		if tool.Name == "agent" {
			assert.Contains(t, tool.Description, "\n- buyer: You say what to buy.")
		}
	}
	got, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "agent_buyer", Arguments: map[string]string{"prompt": "For \"lunch\""}})
	require.NoError(t, err)
	text, _ := got.Messages[0].Content.(*mcp.TextContent)
	require.NotNil(t, text)
	assert.Contains(t, text.Text, "call the tool agent once")
	assert.Contains(t, text.Text, `{"prompt":"For \"lunch\"","subagent_type":"buyer"}`)

	folder.files.Store(&[]server.AgentFile{{Name: "fixer"}})
	select {
	case <-changed:
	case <-time.After(time.Minute):
		t.Fatal("no notification")
	}
	_, err = session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "agent_fixer", Arguments: map[string]string{"prompt": "x"}})
	require.NoError(t, err)
}
