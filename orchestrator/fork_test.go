package orchestrator_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

const forkedPlan = `
orch: v1
inputs:
  type: object
  properties:
    n: {type: integer, default: 1}
    word: {type: string, default: fine}
steps:
  - {id: look, tool: READ, with: {n: 1}}
  - {id: change, tool: WRITE, needs: [look], with: {n: "${{ inputs.n }}"}}
  - {id: tell, tool: READ, needs: [look], with: {text: "${{ inputs.word }}"}}
  - {id: end, tool: READ, needs: [change, tell], with: {n: 3}}
`

func set(name, value string) map[string]json.RawMessage {
	return map[string]json.RawMessage{name: json.RawMessage(value)}
}

// What a fork reuses, and what it runs, follows from the cut and from the inputs that it changes.
func TestForkCuts(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	n.serve(failOnWord)
	id := n.submit(forkedPlan)
	require.Equal(t, statemachine.Done, n.result(id).State)
	change := []api.ForkEffect{{Step: "change", Tool: "WRITE", Effect: "write"}}
	none := []api.ForkEffect{}
	for name, c := range map[string]struct {
		r              api.ForkRequest
		reused         []string
		stands, repeat []api.ForkEffect
	}{
		"the newest revision":       {api.ForkRequest{}, []string{"look", "change", "tell", "end"}, change, none},
		"a step":                    {api.ForkRequest{At: "tell"}, []string{"look", "change"}, change, none},
		"a step with an effect":     {api.ForkRequest{At: "change"}, []string{"look", "tell"}, none, change},
		"live from another step":    {api.ForkRequest{At: "tell", LiveFrom: "change"}, []string{"look"}, none, change},
		"the first revision":        {api.ForkRequest{At: "1"}, []string{}, none, change},
		"a changed input":           {api.ForkRequest{Set: set("word", `"other"`)}, []string{"look", "change"}, change, none},
		"an input of an effect":     {api.ForkRequest{Set: set("n", `2`)}, []string{"look", "tell"}, none, change},
		"the revision of two reads": {api.ForkRequest{At: "3", Set: set("n", `2`)}, nil, none, change},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.r.ID, c.r.DryRun = id, true
			reply, err := n.Fork(t.Context(), c.r)
			require.NoError(t, err)
			if c.reused != nil {
				assert.Equal(t, c.reused, reply.Reused)
			}
			assert.Equal(t, c.stands, reply.StandsOn)
			assert.Equal(t, c.repeat, reply.Repeats)
			assert.Len(t, reply.Live, 4-len(reply.Reused))
			assert.Empty(t, reply.ID)
		})
	}
	t.Cleanup(func() { assert.Len(t, n.list(api.ListRequest{}), 1, "a dry run creates nothing") })
}

// Effects are repeated only on request, and a repeated request makes one task.
func TestForkRepeatsEffectsOnRequest(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log)
	n.serve(failOnWord)
	id := n.submit(forkedPlan)
	require.Equal(t, statemachine.Done, n.result(id).State)
	r := api.ForkRequest{ID: id, Set: set("n", `2`), Fork: events.KeyedTaskID("", "fork"), Actor: "user:ada"}
	_, err := n.Fork(t.Context(), r)
	require.Equal(t, fault.StateNotAllowed, fault.CodeOf(err))
	assert.Equal(t, api.ReasonRepeats, fault.From(err).Reason)
	assert.Contains(t, err.Error(), "change")

	r.Repeat = []string{"change"}
	first, err := n.Fork(t.Context(), r)
	require.NoError(t, err)
	r.Repeat = nil // a repeated request is answered from the task that there is
	again, err := n.Fork(t.Context(), r)
	require.NoError(t, err)
	assert.True(t, again.Existing)
	assert.Equal(t, []any{first.ID, first.At, first.Reused, first.Live}, []any{again.ID, again.At, again.Reused, again.Live})
	_, err = n.Fork(t.Context(), api.ForkRequest{ID: first.ID, Fork: id})
	assert.Equal(t, fault.Conflict, fault.CodeOf(err))
	_, err = n.Fork(t.Context(), api.ForkRequest{ID: id, Fork: "x"})
	assert.Equal(t, "fork", fault.From(err).Field)

	require.Equal(t, statemachine.Done, n.result(first.ID).State)
	view, err := n.Get(t.Context(), api.GetRequest{ID: first.ID})
	require.NoError(t, err)
	assert.Equal(t, id, view.ForkOf)
	assert.Equal(t, first.At, view.ForkAt)
	assert.Empty(t, view.RetryOf)
	assert.JSONEq(t, `{"n":2,"word":"fine"}`, string(view.Inputs))
	replay, err := n.Replay(t.Context(), api.ReplayRequest{ID: first.ID})
	require.NoError(t, err)
	require.NotNil(t, replay.Live)
	assert.True(t, *replay.Live)

	next, err := n.Fork(t.Context(), api.ForkRequest{ID: first.ID, DryRun: true, At: "end"})
	require.NoError(t, err)
	assert.Equal(t, []api.ForkEffect{{Step: "change", Tool: "WRITE", Effect: "write"}}, next.StandsOn)
	reused, err := n.Fork(t.Context(), api.ForkRequest{ID: id, At: "end"})
	require.NoError(t, err)
	require.Equal(t, statemachine.Done, n.result(reused.ID).State)
	next, err = n.Fork(t.Context(), api.ForkRequest{ID: reused.ID, DryRun: true, At: "change"})
	require.NoError(t, err)
	assert.Equal(t, []api.ForkEffect{{Step: "change", Tool: "WRITE", Effect: "write"}}, next.Repeats, "the effect of an earlier task counts")

	diff, err := n.Diff(t.Context(), api.DiffRequest{A: id, B: first.ID})
	require.NoError(t, err)
	assert.Contains(t, diff.Entries, api.Difference{Part: "inputs", Path: "inputs.n", A: json.RawMessage(`1`), B: json.RawMessage(`2`)})
	assert.Contains(t, diff.Entries, api.Difference{Part: "steps", Path: "change.args.n", A: json.RawMessage(`1`), B: json.RawMessage(`2`)})
	_, err = n.Diff(t.Context(), api.DiffRequest{A: id, B: events.KeyedTaskID("", "none")})
	assert.Equal(t, fault.NotFound, fault.CodeOf(err))
	assert.Equal(t, "b", fault.From(err).Field)
}

