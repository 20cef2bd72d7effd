package crash_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/test/crash"
)

// settleWithin bounds how long acknowledged tasks may take to end after the faults have stopped.
const settleWithin = 30 * time.Second

// settleWithin bounds how long tasks may take to end. A request to a killed node fails immediately if the server dies
// with it, and after bus.CallWithin if the server survives.
func (o options) settleWithin() time.Duration {
	if o.cluster {
		return 2*rpc.CallWithin + settleWithin
	}
	return settleWithin
}

// settle waits until every task of a round has ended, and resolves calls in doubt (I1).
func (r *run) settle(round int, within time.Duration) {
	r.t.Helper()
	end := time.Now().Add(within)
	left := r.load.ackedIn(round)
	for {
		left = r.stillOpen(left)
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			break
		}
		r.resolveAll()
		wait(20 * time.Millisecond)
	}
	for _, id := range left {
		reply, _, err := insist(r.t.Context(), r.api.Explain, api.GetRequest{ID: id})
		r.load.violate("I1", id, round, "it did not end within %s: %s %v %v", within, reply.State, reply.Causes, err)
	}
}

// stillOpen returns the tasks that have not ended.
func (r *run) stillOpen(ids []events.TaskID) []events.TaskID {
	r.t.Helper()
	states := slices.DeleteFunc(statemachine.States(), statemachine.State.Terminal)
	open := map[events.TaskID]bool{}
	for _, s := range r.list(states) {
		open[s.ID] = true
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id events.TaskID) bool { return !open[id] })
}

// list returns all tasks in one of the states, or nothing when the node does not answer properly.
func (r *run) list(states []statemachine.State) []api.Summary {
	r.t.Helper()
	var tasks []api.Summary
	request := api.ListRequest{States: states, Limit: 1000}
	for {
		page, _, err := insist(r.t.Context(), r.api.List, request)
		require.NoError(r.t, err)
		tasks = append(tasks, page.Tasks...)
		if request.Cursor = page.Next; page.Next == "" {
			return tasks
		}
	}
}

// doubt is a call in doubt.
type doubt struct {
	task events.TaskID
	step api.StepView
}

// resolveAll resolves all calls in doubt, as a person with the ledger would. Their workers must have ended before:
// otherwise they might continue and change the ledger.
func (r *run) resolveAll() {
	r.t.Helper()
	doubts := r.doubts()
	if len(doubts) == 0 {
		return
	}
	drained := map[string]bool{}
	for _, d := range doubts {
		if !drained[d.step.Worker] {
			r.cluster.drainPID(crash.WorkerPID(d.step.Worker))
			r.cluster.drainNamed(d.step.Worker)
		}
		drained[d.step.Worker] = true
	}
	effects, err := crash.ReadLedger(ledgerPath(r.cluster.dir))
	require.NoError(r.t, err)
	for _, d := range doubts {
		r.resolve(d, effects)
	}
}

func (r *run) doubts() []doubt {
	r.t.Helper()
	var found []doubt
	for _, summary := range r.list([]statemachine.State{statemachine.Blocked}) {
		view, _, err := insist(r.t.Context(), r.api.Get, api.GetRequest{ID: summary.ID})
		require.NoError(r.t, err)
		for _, s := range view.Steps {
			if s.State == statemachine.StepInDoubt {
				found = append(found, doubt{view.ID, s})
			}
		}
	}
	return found
}

func (r *run) resolve(d doubt, effects []crash.Effect) {
	r.t.Helper()
	as := "retry"
	if slices.ContainsFunc(effects, func(e crash.Effect) bool {
		return e.Task == d.task && e.Step == d.step.Key && (e.Tool != crash.ToolVerified || e.Phase == crash.End)
	}) || r.deposited(d.task) {
		as = "succeeded"
	}
	_, _, err := insist(r.t.Context(), r.api.Resolve, api.ResolveRequest{
		ID: d.task, Step: d.step.Key, As: as, Reason: "the ledger says so", Actor: operator,
	})
	if !fault.Has(err, fault.StateNotAllowed) { // a repeated request finds it decided
		require.NoError(r.t, err)
	}
}

// deposited reports whether the write of a task is in a database.
func (r *run) deposited(id events.TaskID) bool {
	r.t.Helper()
	if r.databases == nil {
		return false
	}
	r.databases.mu.Lock()
	d, ours := r.databases.tasks[id]
	r.databases.mu.Unlock()
	if !ours {
		return false
	}
	done, err := r.databases.happened(r.t.Context(), d)
	require.NoError(r.t, err)
	return done
}

// replay checks that the recorded history gives the state of the node (I5).
func (r *run) replay(round int) {
	r.t.Helper()
	ids := make(chan events.TaskID)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for id := range ids {
				r.replayOne(r.t.Context(), round, id)
			}
		})
	}
	for _, id := range r.load.ackedIn(round) {
		ids <- id
	}
	close(ids)
	group.Wait()
}

func (r *run) replayOne(ctx context.Context, round int, id events.TaskID) {
	reply, _, err := insist(ctx, r.api.Replay, api.ReplayRequest{ID: id})
	switch {
	case err != nil:
		r.load.violate("I5", id, round, "it cannot be replayed: %v", err)
	case reply.Live == nil || !*reply.Live || !reply.Chain:
		r.load.violate("I5", id, round, "the replay differs from the state that the node holds")
	}
}
