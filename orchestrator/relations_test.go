package orchestrator_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

func after(ids ...events.TaskID) func(*api.SubmitRequest) {
	return func(r *api.SubmitRequest) { r.DependsOn = ids }
}

func prioritised(p string) func(*api.SubmitRequest) {
	return func(r *api.SubmitRequest) { r.Priority = p }
}

func (n *node) cancel(id events.TaskID) error {
	_, err := n.Cancel(context.Background(), api.CancelRequest{ID: id})
	return err
}

// S3-115: blocked until the dependencies are done, then pending.
func TestDependencies(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	a, b := n.submit(onePlan), n.submit(onePlan)
	id := n.submit(onePlan, after(a, b))
	v := n.get(id)
	assert.Equal(t, statemachine.Blocked, v.State)
	assert.Equal(t, "dependency", v.Block)
	assert.ElementsMatch(t, []events.TaskID{a, b}, v.DependsOn)
	require.NoError(t, n.report("w", n.take("w"), `{"n":1}`))
	assert.Equal(t, []events.TaskID{b}, n.get(id).DependsOn)
	require.NoError(t, n.report("w", n.take("w"), `{"n":1}`))
	n.result(b)
	assert.Equal(t, statemachine.NeedsAction, n.get(id).State)
	late := n.submit(onePlan, after(a, b))
	assert.Equal(t, statemachine.NeedsAction, n.get(late).State, "they were done before")
	n.serve(echoArgs)
	assert.Equal(t, statemachine.Done, n.result(id).State)
	n.result(late)
	n.checkIdle()
}

func TestUnusableDependencies(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	unknown := n.result(n.submit(onePlan, after(events.KeyedTaskID("", "nobody"))))
	assert.Equal(t, statemachine.Failed, unknown.State)
	assert.Equal(t, fault.NotFound, unknown.Error.Code)
	dep := n.submit(onePlan)
	id := n.submit(onePlan, after(dep))
	require.NoError(t, n.cancel(dep))
	r := n.result(id)
	assert.Equal(t, statemachine.Failed, r.State)
	assert.Contains(t, r.Error.Message, "CANCELLED")
}

// S3-115: who would close a circle of tasks that wait for each other is refused, also while the others are being written.
func TestCircularDependencies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{Delay: func(r *events.Record) time.Duration {
			if r.Rev == 1 {
				return time.Second
			}
			return 0
		}}))
		circle := []string{"a", "b", "c"}
		errs := make([]error, len(circle))
		var group sync.WaitGroup
		for i, key := range circle {
			next := events.KeyedTaskID("", circle[(i+1)%len(circle)])
			group.Go(func() { _, errs[i] = n.trySubmit(onePlan, keyed(key), after(next)) })
			synctest.Wait()
		}
		group.Wait()
		require.NoError(t, errs[0])
		require.NoError(t, errs[1])
		hasCode(t, errs[2], fault.ValidationError)
		assert.Equal(t, "depends_on", fault.From(errs[2]).Field)
		for _, key := range circle[:2] {
			assert.Equal(t, statemachine.Failed, n.result(events.KeyedTaskID("", key)).State, "what it needs never comes")
		}
		n.checkIdle()
	})
}

// A dependency that cannot be read now is checked again.
func TestDependencyOverRestart(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log)
	dep := n.submit(onePlan)
	id := n.submit(onePlan, after(dep))
	n.stop()
	n = start(t, log)
	assert.Equal(t, statemachine.Blocked, n.get(id).State)
	n.serve(echoArgs)
	assert.Equal(t, statemachine.Done, n.result(id).State)
}

const childPlan = "orch: v1\nsteps:\n  - id: s\n    run:\n      orch: v1\n      steps: [{id: w, tool: WRITE}]\nalways:\n  - {id: z, tool: READ}\n"

