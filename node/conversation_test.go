package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
)

// talking returns a node whose model script:talk has the turns of a script.
func talking(t *testing.T, turns string) *node.Node {
	t.Helper()
	n, _ := talkingIn(t, turns)
	return n
}

// talkingIn is talking with the root of the node.
func talkingIn(t *testing.T, turns string) (n *node.Node, root string) {
	t.Helper()
	cfg := config(t)
	dir := filepath.Join(cfg.Root, ".orch", "models")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "talk.yaml"), []byte("turns:\n"+strings.ReplaceAll(turns, "ROOT", cfg.Root)), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(cfg.Root, "notes.txt"), []byte("milk\n"), 0o600))
	return start(t, cfg), cfg.Root
}

// conversed runs a plan to its end and returns its task.
func conversed(t *testing.T, n *node.Node, steps string) events.TaskID {
	t.Helper()
	id := submit(t, n.API(), "orch: v1\nsteps:\n"+steps)
	require.Equal(t, statemachine.Done, result(t, n.API(), id).State)
	return id
}

const talker = "  - {id: a, agent: {model: 'script:talk', instructions: Be brief., prompt: Look., tools: [GLOB_SEARCH], budget: {tokens: 100000}}}\n"

// lookTwice are the turns of a model that calls two tools, of which one does not exist, and then answers.
const lookTwice = `  - {text: I look., usage: {input: 100, output: 10}, calls: [{tool: GLOB_SEARCH, args: {path: ROOT, pattern: '*.txt'}}, {tool: NO_TOOL, args: {}}]}
  - {expect: notes.txt, text: There are notes.}
`

func TestConversation(t *testing.T) {
	t.Parallel()
	n := talking(t, lookTwice)
	id := conversed(t, n, talker)
	r, err := n.API().Conversation(t.Context(), api.ConversationRequest{ID: id})
	require.NoError(t, err)
	assert.Equal(t, []any{"a", statemachine.StepSucceeded, 2, 0}, []any{r.Step, r.State, r.Total, r.Next})
	assert.Equal(t, []any{"Be brief.", "Look."}, []any{r.Instructions, r.Prompt})
	assert.Equal(t, [][]string{{"script:talk"}, {"GLOB_SEARCH", "RESULT_READ"}}, [][]string{r.Models, r.Tools})
	assert.Equal(t, int64(100_000), r.Limits.Tokens)
	assert.Equal(t, 2, r.Used.Calls)
	require.Len(t, r.Turns, 2)
	first, second := r.Turns[0], r.Turns[1]
	assert.Equal(t, api.TurnAnswered, first.State)
	assert.Equal(t, []string{"a.t1.m", "script:talk", "calls", "I look."}, []string{first.Asks, first.Model, first.Stop, first.Text})
	assert.Equal(t, &events.Usage{Input: 100, Output: 10}, first.Usage)
	assert.Equal(t, first.Usage.Request()+first.Usage.Output+second.Usage.Request()+second.Usage.Output, r.Used.Tokens)
	assert.NotNil(t, first.AskedAt)
	require.Len(t, first.Calls, 2)
	found, none := first.Calls[0], first.Calls[1]
	assert.Equal(t, []any{"a.t1.c1", "GLOB_SEARCH", statemachine.StepSucceeded, false}, []any{found.Step, found.Tool, found.State, found.Failed})
	assert.Contains(t, found.Args, `"pattern":"*.txt"`)
	assert.Contains(t, found.Result, "notes.txt")
	assert.Equal(t, []any{"NO_TOOL", statemachine.StepFailed, true}, []any{none.Tool, none.State, none.Failed})
	assert.Equal(t, fault.NotFound, none.Error.Code)
	assert.Equal(t, []any{"There are notes.", "end"}, []any{second.Text, second.Stop})
}

