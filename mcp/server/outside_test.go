package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/gateway"
	"github.com/orch-dev/orch/mcp/registry"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/tools"
)

// outside is a server.Outside with features chosen by a test.
type outside struct {
	mu       sync.Mutex
	list     []gateway.Feature
	replaced chan struct{}
	// asked are the resources read and prompts gotten.
	asked []string
}

func newOutside(list ...gateway.Feature) *outside {
	return &outside{list: list, replaced: make(chan struct{})}
}

// replace offers other features.
func (o *outside) replace(list ...gateway.Feature) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = list
	close(o.replaced)
	o.replaced = make(chan struct{})
}

// Features implements server.Outside.
func (o *outside) Features() []gateway.Feature {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.list
}

// FeaturesReplaced implements server.Outside.
func (o *outside) FeaturesReplaced() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.replaced
}

func (o *outside) ask(what string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = append(o.asked, what)
	switch {
	case strings.HasSuffix(what, "gone"):
		return fault.New(fault.NotFound, "it is gone")
	case strings.HasSuffix(what, "down"):
		return fault.New(fault.ToolUnavailable, "lab is offline")
	case strings.HasSuffix(what, "wrong"):
		return fault.New(fault.InvalidParams, "no such thing")
	}
	return nil
}

// ReadResource implements server.Outside.
func (o *outside) ReadResource(_ context.Context, name, uri string) (json.RawMessage, error) {
	return json.RawMessage(`{"contents":[{"uri":"` + gateway.OutsideURI(name, uri) + `","text":"of ` + name + `"}]}`), o.ask(name + " " + uri)
}

// GetPrompt implements server.Outside.
func (o *outside) GetPrompt(_ context.Context, name, prompt string, args map[string]string) (json.RawMessage, error) {
	return json.RawMessage(`{"messages":[{"role":"user","content":{"type":"text","text":"hi ` + args["who"] + `"}}]}`), o.ask(name + " " + prompt)
}

func resource(name, uri string) gateway.Feature {
	return gateway.Feature{Kind: gateway.Resource, Server: name, Key: uri, Definition: raw(&mcp.Resource{URI: gateway.OutsideURI(name, uri), Name: "r"})}
}

func template(name, text string) gateway.Feature {
	return gateway.Feature{Kind: gateway.Template, Server: name, Key: text, Definition: raw(&mcp.ResourceTemplate{URITemplate: gateway.OutsideURI(name, text), Name: "t"})}
}

func prompt(name, key string) gateway.Feature {
	return gateway.Feature{Kind: gateway.Prompt, Server: name, Key: key, Definition: raw(&mcp.Prompt{
		Name: gateway.OutsidePrompt(name, key), Arguments: []*mcp.PromptArgument{{Name: "tools"}},
	})}
}