// A cancelled parent takes its child and the running call with it, and still runs its `always` steps.
func TestCancelReachesChildren(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(childPlan)
	c := n.take("w")
	child := c.Task
	assert.NotEqual(t, id, child)
	require.NoError(t, n.Start(context.Background(), startedBy("w", c)))
	require.NoError(t, n.cancel(id))
	b := n.poll("w", 0)
	require.Len(t, b.Cancel, 1)
	assert.Equal(t, c.Ref, b.Cancel[0])
	assert.Equal(t, statemachine.Cancelled, n.result(child).State)
	z := n.take("w")
	assert.Equal(t, "z", z.Step)
	require.NoError(t, n.report("w", z, `{}`))
	assert.Equal(t, statemachine.Cancelled, n.result(id).State)
	hasCode(t, n.report("w", c, `{}`), fault.Conflict)
	hasCode(t, n.cancel(id), fault.StateNotAllowed)
	n.checkIdle()
}

// A child whose parent was cancelled while the node was down is cancelled.
func TestOrphansAreCancelledAfterARestart(t *testing.T) {
	t.Parallel()
	var refuse atomic.Value
	refuse.Store(events.TaskID(""))
	log := memlog.New(memlog.Config{Fail: func(r *events.Record) error {
		if r.Task == refuse.Load() && r.Rev > 1 {
			return fault.New(fault.Unavailable, "gone")
		}
		return nil
	}})
	n := start(t, log)
	id := n.submit("orch: v1\nsteps:\n  - id: s\n    run:\n      orch: v1\n      steps: [{id: w, tool: READ}]\n")
	child := n.take("w").Task
	refuse.Store(child)
	require.NoError(t, n.cancel(id))
	n.result(id)
	n.stop()
	refuse.Store(events.TaskID(""))
	n = start(t, log)
	assert.Equal(t, statemachine.Cancelled, n.result(child).State)
}

func TestDepthOfChildren(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	plan := "orch: v1\nsteps: [{id: a, tool: READ}]\n"
	for range 3 {
		var nested strings.Builder
		nested.WriteString("orch: v1\nsteps:\n  - id: s\n    run:\n")
		for line := range splitLines(plan) {
			nested.WriteString("      " + line + "\n")
		}
		plan = nested.String()
	}
	n.serve(echoArgs)
	assert.Equal(t, statemachine.Done, n.result(n.submit(plan)).State)
}

func keyPlan(rule string) string {
	return "orch: v1\nconcurrency: {key: k, on_conflict: " + rule + "}\nsteps: [{id: a, tool: READ}]\n"
}

func TestConcurrencyQueuesByPriorityThenAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		submit := func(p string) events.TaskID {
			<-time.After(time.Millisecond)
			return n.submit(keyPlan("queue"), prioritised(p))
		}
		first := submit("low")
		old, critical, young := submit("normal"), submit("critical"), submit("normal")
		gone := submit("critical")
		held := submit("critical")
		n.pause(api.PauseRequest{ID: held})
		require.NoError(t, n.cancel(gone))
		for _, want := range []events.TaskID{first, critical, old, young} {
			c := n.take("w")
			assert.Equal(t, want, c.Task)
			require.NoError(t, n.report("w", c, `{}`))
		}
		n.resume(api.PauseRequest{ID: held})
		c := n.take("w")
		assert.Equal(t, held, c.Task)
		require.NoError(t, n.report("w", c, `{}`))
		n.checkIdle()
	})
}

// freeModels prices all models with nothing.
type freeModels struct{}

func (freeModels) Price(string) (events.Price, bool, error) { return events.Price{}, true, nil }

func (freeModels) Slots(string) int { return 0 }

