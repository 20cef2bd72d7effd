package orchestrator_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/dispatch"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

const customerPlan = `
orch: v1
name: customer
inputs: {properties: {customer: {type: string}}, required: [customer]}
limits: {key: "${{ inputs.customer }}"}
`

// of gives a task a customer.
func of(customer string) func(*api.SubmitRequest) {
	return func(r *api.SubmitRequest) { r.Inputs = json.RawMessage(`{"customer":"` + customer + `"}`) }
}

func oneEach() option { return limited(dispatch.Limit{Running: 1, By: dispatch.ByKey}) }

// keysOf returns the limit keys of all tasks, by id.
func (n *node) keysOf(ids ...events.TaskID) []string {
	n.t.Helper()
	var keys []string
	for _, id := range ids {
		keys = append(keys, n.submitted(id).LimitKey)
	}
	return keys
}

// A limit for each key holds for all that a task leads to: the parts of its loops, and its child tasks, whatever their plans say. It holds
// over a restart.
func TestKeyHoldsInLoopsAndChildren(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{})
		n := start(t, log, short, oneEach())
		loop := n.submit(customerPlan+"steps: [{id: each, for_each: '1..6', on_item_error: continue, do: [{id: a, tool: READ}]}]", of("acme"))
		child := n.submit(customerPlan+"steps: [{id: r, run: {orch: v1, limits: {key: mine}, steps: [{id: a, tool: READ}, {id: b, tool: READ, with: {n: 2}}]}}]", of("acme"))
		other := n.submit(customerPlan+"steps: [{id: a, tool: READ}]", of("bell"))
		synctest.Wait()
		first, second := n.take("w"), n.take("w")
		held := map[string]work.Call{n.submitted(first.Task).LimitKey: first, n.submitted(second.Task).LimitKey: second}
		require.Contains(t, held, "acme")
		require.Equal(t, other, held["bell"].Task)
		n.none("w")
		for _, c := range held {
			require.NoError(t, n.Start(t.Context(), startedBy("w", c)))
		}
		n.stop()
		n = start(t, log, short, oneEach())
		n.none("v")
		calls := 1
		for c := held["acme"]; ; calls++ {
			require.NoError(t, n.report("w", c, `{"n":1}`))
			synctest.Wait()
			if n.get(loop).State == statemachine.Done && n.get(child).State == statemachine.Done {
				break
			}
			c = n.take("w")
			n.none("v")
		}
		assert.Equal(t, 8, calls)
		parts := n.partsOf(loop, "each")
		assert.Len(t, parts, 3)
		assert.Equal(t, strings.Fields("acme acme acme acme acme"), n.keysOf(append(parts, loop, n.get(child).Steps[0].Child)...))
		n.stop()
	})
}

// A task without a key leaves its children theirs, and explain says under which key a call counts.
func TestChildrenHaveKeysOfTheirOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short, oneEach())
		id := n.submit(`
orch: v1
steps:
  - {id: a, with: {customer: acme}, run: &one {orch: v1, inputs: {properties: {customer: {type: string}}}, limits: {key: "${{ inputs.customer }}"}, steps: [{id: x, tool: READ}, {id: y, tool: READ}]}}
  - {id: b, with: {customer: bell}, run: *one}
  - {id: c, tool: READ}
  - {id: d, tool: READ}
`)
		synctest.Wait()
		assert.Len(t, n.poll("w", 10).Calls, 3, "one of each child, and one of the task itself")
		view := n.get(id)
		assert.Equal(t, []string{"acme", "bell", ""}, n.keysOf(view.Steps[0].Child, view.Steps[1].Child, id))
		acme := n.causeOf(view.Steps[0].Child, "x") + n.causeOf(view.Steps[0].Child, "y")
		assert.Contains(t, acme, `(call_limits): at most 1 at the same time for each key. The key is "acme".`)
		assert.Contains(t, n.causeOf(id, "c")+n.causeOf(id, "d"), "for each key. The plan gives no key (limits.key).")
		n.stop()
	})
}

// A retry and a fork have the key of their original, also of one that has it from above.
func TestContinuedTasksKeepTheKey(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	n.serve(failOnWord)
	id := n.submit(customerPlan+"steps: [{id: r, run: {orch: v1, steps: [{id: a, tool: READ, with: {text: fail}}]}}]", of("acme"))
	require.Equal(t, statemachine.Failed, n.result(id).State)
	child := n.get(id).Steps[0].Child
	var all []events.TaskID
	for _, of := range []events.TaskID{id, child} {
		retry, err := n.Retry(t.Context(), api.RetryRequest{ID: of})
		require.NoError(t, err)
		require.Equal(t, statemachine.Failed, n.result(retry.ID).State)
		fork, err := n.Fork(t.Context(), api.ForkRequest{ID: retry.ID, At: map[bool]string{true: "r", false: "a"}[of == id], Repeat: []string{api.RepeatAll}})
		require.NoError(t, err)
		all = append(all, retry.ID, fork.ID)
	}
	assert.Equal(t, strings.Fields("acme acme acme acme"), n.keysOf(all...))
}

// A child that a call starts cannot leave the key of its parent.
func TestSpawnedChildHasTheKey(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	n.submit(customerPlan+"steps: [{id: s, tool: SPAWN}]", of("acme"))
	require.NoError(t, n.spawn("w", n.take("w"), agentPlan+"limits: {key: other}\n", "hello"))
	assert.Equal(t, "acme", n.submitted(n.take("w").Task).LimitKey)
}

// A key that cannot be used refuses the submission, and names the field.
func TestLimitKeyIsChecked(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	for _, customer := range []string{"", strings.Repeat("x", 513)} {
		_, err := n.trySubmit(customerPlan+"steps: [{id: a, tool: READ}]", of(customer))
		require.Error(t, err)
		assert.Equal(t, fault.ValidationError, fault.CodeOf(err))
		assert.Equal(t, "limits.key", fault.From(err).Field)
	}
	id := n.submit(customerPlan+"steps: [{id: a, tool: READ}]", of(strings.Repeat("x", 512)))
	assert.Len(t, n.submitted(id).LimitKey, 512)
}

// A task that an agent submits for its call has the key of that call's task.
func TestDelegatedTaskHasTheKey(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), patient)
	n.submit(customerPlan+"steps: [{id: a, tool: AGENT, timeout: 30m}]", of("acme"))
	id := n.submit("orch: v1\nlimits: {key: other}\nsteps: [{id: w, wait: {signal: go}}]", heldFor("ada", n.hold("ada")))
	assert.Equal(t, "acme", n.submitted(id).LimitKey)
}
