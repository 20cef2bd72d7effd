package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/server"
)

// asked is one kind of question: the tool that asks it, the method, an answer, and the result of that.
type asked struct {
	name, capability, tool, method, answer, shows string
	// params are the parameters of the question.
	params []string
}

func kindsAsked() []asked {
	return []asked{
		{"elicitation", "elicitation", "asks", "elicitation/create", `{"action":"accept","content":{"name":"Ada"}}`, "hello Ada", []string{"mode", "message", "requestedSchema"}},
		{"sampling", "sampling", "samples", "sampling/createMessage", `{"role":"assistant","model":"m","content":{"type":"text","text":"said so"}}`, "said so", []string{"messages", "maxTokens"}},
		{"roots", "roots", "folders", "roots/list", `{"roots":[{"uri":"file:///somewhere"}]}`, "somewhere", nil},
	}
}

// stand is a client of a face that can be restarted over the same node.
type stand struct {
	*web

	n     *node
	store *kept
	asked asked
	// requests counts those that wait.
	requests int
}

func newStand(t *testing.T, k asked) *stand {
	t.Helper()
	s := &stand{n: startNode(t), store: &kept{}, asked: k}
	s.begin(t)
	return s
}

// begin starts a new face over the same node, as after a kill of the process.
func (s *stand) begin(t *testing.T) {
	t.Helper()
	session := ""
	if s.web != nil {
		session = s.session
	}
	s.web = s.n.web(t, s.n.face(func(c *server.Config) {
		c.HTTP.Tokens, c.Stores.Sessions, c.Key = tokens{}, s.store, []byte("a key that outlives the process..")
	}))
	s.session = session
}

// other is a second client of the same owner.
func (s *stand) other() *stand {
	return &stand{&web{t: s.t, url: s.url, token: s.token}, s.n, s.store, s.asked, 0}
}

// enter opens a session that can be asked. A client with roots returns them once.
func (s *stand) enter() {
	s.t.Helper()
	a := s.post(strings.Replace(initialize, `"capabilities":{}`, `"capabilities":{"`+s.asked.capability+`":{}}`, 1))
	require.Equal(s.t, http.StatusOK, a.status, a.body)
	s.session = a.session
	require.Equal(s.t, http.StatusAccepted, s.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`).status)
	if s.asked.capability != "roots" {
		return
	}
	first := s.begins(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`)
	m := first.next("roots/list", func(m map[string]any) bool { return m["method"] == "roots/list" })
	s.post(`{"jsonrpc":"2.0","id":` + fmt.Sprint(m["id"]) + `,"result":{"roots":[]}}`)
	first.result()
}

// stream receives the messages of an event stream.
type stream struct {
	t        *testing.T
	messages <-chan map[string]any
	close    func()
}

func (s *stand) streamOf(r *http.Request) *stream {
	s.t.Helper()
	ctx, stop := context.WithCancel(s.t.Context())
	resp, err := http.DefaultClient.Do(r.WithContext(ctx)) //nolint:bodyclose // the reader closes it
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, resp.StatusCode)
	messages := make(chan map[string]any, 100)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(messages)
		defer func() { _ = resp.Body.Close() }()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			var m map[string]any
			if json.Unmarshal([]byte(strings.TrimPrefix(lines.Text(), "data: ")), &m) == nil {
				messages <- m
			}
		}
	}()
	leave := func() { stop(); <-ended }
	s.t.Cleanup(leave)
	return &stream{s.t, messages, leave}
}

func (s *stand) get() *stream { return s.streamOf(s.request(http.MethodGet, "")) }

// begins sends a request without waiting for its answer.
func (s *stand) begins(body string) *stream { return s.streamOf(s.request(http.MethodPost, body)) }

// next is the first message that fits.
func (s *stream) next(what string, fits func(map[string]any) bool) map[string]any {
	s.t.Helper()
	limit := time.After(time.Minute)
	for {
		select {
		case m, open := <-s.messages:
			require.True(s.t, open, "the stream has ended before "+what)
			if fits(m) {
				return m
			}
		case <-limit:
			require.Fail(s.t, "there is no "+what)
		}
	}
}

