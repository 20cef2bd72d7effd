package orchestrator_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/test/need"
	"github.com/orch-dev/orch/work"
)

// gate is a log whose blob store answers only while the gate is open, or with a transient error.
type gate struct {
	*memlog.Log
	open chan struct{}

	mu    sync.Mutex
	fails int
}

// Get implements events.Blobs.
func (g *gate) Get(ctx context.Context, ref string) ([]byte, error) {
	select {
	case <-g.open:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fails > 0 {
		g.fails--
		return nil, fault.New(fault.Unavailable, "the blob store is away")
	}
	return g.Log.Get(ctx, ref)
}

const twoValues = "orch: v1\nsteps:\n  - {id: a, tool: READ}\n  - {id: b, tool: READ}\n  - {id: w, needs: [a, b], wait: {signal: go}}\n" +
	"  - {id: c, needs: [w], set: {n: \"${{ len(steps.a.output.text) + len(steps.b.output.text) }}\"}}\noutputs: {n: \"${{ steps.c.output.n }}\"}\n"

// Only the task that needs a large value waits for it.
func TestLargeValuesAreReadWithoutTheLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{})
		n := start(t, log)
		id := n.submit(twoValues)
		for i, c := range n.poll("w", 2).Calls {
			require.NoError(t, n.report("w", *c, `{"text":"`+strings.Repeat("x", 100_000+i)+`"}`))
		}
		n.stop()
		g := &gate{Log: log, open: make(chan struct{})}
		n = start(t, log, func(c *orchestrator.Config) { c.Blobs = g })
		_, err := n.List(n.ctx(), api.ListRequest{})
		require.NoError(t, err)
		viewed, signalled := make(chan api.TaskView, 1), make(chan error, 1)
		go func() { viewed <- n.get(id) }()
		go func() {
			_, err := n.Signal(n.ctx(), api.SignalRequest{ID: id, Name: "go"})
			signalled <- err
		}()
		<-time.After(time.Second)
		other := n.submit(onePlan)
		require.NoError(t, n.report("w", n.take("w"), `{"n":1}`))
		assert.Equal(t, statemachine.Done, n.result(other).State)
		assert.Empty(t, viewed)
		close(g.open)
		assert.JSONEq(t, `{"n":200001}`, string(n.result(id).Output))
		assert.Contains(t, string((<-viewed).Steps[0].Output), "xxx")
		require.NoError(t, <-signalled)
		n.checkIdle()
	})
}

// A decision that temporarily cannot read a large value is made when it can.
func TestLargeValueThatIsAwayForAMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{})
		n := start(t, log)
		id := n.submit(strings.Replace(twoValues, "signal: go", "for: 10s", 1))
		for _, c := range n.poll("w", 2).Calls {
			require.NoError(t, n.report("w", *c, largeOutput()))
		}
		n.stop()
		g := &gate{Log: log, open: make(chan struct{}), fails: 3}
		close(g.open)
		n = start(t, log, func(c *orchestrator.Config) { c.Blobs = g })
		<-time.After(20 * time.Second)
		assert.JSONEq(t, `{"n":200000}`, string(n.result(id).Output))
		n.checkIdle()
	})
}

// hugePlan returns a plan that does not fit into an event.
func hugePlan() string {
	return "orch: v1\nsummary: " + strings.Repeat("x", 70_000) + "\nsteps:\n  - {id: a, wait: {signal: go}}\n  - {id: b, needs: [a], tool: READ}\n"
}

// A task whose plan is lost is blocked with the reason, and continues when the plan is available again.
func TestLostPlanBlocks(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log)
	id := n.submit(hugePlan())
	other := n.submit(onePlan)
	n.stop()

	n = start(t, log, func(c *orchestrator.Config) { c.Blobs = &lossy{Log: log} })
	require.Eventually(t, func() bool { return n.get(id).State == statemachine.Blocked }, time.Minute, time.Millisecond)
	v := n.get(id)
	assert.Equal(t, "resource", v.Block)
	assert.Contains(t, v.Reason, "its plan cannot be read")
	c := n.cause(id)
	assert.Equal(t, "blocked", c.Kind)
	assert.Equal(t, "orch doctor", c.Next)
	assert.Contains(t, c.Sentence, "When it is back: orch redrive "+string(id))
	assert.Equal(t, []events.TaskID{id}, n.deadList())
	_, err := n.Redrive(n.ctx(), api.RedriveRequest{ID: id})
	hasCode(t, err, fault.DataLoss)
	assert.Equal(t, statemachine.NeedsAction, n.get(other).State)
	n.stop()

	n = start(t, log)
	reply, err := n.Redrive(n.ctx(), api.RedriveRequest{ID: id})
	hasCode(t, err, fault.StateNotAllowed)
	assert.Empty(t, reply.ID)
	n.serve(echoArgs)
	_, err = n.Signal(n.ctx(), api.SignalRequest{ID: id, Name: "go"})
	require.NoError(t, err)
	assert.Equal(t, statemachine.Done, n.result(id).State)
}

