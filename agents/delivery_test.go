package agents_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

// ledger is an endlessOwner that records reports, and refuses some of them.
type ledger struct {
	endlessOwner

	refuses  map[string]bool
	reported []work.Outcome
}

func (l *ledger) Report(_ context.Context, o work.Outcome) error {
	if l.refuses[o.Step] {
		return fault.New(fault.Unavailable, "the log takes no %s", o.Step)
	}
	l.reported = append(l.reported, o)
	return nil
}

func (l *ledger) steps() (steps []string) {
	for _, o := range l.reported {
		steps = append(steps, o.Step)
	}
	return steps
}

// An undelivered answer requeues only the calls that the agent has not named and that were not delivered again: others
// may have started.
func TestRequeue(t *testing.T) {
	t.Parallel()
	l := &ledger{endlessOwner: endlessOwner{each: 3}}
	d := agents.NewDispatcher(l, gates{endlessOwner: &l.endlessOwner}, agents.NewRegistry(agents.Config{}))
	ada := member("ada")
	first, err := d.Claim(t.Context(), ada, agents.Claim{Free: 3})
	require.NoError(t, err)
	require.Len(t, first.Calls, 3)
	_, err = d.Heartbeat(t.Context(), ada, agents.Heartbeat{Calls: []work.CallHeartbeat{{Ref: first.Calls[0].Ref}}})
	require.NoError(t, err)
	second, err := d.Claim(t.Context(), ada, agents.Claim{Free: 1, Has: []work.Ref{first.Calls[0].Ref}})
	require.NoError(t, err)
	require.Len(t, second.Calls, 1)
	assert.Equal(t, "2", second.Calls[0].Step)

	require.NoError(t, d.Requeue(t.Context(), agents.DeliveryTo(ada, first)))
	assert.Equal(t, []string{"3"}, l.steps(), "1 was named, 2 was given again")
	assert.Equal(t, new(events.Agents), l.reported[0].HandTo)
	assert.Equal(t, "agent:ada", l.reported[0].Worker)
	require.NoError(t, d.Requeue(t.Context(), agents.DeliveryTo(ada, second)))
	require.NoError(t, d.Requeue(t.Context(), agents.DeliveryTo(ada, second)))
	assert.Equal(t, []string{"3", "2"}, l.steps(), "once")
	l.each = 0
	third, err := d.Claim(t.Context(), ada, agents.Claim{Free: 3, Has: []work.Ref{first.Calls[0].Ref}})
	require.NoError(t, err)
	assert.Empty(t, third.Calls)
}

// The owner is notified of requeued calls only after the agent can no longer get them.
func TestRequeueComesBeforeTheWord(t *testing.T) {
	t.Parallel()
	l := &ledger{endlessOwner: endlessOwner{each: 1}, refuses: map[string]bool{"1": true}}
	d := agents.NewDispatcher(l, gates{endlessOwner: &l.endlessOwner}, agents.NewRegistry(agents.Config{}))
	got, err := d.Claim(t.Context(), member("ada"), agents.Claim{Free: 1})
	require.NoError(t, err)
	err = d.Requeue(t.Context(), agents.DeliveryTo(member("ada"), got))
	assert.Equal(t, fault.Unavailable, fault.CodeOf(err))
	l.each = 0
	got, err = d.Claim(t.Context(), member("ada"), agents.Claim{Free: 1})
	require.NoError(t, err)
	assert.Empty(t, got.Calls, "its lease decides")
}

// Requeueing calls of an offline agent does not make it online.
func TestRequeueIsNoSignOfLife(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	h, l := &memberList{members: []agents.Member{member("ada")}}, &ledger{endlessOwner: endlessOwner{each: 1}}
	r := agents.NewRegistry(agents.Config{
		Credentials: h, Clock: func() time.Time { return now }, Running: func(context.Context) (map[string][]agents.RunningCall, error) { return nil, nil },
	})
	d := agents.NewDispatcher(l, gates{endlessOwner: &l.endlessOwner}, r)
	got, err := d.Claim(t.Context(), member("ada"), agents.Claim{Free: 1})
	require.NoError(t, err)
	heard := now
	now = now.Add(agents.OfflineAfter)
	require.NoError(t, d.Requeue(t.Context(), agents.DeliveryTo(member("ada"), got)))
	views, err := r.Agents(t.Context())
	require.NoError(t, err)
	require.Len(t, views, 1)
	assert.Equal(t, agents.Offline, views[0].Status)
	assert.Equal(t, heard, views[0].LastSeen)
}

// All calls of a former process are reported as lost: a failed report does not affect the others, and is repeated.
func TestLostCallsAreToldOneByOne(t *testing.T) {
	t.Parallel()
	l := &ledger{endlessOwner: endlessOwner{each: 3}, refuses: map[string]bool{"1": true, "2": true}}
	d := agents.NewDispatcher(l, gates{endlessOwner: &l.endlessOwner}, agents.NewRegistry(agents.Config{}))
	ada := member("ada")
	got, err := d.Claim(t.Context(), ada, agents.Claim{Free: 3, Instance: "before"})
	require.NoError(t, err)
	require.Len(t, got.Calls, 3)
	var has []work.Ref
	for _, c := range got.Calls {
		has = append(has, c.Ref)
	}
	l.each = 0
	_, err = d.Claim(t.Context(), ada, agents.Claim{Free: 1, Instance: "before", Has: has})
	require.NoError(t, err)
	_, err = d.Heartbeat(t.Context(), ada, agents.Heartbeat{Instance: "now"})
	assert.Equal(t, fault.Unavailable, fault.CodeOf(err))
	require.ErrorContains(t, err, "the log takes no 1")
	require.ErrorContains(t, err, "the log takes no 2")
	assert.Equal(t, []string{"3"}, l.steps())
	delete(l.refuses, "2")
	_, err = d.Heartbeat(t.Context(), ada, agents.Heartbeat{Instance: "now"})
	require.ErrorContains(t, err, "the log takes no 1")
	delete(l.refuses, "1")
	_, err = d.Heartbeat(t.Context(), ada, agents.Heartbeat{Instance: "now"})
	require.NoError(t, err)
	assert.Equal(t, []string{"3", "2", "1"}, l.steps())
	for _, o := range l.reported {
		assert.Equal(t, fault.WorkerLost, fault.CodeOf(o.Error))
	}
	given, _, _ := d.Known()
	assert.Zero(t, given)
}
