package orchestrator_test

import (
	"slices"
	"strings"
	"testing"
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

const agentsPlan = `
orch: v1
name: for agents
steps:
  - {id: any, tool: AGENT}
  - {id: research, tool: AGENT, with: {requires: [search, cite]}}
  - {id: typed, tool: AGENT, with: {type: analyst}}
  - {id: ada, tool: AGENT, with: {agent: ada, requires: [cite]}}
`

// ask polls as an agent and returns the steps of the calls that it got.
func (n *node) askAs(a *work.Agent) []string {
	n.t.Helper()
	b, err := n.Poll(n.ctx(), work.Poll{Worker: "agent:" + a.Name, Queues: []string{"agents"}, Free: 9, Agent: a})
	require.NoError(n.t, err)
	var steps []string
	for _, c := range b.Calls {
		steps = append(steps, c.Step)
	}
	return steps
}

// Calls for agents go to agents that fit, and to no worker.
func TestCallsForAgents(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), patient)
	id := n.submit(agentsPlan)
	b, err := n.Poll(n.ctx(), work.Poll{Worker: "w", Queues: []string{"default", "agents"}, Free: 9})
	require.NoError(t, err)
	assert.Empty(t, b.Calls, "a worker is no agent")
	assert.Equal(t, &events.Agents{Requires: []string{"cite", "search"}}, n.step(id, "research").For)

	why, err := n.Explain(n.ctx(), api.GetRequest{ID: id})
	require.NoError(t, err)
	assert.Equal(t, "no_worker", why.Causes[0].Kind)
	assert.Contains(t, why.Causes[0].Sentence, "no such agent is online")

	eve := &work.Agent{Name: "eve", Type: "analyst", Capabilities: []string{"search", "cite"}, For: "user:eve"}
	assert.Empty(t, n.askAs(eve), "she works for another one")
	why, err = n.Explain(n.ctx(), api.GetRequest{ID: id})
	require.NoError(t, err)
	for _, c := range why.Causes[:3] {
		assert.Contains(t, c.Sentence, "those that are online work only for whoever registered them, not for user:test")
	}
	assert.Contains(t, why.Causes[3].Sentence, "the agent ada capable of cite, and no such agent is online")
	assert.ElementsMatch(t, []string{"any"}, n.askAs(&work.Agent{Name: "bob", Type: "developer", Capabilities: []string{"cite"}}))
	assert.ElementsMatch(t, []string{"ada"}, n.askAs(&work.Agent{Name: "ada", Type: "developer", Capabilities: []string{"cite"}}))
	assert.ElementsMatch(t, []string{"typed"}, n.askAs(&work.Agent{Name: "cy", Type: "analyst", Capabilities: []string{"search"}}))
	assert.ElementsMatch(t, []string{"research"}, n.askAs(&work.Agent{Name: "di", Type: "analyst", Capabilities: []string{"search", "write", "cite"}}))
	assert.Empty(t, n.askAs(&work.Agent{Name: "di", Type: "analyst", Capabilities: []string{"search", "write", "cite"}}))
}

// Invalid arguments select no agents, and are not stored in the log a second time, whatever their size.
func TestRefusedArgumentsSelectNobody(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), patient)
	for name, requires := range map[string]string{
		"a name too long": "[" + strings.Repeat("x", 65) + "]",
		"too many names":  "[x" + strings.Repeat(", x", 32) + "]",
		"no list":         "x",
	} {
		// An input keeps the plan itself from being refused.
		id := n.submit("orch: v1\nname: refused\ninputs: {properties: {names: {default: " + requires + "}}}\n" +
			"steps:\n  - {id: a, tool: AGENT, with: {requires: '${{ inputs.names }}'}}\n")
		assert.Equal(t, &events.Agents{}, n.step(id, "a").For, name)
	}
}

const onePlanForAgents = `
orch: v1
name: for one
steps:
  - {id: a, tool: AGENT}
`