// question is the id of the next question.
func (s *stream) question(k asked) string {
	s.t.Helper()
	m := s.next(k.method, func(m map[string]any) bool { return m["method"] == k.method })
	id, _ := m["id"].(string)
	require.NotEmpty(s.t, id, "%v", m)
	params, _ := m["params"].(map[string]any)
	for _, name := range k.params {
		assert.Contains(s.t, params, name)
	}
	return id
}

// result is the text of the next result.
func (s *stream) result() string {
	s.t.Helper()
	m := s.next("result", func(m map[string]any) bool { return m["result"] != nil })
	text, err := json.Marshal(m)
	require.NoError(s.t, err)
	return string(text)
}

// withdrawn waits until a question is withdrawn.
func (s *stream) withdrawn(id string) {
	s.t.Helper()
	s.next("withdrawal", func(m map[string]any) bool {
		params, _ := m["params"].(map[string]any)
		return m["method"] == "notifications/cancelled" && params["requestId"] == id
	})
}

// reply answers a question.
func (s *stand) reply(id string) {
	s.t.Helper()
	a := s.post(`{"jsonrpc":"2.0","id":"` + id + `","result":` + s.asked.answer + `}`)
	require.Equal(s.t, http.StatusAccepted, a.status, a.body)
}

// task starts a call as a task.
func (s *stand) task() string {
	s.t.Helper()
	a := s.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"` + s.asked.tool + `","task":{}}}`)
	result, _ := a.message["result"].(map[string]any)
	task, _ := result["task"].(map[string]any)
	id, _ := task["taskId"].(string)
	require.NotEmpty(s.t, id, a.body)
	return id
}

// poll polls the status of a task until it asks something.
func (s *stand) poll(id string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		return strings.Contains(s.post(`{"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":"`+id+`"}}`).body, "input_required")
	}, time.Minute, 10*time.Millisecond)
}

// awaits requests the result of a task.
func (s *stand) awaits(id string) *stream {
	s.requests++
	return s.begins(`{"jsonrpc":"2.0","id":` + strconv.Itoa(100+s.requests) + `,"method":"tasks/result","params":{"taskId":"` + id + `"}}`)
}

// shows waits for the result of a task, which shows the answer.
func (s *stand) shows(id string) {
	s.t.Helper()
	assert.Contains(s.t, s.awaits(id).result(), s.asked.shows)
}

// A question reaches its client of 2025-11-25 whatever becomes of streams, processes and other clients.
func TestQuestionsOfSessionsAreNotLost(t *testing.T) {
	t.Parallel()
	for name, row := range merged(rowsOfStreams(), rowsOfKills()) {
		for _, k := range kindsAsked() {
			t.Run(name+", "+k.name, func(t *testing.T) {
				t.Parallel()
				s := newStand(t, k)
				s.enter()
				row(s)
			})
		}
	}
}

func merged(a, b map[string]func(*stand)) map[string]func(*stand) {
	maps.Copy(a, b)
	return a
}

func rowsOfStreams() map[string]func(*stand) {
	return map[string]func(*stand){
		"stream": func(s *stand) {
			standing, id := s.get(), s.task()
			s.poll(id)
			s.reply(standing.question(s.asked))
			s.shows(id)
		},
		"no stream": func(s *stand) { // a poll that finds no stream does not mark a question as sent
			id := s.task()
			s.poll(id)
			s.poll(id)
			waits := s.awaits(id)
			s.reply(waits.question(s.asked))
			assert.Contains(s.t, waits.result(), s.asked.shows)
		},
		"a stream that opens later": func(s *stand) {
			id := s.task()
			s.poll(id)
			s.reply(s.get().question(s.asked))
			s.shows(id)
		},
		"reconnect": func(s *stand) {
			standing, id := s.get(), s.task()
			s.poll(id)
			first := standing.question(s.asked)
			standing.close()
			second := s.get().question(s.asked)
			assert.NotEqual(s.t, first, second)
			s.reply(first) // the user may see the older copy
			s.shows(id)
		},
		"a request that ends": func(s *stand) {
			id := s.task()
			waits := s.awaits(id)
			waits.question(s.asked)
			waits.close()
			waits = s.awaits(id)
			s.reply(waits.question(s.asked))
			assert.Contains(s.t, waits.result(), s.asked.shows)
		},
	}
}

func rowsOfKills() map[string]func(*stand) {
	return map[string]func(*stand){
		"kill": func(s *stand) {
			standing, id := s.get(), s.task()
			s.poll(id)
			standing.question(s.asked)
			s.begin(s.t)
			s.reply(s.get().question(s.asked))
			s.shows(id)
		},
		"kill, and the answer to what was asked before": func(s *stand) {
			standing, id := s.get(), s.task()
			s.poll(id)
			first := standing.question(s.asked)
			s.begin(s.t)
			s.reply(first)
			s.shows(id)
		},
		"kill while a plain call waits": func(s *stand) {
			waits := s.begins(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"` + s.asked.tool + `"}}`)
			waits.question(s.asked)
			s.begin(s.t)
			s.reply(s.get().question(s.asked))
			require.Eventually(s.t, func() bool { return s.n.list()[0].State == "DONE" }, time.Minute, 10*time.Millisecond)
		},
		"two clients": func(s *stand) {
			id, other := s.task(), s.other()
			other.enter()
			mine, theirs := s.awaits(id), other.awaits(id)
			question := mine.question(s.asked)
			other.reply(theirs.question(s.asked))
			mine.withdrawn(question)
			assert.Contains(s.t, mine.result(), s.asked.shows)
			assert.Contains(s.t, theirs.result(), s.asked.shows)
			s.reply(question) // too late, and no error
		},
	}
}

