package server_test

import (
	"bufio"
	"encoding/json"
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

// samplerOver connects a client over stdio that offers sampling.
func (n *node) samplerOver() rawClient {
	n.t.Helper()
	s := n.face()
	in, to := io.Pipe()
	from, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(n.t.Context(), in, out) }()
	n.t.Cleanup(func() { assert.NoError(n.t, to.Close()); assert.NoError(n.t, <-ended) })
	c := rawClient{n.t, to, bufio.NewReader(from)}
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
	history, err := n.owner.History(t.Context(), api.HistoryRequest{ID: task.ID})
	require.NoError(t, err)
	counts, cost := map[events.Kind]int{}, int64(0)
	for _, commit := range history.Commits {
		for _, e := range commit.Events {
			counts[e.Kind]++
			if a, ok := e.Data.(*events.Answered); ok {
				cost += a.NanoUSD
			}
		}
	}
	assert.Equal(t, [3]int{1, 1, 0}, [3]int{counts[events.QuestionAnswered], counts[events.TurnAnswered], counts[events.TurnLost]})
	said, err := n.owner.Conversation(t.Context(), api.ConversationRequest{ID: task.ID})
	require.NoError(t, err)
	assert.Equal(t, cost, said.Used.NanoUSD)
	assert.Zero(t, said.Lost)
}

// idIn returns the id of a message.
func idIn(message string) string {
	_, id, _ := strings.Cut(message, `"id":`)
	id, _, _ = strings.Cut(id, ",")
	return strings.TrimSuffix(strings.TrimSpace(id), "}")
}