// At each revision the conversation is what was known then: turns and texts only come.
func TestConversationAtEachRevision(t *testing.T) {
	t.Parallel()
	n := talking(t, lookTwice)
	id := conversed(t, n, talker+"  - {id: b, needs: [a], tool: LOG_WRITE, with: {level: INFO, message: hi}}\n")
	newest, err := n.API().Conversation(t.Context(), api.ConversationRequest{ID: id})
	require.NoError(t, err)
	var seen []string
	for rev := uint64(1); rev <= newest.Rev; rev++ {
		r, err := n.API().Conversation(t.Context(), api.ConversationRequest{ID: id, Step: "a", Rev: rev})
		require.NoError(t, err)
		assert.Equal(t, rev, r.Rev)
		states := make([]string, len(r.Turns))
		for i, turn := range r.Turns {
			states[i] = string(turn.State)
		}
		seen = append(seen, strings.Join(states, " "))
	}
	assert.Equal(t, []string{"asking", "acting", "answered asking", "answered answered"}, slices.Compact(seen))
	_, err = n.API().Conversation(t.Context(), api.ConversationRequest{ID: id, Rev: newest.Rev + 1})
	assert.True(t, fault.Has(err, fault.NotFound), "%v", err)
	last, err := n.API().Conversation(t.Context(), api.ConversationRequest{ID: id, Rev: newest.Rev})
	require.NoError(t, err)
	assert.Equal(t, newest, last, "the fold of the history is what is in memory")
}

// Pages have the turns that a request names, and long texts are cut.
func TestPagesOfConversations(t *testing.T) {
	t.Parallel()
	var turns strings.Builder
	for i := range 7 { // a task may ask a model 10 times in a minute
		fmt.Fprintf(&turns, "  - {text: 'turn %d %s', calls: [{tool: NO_TOOL, args: {}}]}\n", i+1, strings.Repeat("ü", 10_000))
	}
	n := talking(t, turns.String()+"  - text: over\n")
	id := conversed(t, n, strings.Replace(talker, ", budget: {tokens: 100000}", "", 1))
	for name, test := range map[string]struct {
		from, limit        int
		first, turns, next int
	}{
		"all":                 {0, 0, 1, 8, 0},
		"the first page":      {0, 5, 1, 5, 6},
		"the second page":     {6, 5, 6, 3, 0},
		"one turn":            {7, 1, 7, 1, 8},
		"the last turns":      {-2, 5, 7, 2, 0},
		"more than there are": {-500, 100, 1, 8, 0},
		"after the end":       {9, 5, 0, 0, 0},
	} {
		r, err := n.API().Conversation(t.Context(), api.ConversationRequest{ID: id, Step: "a", From: test.from, Limit: test.limit})
		require.NoError(t, err, name)
		assert.Equal(t, []int{test.turns, test.next, 8}, []int{len(r.Turns), r.Next, r.Total}, name)
		if test.turns > 0 {
			assert.Equal(t, test.first, r.Turns[0].Turn, name)
		}
	}
	many, err := n.API().Conversation(t.Context(), api.ConversationRequest{ID: id, Limit: 2})
	require.NoError(t, err)
	assert.True(t, strings.HasSuffix(many.Turns[0].Text, "ü\n[16383 of 20007 bytes are shown]"), "%q", many.Turns[0].Text[16370:])
	one, err := n.API().Conversation(t.Context(), api.ConversationRequest{ID: id, Limit: 1})
	require.NoError(t, err)
	assert.Len(t, one.Turns[0].Text, 20_007)
	_, err = n.API().Conversation(t.Context(), api.ConversationRequest{ID: id, Limit: 101})
	assert.True(t, fault.Has(err, fault.ValidationError), "%v", err)
}

// The step can be left out only if there is one. A step that is no agent, or does not exist, is an error that names the agents.
func TestStepsOfConversations(t *testing.T) {
	t.Parallel()
	n := talking(t, "  - text: hi\n")
	two := conversed(t, n, talker+"  - {id: b, agent: {model: 'script:talk', prompt: Look.}}\n  - {id: c, tool: LOG_WRITE, with: {level: INFO, message: hi}}\n")
	none := conversed(t, n, "  - {id: c, tool: LOG_WRITE, with: {level: INFO, message: hi}}\n")
	for name, test := range map[string]struct {
		id   events.TaskID
		step string
		code fault.Code
		hint string
	}{
		"which of two": {two, "", fault.NotUnique, "its agent steps: a, b"},
		"no agent":     {two, "c", fault.ValidationError, "its agent steps: a, b"},
		"no step":      {two, "x", fault.NotFound, "its agent steps: a, b"},
		"no call":      {two, "a.t1.m", fault.ValidationError, "its agent steps: a, b"},
		"no agents":    {none, "", fault.NotFound, ""},
		"a plain step": {none, "c", fault.ValidationError, "the task has no agent step"},
		"no such task": {events.KeyedTaskID("", "none"), "a", fault.NotFound, "orch list shows the tasks"},
	} {
		_, err := n.API().Conversation(t.Context(), api.ConversationRequest{ID: test.id, Step: test.step})
		require.Error(t, err, name)
		assert.Equal(t, []any{test.code, test.hint}, []any{fault.CodeOf(err), fault.From(err).Hint}, name)
	}
	r, err := n.API().Conversation(t.Context(), api.ConversationRequest{ID: two, Step: "b"})
	require.NoError(t, err)
	assert.Equal(t, "hi", r.Turns[0].Text)
	r, err = n.API().Conversation(t.Context(), api.ConversationRequest{ID: two, Step: "b", Rev: 1})
	require.NoError(t, err)
	assert.Empty(t, r.Turns[0].Text)
}