// A task without its plan can still be cancelled.
func TestLostPlanCancelled(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log)
	id := n.submit(hugePlan())
	n.stop()
	n = start(t, log, func(c *orchestrator.Config) { c.Blobs = &lossy{Log: log} })
	_, err := n.Cancel(n.ctx(), api.CancelRequest{ID: id})
	require.NoError(t, err)
	assert.Equal(t, statemachine.Cancelled, n.result(id).State)
	n.checkIdle()
}

// A view never exceeds the size of a message.
func TestViewLeavesOutWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit("orch: v1\nsteps:\n  - id: each\n    for_each: \"1..8\"\n    do: [{id: a, tool: READ}]\n")
	n.serve(func(work.Call) (string, *fault.Error) { return `{"text":"` + strings.Repeat("x", 1<<20) + `"}`, nil })
	require.Equal(t, statemachine.Done, n.result(id).State)
	data, err := json.Marshal(n.get(id))
	require.NoError(t, err)
	assert.Less(t, len(data), 4<<20)
	assert.Contains(t, string(data), "$omitted")
}

// The output of a for_each has a limit.
func TestCollectedOutputsAreBounded(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit("orch: v1\nsteps:\n  - id: each\n    for_each: \"1..20\"\n    do: [{id: a, tool: READ}]\n")
	n.serve(func(work.Call) (string, *fault.Error) { return `{"text":"` + strings.Repeat("x", 1<<20) + `"}`, nil })
	r := n.result(id)
	require.Equal(t, statemachine.Failed, r.State)
	assert.Equal(t, "SIZE_LIMIT_EXCEEDED", r.Error.Reason)
}

// A plan that computes for long lets other tasks in between: its decisions are spread over several commits.
func TestLongTurnsAreCut(t *testing.T) {
	t.Parallel()
	need.Long(t)
	n := start(t, memlog.New(memlog.Config{}))
	var plan strings.Builder
	plan.WriteString("orch: v1\nsteps:\n")
	for step := range 100 { // more than any machine computes in one turn
		plan.WriteString("  - {id: s" + strconv.Itoa(step) + ", set: {n: \"${{ count(1..60000, # % 7 == 1) }}\"}}\n")
	}
	id := n.submit(plan.String())
	require.Equal(t, statemachine.Done, n.result(id).State)
	h, err := n.History(n.ctx(), api.HistoryRequest{ID: id})
	require.NoError(t, err)
	assert.Greater(t, len(h.Commits), 1)
}

// A decision that needs more large values than the limit fails, also if it requests them one after the other.
func TestDecisionNeedsTooManyLargeValues(t *testing.T) {
	t.Parallel()
	need.Long(t)
	log := memlog.New(memlog.Config{})
	patient := func(c *orchestrator.Config) { c.Limits.Lease = time.Hour } // 80 MB take their time on a busy machine
	n := start(t, log, patient)
	const steps = 20
	var plan, sum, needs strings.Builder
	plan.WriteString("orch: v1\nsteps:\n")
	for i := range steps {
		key := "s" + strconv.Itoa(i)
		plan.WriteString("  - {id: " + key + ", tool: READ}\n")
		sum.WriteString(" + len(steps." + key + ".output.text)")
		needs.WriteString(key + ", ")
	}
	plan.WriteString("  - {id: w, needs: [" + needs.String() + "], wait: {signal: go}}\n")
	plan.WriteString("  - {id: c, needs: [w], set: {n: \"${{ 0" + sum.String() + " }}\"}}\n")
	id := n.submit(plan.String())
	for _, c := range n.poll("w", steps).Calls {
		require.NoError(t, n.report("w", *c, `{"text":"`+strings.Repeat("x", 4_000_000)+c.Step+`"}`))
	}
	n.stop()
	n = start(t, log, patient)
	_, err := n.Signal(n.ctx(), api.SignalRequest{ID: id, Name: "go"})
	require.NoError(t, err)
	r := n.result(id)
	require.Equal(t, statemachine.Failed, r.State, "%s", r.Output)
	assert.Equal(t, "SIZE_LIMIT_EXCEEDED", r.Error.Reason)
}