func raw(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// selecting are bearer tokens that name holder, role and the tools that they show: "ada.agent.lab__*".
type selecting struct{}

// Verify implements server.Tokens.
func (selecting) Verify(ctx context.Context, token string) (server.Identity, time.Time, error) {
	parts := strings.SplitN(token, ".", 3)
	who, expires, err := tokens{}.Verify(ctx, strings.Join(parts[:2], "."))
	if len(parts) > 2 {
		if pattern, only := strings.CutPrefix(parts[2], "only-read"); only {
			who.Show.ReadOnly, parts[2] = true, pattern
		}
		if parts[2] != "" {
			who.Show.Tools = []string{parts[2]}
		}
	}
	return who, expires, err
}

// offer adds tools of the servers lab and far to the catalogue.
func (n *node) offer() {
	n.t.Helper()
	var all []tools.Tool
	for _, name := range []string{"lab", "far"} {
		spec := tools.Spec{Name: name + "__write", Purpose: "test", Effect: tools.Write, Gate: tools.InProgress, Approval: tools.NoApproval, NoWorkspace: true, Rate: tools.Writes}
		tool, err := gateway.Mirror(gateway.Entry{Server: name, Tool: "write", Spec: spec, Input: json.RawMessage(`{"type":"object"}`)})
		require.NoError(n.t, err)
		all = append(all, tool)
	}
	require.NoError(n.t, n.catalogue.Offer(all))
}

const (
	listResources = `{"jsonrpc":"2.0","id":2,"method":"resources/list"}`
	listTemplates = `{"jsonrpc":"2.0","id":2,"method":"resources/templates/list"}`
	listPrompts   = `{"jsonrpc":"2.0","id":2,"method":"prompts/list"}`
)

func reading(uri string) string {
	return `{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"` + uri + `"}}`
}

func getting(name string) string {
	return `{"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":"` + name + `","arguments":{"who":"Ada"}}}`
}

// An identity that may submit sees the features of external MCP servers; one restricted to some tools sees those of the servers of these tools.
func TestOutsideIsForThoseWhoMayCall(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.offer()
	o := newOutside(resource("lab", "x://1"), template("lab", "x://{id}"), prompt("lab", "greet"), resource("far", "y://1"), template("far", "y://{id}"), prompt("far", "greet"))
	w := n.web(t, n.face(func(c *server.Config) { c.HTTP.Tokens, c.Stores.Outside = selecting{}, o }))
	for token, sees := range map[string][]string{
		"ada.operator": {"lab", "far"}, "bot.agent": {"lab", "far"}, "ada.submitter.only-read": {"lab", "far"}, "eve.viewer": nil,
		"bot.agent.lab__*": {"lab"}, "bot.agent.only-readlab__*": {"lab"}, "bot.agent.FILE_*": nil, "bot.agent.lab__none": nil,
	} {
		c := &web{t: t, url: w.url, token: token}
		c.open()
		resources, templates, prompts := c.post(listResources).body, c.post(listTemplates).body, c.post(listPrompts).body
		assert.Contains(t, templates, "orch://task/{taskId}/log", "what is ours stays")
		assert.NotContains(t, templates, "{server}")
		assert.Contains(t, prompts, "explain_task")
		for name, uri := range map[string]string{"lab": "x://", "far": "y://"} {
			uri = "orch://server/" + name + "/" + uri
			read, got := c.post(reading(uri+"1")), c.post(getting(name+"__greet"))
			if strings.Contains(strings.Join(sees, " "), name) {
				assert.Contains(t, resources, uri+"1", token)
				assert.Contains(t, templates, uri+"{id}", token)
				assert.Contains(t, prompts, name+"__greet", token)
				assert.Contains(t, read.body, `"text":"of `+name+`"`, token)
				assert.Contains(t, got.body, `"text":"hi Ada"`, token)
				continue
			}
			for _, body := range []string{resources, templates, prompts} {
				assert.NotContains(t, body, name, token)
			}
			assert.InDelta(t, -32002, code(read), 0, token)
			assert.InDelta(t, -32602, code(got), 0, token)
		}
	}
}

// The selection of the face counts as that of an identity does.
func TestOutsideOfANarrowFace(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.offer()
	o := newOutside(resource("lab", "x://1"), resource("far", "y://1"))
	w := n.web(t, n.face(func(c *server.Config) {
		c.HTTP.Tokens, c.Stores.Outside, c.Offer.Show.Tools = selecting{}, o, []string{"far__write", "FILE_*"}
	}))
	w.open()
	got := w.post(listResources).body
	assert.Contains(t, got, "orch://server/far/y://1")
	assert.NotContains(t, got, "lab")
}

func TestOutsideErrors(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	o := newOutside(prompt("lab", "gone"), prompt("lab", "down"), prompt("lab", "wrong"), prompt("lab", "fine"))
	w := n.web(t, n.face(func(c *server.Config) { c.HTTP.Tokens, c.Stores.Outside = tokens{}, o }))
	old := &web{t: t, url: w.url, token: w.token}
	old.open()
	unavailable := fault.ToolUnavailable.RPC()
	for request, want := range map[string]int{
		reading("orch://server/lab/x://gone"): -32002, reading("orch://server/lab/x://down"): unavailable,
		reading("orch://server/lab/"): -32002, reading("orch://server/lab"): -32002, reading("orch://server/"): -32002,
		getting("lab__gone"): -32602, getting("lab__down"): unavailable, getting("lab__wrong"): -32602, getting("lab__none"): -32602,
		`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"orch://server/lab/x://1"}}`: -32002,
	} {
		assert.InDelta(t, want, code(old.post(request)), 0, request)
	}
	assert.InDelta(t, -32602, code(w.modern("resources/read", "orch://server/lab/x://gone", `"uri":"orch://server/lab/x://gone",`, "{}")), 0)
	a := w.modern("resources/read", "orch://server/lab/x://1", `"uri":"orch://server/lab/x://1",`, "{}")
	assert.Contains(t, a.body, `"text":"of lab"`)
	assert.Contains(t, a.body, `"cacheScope":"private"`)
	a = old.post(`{"jsonrpc":"2.0","id":2,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"lab__fine"},"argument":{"name":"tools","value":""}}}`)
	assert.Contains(t, a.body, `"values":[]`, "only the server would know")
}

// No definition of a server makes the face fail.
func TestOutsideThatIsNone(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	bad := []gateway.Feature{resource("lab", "x://%zz"), resource("lab", "\x7f"), prompt("lab", ""), {Kind: gateway.Resource, Server: "lab", Key: "x"}, {Kind: "other"}}
	foreign := resource("lab", "x://1")
	foreign.Key = "x://2"
	o := newOutside(append(bad, foreign, template("lab", "x://{"), template("lab", "x://{id:5000}"), prompt("lab", "fine"))...)
	w := n.web(t, n.face(func(c *server.Config) { c.HTTP.Tokens, c.Stores.Outside = tokens{}, o }))
	w.open()
	assert.NotContains(t, w.post(listResources).body, "lab")
	assert.Contains(t, w.post(listPrompts).body, "lab__fine")
	assert.InDelta(t, -32002, code(w.post(reading("orch://task/TASK_none"))), 0)
	assert.Contains(t, w.post(reading("orch://server/lab/x://3")).body, `"text":"of lab"`)
}

// Lists have pages, whatever is in them (S2-034, A-76).
func TestOutsidePages(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.offer()
	var list []gateway.Feature
	for i := range 250 {
		list = append(list, template("lab", fmt.Sprintf("x://%03d/{id}", i)), template("far", fmt.Sprintf("x://%03d/{id}", i)))
	}
	w := n.web(t, n.face(func(c *server.Config) { c.HTTP.Tokens, c.Stores.Outside = selecting{}, newOutside(list...) }))
	w.token = "bot.agent.lab__*"
	w.open()
	seen := map[string]bool{}
	pages := 0
	for cursor := ""; ; pages++ {
		a := w.post(`{"jsonrpc":"2.0","id":2,"method":"resources/templates/list","params":{"cursor":` + string(raw(cursor)) + `}}`)
		var got struct {
			Result mcp.ListResourceTemplatesResult
		}
		require.NoError(t, json.Unmarshal(raw(a.message), &got))
		assert.LessOrEqual(t, len(got.Result.ResourceTemplates), 100)
		for _, one := range got.Result.ResourceTemplates {
			assert.False(t, seen[one.URITemplate], one.URITemplate)
			seen[one.URITemplate] = true
		}
		if cursor = got.Result.NextCursor; cursor == "" {
			break
		}
	}
	assert.Equal(t, 2, pages)
	assert.Len(t, seen, 6+250)
	a := w.post(`{"jsonrpc":"2.0","id":2,"method":"resources/templates/list","params":{"cursor":"nonsense"}}`)
	assert.InDelta(t, -32602, code(a), 0)
}

// bearer adds a token to requests.
type bearer struct{ token string }

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

// heard receives the notifications of a client.
type heard struct{ tools, resources, prompts chan struct{} }

// connect connects a client to a face.
func (n *node) connect(s *server.Server) (*mcp.ClientSession, heard) {
	n.t.Helper()
	web := httptest.NewServer(s.Handler())
	n.t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	h := heard{make(chan struct{}, 100), make(chan struct{}, 100), make(chan struct{}, 100)}
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ToolListChangedHandler:     func(context.Context, *mcp.ToolListChangedRequest) { h.tools <- struct{}{} },
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { h.resources <- struct{}{} },
		PromptListChangedHandler:   func(context.Context, *mcp.PromptListChangedRequest) { h.prompts <- struct{}{} },
	})
	session, err := client.Connect(n.t.Context(), &mcp.StreamableClientTransport{Endpoint: web.URL, HTTPClient: &http.Client{Transport: bearer{"ada.operator"}}}, nil)
	require.NoError(n.t, err)
	n.t.Cleanup(func() { _ = session.Close() })
	return session, h
}

