package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/statemachine"
)

// sampler answers the requests of agents to the model of a client.
type sampler func(n int64, p *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error)

// asksModel is a client whose model answers the requests of agents.
type asksModel struct {
	*mcp.ClientSession

	asked atomic.Int64
}

// agentFile writes the file of an agent.
func (n *node) agentFile(name, text string) {
	n.t.Helper()
	file := filepath.Join(n.root, ".orch", "agents", name+".yaml")
	require.NoError(n.t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(n.t, os.WriteFile(file, []byte(text), 0o600))
}

// sampling connects a client whose model answers; nil for a client without one. A client with tools accepts them in requests.
func (n *node) sampling(transport, version string, tools bool, answer sampler) *asksModel {
	n.t.Helper()
	c := &asksModel{}
	options := &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}}
	switch {
	case answer == nil:
	case tools:
		options.CreateMessageWithToolsHandler = func(_ context.Context, r *mcp.CreateMessageWithToolsRequest) (*mcp.CreateMessageWithToolsResult, error) {
			return answer(c.asked.Add(1), r.Params)
		}
	default:
		options.CreateMessageHandler = func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			p := &mcp.CreateMessageWithToolsParams{SystemPrompt: r.Params.SystemPrompt, MaxTokens: r.Params.MaxTokens}
			for _, m := range r.Params.Messages {
				p.Messages = append(p.Messages, &mcp.SamplingMessageV2{Role: m.Role, Content: []mcp.Content{m.Content}})
			}
			got, err := answer(c.asked.Add(1), p)
			if err != nil {
				return nil, err
			}
			return &mcp.CreateMessageResult{Content: got.Content[0], Model: got.Model, Role: got.Role, StopReason: got.StopReason}, nil
		}
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "sampler", Version: "1"}, options)
	session, err := client.Connect(n.t.Context(), n.transport(transport), &mcp.ClientSessionOptions{ProtocolVersion: version})
	require.NoError(n.t, err)
	n.t.Cleanup(func() { _ = session.Close() })
	c.ClientSession = session
	return c
}

// transport returns a connection to a new face of the node.
func (n *node) transport(kind string) mcp.Transport {
	n.t.Helper()
	s := n.face(func(c *server.Config) { c.HTTP.Tokens = tokens{} })
	if kind == "http" {
		web := httptest.NewServer(s.Handler())
		n.t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
		return &mcp.StreamableClientTransport{Endpoint: web.URL, HTTPClient: &http.Client{Transport: bearer{"ada.operator"}}}
	}
	in, to := io.Pipe()
	from, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(s.Serve(context.WithoutCancel(n.t.Context()), in, out), out.Close()) }()
	n.t.Cleanup(func() { assert.NoError(n.t, errors.Join(to.Close(), <-ended)) })
	return &mcp.IOTransport{Reader: from, Writer: to}
}

// spawn starts an agent and returns its result.
func (c *asksModel) spawn(t *testing.T, agent string) *mcp.CallToolResult {
	t.Helper()
	r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "TASK_SPAWN", Arguments: map[string]any{"subagent_type": agent, "prompt": "What now?"}})
	require.NoError(t, err)
	return r
}

// shown returns a result as text.
func shown(t *testing.T, r any) string {
	t.Helper()
	raw, err := json.Marshal(r)
	require.NoError(t, err)
	return string(raw)
}

func saysText(text string) *mcp.CreateMessageWithToolsResult {
	return &mcp.CreateMessageWithToolsResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}, Model: "m-1", Role: "assistant", StopReason: "endTurn"}
}

// agentTask returns the newest task of an agent.
func (n *node) agentTask() api.TaskView {
	n.t.Helper()
	list, err := n.owner.List(n.t.Context(), api.ListRequest{Limit: 100})
	require.NoError(n.t, err)
	for _, line := range list.Tasks {
		if line.Parent != "" {
			task, err := n.owner.Get(n.t.Context(), api.GetRequest{ID: line.ID})
			require.NoError(n.t, err)
			return task
		}
	}
	n.t.Fatal("there is no agent")
	return api.TaskView{}
}

// everyConnection runs a test over both transports, with both generations of the protocol.
func everyConnection(t *testing.T, test func(t *testing.T, transport, version string)) {
	t.Helper()
	for _, transport := range []string{"http", "stdio"} {
		for _, version := range []string{"2025-11-25", "2026-07-28"} {
			t.Run(transport+" "+version, func(t *testing.T) {
				t.Parallel()
				test(t, transport, version)
			})
		}
	}
}

