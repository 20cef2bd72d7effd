package node_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
)

// The roles of tokens are those of the MCP face.
func TestRolesAreOfOneMind(t *testing.T) {
	t.Parallel()
	var roles []string
	for _, r := range server.Roles() {
		roles = append(roles, string(r))
	}
	assert.Equal(t, roles, bus.TokenRoles())
}

// face starts a node that speaks MCP, and returns the tokens as its face knows them.
func face(t *testing.T, cfg node.Config) (*node.Node, server.Tokens) {
	t.Helper()
	var known server.Config
	cfg.Faces.HTTP, cfg.Faces.Face = "127.0.0.1:0", func(c *server.Config) { known = *c }
	n := start(t, cfg)
	assert.Len(t, known.Key, 32)
	assert.NotNil(t, known.Stores.Sessions)
	require.NotNil(t, known.HTTP.Tokens)
	return n, known.HTTP.Tokens
}

func TestIdentitiesOfTokens(t *testing.T) {
	t.Parallel()
	n, tokens := face(t, config(t))
	for role, want := range map[string]string{
		bus.RoleOperator: "user:op", bus.RoleSubmitter: "user:sub", bus.RoleAgent: "agent:bot", bus.RoleViewer: "user:eye",
	} {
		_, name, _ := strings.Cut(want, ":")
		token, secret, err := bus.IssueToken(t.Context(), n.Tokens(), bus.NewToken{
			Name: name, Role: role, Actor: "user:ada", Life: time.Hour, Tools: []string{"FILE_*"}, ReadOnly: true,
		})
		require.NoError(t, err)
		who, expires, err := tokens.Verify(t.Context(), secret)
		require.NoError(t, err)
		assert.Equal(t, server.Identity{
			Name: want, Role: server.Role(role), Show: server.Selection{Tools: []string{"FILE_*"}, ReadOnly: true},
		}, who)
		assert.Equal(t, token.ExpiresAt, expires)
	}
	_, _, err := tokens.Verify(t.Context(), "")
	assert.Equal(t, fault.Unauthorized, fault.CodeOf(err))
}

// S2-074: the token of the user who starts a node speaks as the user's command line does.
func TestLocalTokenOfANode(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	path := filepath.Join(cfg.DataDir, bus.LocalTokenFile)
	n, _ := face(t, cfg)
	assert.NoFileExists(t, path, "nobody is known who started it")
	require.NoError(t, n.Stop(t.Context()))

	cfg.User = "Ada"
	read := func() string {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		return strings.TrimSpace(string(data))
	}
	var log bytes.Buffer
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	n, tokens := face(t, cfg)
	first := read()
	who, expires, err := tokens.Verify(t.Context(), first)
	require.NoError(t, err)
	assert.Equal(t, server.Identity{Name: "user:Ada", Role: server.Operator}, who)
	assert.Zero(t, expires)
	require.NoError(t, n.Stop(t.Context()))

	n, _ = face(t, cfg)
	assert.Equal(t, first, read(), "it stays")
	require.NoError(t, n.Stop(t.Context()))
	require.NoError(t, os.Remove(path))
	n, tokens = face(t, cfg)
	assert.NotEqual(t, first, read())
	_, _, err = tokens.Verify(t.Context(), first)
	assert.Equal(t, fault.Unauthorized, fault.CodeOf(err), "the one that was lost is revoked")
	require.NoError(t, n.Stop(t.Context()))
	for _, secret := range []string{first, read()} {
		assert.NotContains(t, log.String(), secret)
	}
}

// opening opens a session.
const opening = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// ask opens a session over HTTP with a header and ends it; it returns the status of the first.
func ask(t *testing.T, n *node.Node, authorization ...string) int {
	t.Helper()
	header := http.Header{"Authorization": authorization}
	answer := send(t, n, http.MethodPost, opening, header)
	if answer.status == http.StatusOK {
		header.Set("Mcp-Session-Id", answer.session)
		assert.Equal(t, http.StatusNoContent, send(t, n, http.MethodDelete, "", header).status)
	}
	return answer.status
}

// reply is what a client sees of an answer.
type reply struct {
	status        int
	session, text string
}

// send sends a request of a client and reads its answer, which must not repeat a secret.
func send(t *testing.T, n *node.Node, method, body string, header http.Header) (r reply) {
	t.Helper()
	r.session = during(t, n, method, body, header, func(status int, stream io.Reader) {
		text, err := io.ReadAll(stream)
		require.NoError(t, err)
		assert.NotRegexp(t, "orch_[0-9A-Za-z]{30}", string(text), "what was sent is not repeated")
		r.status, r.text = status, string(text)
	})
	return r
}

