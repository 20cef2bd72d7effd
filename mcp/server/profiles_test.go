package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/mcp/server"
)

// listed are the names of the tools of a profile, with the whole of the list.
func (n *node) listed(t *testing.T, profile string) (names []string, list string) {
	t.Helper()
	return n.listedBy(t, profile, speaking)
}

// listedBy returns the list of a face with its own configuration.
func (n *node) listedBy(t *testing.T, profile string, configure func(*server.Config)) (names []string, list string) {
	t.Helper()
	w := n.web(t, n.face(configure))
	w.url += "?profile=" + profile
	w.open()
	a := w.post(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}`)
	result, _ := a.message["result"].(map[string]any)
	tools, _ := result["tools"].([]any)
	for _, tool := range tools {
		fields, _ := tool.(map[string]any)
		name, _ := fields["name"].(string)
		names = append(names, name)
		assert.NotEmpty(t, fields["description"], name)
	}
	raw, err := json.Marshal(tools)
	require.NoError(t, err)
	return names, string(raw)
}

// The tools of the coding profile take at most 8 KiB, have names that every client accepts, and all exist.
func TestCodingProfile(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	names, list := n.listed(t, server.ProfileCoding)
	assert.Subset(t, names, []string{"find", "grep", "read", "edit", "patch", "write", "bash", "test", "git_commit", "ask", "checkpoint", "undo", "submit", "result"})
	assert.LessOrEqual(t, len(names), 25)
	assert.LessOrEqual(t, len(list), 8<<10)
	portable := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	for _, name := range names {
		assert.Regexp(t, portable, name)
	}
	for _, profile := range []string{server.ProfileOperations, server.ProfileNetwork} {
		names, _ := n.listed(t, profile)
		assert.NotEmpty(t, names)
		for _, name := range names {
			assert.Regexp(t, portable, name)
		}
	}
	all, _ := n.listed(t, server.ProfileAll)
	assert.Contains(t, all, "github.readFile")
}

// A profile accepts paths relative to the project, fills in hidden inputs, and names the profile's name for an unknown tool.
func TestCallsInAProfile(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	require.NoError(t, os.WriteFile(filepath.Join(n.root, "a.txt"), []byte("one"), 0o600))
	w := n.web(t, n.face(func(c *server.Config) { c.HTTP.Tokens, c.Offer.Profile = tokens{}, server.ProfileCoding }))
	w.open()
	call := func(tool, args string) string {
		return w.post(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + `}}`).body
	}
	assert.Contains(t, call("edit", `{"file_path":"a.txt","old_string":"one","new_string":"two"}`), "call read first")
	assert.Contains(t, call("read", `{"file_path":"a.txt"}`), "one")
	assert.Contains(t, call("edit", `{"file_path":"a.txt","old_string":"one","new_string":"two"}`), `\"replacements\":1`)
	assert.Contains(t, call("grep", `{"pattern":"two"}`), `\"total\":1`)
	assert.Contains(t, call("ask", `{"description":"may I","rationale":"so"}`), `\"status\":\"pending\"`)
	assert.Contains(t, call("FILE_READ", `{"file_path":"a.txt"}`), "it is read here")
	assert.Contains(t, call("read", `{"file_path":"../a.txt"}`), "OUTSIDE_ROOT")
	assert.Contains(t, call("read", `{"file_path":7}`), "VALIDATION_ERROR")
	assert.Contains(t, call("submit", `{"plan":{"orch":"v1","name":"x","steps":[{"id":"a","tool":"echo"}]}}`), "TASK_")
	refused := call("submit", `{"plan":{"orch":"v1","name":"x","steps":[{"id":"a","tool":"read","with":{"file_path":"a.txt"}},{"id":"b","tool":"none"},{"id":"c","tool":"edit"}]}}`)
	assert.Contains(t, refused, "in plans it is FILE_READ")
	assert.Contains(t, refused, "in plans it is FILE_EDIT")
	assert.Contains(t, refused, "tools/list shows them")
	other := n.web(t, n.face(func(c *server.Config) { c.HTTP.Tokens = tokens{} }))
	other.url += "?profile=nothing"
	a := other.post(initialize)
	assert.Equal(t, http.StatusBadRequest, a.status)
	assert.Contains(t, a.body, "coding")
}

// A call that continues names the tool to wait with as the client calls it.
func TestWhatGoesOnIsNamedAsInTheProfile(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	for _, test := range []struct{ profile, calls, waits string }{
		{server.ProfileAll, "BASH_EXECUTE", "orch_result"}, {server.ProfileCoding, "bash", "result"},
	} {
		w := n.web(t, n.face(func(c *server.Config) {
			c.HTTP.Tokens, c.Offer.Profile, c.Limits.SyncWait = tokens{}, test.profile, time.Nanosecond
		}))
		w.open()
		a := w.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"` + test.calls + `","arguments":{"command":"echo x"}}}`)
		assert.Contains(t, a.body, "do not call "+test.calls+" again")
		assert.Contains(t, a.body, "call "+test.waits+" with")
	}
}

// The instructions of a client name the tools and paths of its profile, whichever generation it is of.
func TestInstructionsFollowTheProfile(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	for profile, want := range map[string]string{
		server.ProfileAll: "orch_result waits for its end. orch_submit runs a plan", server.ProfileCoding: ", result waits for its end. submit runs a plan",
	} {
		w := n.web(t, n.face(speaking))
		w.url += "?profile=" + profile
		assert.Contains(t, w.post(initialize).body, want)
		assert.Contains(t, w.modern("server/discover", "", "", "{}").body, want)
	}
	w := n.web(t, n.face(speaking))
	w.url += "?profile=" + server.ProfileCoding
	assert.Contains(t, w.post(initialize).body, "Paths are relative to "+n.root)
}

// fewTokens are tokens of people who see one read-only tool.
type fewTokens struct{ tokens }

// Verify implements server.Tokens.
func (f fewTokens) Verify(ctx context.Context, token string) (server.Identity, time.Time, error) {
	who, until, err := f.tokens.Verify(ctx, token)
	who.Show = server.Selection{Tools: []string{"APPROVAL_CHECK"}, ReadOnly: true}
	return who, until, err
}

// A profile shows no tool that the token excludes.
func TestProfilesShowWhatTheTokenShows(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	few := func(c *server.Config) { c.HTTP.Tokens = fewTokens{} }
	for profile, want := range map[string][]string{
		server.ProfileAll: {"APPROVAL_CHECK"}, server.ProfileCoding: {"asked"},
		server.ProfileOperations: {"APPROVAL_CHECK"}, server.ProfileNetwork: nil,
	} {
		names, _ := n.listedBy(t, profile, few)
		assert.Equal(t, want, names, profile)
	}
}