// The model of a client answers the turns of an agent. The history has its name and an estimate of the tokens, and no request is
// repeated for a replay.
func TestClientAnswersAgent(t *testing.T) {
	t.Parallel()
	everyConnection(t, func(t *testing.T, transport, version string) {
		t.Helper()
		n := startNode(t)
		n.agentFile("buyer", "model: 'sampling:claude'\ninstructions: You shop.\nmax_tokens: 300\nbudget: {tokens: 100000}\n")
		c := n.sampling(transport, version, false, func(_ int64, p *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
			if p.SystemPrompt != "You shop." || p.MaxTokens != 300 || len(p.Messages) != 1 {
				return nil, errors.New("not the request of the agent")
			}
			return saysText("Buy milk."), nil
		})
		got := c.spawn(t, "buyer")
		require.False(t, got.IsError, shown(t, got))
		assert.Contains(t, shown(t, got.StructuredContent), `"report":"Buy milk."`)
		assert.EqualValues(t, 1, c.asked.Load())

		task := n.agentTask()
		history, err := n.owner.History(t.Context(), api.HistoryRequest{ID: task.ID})
		require.NoError(t, err)
		text := shown(t, history)
		assert.Contains(t, text, `"m-1"`)
		assert.Contains(t, text, `"estimated":true`)
		replay, err := n.owner.Replay(t.Context(), api.ReplayRequest{ID: task.ID})
		require.NoError(t, err)
		assert.True(t, *replay.Live)
		assert.EqualValues(t, 1, c.asked.Load())
	})
}

// With a price the estimated tokens of a client cost something, and count against a budget in dollars.
func TestClientWithPrice(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.agentFile("rich", "model: 'sampling:paid-1'\nmax_tokens: 300\nbudget: {usd: 1}\n")
	n.agentFile("poor", "model: 'sampling:paid-1'\nmax_tokens: 300\nbudget: {usd: 0.000001}\n")
	c := n.sampling("stdio", "2025-11-25", false, func(int64, *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
		return saysText("Buy milk."), nil
	})
	require.False(t, c.spawn(t, "rich").IsError)
	history, err := n.owner.History(t.Context(), api.HistoryRequest{ID: n.agentTask().ID})
	require.NoError(t, err)
	cost := int64(0)
	for _, commit := range history.Commits {
		for _, e := range commit.Events {
			if a, ok := e.Data.(*events.Answered); ok {
				cost = a.NanoUSD
				assert.Equal(t, 1000*a.Usage.Input+2000*a.Usage.Output, cost)
			}
		}
	}
	assert.Positive(t, cost)
	got := c.spawn(t, "poor")
	assert.True(t, got.IsError)
	assert.Contains(t, shown(t, got), "more than $0.000001")
	assert.EqualValues(t, 1, c.asked.Load())
}

// A client that accepts tools gets those of the agent, and the results of the calls that its model requests.
func TestClientCallsTools(t *testing.T) {
	t.Parallel()
	everyConnection(t, func(t *testing.T, transport, version string) {
		t.Helper()
		n := startNode(t)
		n.agentFile("caller", "model: 'sampling:'\ntools: [echo]\n")
		c := n.sampling(transport, version, true, func(turn int64, p *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
			text := shown(t, p)
			switch {
			case turn == 1 && strings.Contains(text, `"name":"echo"`):
				return &mcp.CreateMessageWithToolsResult{Model: "m-1", Role: "assistant", StopReason: "toolUse", Content: []mcp.Content{
					&mcp.TextContent{Text: "I will try."},
					&mcp.ToolUseContent{ID: "a", Name: "echo", Input: map[string]any{"text": "from the tool"}},
					&mcp.ToolUseContent{ID: "b", Name: "hangs", Input: map[string]any{}},
				}}, nil
			case turn == 2 && strings.Contains(text, "from the tool") && strings.Contains(text, "NOT_FOUND"):
				return saysText("It works."), nil
			default:
				return nil, errors.New("unexpected request: " + text)
			}
		})
		got := c.spawn(t, "caller")
		require.False(t, got.IsError, shown(t, got))
		assert.Contains(t, shown(t, got.StructuredContent), `"report":"It works."`)
		assert.EqualValues(t, 2, c.asked.Load())
	})
}

// An agent whose client cannot answer fails at once, and says what to do.
func TestClientCannotAnswer(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.agentFile("plain", "model: 'sampling:'\n")
	n.agentFile("caller", "model: 'sampling:'\ntools: [echo]\n")
	n.agentFile("cheap", "model: 'sampling:'\nbudget: {usd: 1}\n")
	n.agentFile("odd", "model: 'sampling:no hint'\n")
	never := func(int64, *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
		return saysText("never"), nil
	}
	for _, test := range []struct {
		name, agent, want string
		answer            sampler
	}{
		{"without sampling", "plain", "no client that offers sampling", nil},
		{"without tools in sampling", "caller", "does not accept tools in sampling", never},
		{"without a price", "cheap", "the price of the model sampling: is not known", never},
		{"with a wrong name", "odd", "is no hint for a model", never},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := n.sampling("http", "2025-11-25", false, test.answer)
			got := c.spawn(t, test.agent)
			assert.True(t, got.IsError)
			assert.Contains(t, shown(t, got), test.want)
			assert.Zero(t, c.asked.Load())
		})
	}
}

