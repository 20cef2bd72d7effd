package agents_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

// revoker is an owner that cancels a call while its agent waits.
type revoker struct {
	endlessOwner

	polls  []work.Poll
	cancel []work.Ref
}

func (o *revoker) Poll(_ context.Context, p work.Poll) (work.Batch, error) {
	o.polls = append(o.polls, p)
	return work.Batch{Cancel: o.cancel}, nil
}

// An agent at its limit learns from its claim which calls to stop, and is listed with them until it has stopped them.
func TestFullAgentHearsOfStops(t *testing.T) {
	t.Parallel()
	ref := work.Ref{Task: "TASK_01JD0000000000000000000000", Step: "a", Attempt: 1}
	o := &revoker{cancel: []work.Ref{ref}}
	var running map[string][]agents.RunningCall
	r := agents.NewRegistry(agents.Config{
		Credentials: &memberList{members: []agents.Member{member("ada")}},
		Running:     func(context.Context) (map[string][]agents.RunningCall, error) { return running, nil },
	})
	d := agents.NewDispatcher(o, gates{endlessOwner: &o.endlessOwner}, r)
	got, err := d.Claim(t.Context(), member("ada"), agents.Claim{Has: []work.Ref{ref}})
	require.NoError(t, err)
	assert.Equal(t, []work.Ref{ref}, got.Stop)
	require.Len(t, o.polls, 1)
	assert.Zero(t, o.polls[0].Free)

	view := func() agents.View {
		views, err := r.Agents(t.Context())
		require.NoError(t, err)
		return views[0]
	}
	assert.Equal(t, []agents.RunningCall{{Ref: ref, Ending: true}}, view().Calls)
	assert.NotEqual(t, agents.Idle, view().Status)
	running = map[string][]agents.RunningCall{"agent:ada": {{Ref: ref}}}
	assert.Equal(t, []agents.RunningCall{{Ref: ref}}, view().Calls, "it is its own")
	assert.Equal(t, 1, view().Current)
	running = nil
	_, err = d.Claim(t.Context(), member("ada"), agents.Claim{Free: 1})
	require.NoError(t, err)
	assert.Empty(t, view().Calls)
	assert.Equal(t, agents.Idle, view().Status)
}

// A call can be handed over by name only to a registered agent.
func TestHandOnToNobody(t *testing.T) {
	t.Parallel()
	l := &ledger{endlessOwner: endlessOwner{each: 1}}
	d := agents.NewDispatcher(l, &willing{}, agents.NewRegistry(agents.Config{
		Credentials: &memberList{members: []agents.Member{member("ada"), member("bob")}},
	}))
	ref := work.Ref{Task: "TASK_01JD0000000000000000000000", Step: "a", Attempt: 1}
	err := d.Report(t.Context(), member("ada"), agents.Report{Ref: ref, HandTo: &events.Agents{Agent: "bop"}})
	require.Equal(t, fault.NotFound, fault.CodeOf(err))
	assert.Equal(t, "hand_to.agent", fault.From(err).Field)
	assert.Empty(t, l.reported)
	require.NoError(t, d.Report(t.Context(), member("ada"), agents.Report{Ref: ref, HandTo: &events.Agents{Agent: "bob"}}))
	assert.Len(t, l.reported, 1)
}

// A released call is made by another agent after a delay; it is in doubt only if the agent is unsure.
func TestReleaseIsNoDoubt(t *testing.T) {
	t.Parallel()
	o := &willing{}
	d := agents.NewDispatcher(o, o, agents.NewRegistry(agents.Config{}))
	ref := work.Ref{Task: "TASK_01JD0000000000000000000000", Step: "a", Attempt: 1}
	require.NoError(t, d.Report(t.Context(), member("ada"), agents.Report{Ref: ref, Release: true, Error: "no time"}))
	assert.Equal(t, fault.ClassHandoff, o.reported.Class)
	assert.Equal(t, &events.Agents{}, o.reported.HandTo)
	assert.False(t, o.reported.Error.RetryAt.IsZero())
	assert.Contains(t, o.reported.Error.Message, "has given the call back: no time")
	require.NoError(t, d.Report(t.Context(), member("ada"), agents.Report{Ref: ref, Release: true, Unsure: true}))
	assert.Equal(t, fault.ClassShutdown, o.reported.Class)
	assert.Nil(t, o.reported.HandTo)
	err := d.Report(t.Context(), member("ada"), agents.Report{Ref: ref, Unsure: true, Error: "x"})
	assert.Equal(t, "unsure", fault.From(err).Field)
}
