package agents_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

// memberList is a list of members.
type memberList struct {
	agents.Credentials

	mu      sync.Mutex
	members []agents.Member
	// read is called when the members were read.
	read func()
}

func (h *memberList) Members(context.Context) ([]agents.Member, error) {
	h.mu.Lock()
	members, read := h.members, h.read
	h.read = nil
	h.mu.Unlock()
	if read != nil {
		read()
	}
	return members, nil
}

func (h *memberList) Revoke(_ context.Context, m agents.Member, _ string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var left []agents.Member
	for _, one := range h.members {
		if one.ID != m.ID {
			left = append(left, one)
		}
	}
	h.members = left
	return nil
}

// endlessOwner provides an endless sequence of calls. Its checks accept them, up to the one at which they fail.
type endlessOwner struct {
	work.Owner

	each, breaks, made int
	passed             atomic.Int64
	returned           []uint64
}

func (m *endlessOwner) Poll(context.Context, work.Poll) (work.Batch, error) {
	b := work.Batch{Number: 7}
	for range m.each {
		m.made++
		b.Calls = append(b.Calls, &work.Call{Ref: work.Ref{Task: "TASK_01JD0000000000000000000000", Step: strconv.Itoa(m.made), Attempt: 1}, Lease: time.Minute})
	}
	return b, nil
}

func (m *endlessOwner) Heartbeat(context.Context, work.Heartbeat) (work.HeartbeatReply, error) {
	return work.HeartbeatReply{}, nil
}

func (m *endlessOwner) Report(context.Context, work.Outcome) error { return nil }

func (m *endlessOwner) Undelivered(no uint64) { m.returned = append(m.returned, no) }

func (m *endlessOwner) Pass(context.Context, string, work.Call) (work.Outcome, error) {
	if m.passed.Add(1) == int64(m.breaks) {
		return work.Outcome{}, fault.New(fault.Internal, "the gates are broken")
	}
	return work.Outcome{AgentCall: &work.AgentCall{Timeout: time.Hour}}, nil
}

// gates are those of an endlessOwner.
type gates struct {
	*endlessOwner
	agents.Chain
}

func (g gates) Pass(ctx context.Context, actor string, call work.Call) (work.Outcome, error) {
	return g.endlessOwner.Pass(ctx, actor, call)
}

func member(name string) agents.Member {
	return agents.Member{Name: name, Profile: agents.Profile{ID: "agent-" + name, MaxTasks: 3}}
}

// The state of removed agents is dropped, so that memory is bounded although new names keep coming.
func TestAgentsThatAreGoneAreForgotten(t *testing.T) {
	t.Parallel()
	h, m := &memberList{}, &endlessOwner{each: 1}
	r := agents.NewRegistry(agents.Config{Credentials: h})
	var living agents.Roster
	r.OnSweep(func() func(agents.Roster) { return func(l agents.Roster) { living = l } })
	d := agents.NewDispatcher(m, gates{endlessOwner: m}, r)
	for i := range 20 {
		one := member(fmt.Sprint("ada", i))
		h.mu.Lock()
		h.members = append(h.members, one)
		h.mu.Unlock()
		got, err := d.Claim(t.Context(), one, agents.Claim{Free: 1, Instance: "x"})
		require.NoError(t, err)
		require.Len(t, got.Calls, 1)
		if i == 0 {
			continue // one stays
		}
		_, err = r.Remove(t.Context(), agents.Removal{Agent: one.ID})
		require.NoError(t, err)
	}
	given, speaking, heard := d.Known()
	assert.Equal(t, []int{1, 1, 1}, []int{given, speaking, heard})
	assert.Equal(t, map[string]bool{"agent:ada0": true}, living.Actors)
}

// The state of agents that were removed by another node, or expired and were replaced, is dropped by a sweep.
func TestAgentsThatGoElsewhereAreForgotten(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	h, m := &memberList{members: []agents.Member{member("ada"), member("bob")}}, &endlessOwner{each: 1}
	r := agents.NewRegistry(agents.Config{Credentials: h, Clock: func() time.Time { return now }})
	d := agents.NewDispatcher(m, gates{endlessOwner: m}, r)
	for _, one := range h.members {
		_, err := d.Claim(t.Context(), one, agents.Claim{Free: 1, Instance: "x"})
		require.NoError(t, err)
	}
	h.members = h.members[:1]
	now = now.Add(2 * time.Minute)
	_, err := d.Heartbeat(t.Context(), member("ada"), agents.Heartbeat{Instance: "x"})
	require.NoError(t, err)
	given, speaking, heard := d.Known()
	assert.Equal(t, []int{1, 1, 1}, []int{given, speaking, heard})
}

// An agent that registers and claims while the members are read keeps its calls.
func TestAgentsThatComeDuringASweepStay(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	h, m := &memberList{members: []agents.Member{member("ada")}}, &endlessOwner{each: 1}
	r := agents.NewRegistry(agents.Config{Credentials: h, Clock: func() time.Time { return now }})
	d := agents.NewDispatcher(m, gates{endlessOwner: m}, r)
	claim := func(who string) agents.Work {
		got, err := d.Claim(t.Context(), member(who), agents.Claim{Free: 1, Instance: "x"})
		require.NoError(t, err)
		require.Len(t, got.Calls, 1)
		return got
	}
	claim("ada")
	var given agents.Work
	h.read = func() { // Remove finds ada, and sweeps then
		h.mu.Lock()
		defer h.mu.Unlock()
		h.read = func() { given = claim("cleo") }
	}
	_, err := r.Remove(t.Context(), agents.Removal{Agent: "ada"})
	require.NoError(t, err)
	calls, speaking, heard := d.Known()
	assert.Equal(t, []int{1, 1, 1}, []int{calls, speaking, heard}, "ada has gone")
	assert.Equal(t, given.Calls[0].Ref, claim("cleo").Calls[0].Ref, "it comes again, because cleo has not named it")
}

// The calls of a batch that an error withholds from the agent are returned immediately, not when their leases expire.
func TestErrorInTheMidstOfABatch(t *testing.T) {
	t.Parallel()
	m := &endlessOwner{each: 3, breaks: 2}
	d := agents.NewDispatcher(m, gates{endlessOwner: m}, agents.NewRegistry(agents.Config{}))
	_, err := d.Claim(t.Context(), member("ada"), agents.Claim{Free: 3})
	assert.Equal(t, fault.Internal, fault.CodeOf(err))
	assert.Equal(t, []uint64{7}, m.returned)
	assert.Equal(t, int64(3), m.passed.Load())
	got, err := d.Claim(t.Context(), member("ada"), agents.Claim{Free: 3})
	require.NoError(t, err)
	require.Len(t, got.Calls, 2, "those that were begun come again")
	assert.Equal(t, events.TaskID("TASK_01JD0000000000000000000000"), got.Calls[0].Task)
}

// However many processes an agent had, only so many are remembered.
func TestFormerProcessesAreBounded(t *testing.T) {
	t.Parallel()
	m := &endlessOwner{}
	d := agents.NewDispatcher(m, gates{endlessOwner: m}, agents.NewRegistry(agents.Config{}))
	beat := func(i int) error {
		_, err := d.Heartbeat(t.Context(), member("ada"), agents.Heartbeat{Instance: strconv.Itoa(i)})
		return err
	}
	for i := range 100 {
		require.NoError(t, beat(i))
	}
	assert.Equal(t, fault.Conflict, fault.CodeOf(beat(98)))
	assert.Equal(t, fault.Conflict, fault.CodeOf(beat(83)))
	require.NoError(t, beat(99))
	require.NoError(t, beat(82), "that was long ago")
}
