package receiver_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/hooks"
	"github.com/orch-dev/orch/receiver"
)

// A task carries how many deliveries have led to it, and a loop ends.
func TestLoopsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start()
	w.put(r, "deploy", github())
	deliver := func(id, hops string) (receiver.Answer, error) {
		t.Helper()
		d := w.delivery("deploy", id, `{"ref":"main"}`, secret)
		d.Headers[hooks.HeaderHops] = hops
		return r.Receive(t.Context(), d)
	}
	answer, err := deliver("id-1", "8")
	require.NoError(t, err)
	assert.Equal(t, hooks.Accepted, answer.Result)
	assert.Equal(t, 8, w.tasks[events.KeyedTaskID("", "hook/deploy/id-1")].Hook.Hops)
	_, err = deliver("id-2", "9")
	assert.Equal(t, hooks.ReasonLoop, fault.From(err).Reason, "%v", err)
	assert.Len(t, w.tasks, 1)
	v := w.view(r, "deploy")
	assert.Equal(t, hooks.Refused, v.Deliveries[0].Result)
	assert.Equal(t, "the delivery has come through 9 destinations and hooks, the limit is 8", v.Deliveries[0].Reason)
}

// A definition is tried without a hook and without a secret, and is checked like one that is stored.
func TestTestOfADefinition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start()
	before := len(w.journal.Entries)
	d := github()
	d.Inputs = json.RawMessage(`{"ref":"${{ hook.body.ref }}","hook":"${{ hook.name }}"}`)
	ask := api.TestHookRequest{Name: "early", Definition: &d, Body: `{"ref":"main"}`, Delivery: "id-1", Actor: "user:ada"}
	reply, err := r.TestHook(t.Context(), ask)
	require.NoError(t, err)
	assert.Equal(t, hooks.Accepted, reply.Result, reply.Reason)
	assert.Equal(t, "id-1", reply.Delivery)
	assert.JSONEq(t, `{"ref":"main","hook":"early"}`, string(reply.Inputs))
	ask.Body = `{"ref":"skip"}`
	reply, err = r.TestHook(t.Context(), ask)
	require.NoError(t, err)
	assert.Equal(t, hooks.Filtered, reply.Result)
	for field, change := range map[string]func(*api.TestHookRequest){
		"name": func(q *api.TestHookRequest) { q.Name = "X" },
		"when": func(q *api.TestHookRequest) { q.Definition.When = "7" },
	} {
		wrong, copied := ask, d
		wrong.Definition = &copied
		change(&wrong)
		_, err = r.TestHook(t.Context(), wrong)
		require.Error(t, err, field)
		assert.Equal(t, field, fault.From(err).Field)
	}
	assert.Len(t, w.journal.Entries, before)
	assert.Empty(t, w.tasks)
	_, err = r.Hooks(t.Context(), api.HooksRequest{Name: "early"})
	assert.True(t, fault.Has(err, fault.NotFound))
}