// What a client does not answer, and what is no answer, fails the agent. Secrets are removed from what it says.
func TestClientAnswersBadly(t *testing.T) {
	t.Parallel()
	const secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	for _, test := range []struct {
		name, want string
		fails      bool
		answer     sampler
	}{
		{"refuses", "gives no answer", true, func(int64, *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
			return nil, errors.New("the user has rejected the request")
		}},
		{"too much", "gives no answer", true, func(int64, *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
			return saysText(strings.Repeat("much ", 100_000)), nil
		}},
		{"an image", "neither a text nor a call", true, func(int64, *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
			r := saysText("")
			r.Content = []mcp.Content{&mcp.ImageContent{Data: []byte("x"), MIMEType: "image/png"}}
			return r, nil
		}},
		{"cut off", "has reached", true, func(int64, *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
			r := saysText("half of")
			r.StopReason = "maxTokens"
			return r, nil
		}},
		{"a secret", "the token is ", false, func(int64, *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
			return saysText("the token is " + secret), nil
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n := startNode(t)
			n.agentFile("plain", "model: 'sampling:'\n")
			c := n.sampling("http", "2025-11-25", false, test.answer)
			got := c.spawn(t, "plain")
			assert.Equal(t, test.fails, got.IsError)
			assert.Contains(t, shown(t, got), test.want)
			assert.NotContains(t, shown(t, got), secret)
			assert.EqualValues(t, 1, c.asked.Load())
		})
	}
}

// A long conversation reaches the client as a whole, while the question in the history has only an excerpt of it.
func TestClientSeesWholeConversation(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.agentFile("reader", "model: 'sampling:'\ninstructions: \""+strings.Repeat("word ", 20_000)+"\"\n")
	c := n.sampling("stdio", "2025-11-25", false, func(_ int64, p *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
		if len(p.SystemPrompt) < 99_000 {
			return nil, errors.New("the instructions are incomplete")
		}
		return saysText("Read."), nil
	})
	got := c.spawn(t, "reader")
	require.False(t, got.IsError, shown(t, got))
	history, err := n.owner.History(t.Context(), api.HistoryRequest{ID: n.agentTask().ID})
	require.NoError(t, err)
	for _, commit := range history.Commits {
		for _, e := range commit.Events {
			if q, ok := e.Data.(*events.Question); ok {
				assert.Less(t, len(q.Params.Raw), 2000)
			}
		}
	}
}

// The model of the client also answers an agent that an agent has started.
func TestClientAnswersSubagents(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.agentFile("inner", "model: 'sampling:'\ninstructions: inner\n")
	n.agentFile("outer", "model: 'sampling:'\ninstructions: outer\ntools: [TASK_SPAWN]\n")
	c := n.sampling("http", "2025-11-25", true, func(turn int64, p *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
		switch {
		case p.SystemPrompt == "inner":
			return saysText("from within"), nil
		case turn == 1:
			return &mcp.CreateMessageWithToolsResult{Model: "m-1", Role: "assistant", StopReason: "toolUse", Content: []mcp.Content{
				&mcp.ToolUseContent{ID: "a", Name: "TASK_SPAWN", Input: map[string]any{"subagent_type": "inner", "prompt": "go"}},
			}}, nil
		case strings.Contains(shown(t, p), "from within"):
			return saysText("heard"), nil
		default:
			return nil, errors.New("unexpected request")
		}
	})
	got := c.spawn(t, "outer")
	require.False(t, got.IsError, shown(t, got))
	assert.Contains(t, shown(t, got.StructuredContent), `"report":"heard"`)
	assert.EqualValues(t, 3, c.asked.Load())
}

// The model of a client takes part in a list of models: others answer what it cannot, and it answers what others cannot, without asking
// them again.
func TestClientAmongModels(t *testing.T) {
	t.Parallel()
	refuses := func(int64, *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
		return nil, errors.New("the user has rejected the request")
	}
	answers := func(int64, *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
		return saysText("from the client"), nil
	}
	for _, test := range []struct {
		name, models, want string
		answer             sampler
	}{
		{"first", "model: 'sampling:'\nfallback: [test/x]\n", "from the client", answers},
		{"without sampling", "model: 'sampling:'\nfallback: [test/x]\n", "from the provider", nil},
		{"refused", "model: 'sampling:'\nfallback: [test/x]\n", "from the provider", refuses},
		{"last", "model: test/refuses\nfallback: ['sampling:']\n", "from the client", answers},
		{"refused between others", "model: test/refuses\nfallback: ['sampling:', test/x]\n", "from the provider", refuses},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n := startNode(t)
			n.agentFile("plain", test.models)
			got := n.sampling("http", "2025-11-25", false, test.answer).spawn(t, "plain")
			assert.Contains(t, shown(t, got), test.want)
			assert.LessOrEqual(t, n.refused.Load(), int64(1))
		})
	}
}

