package registry_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/registry"
	"github.com/orch-dev/orch/test/need"
)

func TestOffer(t *testing.T) {
	t.Parallel()
	w := newPeerWorld(t, older, map[string]any{
		"timeout": "7s", "tools": []string{"r*", "ask", "!ro*"}, "effects": map[string]string{"*": "write", "ra*": "read", "ask": "destructive"},
	})
	assert.Equal(t, []string{"raw", "ask"}, w.offered("peer"))
	all, err := w.Defined()
	require.NoError(t, err)
	for tool, effect := range map[string]string{"raw": "read", "ask": "destructive", "other": "write"} {
		assert.Equal(t, effect, all["peer"].Effect(tool))
	}
	_, err = w.Call(t.Context(), request("round", ""))
	require.True(t, fault.Has(err, fault.ToolDisabled), "%v", err)
	assert.Empty(t, w.requests("tools/call"))
	require.NoError(t, w.Disable(t.Context(), "peer"))
	assert.Empty(t, w.offered("peer"))
}

func TestOfferOfAMapOfServers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var d map[string]any
	require.NoError(t, json.Unmarshal([]byte(definition(t, "x", "good")), &d))
	entry := map[string]any{
		"command": d["command"], "env": d["env"], "tools": []string{"!crash"}, "effects": map[string]string{"pid": "read"},
		"concurrency": 3, "rateLimit": 60,
	}
	raw, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"One": entry}})
	require.NoError(t, err)
	w.put("map.json", string(raw))
	w.start()
	assert.NotContains(t, w.offered("one"), "crash")
	assert.Contains(t, w.offered("one"), "slow")
	all, err := w.Defined()
	require.NoError(t, err)
	assert.Equal(t, "read", all["one"].Effect("pid"))
	assert.Empty(t, all["one"].Effect("slow"))
	config := w.get("one").Config
	assert.Equal(t, 3, config.Concurrency)
	assert.Equal(t, 60, config.RateLimit)
}

func TestOfferIsValidated(t *testing.T) {
	t.Parallel()
	check, err := registry.NewCheck()
	require.NoError(t, err)
	for more, path := range map[string]string{
		`"tools":["[a"]`:                 "/tools",
		`"tools":["!"]`:                  "/tools",
		`"tools":[""]`:                   "/tools/0",
		`"effects":{"[a":"read"}`:        "/effects",
		`"effects":{"a":"harmless"}`:     "/effects/a",
		`"concurrency":0`:                "/concurrency",
		`"concurrency":1001`:             "/concurrency",
		`"rateLimit":1.5`:                "/rateLimit",
		`"tools":["*"],"concurrency":32`: "",
	} {
		problems, err := check([]byte(`{"schemaVersion":"1.0.0","name":"a","transport":"stdio","command":"x","capabilities":["tools"],` + more + `}`))
		require.NoError(t, err)
		entry, err := check([]byte(`{"mcpServers":{"a":{"command":"x",` + more + `}}}`))
		require.NoError(t, err)
		if path == "" {
			assert.Empty(t, append(problems, entry...))
			continue
		}
		require.Len(t, problems, 1, more)
		assert.Equal(t, path, problems[0].Path)
		require.Len(t, entry, 1, more)
		assert.Equal(t, "/mcpServers/a"+path, entry[0].Path)
	}
}

func TestConcurrency(t *testing.T) {
	t.Parallel()
	w := newPeerWorld(t, older, map[string]any{"concurrency": 2})
	long, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group sync.WaitGroup
	var working atomic.Int32
	for range 2 {
		c := request("wait", `{"ms":60000}`)
		c.Progress = func(float64, float64, string) { working.Add(1) }
		group.Go(func() { _, _ = w.Call(long, c) })
	}
	require.Eventually(t, func() bool { return working.Load() == 2 }, maxDebounce, time.Millisecond, "two work at once")
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	_, err := w.Call(ctx, request("raw", ""))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, registry.ErrUnanswered, "the server has not heard of it")

	for range 6 { // they wait in line
		group.Go(func() {
			_, err := w.Call(t.Context(), request("wait", `{"ms":20}`))
			assert.NoError(t, err)
		})
	}
	cancel()
	group.Wait()
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	w := newPeerWorld(t, older, map[string]any{"rateLimit": 20, "timeout": "6s"})
	for range 3 { // two at once, the third after three seconds
		_, err := w.Call(t.Context(), request("raw", ""))
		require.NoError(t, err)
	}
	var limited atomic.Int32
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range 10 { // at most two of them in time, and one more for each three seconds that the machine has lost
		group.Go(func() {
			if _, err := w.Call(ctx, request("raw", "")); fault.Has(err, fault.RateLimited) && limited.Add(1) == 3 {
				cancel()
			}
		})
	}
	group.Wait()
	assert.GreaterOrEqual(t, limited.Load(), int32(3))
	cancel()
}