const able = `{"elicitation":{},"sampling":{},"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// started starts a call of 2026-07-28 that continues as a task.
func (s *stand) started() string {
	s.t.Helper()
	plan := `{"orch":"v1","steps":[{"id":"a","tool":"` + s.asked.tool + `"}]}`
	a := s.modern("tools/call", "orch_submit", `"name":"orch_submit","arguments":{"plan":`+plan+`},`, able)
	result, _ := a.message["result"].(map[string]any)
	content, _ := result["structuredContent"].(map[string]any)
	id, _ := content["id"].(string)
	require.NotEmpty(s.t, id, a.body)
	return id
}

// asks polls a task of 2026-07-28 until it asks, and returns the id of the question.
func (s *stand) asks(id string) (question string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		a := s.modern("tasks/get", id, `"taskId":"`+id+`",`, able)
		result, _ := a.message["result"].(map[string]any)
		requests, _ := result["inputRequests"].(map[string]any)
		for name, request := range requests {
			r, _ := request.(map[string]any)
			assert.Equal(s.t, s.asked.method, r["method"])
			question = name
		}
		return question != ""
	}, time.Minute, 10*time.Millisecond)
	return question
}

func (s *stand) update(id, question string) {
	s.t.Helper()
	a := s.modern("tasks/update", id, `"taskId":"`+id+`","inputResponses":{"`+question+`":`+s.asked.answer+`},`, able)
	require.Nil(s.t, code(a), a.body)
}

func (s *stand) completes(id string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		return strings.Contains(s.modern("tasks/get", id, `"taskId":"`+id+`",`, able).body, `"status":"completed"`)
	}, time.Minute, 10*time.Millisecond)
}

// plainRound starts a call of a client without tasks; its answer has the question and the state to continue with.
func (s *stand) plainRound(more string) map[string]any {
	s.t.Helper()
	a := s.modern("tools/call", s.asked.tool, `"name":"`+s.asked.tool+`",`+more, `{"elicitation":{},"sampling":{},"roots":{}}`)
	result, _ := a.message["result"].(map[string]any)
	require.NotNil(s.t, result, a.body)
	return result
}

// A question reaches its client of 2026-07-28 with each of its requests.
func TestQuestionsWithoutSessionsAreNotLost(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]func(*stand){
		"stream": func(s *stand) {
			id := s.started()
			listener := s.other()
			listener.header = map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"}
			heard := listener.begins(`{"jsonrpc":"2.0","id":9,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["` + id +
				`"]},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + able + `}}}`)
			m := heard.next("question", func(m map[string]any) bool {
				params, _ := m["params"].(map[string]any)
				return params["status"] == "input_required"
			})
			text, err := json.Marshal(m)
			require.NoError(s.t, err)
			question := s.asks(id)
			assert.Contains(s.t, string(text), question)
			s.update(id, question)
			s.completes(id)
		},
		"no stream": func(s *stand) {
			id := s.started()
			s.update(id, s.asks(id))
			s.completes(id)
		},
		"reconnect": func(s *stand) {
			id := s.started()
			first := s.asks(id)
			s.web = s.other().web
			assert.Equal(s.t, first, s.asks(id))
			s.update(id, first)
			s.completes(id)
		},
		"kill": func(s *stand) {
			id := s.started()
			first := s.asks(id)
			s.begin(s.t)
			assert.Equal(s.t, first, s.asks(id))
			s.update(id, first)
			s.completes(id)
		},
		"kill between the rounds of a plain call": func(s *stand) {
			result := s.plainRound("")
			state, _ := result["requestState"].(string)
			requests, _ := result["inputRequests"].(map[string]any)
			require.Len(s.t, requests, 1)
			s.begin(s.t)
			for key := range requests {
				result = s.plainRound(`"requestState":"` + state + `","inputResponses":{"` + key + `":` + s.asked.answer + `},`)
			}
			assert.Contains(s.t, string(raw(result)), s.asked.shows)
		},
		"two clients": func(s *stand) {
			id, other := s.started(), s.other()
			first := s.asks(id)
			assert.Equal(s.t, first, other.asks(id))
			other.update(id, first)
			s.update(id, first) // too late, and no error
			s.completes(id)
		},
	} {
		for _, k := range kindsAsked() {
			t.Run(name+", "+k.name, func(t *testing.T) {
				t.Parallel()
				row(newStand(t, k))
			})
		}
	}
}

// away is an API whose node is unreachable at times.
type away struct {
	api.API

	gone atomic.Bool
	// asked counts the requests to the unreachable node.
	asked atomic.Int64
}

// Get implements api.API.
func (a *away) Get(ctx context.Context, r api.GetRequest) (api.TaskView, error) {
	if a.gone.Load() {
		a.asked.Add(1)
		return api.TaskView{}, fault.New(fault.Unavailable, "the node is away")
	}
	return a.API.Get(ctx, r)
}

// Watch implements api.API.
func (a *away) Watch(ctx context.Context, r api.WatchRequest) (api.WatchReply, error) {
	w, err := a.API.Watch(ctx, r)
	if a.gone.Load() {
		return w, fault.New(fault.Unavailable, "the node is away")
	}
	return w, err
}

// A question sent before the node became unreachable is withdrawn if it was answered elsewhere in the meantime.
func TestQuestionsOutliveANodeThatIsAway(t *testing.T) {
	t.Parallel()
	s := newStand(t, kindsAsked()[0])
	owner := &away{API: s.n.owner}
	s.web = s.n.web(t, s.n.face(func(c *server.Config) { c.API, c.HTTP.Tokens = owner, tokens{} }))
	s.enter()
	standing, id := s.get(), s.task()
	s.poll(id)
	question := standing.question(s.asked)
	owner.gone.Store(true)
	open, err := s.n.owner.Questions(t.Context(), api.QuestionsRequest{Task: events.TaskID(id)})
	require.NoError(t, err)
	_, err = s.n.owner.Answer(t.Context(), api.AnswerRequest{Question: open.Questions[0].ID, Response: json.RawMessage(s.asked.answer), Actor: "user:bob"})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return owner.asked.Load() > 0 }, time.Minute, 10*time.Millisecond)
	owner.gone.Store(false)
	standing.withdrawn(question)
}
