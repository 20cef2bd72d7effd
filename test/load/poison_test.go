package load_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// poisonous is a harmful tool, and the expected end of a task that calls it.
type poisonous struct {
	tool   string
	effect tools.Effect
	do     func(context.Context, *tools.Env) error
	// more is added to the step.
	more  string
	state statemachine.State
	code  fault.Code
	// kills is true if each of its calls kills its worker.
	kills bool
}

func poisons() []poisonous {
	const once = ", timeout: 1s, retry: {max_attempts: 10, on: [worker_lost]}"
	// A harmless call may lose workers, too, because of concurrent calls.
	const patient = ", retry: {max_attempts: 10, on: [worker_lost]}"
	return []poisonous{
		{"POISON_PANIC", tools.Read, panics, "", statemachine.Failed, fault.Internal, false},
		{"POISON_GOEXIT", tools.Read, goexits, "", statemachine.Failed, fault.Internal, false},
		{"POISON_JSON", tools.Read, nil, "", statemachine.Failed, fault.Internal, false},
		{"POISON_HANG", tools.Read, hangs, once, statemachine.Failed, fault.Timeout, false},
		{"POISON_PRINT", tools.Read, prints, patient, statemachine.Done, "", false},
		{"POISON_SETSID", tools.Read, child("setsid sleep 20 & echo done"), patient, statemachine.Done, "", false},
		{"POISON_SLEEP", tools.Read, child("trap '' TERM; sleep 300 & wait; sleep 300"), once, statemachine.Failed, fault.Timeout, false},
		{"POISON_EXIT", tools.Idempotent, exits, "", statemachine.Failed, fault.WorkerLost, true},
		{"POISON_MEMORY", tools.Read, eats, "", statemachine.Failed, fault.WorkerLost, true},
		{"POISON_PARENT", tools.Read, child("kill -9 $PPID"), patient, statemachine.Done, "", false}, // its sandbox does not let it
		{"POISON_WRITE", tools.Write, exits, "", statemachine.Blocked, "", true},
	}
}

// poisonRun is a node with workers that a supervisor restarts when they die.
type poisonRun struct {
	t      *testing.T
	dir    string
	api    api.API
	deaths atomic.Int64
}