// An agent hands its call to another one. The call is not in doubt, and uses up no retry. The log names both agents.
func TestHandOff(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log, patient)
	id := n.submit(onePlanForAgents)
	bob := &work.Agent{Name: "bob"}
	require.Equal(t, []string{"a"}, n.askAs(bob))
	ref := work.Ref{Task: id, Step: "a", Attempt: 1}
	require.NoError(t, n.Start(n.ctx(), work.Started{Ref: ref, Worker: "agent:bob", Effect: "write"}))
	handed := work.Outcome{
		Ref: ref, Worker: "agent:bob", Class: "handoff", HandTo: &events.Agents{Agent: "ada"},
		Error: fault.New(fault.Unavailable, "ada knows more"),
	}
	require.NoError(t, n.Report(n.ctx(), handed))

	n.stop()
	n = start(t, log, patient)
	assert.Empty(t, n.askAs(bob))
	require.Equal(t, []string{"a"}, n.askAs(&work.Agent{Name: "ada"}))
	ref.Attempt = 2
	err := n.Report(n.ctx(), work.Outcome{Ref: ref, Worker: "agent:bob", Output: []byte(`{}`)})
	require.True(t, fault.Has(err, fault.Conflict), "it is no longer bob's: %v", err)
	require.NoError(t, n.Report(n.ctx(), work.Outcome{Ref: ref, Worker: "agent:ada", Output: []byte(`{}`)}))
	assert.Equal(t, statemachine.Done, n.result(id).State)
	assert.Zero(t, n.step(id, "a").Lost)
	n.checkReplay(id)
	assert.Equal(t, "agent:ada", n.step(id, "a").Worker)
}

// An agent holds only the calls that it was given: it cannot acquire a call by reporting it.
func TestAgentTakesNothingByTalking(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), patient)
	for _, plan := range []string{onePlanForAgents, "orch: v1\nname: for workers\nsteps:\n  - {id: a, tool: WRITE}\n"} {
		id := n.submit(plan)
		ref := work.Ref{Task: id, Step: "a", Attempt: 1}
		reply, err := n.Heartbeat(n.ctx(), work.Heartbeat{Worker: "agent:eve", Calls: []work.CallHeartbeat{{Ref: ref}}})
		require.NoError(t, err)
		assert.Equal(t, []work.Ref{ref}, reply.Stop)
		err = n.Report(n.ctx(), work.Outcome{Ref: ref, Worker: "agent:eve", Output: []byte(`{}`)})
		assert.True(t, fault.Has(err, fault.Conflict), "%v", err)
		err = n.Start(n.ctx(), work.Started{Ref: ref, Worker: "agent:eve"})
		assert.True(t, fault.Has(err, fault.Conflict), "%v", err)
		assert.Equal(t, statemachine.StepReady, n.step(id, "a").State)
	}
}

// A call that is handed to nobody in particular is still for its former selection of agents, and is not handed on forever.
func TestHandOffKeepsSelectionAndEnds(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), patient)
	id := n.submit("orch: v1\nname: for one\nsteps:\n  - {id: a, tool: AGENT, with: {requires: [cite]}}\n")
	bob, ada := &work.Agent{Name: "bob"}, &work.Agent{Name: "ada", Capabilities: []string{"cite"}}
	for attempt := 1; attempt <= 100; attempt++ {
		require.Empty(t, n.askAs(bob))
		require.Equal(t, []string{"a"}, n.askAs(ada), "attempt %d", attempt)
		require.NoError(t, n.Report(n.ctx(), work.Outcome{
			Ref: work.Ref{Task: id, Step: "a", Attempt: attempt}, Worker: "agent:ada", Class: "handoff", HandTo: &events.Agents{},
			Error: fault.New(fault.Unavailable, "not now"),
		}))
	}
	assert.Contains(t, n.result(id).Error.Error(), "100 agents have handed the call on")
	n.checkReplay(id)
}

// began starts the call of an agent like the dispatcher does: before the agent receives it.
func (n *node) began(ref work.Ref, agent string) {
	n.t.Helper()
	require.NoError(n.t, n.Start(n.ctx(), work.Started{Ref: ref, Worker: "agent:" + agent, Effect: "write"}))
}

