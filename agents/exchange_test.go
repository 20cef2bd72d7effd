package agents_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

// pool is an owner with a number of calls. A poll that finds none waits until its context ends.
type pool struct {
	work.Owner
	agents.Chain

	mu       sync.Mutex
	calls    []*work.Call
	reported []work.Outcome
	kept     []work.CallHeartbeat
	stop     []work.Ref
	polling  chan struct{}
}

func newPool(calls int) *pool {
	p := &pool{polling: make(chan struct{}, 100)}
	for range calls {
		p.calls = append(p.calls, &work.Call{Ref: work.Ref{Task: events.NewTaskID(time.Now()), Step: "a", Attempt: 1}, Lease: time.Minute, Timeout: time.Hour})
	}
	return p
}

func (p *pool) Poll(ctx context.Context, r work.Poll) (work.Batch, error) {
	p.mu.Lock()
	n := min(r.Free, len(p.calls))
	b := work.Batch{Calls: p.calls[:n]}
	p.calls = p.calls[n:]
	p.mu.Unlock()
	if n == 0 && r.Wait > 0 {
		p.polling <- struct{}{}
		<-ctx.Done()
		return work.Batch{}, ctx.Err()
	}
	return b, nil
}

func (*pool) Pass(_ context.Context, _ string, c work.Call) (work.Outcome, error) {
	return work.Outcome{AgentCall: &work.AgentCall{Timeout: c.Timeout}}, nil
}

func (*pool) Vet(output json.RawMessage) (json.RawMessage, error) { return output, nil }

func (p *pool) Report(_ context.Context, out work.Outcome) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if out.HandTo != nil && out.HandTo.Agent == "bob" {
		return fault.New(fault.Forbidden, "not to bob").WithField("hand_to")
	}
	p.reported = append(p.reported, out)
	return nil
}

func (p *pool) Heartbeat(_ context.Context, h work.Heartbeat) (work.HeartbeatReply, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept = append(p.kept, h.Calls...)
	return work.HeartbeatReply{Stop: p.stop}, nil
}

// worker is a process of the agent ada at a pool.
type worker struct {
	t        *testing.T
	d        *agents.Dispatcher
	instance string
}

func newWorkers(t *testing.T, p *pool) (former, next worker) {
	t.Helper()
	d := agents.NewDispatcher(p, p, agents.NewRegistry(agents.Config{}))
	return worker{t, d, "former"}, worker{t, d, "next"}
}

func ada() agents.Member {
	return agents.Member{Name: "ada", Profile: agents.Profile{ID: "agent-1", MaxTasks: 8}}
}

func (w worker) ask(e agents.Exchange) agents.Exchanged {
	w.t.Helper()
	e.Instance = w.instance
	out, err := w.d.Exchange(w.t.Context(), ada(), e)
	require.NoError(w.t, err)
	return out
}

func refsOf(calls []agents.Assignment) (refs []work.Ref) {
	for _, c := range calls {
		refs = append(refs, c.Ref)
	}
	return refs
}

func reports(calls []agents.Assignment) (done []agents.Report) {
	for _, c := range calls {
		done = append(done, agents.Report{Ref: c.Ref, Result: json.RawMessage(`1`)})
	}
	return done
}

// One request reports calls, keeps others and takes new ones.
func TestExchange(t *testing.T) {
	t.Parallel()
	p := newPool(12)
	w, _ := newWorkers(t, p)
	first := w.ask(agents.Exchange{Take: 8}).Calls
	require.Len(t, first, 8)
	got := w.ask(agents.Exchange{
		Done: reports(first[:5]), Running: []agents.Running{{Ref: first[5].Ref, Progress: &work.Progress{Done: 1}}, {Ref: first[6].Ref}, {Ref: first[7].Ref}}, Take: 5,
	})
	assert.Len(t, got.Calls, 4)
	require.Len(t, got.Done, 5)
	for i, r := range got.Done {
		assert.Equal(t, agents.Receipt{Ref: first[i].Ref}, r)
	}
	assert.Len(t, p.reported, 5)
	require.Len(t, p.kept, 3)
	assert.Equal(t, work.CallHeartbeat{Ref: first[5].Ref, Tool: "AGENT_TASK", Progress: &work.Progress{Done: 1}}, p.kept[0])
}

// A request that is repeated, because its answer was lost, gets the calls of that answer.
func TestRepeatedExchange(t *testing.T) {
	t.Parallel()
	p := newPool(3)
	w, _ := newWorkers(t, p)
	first := w.ask(agents.Exchange{Take: 2})
	again := w.ask(agents.Exchange{Take: 2})
	assert.Equal(t, refsOf(first.Calls), refsOf(again.Calls))
	rest := w.ask(agents.Exchange{Running: []agents.Running{{Ref: first.Calls[0].Ref}, {Ref: first.Calls[1].Ref}}, Take: 2})
	require.Len(t, rest.Calls, 1)
	assert.NotContains(t, refsOf(first.Calls), rest.Calls[0].Ref)
}