// during sends a request of a client, calls use with the answer, and returns the session id of the answer.
func during(t *testing.T, n *node.Node, method, body string, header http.Header, use func(status int, stream io.Reader)) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, n.FaceURL(), strings.NewReader(body))
	require.NoError(t, err)
	r.Header = header.Clone()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	use(answer.StatusCode, answer.Body)
	return answer.Header.Get("Mcp-Session-Id")
}

// talk opens a session with a token and returns the answers to requests.
func talk(t *testing.T, n *node.Node, secret string, requests ...string) []string {
	t.Helper()
	header := http.Header{"Authorization": {"Bearer " + secret}}
	opened := send(t, n, http.MethodPost, opening, header)
	require.Equal(t, http.StatusOK, opened.status)
	header.Set("Mcp-Session-Id", opened.session)
	header.Set("Mcp-Protocol-Version", "2025-11-25")
	send(t, n, http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, header)
	answers := make([]string, len(requests))
	for i, request := range requests {
		answers[i] = send(t, n, http.MethodPost, `{"jsonrpc":"2.0","id":`+strconv.Itoa(i+2)+","+request+"}", header).text
	}
	assert.Equal(t, http.StatusNoContent, send(t, n, http.MethodDelete, "", header).status)
	return answers
}

// S2-071 and S2-074: a task of the command line is one of the local token, and nobody else's.
func TestTasksAreBoundToTheIdentity(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.User = "test" // as submit says
	n, _ := face(t, cfg)
	id := submit(t, n.API(), `{orch: v1, steps: [{id: a, wait: {signal: go}}]}`)
	asked := func(method string) string {
		return `"method":"` + method + `","params":{"taskId":"` + string(id) + `"}`
	}
	requests := []string{asked("tasks/get"), `"method":"tasks/list","params":{}`, asked("tasks/cancel")}
	local, err := os.ReadFile(filepath.Join(cfg.DataDir, bus.LocalTokenFile))
	require.NoError(t, err)
	for _, role := range []string{bus.RoleAgent, bus.RoleSubmitter} {
		_, secret, err := bus.IssueToken(t.Context(), n.Tokens(), bus.NewToken{Name: "other-" + role, Role: role, Actor: "user:ada"})
		require.NoError(t, err)
		answers := talk(t, n, secret, append(requests, asked("tasks/result"))...)
		assert.NotContains(t, answers[1], string(id), role)
		for _, i := range []int{0, 2, 3} {
			assert.Contains(t, answers[i], "-32602", role)
		}
	}
	_, viewer, err := bus.IssueToken(t.Context(), n.Tokens(), bus.NewToken{Name: "eye", Role: bus.RoleViewer, Actor: "user:ada"})
	require.NoError(t, err)
	answers := talk(t, n, viewer, requests...)
	assert.Contains(t, answers[0], `"status":"working"`, "a viewer sees all")
	assert.Contains(t, answers[1], string(id))
	assert.NotContains(t, answers[2], "cancelled", "and changes nothing")

	answers = talk(t, n, strings.TrimSpace(string(local)), requests...)
	assert.Contains(t, answers[0], `"status":"working"`)
	assert.Contains(t, answers[1], string(id))
	assert.Contains(t, answers[2], `"status":"cancelled"`)
	view, err := n.API().Get(t.Context(), api.GetRequest{ID: id})
	require.NoError(t, err)
	assert.Equal(t, statemachine.Cancelled, view.State)
}

// S4-002: nobody gets in without exactly the secret of a token that is good.
func TestNobodyGetsInWithoutAToken(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	n, _ := face(t, cfg)
	token, secret, err := bus.IssueToken(t.Context(), n.Tokens(), bus.NewToken{Name: "bot", Role: bus.RoleAgent, Actor: "user:ada"})
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, ask(t, n, "Bearer "+secret))
	assert.Equal(t, http.StatusOK, ask(t, n, "bearer "+secret), "the name of a scheme has no case")
	for name, header := range map[string][]string{
		"none": nil, "empty": {""}, "scheme alone": {"Bearer"}, "empty secret": {"Bearer "}, "another scheme": {"Basic " + secret},
		"no scheme": {secret}, "a prefix": {"Bearer " + secret[:47]}, "an extension": {"Bearer " + secret + "0"},
		"another case": {"Bearer " + strings.ToUpper(secret)}, "two secrets": {"Bearer " + secret + "," + secret},
		"its id": {"Bearer " + token.ID}, "digest": {"Bearer " + strings.Repeat("0", 64)},
		"the password of the node": {"Bearer " + password(t, cfg.DataDir)},
	} {
		assert.Equal(t, http.StatusUnauthorized, ask(t, n, header...), name)
	}
	_, err = n.Tokens().RevokeToken(t.Context(), bus.RevokeToken{Token: "bot", Actor: "user:ada"})
	require.NoError(t, err)
	assert.Equal(t, http.StatusUnauthorized, ask(t, n, "Bearer "+secret), "revoked")
}