func TestResourcesAndPrompts(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, w *peerWorld) {
		t.Helper()
		for key, list := range map[string]func(context.Context, string) ([]json.RawMessage, error){
			"resources": w.Resources, "resourceTemplates": w.ResourceTemplates, "prompts": w.Prompts,
		} {
			got, err := list(t.Context(), "peer")
			require.NoError(t, err)
			require.Len(t, got, 3)
			assert.JSONEq(t, `{"name":"`+key+`2","more":1.50}`, string(got[2]))
			assert.Contains(t, string(got[2]), "1.50")
			_, err = list(t.Context(), "none")
			require.ErrorIs(t, err, registry.ErrToolNotFound)
		}
		got, err := w.ReadResource(t.Context(), "peer", "peer://a")
		require.NoError(t, err)
		assert.Contains(t, string(got), "12345678901234567890")
		assert.Contains(t, string(got), "peer://a")
		_, err = w.ReadResource(t.Context(), "peer", "peer://huge")
		require.ErrorContains(t, err, "more than 4 MiB")
		got, err = w.GetPrompt(t.Context(), "peer", "greet", map[string]string{"who": "you"})
		require.NoError(t, err)
		assert.Contains(t, string(got), `greet{\"who\":\"you\"}`)
	})
}

func TestListsOfAHostilePeer(t *testing.T) {
	t.Parallel()
	for trick, want := range map[string]string{
		"endless": "never ends the list", "huge": "have more than 4 MiB", "odd": "with something else",
	} {
		t.Run(trick, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			w := newWorld(t)
			w.define("peer", "peer", map[string]any{"env": map[string]string{
				modeVariable: "peer", "PEER_GENERATION": older, "PEER_DIR": dir, "PEER_TRICK": trick,
			}})
			w.start()
			_, err := w.Prompts(t.Context(), "peer")
			require.ErrorContains(t, err, want)
		})
	}
}

// A list of tools may have any number of pages, but not any size (S1-088).
func TestBulkyListOfTools(t *testing.T) {
	t.Parallel()
	need.Long(t)
	w := newWorld(t)
	w.define("peer", "peer", map[string]any{"env": map[string]string{
		modeVariable: "peer", "PEER_GENERATION": older, "PEER_DIR": t.TempDir(), "PEER_TRICK": "bulky",
	}, "timeout": "2m"})
	w.start()
	require.Eventually(t, func() bool {
		return strings.Contains(w.get("peer").LastError, "the tools of the server have more than 32 MiB")
	}, 4*maxDebounce, 10*time.Millisecond, "%s", w.get("peer").LastError)
	assert.NotEqual(t, registry.Ready, w.get("peer").Status)
}

// A server without the capability gets no request, and a server's reports of changed lists are handled.
func TestResourcesAndPromptsChange(t *testing.T) {
	t.Parallel()
	for name, stateless := range map[string]bool{older: false, newer: true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := mcp.NewServer(&mcp.Implementation{Name: "web", Version: "1"}, &mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{
				Prompts: &mcp.PromptCapabilities{ListChanged: true}, Resources: &mcp.ResourceCapabilities{ListChanged: true},
			}})
			handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: stateless})
			web := httptest.NewServer(handler)
			t.Cleanup(web.Close)
			w := newWorld(t)
			w.put("web.json", `{"schemaVersion":"1.0.0","name":"web","transport":"http","baseURL":"`+web.URL+`","capabilities":["prompts"]}`)
			w.define("plain", "good")
			w.start()
			none, err := w.Prompts(t.Context(), "plain")
			require.NoError(t, err)
			assert.Empty(t, none)
			server.AddPrompt(&mcp.Prompt{Name: "new"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				return &mcp.GetPromptResult{}, nil
			})
			server.AddResource(&mcp.Resource{Name: "new", URI: "test://new"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "test://new", Text: "hello"}}}, nil
			})
			for _, kind := range []registry.ChangeKind{registry.PromptsChanged, registry.ResourcesChanged} {
				require.Eventually(t, func() bool {
					return slices.Contains(w.told(), registry.Change{Kind: kind, Server: "web"})
				}, maxDebounce, 10*time.Millisecond, kind)
			}
			prompts, err := w.Prompts(t.Context(), "web")
			require.NoError(t, err)
			assert.Len(t, prompts, 1)
			got, err := w.ReadResource(t.Context(), "web", "test://new")
			require.NoError(t, err)
			assert.Contains(t, string(got), "hello")
			_, err = w.GetPrompt(t.Context(), "web", "new", nil)
			require.NoError(t, err)
			_, err = w.ReadResource(t.Context(), "web", "test://other")
			require.Error(t, err)
		})
	}
}

// A tool may want arguments in headers too.
func TestArgumentsInHeaders(t *testing.T) {
	t.Parallel()
	server := mcp.NewServer(&mcp.Implementation{Name: "web", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"Count"},
		"in":{"type":"object","properties":{"on":{"type":"boolean","x-mcp-header":"On"}}},"body":{"type":"string"}}}`)
	server.AddTool(&mcp.Tool{Name: "place", InputSchema: schema}, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var all []string
		for _, name := range []string{"Region", "Count", "On", "Body"} {
			all = append(all, req.Extra.Header.Get("Mcp-Param-"+name))
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.Join(all, ",")}}}, nil
	})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
	web := httptest.NewServer(handler)
	t.Cleanup(web.Close)
	w := newWorld(t)
	w.put("web.json", `{"schemaVersion":"1.0.0","name":"web","transport":"http","baseURL":"`+web.URL+`","capabilities":["tools"]}`)
	w.start()
	for args, want := range map[string]string{
		`{"region":"eu-1","n":42,"in":{"on":true},"body":"x"}`: "eu-1,42,true,",
		`{"region":"Zürich ","n":null}`:                        "=?base64?WsO8cmljaCA=?=,,,",
		`{}`:                                                   ",,,",
	} {
		got, err := w.try(t.Context(), "web", "place", args)
		require.NoError(t, err, args)
		assert.Equal(t, want, text(t, got))
	}
}