// A client that does not answer within an hour leaves the turn to the other models, however many are before it in the list. Without
// others the agent fails.
func TestClientDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		models string
		want   statemachine.State
	}{
		"first":   {"model: 'sampling:'\nfallback: [test/x]\n", statemachine.Done},
		"between": {"model: test/refuses\nfallback: ['sampling:', test/x]\n", statemachine.Done},
		"alone":   {"model: 'sampling:'\n", statemachine.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := startNode(t)
				n.agentFile("plain", test.models)
				over := make(chan struct{})
				c := n.sampling("stdio", "2025-11-25", false, func(int64, *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
					<-over
					return nil, errors.New("too late")
				})
				c.spawn(t, "plain") // returns the handle of a task that works on
				r, err := n.owner.Result(t.Context(), api.ResultRequest{ID: n.agentTask().ID, Wait: 2 * time.Hour})
				require.NoError(t, err)
				close(over)
				assert.LessOrEqual(t, n.refused.Load(), int64(1))
				assert.EqualValues(t, 1, c.asked.Load())
				require.Equal(t, test.want, r.State, "%v", r.Error)
				if test.want == statemachine.Done {
					assert.Contains(t, string(r.Output), "from the provider")
				} else {
					assert.Equal(t, fault.Timeout, r.Error.Code)
				}
			})
		})
	}
}

// A person can answer for the client, and a client that has gone leaves a question with its deadline.
func TestPersonAnswersForClient(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.agentFile("plain", "model: 'sampling:'\n")
	held := make(chan struct{})
	c := n.sampling("http", "2025-11-25", false, func(int64, *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
		close(held)
		<-t.Context().Done()
		return nil, errors.New("gone")
	})
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		_, _ = c.CallTool(ctx, &mcp.CallToolParams{Name: "TASK_SPAWN", Arguments: map[string]any{"subagent_type": "plain", "prompt": "What now?"}})
	}()
	<-held
	task := n.agentTask()
	require.Len(t, task.Questions, 1)
	assert.Equal(t, events.Sampling, task.Questions[0].Kind)
	parent, err := n.owner.Get(t.Context(), api.GetRequest{ID: task.Parent})
	require.NoError(t, err)
	require.Len(t, parent.Questions, 1, "the task that started the agent shows the question too")
	assert.Equal(t, task.ID, parent.Questions[0].Task)
	_, err = n.owner.Answer(t.Context(), api.AnswerRequest{
		Question: task.Questions[0].ID, Actor: "user:ada", Response: json.RawMessage(`{"role":"assistant","model":"a person","content":{"type":"text","text":"Eggs."}}`),
	})
	require.NoError(t, err)
	r, err := n.owner.Result(t.Context(), api.ResultRequest{ID: task.ID, Wait: time.Minute})
	require.NoError(t, err)
	assert.Equal(t, statemachine.Done, r.State, "%v", r.Error)
	leave()
	<-left
}

// A client of 2026-07-28 finds the question of an agent in the task that has started it, and answers it there.
func TestClientAnswersInTask(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.agentFile("plain", "model: 'sampling:'\n")
	ask, end := overStdio(t, n.face())
	defer end()
	send := func(method, params string) string {
		return string(ask(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientCapabilities":{"sampling":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`))
	}
	asked := send("tools/call", `"name":"TASK_SPAWN","arguments":{"subagent_type":"plain","prompt":"What now?"}`)
	require.Contains(t, asked, "sampling/createMessage")
	agent := n.agentTask()
	require.Len(t, agent.Questions, 1)
	task, question := string(agent.Parent), agent.Questions[0].ID

	got := send("tasks/get", `"taskId":"`+task+`"`)
	assert.Contains(t, got, `"status":"input_required"`)
	assert.Contains(t, got, `"`+question+`":{"method":"sampling/createMessage"`)
	assert.Contains(t, got, "What now?")
	send("tasks/update", `"taskId":"`+task+`","inputResponses":{"`+question+`":{"role":"assistant","model":"m","content":{"type":"text","text":"Milk."}}}`)
	require.Eventually(t, func() bool { return strings.Contains(send("tasks/get", `"taskId":"`+task+`"`), "Milk.") }, time.Minute, time.Millisecond)
}