func (h heard) wait(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		require.Fail(t, "nobody told of "+what)
	}
}

// Tools are added, refused and removed while a session is open, and the client is notified (S1-037, S1-054).
func TestToolsComeAndGo(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	session, h := n.connect(n.face(func(c *server.Config) { c.HTTP.Tokens = tokens{} }))
	listed := func() bool {
		for tool, err := range session.Tools(t.Context(), nil) {
			require.NoError(t, err)
			if tool.Name == "lab__write" {
				return true
			}
		}
		return false
	}
	assert.False(t, listed())
	n.offer()
	h.wait(t, h.tools, "tools")
	for !listed() { // the other one is already there, and is reported again
		h.wait(t, h.tools, "tools")
	}
	entry := gateway.Entry{
		Server: "lab", Tool: "write", Input: json.RawMessage(`{"type":"object"}`),
		Refused: fault.New(fault.ToolDisabled, "it is switched off").WithRetryAt(time.Unix(2_000_000_000, 0)),
		Spec:    tools.Spec{Name: "lab__write", Purpose: "test", Effect: tools.Read, Gate: tools.AnyState, NoWorkspace: true, Unlisted: true},
	}
	refused, err := gateway.Mirror(entry)
	require.NoError(t, err)
	require.NoError(t, n.catalogue.Offer([]tools.Tool{refused}))
	for listed() {
		h.wait(t, h.tools, "a tool that is refused")
	}
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "lab__write"})
	require.NoError(t, err)
	assert.True(t, result.IsError)
	assert.Contains(t, string(raw(result)), string(fault.ToolDisabled))
	assert.Contains(t, string(raw(result)), `"retry_at":"2033-05-18T03:33:20Z"`)
	assert.Regexp(t, `"retry_after":\d{2,}`, string(raw(result)), "S0-113: in seconds")
	require.NoError(t, n.catalogue.Offer(nil))
	for err == nil {
		h.wait(t, h.tools, "no tools")
		_, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "lab__write"})
	}
}

