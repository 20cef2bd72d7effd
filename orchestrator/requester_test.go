package orchestrator_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

const nestedPlan = `
orch: v1
steps:
  - id: sub
    run:
      orch: v1
      steps:
        - id: deeper
          run:
            orch: v1
            steps:
              - {id: a, tool: WRITE, with: {text: hi}}
`

func as(actor string) func(*api.SubmitRequest) {
	return func(r *api.SubmitRequest) { r.Actor = actor }
}

// Policy rules about agents see who submitted the topmost task, in sub-plans of any depth and after a restart.
func TestRequesterOfACall(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log)
	n.submit(guardedPlan, as("agent:bot"))
	assert.Equal(t, "agent:bot", n.take("w").Requester)
	n.submit(nestedPlan, as("agent:nest"))
	c := n.take("w")
	assert.Equal(t, "agent:nest", c.Requester)
	require.NoError(t, n.fail("w", c, "shutdown"))
	n.stop()
	n = start(t, log)
	var requesters []string
	for range 2 {
		requesters = append(requesters, n.take("v").Requester)
	}
	assert.ElementsMatch(t, []string{"agent:bot", "agent:nest"}, requesters)
}

// A call inside a task acts for whoever made it, not for whoever submitted the task.
func TestRequesterOfASingleCall(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) { c.FourEyes = true })
	id := n.submit("orch: v1\nsteps:\n  - {id: a, tool: READ}\n  - {id: b, needs: [a], wait: {signal: go}}\n", as("user:ada"))
	require.NoError(t, n.report("w", n.take("w"), `{}`))
	_, err := n.Call(n.ctx(), api.CallRequest{ID: id, Tool: "WRITE", Args: []byte(`{"text":"x"}`), Actor: "user:eve"})
	require.NoError(t, err)
	c := n.take("w")
	assert.Equal(t, "user:eve", c.Requester)
	n.park("w", c, ask())
	p := n.pending()
	assert.Equal(t, "user:ada", p.Submitter)
	assert.Equal(t, "user:eve", p.Caller)
	for _, actor := range []string{"user:ada", "user:eve"} {
		_, err := n.decide(p.ID, "granted", actor)
		assert.Equal(t, fault.Forbidden, fault.CodeOf(err), actor)
	}
	_, err = n.decide(p.ID, "granted", "user:bob")
	require.NoError(t, err)
	c = n.take("w")
	assert.Equal(t, "user:eve", c.Requester, "also with the grant")
	require.NoError(t, n.report("w", c, `{}`))
	n.checkReplay(id)
}

// An approval of a sub-plan is requested for whoever submitted the topmost task, who cannot decide about it alone.
func TestSubmitterOfASubPlan(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	eyes := func(c *orchestrator.Config) { c.FourEyes = true }
	n := start(t, log, eyes)
	id := n.submit(nestedPlan, as("user:ada"))
	n.park("w", n.take("w"), ask())
	n.stop()
	n = start(t, log, eyes)
	p := n.pending()
	assert.NotEqual(t, id, p.Task)
	assert.Equal(t, "user:ada", p.Submitter)
	_, err := n.decide(p.ID, "granted", "user:ada")
	assert.Equal(t, fault.Forbidden, fault.CodeOf(err))
	_, err = n.decide(p.ID, "granted", "user:bob")
	require.NoError(t, err)
	require.NoError(t, n.report("w", n.take("w"), `{}`))
	assert.Equal(t, statemachine.Done, n.result(id).State)
}

// A sub-plan counts as submitted with its topmost parent, so it cannot make existing files look new.
func TestSinceWhen(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(strings.Replace(nestedPlan, "WRITE", "EITHER", 1))
	c := n.take("w")
	assert.NotEqual(t, id, c.Task)
	assert.True(t, n.get(id).CreatedAt.Equal(c.Since), "%s", c.Since)
}

// CallerOf returns the identity of a running call, and nothing for another attempt.
func TestCallerOf(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log)
	n.submit(nestedPlan, as("agent:nest"))
	c := n.take("w")
	who, err := n.CallerOf(n.ctx(), c.Ref)
	require.NoError(t, err)
	assert.Equal(t, "agent:nest", who)
	for _, change := range []func(*work.Ref){
		func(r *work.Ref) { r.Attempt++ }, func(r *work.Ref) { r.Step = "other" }, func(r *work.Ref) { r.Task = "TASK_other" },
	} {
		other := c.Ref
		change(&other)
		_, err = n.CallerOf(n.ctx(), other)
		assert.Equal(t, fault.Conflict, fault.CodeOf(err), "%+v", other)
	}
	n.stop()
	n = start(t, log)
	_, err = n.CallerOf(n.ctx(), c.Ref)
	assert.Equal(t, fault.Unavailable, fault.CodeOf(err), "nobody has it yet")
	again := n.take("w")
	require.Equal(t, c.Ref, again.Ref)
	who, err = n.CallerOf(n.ctx(), c.Ref)
	require.NoError(t, err)
	assert.Equal(t, "agent:nest", who)
	require.NoError(t, n.report("w", again, `{}`))
	_, err = n.CallerOf(n.ctx(), c.Ref)
	assert.Equal(t, fault.Conflict, fault.CodeOf(err), "it is over")
}