// A turn whose model gives no answer has failed, with the reason.
func TestFailedTurn(t *testing.T) {
	t.Parallel()
	n := talking(t, "  - error: {kind: invalid, message: not like that}\n")
	id := submit(t, n.API(), "orch: v1\nsteps:\n"+talker)
	require.Equal(t, statemachine.Failed, result(t, n.API(), id).State)
	r, err := n.API().Conversation(t.Context(), api.ConversationRequest{ID: id})
	require.NoError(t, err)
	assert.Equal(t, api.TurnFailed, r.Turns[0].State)
	assert.Contains(t, r.Turns[0].Error.Error(), "not like that")
	assert.Zero(t, r.Reserved)
}

// Turns that a retry takes over name the task that they come from, and a step that is reused whole the task that has its conversation.
func TestConversationOfContinuedAgent(t *testing.T) {
	t.Parallel()
	b := newBuyer(t)
	b.refuses.Store(true)
	n := start(t, b.cfg)
	failed := submit(t, n.API(), buyerPlan+"  more: ${{ steps.look.output.turns }}\n")
	require.Equal(t, statemachine.Failed, result(t, n.API(), failed).State)
	b.refuses.Store(false)
	again, err := n.API().Retry(t.Context(), api.RetryRequest{ID: failed, Actor: "user:test"})
	require.NoError(t, err)
	require.Equal(t, statemachine.Done, result(t, n.API(), again.ID).State)
	r, err := n.API().Conversation(t.Context(), api.ConversationRequest{ID: again.ID})
	require.NoError(t, err)
	require.Len(t, r.Turns, 2)
	assert.Equal(t, []events.TaskID{failed, ""}, []events.TaskID{r.Turns[0].ReusedFrom, r.Turns[1].ReusedFrom})
	assert.Contains(t, r.Turns[0].Calls[0].Result, "milk")
	assert.Equal(t, "Buy milk, says x.", r.Turns[1].Text)
	assert.Positive(t, r.Turns[0].NanoUSD)
	assert.Empty(t, r.ReusedFrom)

	fork, err := n.API().Fork(t.Context(), api.ForkRequest{ID: again.ID, Actor: "user:test"})
	require.NoError(t, err)
	whole, err := n.API().Conversation(t.Context(), api.ConversationRequest{ID: fork.ID})
	require.NoError(t, err)
	assert.Equal(t, []any{again.ID, statemachine.StepSucceeded, 0}, []any{whole.ReusedFrom, whole.State, len(whole.Turns)})
}

// An agent that has reached a limit names the approval that it waits for.
func TestConversationAtLimit(t *testing.T) {
	t.Parallel()
	n := talking(t, lookTwice)
	approval := awaitingApproval(t, n.API(), "orch: v1\nsteps:\n"+strings.Replace(talker, "tokens: 100000", "calls: 2, on_exceeded: ask", 1), "user:test")
	r, err := n.API().Conversation(t.Context(), api.ConversationRequest{ID: approval.Task})
	require.NoError(t, err)
	assert.Equal(t, approval.ID, r.Approval)
	require.Len(t, r.Turns, 1)
	assert.Equal(t, api.TurnAnswered, r.Turns[0].State)
	_, err = n.API().Decide(t.Context(), api.DecideRequest{ID: approval.ID, As: "granted", Actor: "user:test"})
	require.NoError(t, err)
	require.Equal(t, statemachine.Done, result(t, n.API(), approval.Task).State)
	r, err = n.API().Conversation(t.Context(), api.ConversationRequest{ID: approval.Task})
	require.NoError(t, err)
	assert.Equal(t, []any{"", 2, 4}, []any{r.Approval, r.Total, r.Limits.Calls})
}