// Features are added and removed while a session is open, and the client is notified.
func TestOutsideComesAndGoes(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	o := newOutside()
	session, h := n.connect(n.face(func(c *server.Config) { c.HTTP.Tokens, c.Stores.Outside = tokens{}, o }))
	o.replace(resource("lab", "x://1"), template("lab", "x://{id}"), prompt("lab", "greet"))
	h.wait(t, h.resources, "resources")
	h.wait(t, h.prompts, "prompts")
	got, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "orch://server/lab/x://1"})
	require.NoError(t, err)
	assert.Equal(t, "of lab", got.Contents[0].Text)
	o.replace(resource("lab", "x://1"), template("lab", "x://{id}/{more}"), prompt("lab", "greet"))
	h.wait(t, h.resources, "a template")
	o.replace()
	h.wait(t, h.resources, "no resources")
	h.wait(t, h.prompts, "no prompts")
	prompts, err := session.ListPrompts(t.Context(), nil)
	require.NoError(t, err)
	assert.Len(t, prompts.Prompts, 3)
	templates, err := session.ListResourceTemplates(t.Context(), nil)
	require.NoError(t, err)
	assert.Len(t, templates.ResourceTemplates, 6)
}

// childVariable makes the test binary an MCP server.
const childVariable = "TEST_OUTSIDE"

func serveChild() int {
	s := mcp.NewServer(&mcp.Implementation{Name: "child", Version: "1"}, nil)
	read := func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		if strings.HasSuffix(req.Params.URI, "none") {
			return nil, mcp.ResourceNotFoundError(req.Params.URI)
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: req.Params.URI, Text: "it is " + req.Params.URI}}}, nil
	}
	s.AddResource(&mcp.Resource{URI: "note://1", Name: "first", MIMEType: "text/plain"}, read)
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "note://{id}", Name: "note"}, read)
	s.AddPrompt(&mcp.Prompt{Name: "greet", Arguments: []*mcp.PromptArgument{{Name: "who", Required: true}}}, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.ResourceLink{URI: "note://" + req.Params.Arguments["who"], Name: "note"}}}}, nil
	})
	if s.Run(context.Background(), &mcp.StdioTransport{}) != nil {
		return 1
	}
	return 0
}

// From a client through the face and the gateway to a server in its own process, and back.
func TestOutsideFromEndToEnd(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	exe, err := os.Executable()
	require.NoError(t, err)
	home := t.TempDir()
	definition, err := json.Marshal(map[string]any{
		"schemaVersion": "1.0.0", "name": "child", "transport": "stdio", "command": exe, "capabilities": []string{"resources", "prompts"},
		"env": map[string]string{childVariable: "1"},
	})
	require.NoError(t, err)
	write(t, filepath.Join(home, ".orch", "mcp", "child.json"), string(definition))
	g, err := gateway.New(gateway.Config{Servers: registry.Config{Dir: home, Home: home, Still: true}, Catalogue: n.catalogue})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, g.Close(context.Background())) })
	session, h := n.connect(n.face(func(c *server.Config) { c.HTTP.Tokens, c.Stores.Outside = tokens{}, g }))
	require.NoError(t, g.Start(t.Context()))
	h.wait(t, h.prompts, "prompts")
	h.wait(t, h.resources, "resources")

	var uri string
	for r, err := range session.Resources(t.Context(), nil) {
		require.NoError(t, err)
		uri = r.URI
	}
	assert.Equal(t, "orch://server/child/note://1", uri)
	prompt, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "child__greet", Arguments: map[string]string{"who": "ada"}})
	require.NoError(t, err)
	link, ok := prompt.Messages[0].Content.(*mcp.ResourceLink)
	require.True(t, ok)
	assert.Equal(t, "orch://server/child/note://ada", link.URI)
	got, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: link.URI})
	require.NoError(t, err)
	assert.Equal(t, "it is note://ada", got.Contents[0].Text)
	assert.Equal(t, link.URI, got.Contents[0].URI)
	_, err = session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "orch://server/child/note://none"})
	var wire *jsonrpc.Error
	require.ErrorAs(t, err, &wire)
	assert.Contains(t, []int64{-32002, -32602}, wire.Code)

	require.NoError(t, g.Servers().Disable(t.Context(), "child"))
	h.wait(t, h.prompts, "a server that is gone")
	_, err = session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: link.URI})
	require.ErrorAs(t, err, &wire)
	assert.EqualValues(t, fault.ToolDisabled.RPC(), wire.Code)
}
