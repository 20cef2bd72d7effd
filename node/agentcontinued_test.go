package node_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models/modelstest"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
)

// buyer is a server of models that reads notes.txt and then says what is to buy. It counts the requests for each turn and model.
type buyer struct {
	cfg     node.Config
	refuses atomic.Bool // the second turn is refused

	mu    sync.Mutex
	asked map[string]int
}

func newBuyer(t *testing.T) *buyer {
	t.Helper()
	b := &buyer{asked: map[string]int{}}
	b.cfg = asking(t, modelstest.NewServer(t, b.answer), modelstest.OpenAI)
	require.NoError(t, os.WriteFile(filepath.Join(b.cfg.Root, "notes.txt"), []byte("milk\n"), 0o600))
	return b
}

func (b *buyer) answer(s modelstest.Seen) modelstest.Reply {
	var body struct{ Model string }
	_ = json.Unmarshal(s.Body, &body)
	turn := "first "
	if strings.Contains(string(s.Body), "milk") {
		turn = "second "
	}
	b.mu.Lock()
	b.asked[turn+body.Model]++
	b.mu.Unlock()
	switch {
	case turn == "first ":
		return modelstest.Reply{Answer: reads(filepath.Join(b.cfg.Root, "notes.txt"))}
	case b.refuses.Load():
		return modelstest.Reply{Status: http.StatusUnauthorized}
	default:
		return modelstest.Reply{Answer: says("Buy milk, says " + body.Model + ".")}
	}
}

func (b *buyer) counts() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked
}

const buyerPlan = `
orch: v1
name: buyer
inputs: {type: object, properties: {model: {type: string, default: test/x}}}
steps:
  - id: look
    agent: {model: "${{ inputs.model }}", prompt: "What is to buy?", tools: [FILE_READ], budget: {usd: 1, wall: 1h}}
outputs:
  text: ${{ steps.look.output.text }}
`

// replayed returns a task by its history, which must be the same as the live one.
func replayed(t *testing.T, n *node.Node, id events.TaskID) *statemachine.Task {
	t.Helper()
	replay, err := n.API().Replay(t.Context(), api.ReplayRequest{ID: id})
	require.NoError(t, err)
	require.True(t, *replay.Live)
	return replay.Task
}

// A retry goes on with the turn that failed. Its budget goes on as well; a retry from the step begins both anew.
func TestRetryOfAgentGoesOn(t *testing.T) {
	t.Parallel()
	b := newBuyer(t)
	b.refuses.Store(true)
	n := start(t, b.cfg)
	id := submit(t, n.API(), buyerPlan)
	require.Equal(t, statemachine.Failed, result(t, n.API(), id).State)
	b.refuses.Store(false)

	again, err := n.API().Retry(t.Context(), api.RetryRequest{ID: id})
	require.NoError(t, err)
	r := result(t, n.API(), again.ID)
	require.Equal(t, statemachine.Done, r.State, "%v", r.Error)
	assert.JSONEq(t, `{"text":"Buy milk, says x."}`, string(r.Output))
	assert.Equal(t, map[string]int{"first x": 1, "second x": 2}, b.counts())
	before, after := replayed(t, n, id).Steps["look"].Agent, replayed(t, n, again.ID).Steps["look"].Agent
	assert.Equal(t, before.Turns[0], after.Turns[0])
	assert.Equal(t, before.Spent.Plus(after.Turns[1].Answered.Cost()), after.Spent)
	assert.Less(t, after.Spec.Until.Sub(replayed(t, n, again.ID).CreatedAt), time.Hour, "the time goes on, too")

	anew, err := n.API().Retry(t.Context(), api.RetryRequest{ID: id, From: "look"})
	require.NoError(t, err)
	require.Equal(t, statemachine.Done, result(t, n.API(), anew.ID).State)
	assert.Equal(t, map[string]int{"first x": 2, "second x": 3}, b.counts())
}