// What was sent to a process that is gone may have begun: it is lost, and not sent to the next process.
func TestExchangeOfAnotherProcess(t *testing.T) {
	t.Parallel()
	p := newPool(2)
	former, next := newWorkers(t, p)
	lost := former.ask(agents.Exchange{Take: 1}).Calls
	got := next.ask(agents.Exchange{Take: 2}).Calls
	assert.Len(t, got, 1)
	assert.NotContains(t, refsOf(got), lost[0].Ref)
	require.Len(t, p.reported, 1)
	assert.Equal(t, []any{lost[0].Ref, fault.ClassWorkerLost}, []any{p.reported[0].Ref, p.reported[0].Class})
	_, err := former.d.Exchange(t.Context(), ada(), agents.Exchange{Instance: former.instance, Done: reports(lost)})
	assert.Equal(t, []string{"CONFLICT", "instance"}, []string{string(fault.CodeOf(err)), fault.From(err).Field})
	assert.Len(t, p.reported, 1)
}

// A newer request ends the one that waits; a request that does not wait ends none.
func TestNewerExchangeEndsTheWaitingOne(t *testing.T) {
	t.Parallel()
	p := newPool(0)
	w, _ := newWorkers(t, p)
	waiting := make(chan agents.Exchanged, 1)
	ended := make(chan error, 1)
	go func() {
		out, err := w.d.Exchange(t.Context(), ada(), agents.Exchange{Instance: w.instance, Take: 1, Wait: time.Second * 30})
		waiting <- out
		ended <- err
	}()
	<-p.polling
	w.ask(agents.Exchange{})
	assert.Empty(t, waiting)
	w.ask(agents.Exchange{Take: 1})
	require.NoError(t, <-ended)
	assert.Empty(t, (<-waiting).Calls)
}

// A report that is refused says so at its place; the others count, and the answer does not wait.
func TestRefusedReports(t *testing.T) {
	t.Parallel()
	p := newPool(3)
	w, _ := newWorkers(t, p)
	calls := w.ask(agents.Exchange{Take: 3}).Calls
	done := reports(calls)
	done[0] = agents.Report{Ref: calls[0].Ref, HandTo: &events.Agents{Agent: "bob"}}
	done[1].Error = "and a result"
	got := w.ask(agents.Exchange{Done: done, Take: 3, Wait: 30 * time.Second})
	require.Len(t, got.Done, 3)
	assert.Equal(t, []string{"FORBIDDEN", "done.0.hand_to"}, []string{string(got.Done[0].Error.Code), got.Done[0].Error.Field})
	assert.Equal(t, []string{"VALIDATION_ERROR", "done.1.result"}, []string{string(got.Done[1].Error.Code), got.Done[1].Error.Field})
	assert.Nil(t, got.Done[2].Error)
	assert.Len(t, p.reported, 1)
}

// A call to stop ends the wait.
func TestExchangeHearsOfStops(t *testing.T) {
	t.Parallel()
	p := newPool(1)
	w, _ := newWorkers(t, p)
	call := w.ask(agents.Exchange{Take: 1}).Calls[0]
	p.stop = []work.Ref{call.Ref}
	got := w.ask(agents.Exchange{Running: []agents.Running{{Ref: call.Ref}}, Take: 1, Wait: 30 * time.Second})
	assert.Equal(t, p.stop, got.Stop)
}

func TestInvalidExchanges(t *testing.T) {
	t.Parallel()
	p := newPool(1)
	w, _ := newWorkers(t, p)
	ref := work.Ref{Task: events.NewTaskID(time.Now()), Step: "a", Attempt: 1}
	for field, e := range map[string]agents.Exchange{
		"instance":  {},
		"take":      {Instance: "x", Take: -1},
		"wait":      {Instance: "x", Wait: 31 * time.Second},
		"done":      {Instance: "x", Done: make([]agents.Report, agents.MaxTasks+1)},
		"running":   {Instance: "x", Running: make([]agents.Running, agents.MaxTasks+1)},
		"running.1": {Instance: "x", Done: []agents.Report{{Ref: ref}}, Running: []agents.Running{{}, {Ref: ref}}},
		"error":     {Instance: "x", Error: strings.Repeat("x", 4<<10+1)},
	} {
		_, err := w.d.Exchange(t.Context(), ada(), e)
		assert.Equal(t, field, fault.From(err).Field)
	}
	_, err := w.d.Exchange(t.Context(), ada(), agents.Exchange{Instance: "x", Take: 1, Leaving: true})
	assert.Equal(t, "take", fault.From(err).Field)
	_, err = w.d.Exchange(t.Context(), ada(), agents.Exchange{Instance: strings.Repeat("x", 65)})
	assert.Equal(t, "instance", fault.From(err).Field)
	assert.Empty(t, p.reported)
}
