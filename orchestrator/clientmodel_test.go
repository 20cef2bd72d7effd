package orchestrator_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

func sample() work.Question {
	return work.Question{Key: "model", Kind: events.Sampling, Params: json.RawMessage(`{"messages":[{"role":"user","content":{"type":"text","text":"What?"}}]}`)}
}

// offering returns the submission of a client that answers some kinds of questions.
func offering(kinds ...string) func(*api.SubmitRequest) {
	return func(r *api.SubmitRequest) {
		r.Client = &events.Client{Asks: kinds, Roots: []string{"/project"}, Session: "s1"}
	}
}

// askingChild starts a child whose call asks a question, and returns the task and the child.
func (n *node) askingChild(q work.Question, kinds ...string) (id, child events.TaskID) {
	n.t.Helper()
	id = n.submit(spawnPlan, offering(kinds...))
	require.NoError(n.t, n.spawn("w", n.take("w"), agentPlan, "hello"))
	child = n.step(id, "s").Child
	require.NoError(n.t, n.inquire("w", n.take("w"), q))
	return id, child
}

// A task shows what its child asks the model of the client, waits for the answer, and wakes those who watch it. A restart changes
// nothing.
func TestChildAsksModelOfClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{})
		n := start(t, log)
		id := n.submit(spawnPlan, offering(events.Sampling, events.SamplingTools, events.Elicitation))
		require.NoError(t, n.spawn("w", n.take("w"), agentPlan, "hello"))
		child := n.step(id, "s").Child
		waited := make(chan api.ResultReply, 1)
		go func() {
			r, err := n.Result(n.ctx(), api.ResultRequest{ID: id, Wait: time.Minute, Attend: true})
			assert.NoError(t, err)
			waited <- r
		}()
		synctest.Wait()
		assert.Empty(t, waited)
		seen, err := n.Watch(n.ctx(), api.WatchRequest{ID: id, After: 1 << 60})
		require.NoError(t, err)
		require.NoError(t, n.inquire("w", n.take("w"), sample()))
		synctest.Wait()
		require.Len(t, waited, 1, "the question has ended the wait")
		assert.True(t, (<-waited).Waits)
		news, err := n.Watch(n.ctx(), api.WatchRequest{ID: id, After: 1 << 60, SeenVersion: seen.Version})
		require.NoError(t, err)
		assert.NotEqual(t, seen.Version, news.Version)

		n.stop()
		n = start(t, log)
		synctest.Wait()
		asked := n.view(id).Questions
		require.Len(t, asked, 1)
		assert.Equal(t, child, asked[0].Task)
		assert.Equal(t, n.view(child).Questions, asked)
		r, err := n.Result(n.ctx(), api.ResultRequest{ID: id, Attend: true})
		require.NoError(t, err)
		assert.True(t, r.Waits)

		_, err = n.answer(asked[0].ID, `{"role":"assistant","model":"m","content":{"type":"text","text":"That."}}`)
		require.NoError(t, err)
		assert.Empty(t, n.view(id).Questions)
		c := n.take("w")
		assert.Equal(t, &events.Client{Asks: []string{events.Sampling, events.SamplingTools}, Roots: []string{"/project"}}, c.Client)
		require.NoError(t, n.report("w", c, `{"text":"That.","n":0}`))
		assert.Equal(t, statemachine.Done, n.result(id).State)
		n.checkIdle()
	})
}

// What a child asks a person is not for the client, and a client without a model is asked nothing.
func TestChildAsksOthers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		asks  work.Question
		kinds []string
	}{
		{"a person", elicit("who"), []string{events.Sampling, events.Elicitation}},
		{"no model", sample(), []string{events.Elicitation}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n := start(t, memlog.New(memlog.Config{}))
			id, child := n.askingChild(test.asks, test.kinds...)
			assert.Len(t, n.view(child).Questions, 1)
			assert.Empty(t, n.view(id).Questions)
			r, err := n.Result(n.ctx(), api.ResultRequest{ID: id, Attend: true})
			require.NoError(t, err)
			assert.False(t, r.Waits)
		})
	}
}

// A client that never answers: the child fails after an hour, and says what to do.
func TestClientNeverAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		id, _ := n.askingChild(sample(), events.Sampling)
		<-time.After(2 * time.Hour)
		r := n.result(id)
		require.Equal(t, statemachine.Failed, r.State)
		assert.Equal(t, fault.Timeout, r.Error.Code)
		assert.Contains(t, r.Error.Message, "nobody answered in time")
		assert.Contains(t, r.Error.Hint, "MCP client")
		assert.Empty(t, n.view(id).Questions)
		n.checkIdle()
	})
}