// A fork at a turn asks another model with the same conversation. A fork at the step begins anew.
func TestForkOfAgentAtTurn(t *testing.T) {
	t.Parallel()
	b := newBuyer(t)
	n := start(t, b.cfg)
	id := submit(t, n.API(), buyerPlan)
	require.Equal(t, statemachine.Done, result(t, n.API(), id).State)

	fork, err := n.API().Fork(t.Context(), api.ForkRequest{ID: id, At: "look.t2", Set: map[string]json.RawMessage{"model": json.RawMessage(`"test/y"`)}})
	require.NoError(t, err)
	assert.Equal(t, []api.ContinuedAgent{{Step: "look", Turn: 2}}, fork.Continued)
	r := result(t, n.API(), fork.ID)
	assert.JSONEq(t, `{"text":"Buy milk, says y."}`, string(r.Output))
	assert.Equal(t, map[string]int{"first x": 1, "second x": 1, "second y": 1}, b.counts())
	before, after := replayed(t, n, id).Steps["look"].Agent.Turns[0], replayed(t, n, fork.ID).Steps["look"].Agent.Turns[0]
	assert.Equal(t, before.Requested, after.Requested)
	assert.Equal(t, before.Answered.Cost(), after.Answered.Cost())
	assert.Equal(t, []string{"test/x", "test/y"}, answeringModels(t, n, fork.ID), "the first turn was answered by the model of before")
	assert.Equal(t, []string{"test/x", "test/y"}, answeringModels(t, n, forkAt(t, n, fork.ID, "look.t2", "test/y")))
	assert.Equal(t, []string{"test/x", "test/x"}, answeringModels(t, n, forkAt(t, n, fork.ID, "look.t2", "test/x")))

	assert.Len(t, replayed(t, n, id).Reads, 1)
	assert.Equal(t, replayed(t, n, id).Reads, replayed(t, n, fork.ID).Reads, "the fork knows the file that its turns have read")

	anew, err := n.API().Fork(t.Context(), api.ForkRequest{ID: id, At: "look"})
	require.NoError(t, err)
	assert.Empty(t, anew.Continued)
	require.Equal(t, statemachine.Done, result(t, n.API(), anew.ID).State)
	assert.Equal(t, 2, b.counts()["first x"])

	for _, at := range []string{"look.t3", "look.t0", "look.c1", "other.t1"} {
		_, err = n.API().Fork(t.Context(), api.ForkRequest{ID: id, At: at})
		assert.Equal(t, fault.NotFound, fault.CodeOf(err), at)
	}
}

// What a retry carries over of the budget is that of the turns which it does not take over. A fork of it begins with the turns that it takes
// over, and carries nothing else.
func TestForkCarriesNothing(t *testing.T) {
	t.Parallel()
	var ready atomic.Bool
	var notes string
	cfg := asking(t, modelstest.NewServer(t, func(s modelstest.Seen) modelstest.Reply {
		switch {
		case !strings.Contains(string(s.Body), "milk"):
			return modelstest.Reply{Answer: reads(notes)}
		case !ready.Load():
			return modelstest.Reply{Answer: says("no JSON")}
		default:
			return modelstest.Reply{Answer: says(`{"buy":1}`)}
		}
	}), modelstest.OpenAI)
	notes = filepath.Join(cfg.Root, "notes.txt")
	require.NoError(t, os.WriteFile(notes, []byte("milk\n"), 0o600))
	n := start(t, cfg)
	id := submit(t, n.API(), "orch: v1\nsteps:\n  - id: look\n    agent: {model: test/x, prompt: What, tools: [FILE_READ], result: {type: object}}\n")
	require.Equal(t, statemachine.Failed, result(t, n.API(), id).State)
	failed := replayed(t, n, id).Steps["look"].Agent
	require.Len(t, failed.Turns, 3, "an answer that has not the form of the result is asked for once more")
	ready.Store(true)

	retry, err := n.API().Retry(t.Context(), api.RetryRequest{ID: id})
	require.NoError(t, err)
	require.Equal(t, statemachine.Done, result(t, n.API(), retry.ID).State)
	again := replayed(t, n, retry.ID).Steps["look"].Agent
	assert.Equal(t, failed.Turns[1].Answered.Cost().Plus(failed.Turns[2].Answered.Cost()), again.Spec.Carried)
	assert.NotZero(t, again.Spec.Carried)

	fork := replayed(t, n, forkAt(t, n, retry.ID, "look.t2", "")).Steps["look"].Agent
	assert.Zero(t, fork.Spec.Carried)
	assert.Equal(t, fork.Turns[0].Answered.Cost().Plus(fork.Turns[1].Answered.Cost()), fork.Spent)
}

// forkAt forks a task at a turn, with another value of the input model unless that is empty, and returns the fork when it is done.
func forkAt(t *testing.T, n *node.Node, id events.TaskID, at, model string) events.TaskID {
	t.Helper()
	r := api.ForkRequest{ID: id, At: at}
	if model != "" {
		named, err := json.Marshal(model)
		require.NoError(t, err)
		r.Set = map[string]json.RawMessage{"model": named}
	}
	fork, err := n.API().Fork(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, statemachine.Done, result(t, n.API(), fork.ID).State)
	return fork.ID
}

// answeringModels returns the models that have answered in the turns of the step look.
func answeringModels(t *testing.T, n *node.Node, id events.TaskID) (models []string) {
	t.Helper()
	r, err := n.API().Conversation(t.Context(), api.ConversationRequest{ID: id, Step: "look", From: 1})
	require.NoError(t, err)
	for _, turn := range r.Turns {
		models = append(models, turn.Model)
	}
	return models
}
