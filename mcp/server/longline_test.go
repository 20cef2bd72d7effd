package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// rawClient is a client over stdio that writes and reads lines.
type rawClient struct {
	t    testing.TB
	to   io.Writer
	from *bufio.Reader
}

func (c rawClient) say(lines ...string) {
	c.t.Helper()
	for _, line := range lines {
		_, err := io.WriteString(c.to, line+"\n")
		require.NoError(c.t, err)
	}
}

// hear returns the next message with a text.
func (c rawClient) hear(text string) string {
	c.t.Helper()
	for {
		line, err := c.from.ReadString('\n')
		require.NoError(c.t, err)
		if strings.Contains(line, text) {
			return line
		}
	}
}

// rawOver connects a client over stdio.
func (n *node) rawOver() rawClient {
	n.t.Helper()
	s := n.face()
	in, to := io.Pipe()
	from, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(n.t.Context(), in, out) }()
	n.t.Cleanup(func() { assert.NoError(n.t, to.Close()); assert.NoError(n.t, <-ended) })
	return rawClient{n.t, to, bufio.NewReader(from)}
}

// samplerOver connects a client of 2025-11-25 over stdio that offers sampling.
func (n *node) samplerOver() rawClient {
	n.t.Helper()
	c := n.rawOver()
	c.say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"sampling":{}},"clientInfo":{"name":"raw","version":"1"}}}`)
	c.hear("serverInfo")
	c.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

// An answer of a model that is longer than a message may be is not accepted, wherever its id is. The agent fails at once, and the
// connection goes on.
func TestAnswerLongerThanALine(t *testing.T) {
	t.Parallel()
	much := strings.Repeat("much ", 6<<20)
	for name, answer := range map[string]string{
		"the id first": `{"jsonrpc":"2.0","id":ID,"result":{"role":"assistant","model":"m","content":{"type":"text","text":"` + much + `"}}}`,
		"the id last":  `{"result":{"role":"assistant","model":"m","content":{"type":"text","text":"` + much + `"}},"id":ID,"jsonrpc":"2.0"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := startNode(t)
			n.agentFile("plain", "model: 'sampling:'\n")
			c := n.samplerOver()
			c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"TASK_SPAWN","arguments":{"subagent_type":"plain","prompt":"Go."}}}`)
			c.say(strings.Replace(answer, "ID", idIn(c.hear("sampling/createMessage")), 1))
			assert.Contains(t, c.hear(`"id":1`), "gives no answer")
			r, err := n.owner.Result(t.Context(), api.ResultRequest{ID: n.agentTask().ID})
			require.NoError(t, err)
			assert.Equal(t, statemachine.Failed, r.State)
			assert.Equal(t, fault.Forbidden, r.Error.Code)
			c.say(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
			assert.JSONEq(t, `{"jsonrpc":"2.0","id":2,"result":{}}`, c.hear(`"id":2`))
		})
	}
}

// A request that is too long is refused by its id, so that its client does not wait.
func TestRequestLongerThanALine(t *testing.T) {
	t.Parallel()
	c := startNode(t).samplerOver()
	c.say(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` + strings.Repeat("much ", 4<<20) + `"}}}`)
	assert.JSONEq(t, `{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"the message is longer than 16 MiB"}}`, c.hear("error"))
}

// Of several answers to one request the first one counts, once, however soon the others follow.
func TestAnswersToOneRequest(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.agentFile("plain", "model: 'sampling:paid-1'\nmax_tokens: 300\nbudget: {usd: 1}\n")
	c := n.samplerOver()
	c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"TASK_SPAWN","arguments":{"subagent_type":"plain","prompt":"Go."}}}`)
	id := idIn(c.hear("sampling/createMessage"))
	answer := `{"jsonrpc":"2.0","id":` + id + `,"result":{"role":"assistant","model":"m","content":{"type":"text","text":"Milk."}}}`
	task := n.agentTask()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			_, err := n.owner.Answer(t.Context(), api.AnswerRequest{
				Question: task.Questions[0].ID, Actor: "user:ada", Response: json.RawMessage(`{"role":"assistant","model":"a person","content":{"type":"text","text":"Milk."}}`),
			})
			assert.True(t, err == nil || fault.Has(err, fault.Conflict), "%v", err)
		})
	}
	c.say(answer, answer, answer)
	assert.Contains(t, c.hear(`"id":1`), `Milk.`)
	group.Wait()
	counts := n.countEvents(task.ID)
	assert.Equal(t, [3]int{1, 1, 0}, [3]int{counts[events.QuestionAnswered], counts[events.TurnAnswered], counts[events.TurnLost]})
	said, err := n.owner.Conversation(t.Context(), api.ConversationRequest{ID: task.ID})
	require.NoError(t, err)
	assert.Equal(t, said.Turns[0].NanoUSD, said.Used.NanoUSD)
	assert.Positive(t, said.Used.NanoUSD)
	assert.Zero(t, said.Lost)
}

// idIn returns the id of a message.
func idIn(message string) string {
	_, id, _ := strings.Cut(message, `"id":`)
	id, _, _ = strings.Cut(id, ",")
	return strings.TrimSuffix(strings.TrimSpace(id), "}")
}

// A client of 2026-07-28 that repeats a call with its answer twice gets the result twice, and the answer counts once.
func TestAnswersInRepeatedCalls(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.agentFile("plain", "model: 'sampling:'\n")
	c := n.rawOver()
	call := func(id int, more string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"TASK_SPAWN","arguments":{"subagent_type":"plain","prompt":"Go."},%s`+
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"sampling":{}}}}}`, id, more)
	}
	c.say(call(1, ""))
	var asked struct {
		Result struct {
			RequestState string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(c.hear("sampling/createMessage")), &asked))
	task := n.agentTask()
	again := fmt.Sprintf(`"requestState":%q,"inputResponses":{%q:{"role":"assistant","model":"m","content":{"type":"text","text":"Milk."}}},`, asked.Result.RequestState, task.Questions[0].ID)
	c.say(call(2, again), call(3, again))
	for range 2 {
		assert.Contains(t, c.hear("Milk."), `"report":"Milk."`)
	}
	counts := n.countEvents(task.ID)
	assert.Equal(t, [2]int{1, 1}, [2]int{counts[events.QuestionAnswered], counts[events.TurnAnswered]})
}

// countEvents counts the events of a task by kind.
func (n *node) countEvents(id events.TaskID) map[events.Kind]int {
	n.t.Helper()
	history, err := n.owner.History(n.t.Context(), api.HistoryRequest{ID: id})
	require.NoError(n.t, err)
	counts := map[events.Kind]int{}
	for _, commit := range history.Commits {
		for _, e := range commit.Events {
			counts[e.Kind]++
		}
	}
	return counts
}