// A task that has not ended can be forked, and so can a failed one, which stays in the dead letter.
func TestForkOfOpenAndFailedTasks(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	open := n.submit(onePlan)
	call := n.take("w")
	reply, err := n.Fork(t.Context(), api.ForkRequest{ID: open})
	require.NoError(t, err)
	assert.Empty(t, reply.Reused)

	require.NoError(t, n.fail("w", call, "denied"))
	require.Equal(t, statemachine.Failed, n.result(open).State)
	_, err = n.Fork(t.Context(), api.ForkRequest{ID: open})
	require.NoError(t, err)
	assert.Equal(t, []events.TaskID{open}, n.deadList())
}

func TestForkRefuses(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	n.serve(failOnWord)
	id := n.submit(forkedPlan)
	require.Equal(t, statemachine.Done, n.result(id).State)
	for field, r := range map[string]api.ForkRequest{
		"at":           {At: "nope"},
		"live_from":    {LiveFrom: "nope"},
		"repeat":       {Repeat: []string{"nope"}},
		"inputs.other": {Set: set("other", `1`)},
		"inputs.n":     {Set: set("n", `"x"`), Repeat: []string{"all"}},
	} {
		r.ID = id
		_, err := n.Fork(t.Context(), r)
		require.Error(t, err, field)
		assert.Equal(t, field, fault.From(err).Field)
	}
	for _, at := range []string{"0", "99"} {
		_, err := n.Fork(t.Context(), api.ForkRequest{ID: id, At: at})
		assert.Equal(t, "at", fault.From(err).Field, at)
	}
	assert.Len(t, n.list(api.ListRequest{}), 1)
}

// A person is asked again about what runs live: a grant belongs to its task.
func TestForkAsksAgain(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	n.serve(failOnWord)
	id := n.submit(`
orch: v1
steps:
  - {id: agree, approve: {description: "go on?", timeout: 1h}}
  - {id: look, tool: READ, needs: [agree], with: {n: 1}}
  - {id: tell, tool: READ, needs: [agree], with: {n: 2}}
`)
	list, err := n.Approvals(t.Context(), api.ApprovalsRequest{Task: id})
	require.NoError(t, err)
	require.Len(t, list.Approvals, 1)
	_, err = n.Decide(t.Context(), api.DecideRequest{ID: list.Approvals[0].ID, As: "granted", Actor: "user:ada"})
	require.NoError(t, err)
	require.Equal(t, statemachine.Done, n.result(id).State)
	reply, err := n.Fork(t.Context(), api.ForkRequest{ID: id, At: "tell"})
	require.NoError(t, err)
	assert.Equal(t, []string{"look"}, reply.Reused)
	list, err = n.Approvals(t.Context(), api.ApprovalsRequest{Task: reply.ID})
	require.NoError(t, err)
	require.Len(t, list.Approvals, 1, "the fork asks anew")
	_, err = n.Decide(t.Context(), api.DecideRequest{ID: list.Approvals[0].ID, As: "granted", Actor: "user:ada"})
	require.NoError(t, err)
	assert.Equal(t, statemachine.Done, n.result(reply.ID).State)
}

// A fork and a retry know the files that the results which they reuse have read, and no others. So does a fork of them.
func TestForkKnowsWhatReusedStepsHaveRead(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(forkedPlan)
	report := func(sum string) { // the call reads a file; what it says about its step does not count
		c := n.take("w")
		read := events.Event{Kind: events.FileRead, Data: &events.Read{Path: "/" + c.Step, SHA256: sum, Step: "tell"}}
		require.NoError(t, n.Report(t.Context(), work.Outcome{Ref: c.Ref, Worker: "w", Output: json.RawMessage(`{"n":1}`), Facts: []events.Event{read}}))
	}
	for range 4 {
		report("first")
	}
	require.Equal(t, statemachine.Done, n.result(id).State)
	reads := func(id events.TaskID) map[string]string {
		r, err := n.Replay(t.Context(), api.ReplayRequest{ID: id})
		require.NoError(t, err)
		return r.Task.Reads
	}
	fork, err := n.Fork(t.Context(), api.ForkRequest{ID: id, At: "tell"})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"/look": "first", "/change": "first"}, reads(fork.ID))
	report("second")
	assert.Equal(t, map[string]string{"/look": "first", "/change": "first", "/tell": "second"}, reads(fork.ID))
	report("second")
	again, err := n.Fork(t.Context(), api.ForkRequest{ID: fork.ID, At: "end"})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"/look": "first", "/change": "first", "/tell": "second"}, reads(again.ID))
	retry, err := n.Retry(t.Context(), api.RetryRequest{ID: id, From: "end"})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"/look": "first", "/change": "first", "/tell": "first"}, reads(retry.ID))
}