// TestPoison runs every kind of harmful tool together with harmless ones: harmless tasks continue, harmful ones end in
// the dead-letter list with a reason, and are redriven after the tools are fixed.
func TestPoison(t *testing.T) { //nolint:paralleltest // it measures
	r := &poisonRun{t: t, dir: t.TempDir()}
	n := spawn(t, roleNode, r.dir)
	ctx, stop := context.WithCancel(t.Context())
	var supervisors sync.WaitGroup
	defer supervisors.Wait()
	defer stop()
	for range 2 {
		supervisors.Go(func() { r.supervise(ctx) })
	}
	r.api = dial(t, r.dir)
	calmEnd := time.Now().Add(4 * time.Second)
	calm := r.good(func() bool { return time.Now().After(calmEnd) })

	began := time.Now()
	ids := map[events.TaskID]poisonous{}
	for _, p := range poisons() {
		ids[r.submit(p)] = p
	}
	var over sync.WaitGroup
	ended := make(chan struct{})
	for id, p := range ids {
		over.Go(func() { r.await(id, p) })
	}
	go func() { over.Wait(); close(ended) }()
	beside := r.good(func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
	took := time.Since(began)
	r.print("without poison", calm, 4*time.Second)
	r.print("beside poison", beside, took)
	t.Logf("%d workers died in %s", r.deaths.Load(), took.Round(time.Second))
	r.checkDead(ids)
	r.redrive(ids)
	now, _ := n.memory()
	t.Logf("memory of the node: %d MiB", now)
	assert.Less(t, now, 300*detector)
}

// supervise runs a worker and starts another one when it dies.
func (r *poisonRun) supervise(ctx context.Context) {
	for ctx.Err() == nil {
		w := spawn(r.t, roleWorker, r.dir)
		select {
		case <-ctx.Done():
			w.kill()
		case <-w.done:
			r.deaths.Add(1)
		}
	}
}

func (r *poisonRun) submit(p poisonous) events.TaskID {
	r.t.Helper()
	plan := fmt.Sprintf("orch: v1\nname: %s\nsteps:\n  - {id: bad, tool: %s%s}\n", strings.ToLower(p.tool), p.tool, p.more)
	reply, err := r.api.Submit(r.t.Context(), api.SubmitRequest{Plan: text(plan)})
	require.NoError(r.t, err)
	return reply.ID
}

// await waits until a poisonous task has ended, or is blocked with a reason.
func (r *poisonRun) await(id events.TaskID, p poisonous) {
	began := time.Now()
	var v api.TaskView
	ok := assert.Eventually(r.t, func() bool {
		var err error
		v, err = r.api.Get(r.t.Context(), api.GetRequest{ID: id})
		return err == nil && (v.State.Terminal() || v.State == statemachine.Blocked)
	}, 2*time.Minute, 50*time.Millisecond, p.tool)
	if !ok {
		return
	}
	assert.Equal(r.t, p.state, v.State, p.tool)
	said := v.Reason
	if v.Error != nil {
		assert.Equal(r.t, p.code, v.Error.Code, "%s: %s", p.tool, v.Error.Message)
		said = v.Error.Error()
	}
	r.t.Logf("%-14s %s after %s, %d attempts: %s", p.tool, v.State, time.Since(began).Round(100*time.Millisecond), v.Steps[0].Attempt, said)
	if p.kills && p.state == statemachine.Failed {
		assert.Equal(r.t, "MAX_DELIVERIES", v.Error.Reason, p.tool)
		assert.Positive(r.t, v.Steps[0].Lost, p.tool)
	}
}

// good runs harmless tasks until enough returns true, and returns how long each took. All of them must be DONE.
func (r *poisonRun) good(enough func() bool) []time.Duration {
	r.t.Helper()
	const clients = 8
	times := make([][]time.Duration, clients)
	var group sync.WaitGroup
	for i := range clients {
		tool := "LOAD_NOOP"
		if i == 0 {
			tool = "LOAD_SLOW" // is likely to stand beside a call that kills its worker
		}
		plan := text("orch: v1\nname: good\nsteps:\n  - {id: a, tool: " + tool + "}\n")
		group.Go(func() {
			for !enough() {
				began := time.Now()
				reply, err := r.api.Submit(r.t.Context(), api.SubmitRequest{Plan: plan})
				if err != nil {
					r.t.Errorf("a good task was refused: %v", err)
					return
				}
				end, err := r.api.Result(r.t.Context(), api.ResultRequest{ID: reply.ID, Wait: time.Minute})
				if err != nil || end.State != statemachine.Done {
					r.t.Errorf("a good task ended %s: %v, %v", end.State, end.Error, err)
					return
				}
				times[i] = append(times[i], time.Since(began))
			}
		})
	}
	group.Wait()
	return slices.Concat(times...)
}

func (r *poisonRun) print(what string, times []time.Duration, in time.Duration) {
	r.t.Helper()
	require.NotEmpty(r.t, times)
	slices.Sort(times)
	r.t.Logf("good tasks %s: %d (%.0f/s), median %s, p99 %s, longest %s", what, len(times), float64(len(times))/in.Seconds(),
		times[len(times)/2].Round(100*time.Microsecond), times[len(times)*99/100].Round(time.Millisecond), times[len(times)-1].Round(time.Millisecond))
}

// checkDead checks that the dead-letter list contains exactly the tasks that need a person.
func (r *poisonRun) checkDead(ids map[events.TaskID]poisonous) {
	r.t.Helper()
	var want, have []events.TaskID
	for id, p := range ids {
		if p.state != statemachine.Done {
			want = append(want, id)
		}
	}
	page, err := r.api.List(r.t.Context(), api.ListRequest{Dead: true, Limit: 1000})
	require.NoError(r.t, err)
	for _, line := range page.Tasks {
		have = append(have, line.ID)
		assert.NotEmpty(r.t, line.Reason, line.Name)
	}
	assert.ElementsMatch(r.t, want, have)
}

// redrive fixes the tools and redrives every dead task.
func (r *poisonRun) redrive(ids map[events.TaskID]poisonous) {
	r.t.Helper()
	require.NoError(r.t, os.WriteFile(mended(r.dir), nil, 0o600))
	for id, p := range ids {
		next := id
		switch p.state {
		case statemachine.Done:
			continue
		case statemachine.Blocked:
			_, err := r.api.Resolve(r.t.Context(), api.ResolveRequest{ID: id, Step: "bad", As: "retry"})
			require.NoError(r.t, err)
		default:
			reply, err := r.api.Redrive(r.t.Context(), api.RedriveRequest{ID: id})
			require.NoError(r.t, err)
			next = reply.ID
		}
		end, err := r.api.Result(r.t.Context(), api.ResultRequest{ID: next, Wait: 30 * time.Second})
		require.NoError(r.t, err)
		assert.Equal(r.t, statemachine.Done, end.State, "%s: %v", p.tool, end.Error)
	}
	page, err := r.api.List(r.t.Context(), api.ListRequest{Dead: true})
	require.NoError(r.t, err)
	assert.Empty(r.t, page.Tasks)
}