// T-1 assign, start, release: a task whose first call an agent has is assigned until the agent says that it has it, and
// nobody's again when the agent gives it back.
func TestAssigned(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), patient)
	id := n.submit(onePlanForAgents)
	ada := &work.Agent{Name: "ada"}
	ref := work.Ref{Task: id, Step: "a", Attempt: 1}
	require.Equal(t, []string{"a"}, n.askAs(ada))
	assert.Equal(t, statemachine.NeedsAction, n.get(id).State, "it is on its way through the gates")
	n.began(ref, "ada")
	assert.Equal(t, statemachine.Assigned, n.get(id).State)
	assert.Equal(t, 1, n.queue(api.QueueRequest{}).Stats.Assigned)
	assert.Empty(t, n.queue(api.QueueRequest{}).Tasks)
	assert.Len(t, n.queue(api.QueueRequest{Status: "assigned"}).Tasks, 1)

	require.NoError(t, n.Report(n.ctx(), work.Outcome{
		Ref: ref, Worker: "agent:ada", Class: "handoff", HandTo: &events.Agents{}, Error: fault.New(fault.Unavailable, "not now"),
	}))
	assert.Equal(t, statemachine.NeedsAction, n.get(id).State, "nobody has it")
	require.Equal(t, []string{"a"}, n.askAs(ada))
	ref.Attempt = 2
	n.began(ref, "ada")
	pulse := func(p work.CallHeartbeat) {
		reply, err := n.Heartbeat(n.ctx(), work.Heartbeat{Worker: "agent:ada", Calls: []work.CallHeartbeat{p}})
		require.NoError(t, err)
		assert.Empty(t, reply.Stop)
	}
	pulse(work.CallHeartbeat{Ref: ref, Undelivered: true})
	assert.Equal(t, statemachine.Assigned, n.get(id).State, "it was only sent")
	pulse(work.CallHeartbeat{Ref: ref})
	require.Eventually(t, func() bool { return n.get(id).State == statemachine.InProgress }, time.Minute, time.Millisecond)
	require.NoError(t, n.Report(n.ctx(), work.Outcome{Ref: ref, Worker: "agent:ada", Output: []byte(`{}`)}))
	assert.Equal(t, statemachine.Done, n.result(id).State)
	assert.Equal(t, []events.Kind{
		events.TaskAssigned, events.TaskReleased, events.TaskAssigned, events.TaskStarted, events.TaskFinished,
	}, n.moves(id))
	n.checkReplay(id)
}

// A call is in doubt if its agent is silent from the start. An agent that reports at once never confirms the call.
func TestAssignedToSilence(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), patient)
	id := n.submit(onePlanForAgents)
	require.Equal(t, []string{"a"}, n.askAs(&work.Agent{Name: "ada"}))
	ref := work.Ref{Task: id, Step: "a", Attempt: 1}
	n.began(ref, "ada")
	require.NoError(t, n.Report(n.ctx(), work.Outcome{Ref: ref, Worker: "agent:ada", Class: "shutdown", Error: fault.New(fault.Unavailable, "bye")}))
	assert.Equal(t, statemachine.Blocked, n.get(id).State, "it may have begun")

	id = n.submit(onePlanForAgents)
	require.Equal(t, []string{"a"}, n.askAs(&work.Agent{Name: "ada"}))
	ref.Task = id
	n.began(ref, "ada")
	require.NoError(t, n.Report(n.ctx(), work.Outcome{Ref: ref, Worker: "agent:ada", Output: []byte(`{}`)}))
	assert.Equal(t, statemachine.Done, n.result(id).State)
	assert.Equal(t, []events.Kind{events.TaskAssigned, events.TaskStarted, events.TaskFinished}, n.moves(id))
	n.checkReplay(id)
}

