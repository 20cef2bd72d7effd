package statemachine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// turn returns an event turn.requested, or turn.answered with a number of calls, of step a.
func turn(kind events.Kind, number, calls int) events.Event {
	if kind == events.TurnRequested {
		return events.Event{Kind: kind, Data: &events.Turn{Step: "a", Turn: number, Reserved: events.Spent{NanoUSD: 50, Tokens: 40}}}
	}
	usage := events.Usage{Input: 1, CacheRead: 2, CacheWrite: 3, Output: 4}
	return events.Event{Kind: kind, Data: &events.Answered{Step: "a", Turn: number, Calls: calls, Usage: usage, NanoUSD: 9}}
}

func lost(number int) events.Event {
	return events.Event{Kind: events.TurnLost, Data: &events.LostTurn{Step: "a", Turn: number, Cost: events.Spent{Tokens: 40}}}
}

func refused(number int) events.Event {
	return events.Event{Kind: events.TurnRefused, Data: &events.RefusedTurn{Step: "a", Turn: number, CompactAt: 900}}
}

// Every event in every phase of an agent, with the expected and with another number.
func TestTurns(t *testing.T) {
	t.Parallel()
	asked, acting, idle := turn(events.TurnRequested, 1, 0), turn(events.TurnAnswered, 1, 2), turn(events.TurnAnswered, 1, 0)
	for name, test := range map[string]struct {
		path  []events.Event
		event events.Event
		want  statemachine.Phase
	}{
		"the first turn":             {nil, asked, statemachine.AgentAsking},
		"an answer before a turn":    {nil, idle, ""},
		"a turn too far":             {nil, turn(events.TurnRequested, 2, 0), ""},
		"an answer with calls":       {[]events.Event{asked}, acting, statemachine.AgentActing},
		"an answer without calls":    {[]events.Event{asked}, idle, statemachine.AgentIdle},
		"an answer of another turn":  {[]events.Event{asked}, turn(events.TurnAnswered, 2, 0), ""},
		"a lost answer":              {[]events.Event{asked}, lost(1), statemachine.AgentAsking},
		"an answer after a lost one": {[]events.Event{asked, lost(1), lost(1)}, idle, statemachine.AgentIdle},
		"a lost answer too late":     {[]events.Event{asked, idle}, lost(1), ""},
		"a lost answer of no turn":   {[]events.Event{asked}, lost(2), ""},
		"a refused turn":             {[]events.Event{asked}, refused(1), statemachine.AgentIdle},
		"a refusal of no turn":       {[]events.Event{asked}, refused(2), ""},
		"a refusal after the answer": {[]events.Event{asked, acting}, refused(1), ""},
		"an answer after a refusal":  {[]events.Event{asked, refused(1)}, idle, ""},
		"a turn after a refusal":     {[]events.Event{asked, refused(1)}, turn(events.TurnRequested, 2, 0), statemachine.AgentAsking},
		"a turn while asking":        {[]events.Event{asked}, turn(events.TurnRequested, 2, 0), ""},
		"a second answer":            {[]events.Event{asked, acting}, acting, ""},
		"the next turn after calls":  {[]events.Event{asked, acting}, turn(events.TurnRequested, 2, 0), statemachine.AgentAsking},
		"the next turn after text":   {[]events.Event{asked, idle}, turn(events.TurnRequested, 2, 0), statemachine.AgentAsking},
		"the same turn again":        {[]events.Event{asked, idle}, asked, ""},
		"a turn of a step that ends": {[]events.Event{stepEvent(events.StepFailed)}, asked, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := submitted(t)
			require.NoError(t, task.Apply(task.CreatedAt, stepEvent(events.AgentStarted)))
			for _, e := range test.path {
				require.NoError(t, task.Apply(task.CreatedAt, e))
			}
			before := task.Steps["a"].Agent.Phase
			err := task.Apply(task.CreatedAt, test.event)
			if test.want == "" {
				assert.Equal(t, fault.StateNotAllowed, fault.CodeOf(err))
				assert.Equal(t, before, task.Steps["a"].Agent.Phase)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, test.want, task.Steps["a"].Agent.Phase)
		})
	}
}

// What a turn may cost is reserved until its answer is known, and then replaced by what it cost.
func TestTurnsAreCounted(t *testing.T) {
	t.Parallel()
	task := submitted(t)
	require.NoError(t, task.Apply(task.CreatedAt, stepEvent(events.AgentStarted)))
	agent := task.Steps["a"].Agent
	for n := 1; n <= 2; n++ {
		require.NoError(t, task.Apply(task.CreatedAt, turn(events.TurnRequested, n, 0)))
		assert.Equal(t, events.Spent{NanoUSD: 50, Tokens: 40}, agent.Reserved)
		require.NoError(t, task.Apply(task.CreatedAt, turn(events.TurnAnswered, n, 1)))
		assert.Zero(t, agent.Reserved)
	}
	assert.Equal(t, events.Spent{NanoUSD: 18, Tokens: 20, Calls: 2}, agent.Spent)
	assert.Equal(t, fault.StateNotAllowed, fault.CodeOf(task.Apply(task.CreatedAt, events.Event{Kind: events.TurnRequested, Data: &events.Turn{Step: "other", Turn: 1}})))
}

