package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/mcp/server"
)

// formUser answers the forms of a client with a choice, in which the checksum of a program may be omitted, and declines forms without
// that choice.
type formUser struct {
	mu      sync.Mutex
	choice  string
	offered [][]string
}

// choose sets the answer to the next forms.
func (u *formUser) choose(choice string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.choice = choice
}

// forms are the choices of each form so far.
func (u *formUser) forms() [][]string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.offered
}

func (u *formUser) answer(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	raw, err := json.Marshal(r.Params.RequestedSchema)
	if err != nil {
		return nil, err
	}
	var schema struct {
		Properties struct{ Decision struct{ Enum []string } }
	}
	if err := json.Unmarshal(raw, &schema); err != nil {
		return nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.offered = append(u.offered, schema.Properties.Decision.Enum)
	for _, choice := range schema.Properties.Decision.Enum {
		if choice == u.choice || strings.HasPrefix(choice, u.choice+" sha256:") {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": choice}}, nil
		}
	}
	return &mcp.ElicitResult{Action: "cancel"}, nil
}

// formClient returns a client of a generation with forms, over stdio or HTTP.
func (n *node) formClient(t *testing.T, u *formUser, version, over string) *mcp.ClientSession {
	t.Helper()
	s := n.face(func(c *server.Config) {
		c.HTTP.Tokens, c.Offer.Profile, c.Consent.Writes = tokens{}, server.ProfileCoding, "ask"
	})
	var transport mcp.Transport
	if over == "stdio" {
		in, to := io.Pipe()
		from, out := io.Pipe()
		ended := make(chan struct{})
		go func() { _ = s.Serve(context.WithoutCancel(t.Context()), in, out); close(ended) }()
		t.Cleanup(func() { _ = to.Close(); <-ended; _ = out.Close() })
		transport = &mcp.IOTransport{Reader: from, Writer: to}
	} else {
		web := httptest.NewServer(s.Handler())
		t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
		transport = &mcp.StreamableClientTransport{Endpoint: web.URL, HTTPClient: &http.Client{Transport: bearer{"ada.operator"}}, DisableStandaloneSSE: true}
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "forms", Version: "1"}, &mcp.ClientOptions{
		Capabilities:       &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}}},
		ElicitationHandler: u.answer,
	})
	session, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// formTalk is a client whose user answers forms.
type formTalk struct {
	*formUser

	t       *testing.T
	node    *node
	session *mcp.ClientSession
}

func (f *formTalk) call(tool, args string) string {
	f.t.Helper()
	r, err := f.session.CallTool(f.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
	require.NoError(f.t, err)
	require.Len(f.t, r.Content, 1)
	text, ok := r.Content[0].(*mcp.TextContent)
	require.True(f.t, ok)
	return text.Text
}

// everyClient runs a test for each generation over each transport.
func everyClient(t *testing.T, test func(f *formTalk)) {
	t.Helper()
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		for _, over := range []string{"stdio", "http"} {
			t.Run(version+" over "+over, func(t *testing.T) {
				t.Parallel()
				f := &formTalk{t: t, formUser: &formUser{}, node: startNode(t)}
				f.session = f.node.formClient(t, f.formUser, version, over)
				test(f)
			})
		}
	}
}

// A write of a session asks in a form with choices, and an accepted grant is valid for the session.
func TestFormsOpenForTheSession(t *testing.T) {
	t.Parallel()
	everyClient(t, func(f *formTalk) {
		t, call := f.t, f.call
		script := filepath.Join(f.node.root, "score.sh")
		require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\necho scored $1\n"), 0o700))
		f.choose("approve for this session: path " + filepath.Join(f.node.root, "a.txt"))
		assert.Contains(t, call("write", `{"file_path":"a.txt","content":"x"}`), `"bytes_written":1`)
		require.Len(t, f.forms(), 1)
		assert.Contains(t, f.forms()[0], "approve for this session: path "+f.node.root)
		assert.Contains(t, call("write", `{"file_path":"a.txt","content":"xy"}`), `"bytes_written":2`)
		assert.Len(t, f.forms(), 1, "the path is open")
		f.choose("approve for this session: program " + script)
		assert.Contains(t, call("bash", `{"command":"./score.sh a"}`), "scored a")
		assert.Len(t, f.forms(), 2)
		assert.Contains(t, call("bash", `{"command":"./score.sh b"}`), "scored b")
		assert.Len(t, f.forms(), 2, "the program is open")
		f.choose("approve for this session: path " + f.node.root)
		assert.Contains(t, call("write", `{"file_path":"b.txt","content":"x"}`), `"bytes_written":1`)
		assert.Len(t, f.forms(), 3)
		assert.Contains(t, call("bash", `{"command":"echo y > c.txt"}`), `"exit_code":0`)
		assert.Len(t, f.forms(), 3, "the project is open")
	})
}

// A question of a call for its session is asked before the call returns, and only once.
func TestFormsForWhatASessionAsks(t *testing.T) {
	t.Parallel()
	everyClient(t, func(f *formTalk) {
		t, call := f.t, f.call
		file := filepath.Join(f.node.root, "old.txt")
		require.NoError(t, os.WriteFile(file, []byte("old"), 0o600))
		f.choose("approve")
		asked := call("ask", `{"description":"remove it","rationale":"it is old","details":{"tool":"delete","arguments":{"file_path":"old.txt"}}}`)
		assert.Contains(t, asked, "APR_")
		require.Len(t, f.forms(), 1)
		assert.Contains(t, call("delete", `{"file_path":"old.txt"}`), `"file_path":"old.txt"`)
		assert.Len(t, f.forms(), 1, "the grant is for this call")
		assert.NoFileExists(t, file)
		f.choose("none of them")
		assert.Contains(t, call("ask", `{"description":"another","rationale":"so"}`), "APR_")
		assert.Len(t, f.forms(), 2, "a form that is put away decides nothing, and is not shown again")
	})
}