// moves returns the kinds of the transitions of a task, in order.
func (n *node) moves(id events.TaskID) []events.Kind {
	n.t.Helper()
	var kinds []events.Kind
	for _, k := range n.kinds(id) {
		if slices.ContainsFunc(statemachine.Table(), func(r statemachine.Transition) bool { return r.Kind == k }) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// The retry rule that an agent wishes applies where the plan has none, and never to calls with effects.
func TestRetriesOfAgents(t *testing.T) {
	t.Parallel()
	for plan, want := range map[string]statemachine.StepState{
		"{id: a, tool: AGENT, effect: idempotent}":                             statemachine.StepReady,
		"{id: a, tool: AGENT, effect: write}":                                  statemachine.StepFailed,
		"{id: a, tool: AGENT, effect: idempotent, retry: {max_attempts: 1}}":   statemachine.StepFailed,
		"{id: a, tool: AGENT, effect: write, retry: {initial: 1ms, max: 1ms}}": statemachine.StepReady,
	} {
		n := start(t, memlog.New(memlog.Config{}), patient)
		id := n.submit("{orch: v1, name: retried, steps: [" + plan + "]}")
		require.Equal(t, []string{"a"}, n.askAs(&work.Agent{Name: "ada"}))
		ref := work.Ref{Task: id, Step: "a", Attempt: 1}
		n.began(ref, "ada")
		require.NoError(t, n.Report(n.ctx(), work.Outcome{
			Ref: ref, Worker: "agent:ada", Class: "tool_error", Error: fault.New(fault.ToolFailed, "not now"), Retry: &work.Retry{Max: 1},
		}))
		require.Eventually(t, func() bool { return n.step(id, "a").State == want }, time.Minute, time.Millisecond, plan)
		if want == statemachine.StepReady {
			assert.Equal(t, 2, n.step(id, "a").Attempt, plan)
		}
		n.checkReplay(id)
	}
}

// A repeated report, after a lost answer, is no conflict, also after a restart. Another outcome of the same call is one.
func TestRepeatedReportsOfAgents(t *testing.T) {
	t.Parallel()
	large := func(c string) []byte { return []byte(`"` + strings.Repeat(c, 100<<10) + `"`) }
	failed := func(code fault.Code, class, message string) work.Outcome {
		return work.Outcome{Class: class, Error: fault.New(code, "%s", message)}
	}
	for name, test := range map[string]struct {
		effect      string
		said, other work.Outcome
	}{
		"result":   {"write", work.Outcome{Output: []byte(`{"n": 1}`)}, work.Outcome{Output: []byte(`{"n":2}`)}},
		"large":    {"write", work.Outcome{Output: large("a")}, work.Outcome{Output: large("b")}},
		"success":  {"write", work.Outcome{Output: []byte(`1`)}, failed(fault.ToolFailed, "tool_error", "no")},
		"failure":  {"write", failed(fault.ToolFailed, "tool_error", "no"), failed(fault.ToolFailed, "tool_error", "never")},
		"in doubt": {"write", failed(fault.Unavailable, "shutdown", "not now"), failed(fault.Unavailable, "shutdown", "never")},
		"waits":    {"idempotent", failed(fault.ToolFailed, "tool_error", "no"), work.Outcome{Output: []byte(`1`)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := memlog.New(memlog.Config{})
			n := start(t, log, patient)
			id := n.submit("orch: v1\nname: for one\nsteps:\n  - {id: a, tool: AGENT, effect: " + test.effect + ", retry: {max_attempts: 2, initial: 1h}}\n")
			require.Equal(t, []string{"a"}, n.askAs(&work.Agent{Name: "ada"}))
			ref := work.Ref{Task: id, Step: "a", Attempt: 1}
			require.NoError(t, n.Start(n.ctx(), work.Started{Ref: ref, Worker: "agent:ada", Effect: test.effect}))
			for _, o := range []*work.Outcome{&test.said, &test.other} {
				o.Ref, o.Worker, o.Unleased = ref, "agent:ada", true
			}
			require.NoError(t, n.Report(n.ctx(), test.said))
			for range 2 {
				require.NoError(t, n.Report(n.ctx(), test.said), "it may not have heard the answer")
				err := n.Report(n.ctx(), test.other)
				assert.True(t, fault.Has(err, fault.Conflict), "%v", err)
				n.stop()
				n = start(t, log, patient)
			}
		})
	}
}

// The node does not wait for an agent that has announced its end.
func TestExplainAfterAGoodbye(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), patient)
	require.Empty(t, n.askAs(&work.Agent{Name: "ada"}))
	id := n.submit(onePlanForAgents)
	assert.NotContains(t, n.cause(id).Sentence, "no such agent is online")
	_, err := n.Heartbeat(n.ctx(), work.Heartbeat{Worker: "agent:ada", Final: true})
	require.NoError(t, err)
	assert.Contains(t, n.cause(id).Sentence, "no such agent is online")
}