// A refused turn costs nothing, and limits the conversation. What it has heard is heard again.
func TestRefusedTurn(t *testing.T) {
	t.Parallel()
	task := submitted(t)
	require.NoError(t, task.Apply(task.CreatedAt, stepEvent(events.AgentStarted)))
	agent := task.Steps["a"].Agent
	say := func(by string) events.Event {
		return events.Event{Kind: events.AgentTold, Data: &events.Told{Step: "a", Message: events.Message{Text: events.Inline([]byte(`"x"`)), By: by}}}
	}
	require.NoError(t, task.Apply(task.CreatedAt, say("ada")))
	asked := turn(events.TurnRequested, 1, 0)
	asked.Data.(*events.Turn).Heard = agent.Told
	require.NoError(t, task.Apply(task.CreatedAt, asked))
	require.NoError(t, task.Apply(task.CreatedAt, say("bob")))
	require.Nil(t, agent.Limit())
	require.NoError(t, task.Apply(task.CreatedAt, refused(1)))
	assert.Zero(t, agent.Reserved)
	assert.Zero(t, agent.Spent.Plus(agent.Lost))
	assert.Zero(t, agent.Asked())
	require.Len(t, agent.Told, 2)
	assert.Equal(t, "ada", agent.Told[0].By, "what was said first")
	assert.Equal(t, &events.Context{CompactAt: 900, Keep: 4}, agent.Limit())
	require.NoError(t, task.Apply(task.CreatedAt, turn(events.TurnRequested, 2, 0)))
	assert.True(t, agent.Shortened(2))
	assert.False(t, agent.Shortened(1))
}

func TestSplitCall(t *testing.T) {
	t.Parallel()
	for key, want := range map[string][2]string{
		"review": {"review", ""}, "review.t3.c1": {"review", "t3.c1"}, "each[2].review": {"each[2].review", ""},
		"each[2].review.t3.m": {"each[2].review", "t3.m"}, "each[0..999]": {"each[0..999]", ""}, "": {"", ""}, "a]": {"a]", ""},
	} {
		agent, call := statemachine.SplitCall(key)
		assert.Equal(t, want, [2]string{agent, call}, key)
	}
}

// What a child task has cost counts against the budget of the agent whose call has started it, once, also if the call was cancelled.
func TestChildrenAreCharged(t *testing.T) {
	t.Parallel()
	const call = "a.t1.c1"
	spawned := events.Event{Kind: events.StepSpawned, Data: &events.Spawned{Step: call, Child: "TASK_1", Agent: "clerk"}}
	charged := events.Event{Kind: events.TaskCharged, Data: &events.Charged{Step: call, Child: "TASK_1", Cost: events.Spent{NanoUSD: 5, Tokens: 7}}}
	cancelled := events.Event{Kind: events.StepCancelled, Data: &events.Skipped{Step: call}}
	succeeded := events.Event{Kind: events.StepSucceeded, Data: &events.Succeeded{Step: call}}
	for name, test := range map[string]struct {
		events []events.Event
		open   int
		spent  int64
	}{
		"running":           {[]events.Event{spawned}, 1, 0},
		"ended":             {[]events.Event{spawned, charged, succeeded}, 0, 7},
		"ended for nothing": {[]events.Event{spawned, succeeded}, 0, 0},
		"cancelled":         {[]events.Event{spawned, cancelled}, 1, 0},
		"cancelled, ended":  {[]events.Event{spawned, cancelled, charged}, 0, 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := &statemachine.Task{}
			apply := func(e events.Event) { require.NoError(t, task.Apply(time.Unix(1, 0), e)) }
			apply(events.Event{Kind: events.TaskSubmitted, Data: &events.Submitted{}})
			apply(events.Event{Kind: events.AgentStarted, Data: &events.Agent{Step: "a"}})
			apply(turn(events.TurnRequested, 1, 0))
			apply(turn(events.TurnAnswered, 1, 1))
			apply(events.Event{Kind: events.StepReady, Data: &events.Ready{Step: call, Attempt: 1, Tool: "TASK_SPAWN"}})
			apply(events.Event{Kind: events.StepCalled, Data: &events.Called{Step: call, Attempt: 1}})
			for _, e := range test.events {
				apply(e)
			}
			agent := task.Steps["a"].Agent
			assert.Len(t, task.Children, test.open)
			assert.Equal(t, test.spent, task.Charged.Tokens)
			assert.Equal(t, test.spent, agent.Turns[0].Charged.Tokens)
			assert.Equal(t, 10+test.spent, agent.Spent.Tokens)
		})
	}
}