// A stream that is open when its token is revoked ends then.
func TestStreamsEndWithTheirToken(t *testing.T) {
	t.Parallel()
	n, _ := face(t, config(t))
	_, secret, err := bus.IssueToken(t.Context(), n.Tokens(), bus.NewToken{Name: "eye", Role: bus.RoleViewer, Actor: "user:ada"})
	require.NoError(t, err)
	header := http.Header{"Authorization": {"Bearer " + secret}}
	answer := send(t, n, http.MethodPost, opening, header)
	require.Equal(t, http.StatusOK, answer.status)
	header.Set("Mcp-Session-Id", answer.session)
	header.Set("Authorization", "Bearer\t"+secret) // any white space is valid
	revoked := func(status int, stream io.Reader) {
		assert.Equal(t, http.StatusOK, status)
		_, err = n.Tokens().RevokeToken(t.Context(), bus.RevokeToken{Token: "eye", Actor: "user:ada"})
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, stream) // returns when the node has ended it
	}
	during(t, n, http.MethodGet, "", header, revoked)
	assert.Equal(t, http.StatusUnauthorized, send(t, n, http.MethodDelete, "", header).status)

	for _, name := range []string{"ear", "eye"} {
		want := map[string]int{"ear": http.StatusForbidden, "eye": http.StatusNoContent}[name]
		_, secret, err = bus.IssueToken(t.Context(), n.Tokens(), bus.NewToken{Name: name, Role: bus.RoleViewer, Actor: "user:ada"})
		require.NoError(t, err)
		header.Set("Authorization", "Bearer "+secret)
		assert.Equal(t, want, send(t, n, http.MethodDelete, "", header).status, "the session is that of an identity")
	}
}

// A wait for the result of a task ends too.
func TestWaitsEndWithTheirToken(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	waits := make(chan struct{}, 1)
	cfg.Faces.HTTP, cfg.Faces.Face = "127.0.0.1:0", func(c *server.Config) { c.API = telling{c.API, waits} }
	n := start(t, cfg)
	id := submit(t, n.API(), `{orch: v1, steps: [{id: a, wait: {signal: go}}]}`)
	_, secret, err := bus.IssueToken(t.Context(), n.Tokens(), bus.NewToken{Name: "eye", Role: bus.RoleViewer, Actor: "user:ada"})
	require.NoError(t, err)
	header := http.Header{"Authorization": {"Bearer " + secret}}
	header.Set("Mcp-Session-Id", send(t, n, http.MethodPost, opening, header).session)
	revoked := revokeOn(t, n, waits)
	got := send(t, n, http.MethodPost, `{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"`+string(id)+`"}}`, header)
	require.NoError(t, <-revoked)
	assert.NotContains(t, got.text, `"result"`)
}

// telling signals when somebody is about to wait for a result.
type telling struct {
	api.API

	waits chan<- struct{}
}

func (a telling) Result(ctx context.Context, r api.ResultRequest) (api.ResultReply, error) {
	if r.Wait > 0 {
		select {
		case a.waits <- struct{}{}:
		default:
		}
	}
	return a.API.Result(ctx, r)
}

// revokeOn revokes the token "eye" after a signal, and returns the error of that.
func revokeOn(t *testing.T, n *node.Node, told <-chan struct{}) <-chan error {
	t.Helper()
	revoked := make(chan error, 1)
	go func() {
		select {
		case <-told:
			_, err := n.Tokens().RevokeToken(t.Context(), bus.RevokeToken{Token: "eye", Actor: "user:ada"})
			revoked <- err
		case <-t.Context().Done():
			revoked <- t.Context().Err()
		}
	}()
	return revoked
}