// A task keeps its concurrency key while it ends, also if all that has begun of its plan is an agent that has ended before its calls.
func TestEndingAgentKeepsTheKey(t *testing.T) {
	t.Parallel()
	const agents = "orch: v1\nconcurrency: {key: k}\nsteps: [{id: a, agent: {model: m/x, prompt: p}}, {id: b, agent: {model: m/x, prompt: p}}]\n"
	n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) {
		ask := internal(echo(models.CallTool, tools.Idempotent, tools.InProgress))
		cat, err := tools.New(ask)
		require.NoError(t, err)
		c.Catalogue, c.Models = cat, freeModels{}
	})
	first := n.submit(agents)
	calls := n.poll("w", 2, work.ModelsQueue).Calls
	require.Len(t, calls, 2)
	waiting := n.submit(agents)
	require.NoError(t, n.Start(n.ctx(), startedBy("w", *calls[1])))
	require.NoError(t, n.fail("w", *calls[0], fault.ClassToolError))
	n.pause(api.PauseRequest{ID: first})
	assert.Equal(t, statemachine.StepRunning, n.step(first, calls[1].Step).State)
	assert.Equal(t, "concurrency", n.cause(waiting).Kind)
	require.NoError(t, n.fail("w", *calls[1], fault.ClassToolError))
	assert.Equal(t, statemachine.Failed, n.result(first).State)
	assert.Len(t, n.poll("w", 2, work.ModelsQueue).Calls, 2)
}

func TestConcurrencyRules(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	running := n.submit(keyPlan("reject"))
	_, err := n.trySubmit(keyPlan("reject"))
	hasCode(t, err, fault.Conflict)
	waiting := n.submit(keyPlan("queue"))
	newest := n.submit(keyPlan("cancel_running"))
	assert.Equal(t, statemachine.Cancelled, n.result(running).State)
	assert.Equal(t, statemachine.Cancelled, n.result(waiting).State, "the newest wins")
	c := n.take("w")
	assert.Equal(t, newest, c.Task)
	require.NoError(t, n.report("w", c, `{}`))
	n.checkIdle()
}

// A task that could not be written leaves nothing in the line for a key.
func TestConcurrencyAfterAFailedSubmit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		n := start(t, memlog.New(memlog.Config{Fail: func(*events.Record) error {
			if full.Load() {
				return fault.New(fault.DiskFull, "full")
			}
			return nil
		}}))
		first := n.submit(keyPlan("queue"))
		full.Store(true)
		for range 3 {
			_, err := n.trySubmit(keyPlan("queue"))
			hasCode(t, err, fault.DiskFull)
		}
		full.Store(false)
		second := n.submit(keyPlan("queue"))
		n.serve(echoArgs)
		n.result(first)
		assert.Equal(t, statemachine.Done, n.result(second).State)
		synctest.Wait() // the tasks were looked up in the log, which has none of them
		n.checkIdle()
	})
}

// A restart keeps the holder and the line.
func TestConcurrencyOverRestart(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log)
	var ids []events.TaskID
	for range 5 {
		ids = append(ids, n.submit(keyPlan("queue")))
	}
	for range ids {
		n.stop()
		n = start(t, log)
		b := n.poll("w", 9)
		require.Len(t, b.Calls, 1, "one holds the key")
		require.NoError(t, n.report("w", *b.Calls[0], `{}`))
	}
	for _, id := range ids {
		assert.Equal(t, statemachine.Done, n.result(id).State)
	}
	n.checkIdle()
}

// A denied call inside a task does not start the task. After a restart the task waits for its key as before.
func TestADeniedCallHoldsNoKey(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]struct {
		tool  string
		tools []string
		code  fault.Code
	}{
		"state": {tool: "IP_ONLY", code: fault.StateNotAllowed},
		"tools": {tool: "WRITE", tools: []string{"READ"}, code: fault.Forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := memlog.New(memlog.Config{})
			n := start(t, log)
			holder := n.submit(keyPlan("queue"))
			id := n.submit(keyPlan("queue"), func(r *api.SubmitRequest) { r.Tools = call.tools })
			r, err := n.Call(t.Context(), api.CallRequest{ID: id, Tool: call.tool, Wait: time.Minute})
			require.NoError(t, err)
			require.Equal(t, call.code, r.Error.Code)
			n.stop()
			n = start(t, log)
			b := n.poll("w", 9)
			require.Len(t, b.Calls, 1, "one holds the key")
			assert.Equal(t, holder, b.Calls[0].Task)
			assert.Equal(t, "concurrency", n.cause(id).Kind)
			require.NoError(t, n.report("w", *b.Calls[0], `{}`))
			assert.Equal(t, id, n.take("w").Task)
		})
	}
}

// A retry that waits for its key does not count as its holder because it has reused results.
func TestRetryWaitsForItsKey(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log)
	plan := "orch: v1\nconcurrency: {key: k}\nsteps:\n  - {id: a, tool: READ}\n  - {id: b, needs: [a], tool: READ2}\n"
	id := n.submit(plan)
	require.NoError(t, n.report("w", n.take("w"), `{}`))
	require.NoError(t, n.fail("w", n.take("w"), "denied"))
	n.result(id)
	holder := n.submit(plan)
	r, err := n.Retry(context.Background(), api.RetryRequest{ID: id})
	require.NoError(t, err)
	assert.Equal(t, 1, r.Reused)
	e, err := n.Explain(context.Background(), api.GetRequest{ID: r.ID})
	require.NoError(t, err)
	assert.Equal(t, "concurrency", e.Causes[0].Kind)
	n.stop()
	n = start(t, log)
	assert.Equal(t, holder, n.take("w").Task)
	e, err = n.Explain(context.Background(), api.GetRequest{ID: r.ID})
	require.NoError(t, err)
	assert.Equal(t, "concurrency", e.Causes[0].Kind, fmt.Sprint(e.Causes))
}

// A task starts if there is room for it, even behind the first in line that allows fewer concurrent tasks.
func TestKeyLineWithMixedLimits(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	plan := func(limit int) string {
		return fmt.Sprintf("orch: v1\nconcurrency: {key: k, limit: %d}\nsteps: [{id: g, wait: {signal: go}}]\n", limit)
	}
	stays, ends := n.submit(plan(2)), n.submit(plan(2))
	first := n.submit(plan(1), func(r *api.SubmitRequest) { r.Priority = "critical" })
	second := n.submit(plan(2))
	assert.Equal(t, "concurrency", n.cause(second).Kind)
	_, err := n.Signal(context.Background(), api.SignalRequest{ID: ends, Name: "go"})
	require.NoError(t, err)
	n.result(ends)
	require.Eventually(t, func() bool { return n.get(second).State == statemachine.InProgress }, time.Minute, time.Millisecond)
	assert.Equal(t, statemachine.InProgress, n.get(stays).State)
	assert.Equal(t, "concurrency", n.cause(first).Kind)
}

// If the next task in line cannot be written, the one behind it gets the key.
func TestKeyOfferedToTaskThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var refuse atomic.Bool
		log := memlog.New(memlog.Config{
			Delay: func(r *events.Record) time.Duration {
				if r.Task == events.KeyedTaskID("", "first") {
					return time.Second
				}
				return 0
			},
			Fail: func(r *events.Record) error {
				if refuse.Load() && r.Task == events.KeyedTaskID("", "first") {
					return gone()
				}
				return nil
			},
		})
		n := start(t, log, short)
		const plan = "orch: v1\nconcurrency: {key: k}\nsteps: [{id: g, wait: {signal: go}}]\n"
		holds, second := n.submit(plan), n.submit(plan)
		refuse.Store(true)
		answer := make(chan error)
		go func() {
			_, err := n.trySubmit(plan, keyed("first"), func(r *api.SubmitRequest) { r.Priority = "critical" })
			answer <- err
		}()
		synctest.Wait()
		require.NoError(t, n.cancel(holds))
		require.Error(t, <-answer)
		synctest.Wait()
		assert.Equal(t, statemachine.InProgress, n.get(second).State)
	})
}