// A waiting request of /rpc ends too.
func TestRequestsOfRPCEndWithTheirToken(t *testing.T) {
	t.Parallel()
	waits := make(chan struct{}, 1)
	e := serveRPC(t, func(cfg *node.Config) { cfg.Faces.Face = func(c *server.Config) { c.API = telling{c.API, waits} } })
	id := submit(t, e.API(), `{orch: v1, steps: [{id: a, wait: {signal: go}}]}`)
	eye := e.issue(bus.NewToken{Name: "eye", Role: bus.RoleViewer})
	revoked := revokeOn(t, e.Node, waits)
	got := e.post(eye, `{"jsonrpc":"2.0","id":1,"method":"orch_result","params":{"task_id":"`+string(id)+`","wait_seconds":50}}`)
	require.NoError(t, <-revoked)
	require.NotNil(t, got.Error)
	assert.Equal(t, fault.Cancelled.RPC(), got.Error.Code)
}

// A subscription of a client without a session ends too.
func TestSubscriptionsEndWithTheirToken(t *testing.T) {
	t.Parallel()
	n, _ := face(t, config(t))
	id := submit(t, n.API(), `{orch: v1, steps: [{id: a, wait: {signal: go}}]}`)
	_, secret, err := bus.IssueToken(t.Context(), n.Tokens(), bus.NewToken{Name: "eye", Role: bus.RoleViewer, Actor: "user:ada"})
	require.NoError(t, err)
	body := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["` + string(id) + `"]},
		"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	header := http.Header{
		"Authorization": {"Bearer " + secret}, "Mcp-Method": {"subscriptions/listen"}, "Mcp-Protocol-Version": {"2026-07-28"},
	}
	during(t, n, http.MethodPost, body, header, func(status int, stream io.Reader) {
		assert.Equal(t, http.StatusOK, status)
		first := make([]byte, 256)
		size, err := stream.Read(first)
		require.NoError(t, err)
		assert.Contains(t, string(first[:size]), "notifications/subscriptions/acknowledged")
		_, err = n.Tokens().RevokeToken(t.Context(), bus.RevokeToken{Token: "eye", Actor: "user:ada"})
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, stream) // returns when the node has ended it
	})
}

// password returns the password of the operator.
func password(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "auth.json"))
	require.NoError(t, err)
	parts := strings.Split(string(data), `"`)
	i := slices.Index(parts, "operator")
	require.Positive(t, i)
	return parts[i+2]
}

// No tool can read the files of the data directory, under whatever name.
func TestToolsDoNotReadTheToken(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.DataDir, cfg.User = filepath.Join(cfg.Root, "data"), "ada"
	n := start(t, cfg)
	data, err := os.ReadFile(filepath.Join(cfg.DataDir, bus.LocalTokenFile))
	require.NoError(t, err)
	secret := strings.TrimSpace(string(data))
	require.NoError(t, os.Symlink(cfg.DataDir, filepath.Join(cfg.Root, "link")))
	for _, step := range []string{
		`{tool: FILE_READ, with: {file_path: data/mcp.token}}`,
		`{tool: FILE_READ, with: {file_path: link/mcp.token}}`,
		`{tool: FILE_READ, with: {file_path: ` + cfg.DataDir + `/mcp.token}}`,
		`{tool: GREP_SEARCH, with: {pattern: "orch_"}}`,
		`{tool: GREP_SEARCH, with: {pattern: "orch_", path: data}}`,
		`{tool: BASH_EXECUTE, with: {command: "cat ` + cfg.DataDir + `/mcp.token"}}`,
		`{tool: shell_exec, with: {command: "cat data/mcp.token"}}`,
	} {
		r := run(t, n.API(), `{orch: v1, steps: [{id: a, `+strings.TrimPrefix(step, "{")+`], outputs: {said: "${{ steps.a.output }}"}}`)
		assert.NotContains(t, string(r.Output), secret, step)
		if r.Error != nil {
			assert.NotContains(t, r.Error.Message, secret, step)
		}
	}
	now, err := os.ReadFile(filepath.Join(cfg.DataDir, bus.LocalTokenFile))
	require.NoError(t, err)
	assert.Equal(t, data, now)
}

// A node that uses external MCP servers passes their offers to its faces.
func TestFacesReachOutsideServers(t *testing.T) {
	t.Parallel()
	for name, uses := range map[string]bool{"uses servers": true, "uses none": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config(t)
			if uses {
				cfg.Faces.Servers.Home = t.TempDir()
			}
			var known server.Config
			cfg.Faces.HTTP, cfg.Faces.Face = "127.0.0.1:0", func(c *server.Config) { known = *c }
			n := start(t, cfg)
			assert.Equal(t, uses, known.Stores.Outside != nil)
			assert.Equal(t, uses, n.Outside() != nil)
		})
	}
}
