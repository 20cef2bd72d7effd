package orchestrator_test

import (
	"encoding/json"
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
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
)

func by(actor string) func(*api.SubmitRequest) {
	return func(r *api.SubmitRequest) { r.Actor = actor }
}

// a requestor, and all of them together, have a limit of open tasks. It holds after a restart, and
// an end makes room.
func TestOpenTasksAreLimited(t *testing.T) {
	t.Parallel()
	limits := func(c *orchestrator.Config) { c.Limits.MaxOpen, c.Limits.MaxOpenEach = 3, 2 }
	log := memlog.New(memlog.Config{})
	n := start(t, log, limits)
	n.submit(onePlan, by("user:a"))
	keyedID := n.submit(onePlan, by("user:a"), keyed("k"))
	_, err := n.trySubmit(onePlan, by("user:a"))
	hasCode(t, err, fault.QuotaExceeded)
	assert.Contains(t, fault.From(err).Hint, "max_open_each")
	again, err := n.trySubmit(onePlan, by("user:a"), keyed("k"))
	require.NoError(t, err, "a repeated request makes no task")
	assert.Equal(t, keyedID, again.ID)
	n.submit(onePlan, by("user:b"))
	_, err = n.trySubmit(onePlan, by("user:c"))
	hasCode(t, err, fault.RateLimited)
	text, err := json.Marshal(onePlan)
	require.NoError(t, err)
	batch, err := n.SubmitBatch(n.ctx(), api.SubmitBatchRequest{Tasks: []api.SubmitRequest{{Plan: text}}})
	require.NoError(t, err)
	assert.Equal(t, fault.RateLimited, batch.Tasks[0].Error.Code)
	n.stop()

	n = start(t, log, limits)
	_, err = n.trySubmit(onePlan, by("user:c"))
	hasCode(t, err, fault.RateLimited)
	for range 2 {
		require.NoError(t, n.report("w", n.take("w"), `{}`))
	}
	id := n.submit(onePlan, by("user:a"))
	assert.Equal(t, statemachine.NeedsAction, n.get(id).State)
	for range 2 {
		require.NoError(t, n.report("w", n.take("w"), `{}`))
	}
	n.result(id)
	n.checkIdle()
}

// Agents share the limit of open tasks with the identity that registered them, also for tasks that were not read since a
// restart.
func TestOpenTasksOfRegisteredAgentsAreLimitedTogether(t *testing.T) {
	t.Parallel()
	log := newReadCounter()
	share := registeredBy("agent:hog", "agent:a", "agent:b")
	limits := func(c *orchestrator.Config) { c.Limits.MaxOpenEach = 2 }
	n := startReadCounter(t, log, share, limits)
	n.submit(signalPlan, by("agent:hog"))
	wakes := n.submit(signalPlan, by("agent:a"))
	_, err := n.trySubmit(signalPlan, by("agent:b"))
	hasCode(t, err, fault.QuotaExceeded)
	require.ErrorContains(t, err, "agent:hog, with the agents that it has registered, has 2 open tasks")
	n.stop()

	n = startReadCounter(t, log, limits)
	assert.Zero(t, log.reads.Load())
	_, err = n.trySubmit(signalPlan, by("agent:hog"))
	hasCode(t, err, fault.QuotaExceeded)
	_, err = n.Signal(t.Context(), api.SignalRequest{ID: wakes, Name: "go", Actor: "user:test"})
	require.NoError(t, err)
	n.result(wakes)
	n.submit(signalPlan, by("agent:hog"))
	_, err = n.trySubmit(signalPlan, by("agent:hog"))
	hasCode(t, err, fault.QuotaExceeded)
}

// The limit of steps: a few tasks with very many steps count like many tasks. It holds after a restart, and an end makes room.
func TestOpenStepsAreLimited(t *testing.T) {
	t.Parallel()
	limits := func(c *orchestrator.Config) { c.Limits.MaxOpenSteps, c.Limits.MaxOpenStepsEach = 9, 5 }
	log := memlog.New(memlog.Config{})
	n := start(t, log, limits)
	const four = "orch: v1\nsteps: [{id: a, tool: READ}, {id: b, tool: READ}, {id: c, tool: READ}, {id: d, tool: READ}]\n"
	n.submit(four, by("agent:a"))
	wide := n.submit(four, by("agent:a"))
	_, err := n.trySubmit(onePlan, by("agent:a"))
	hasCode(t, err, fault.QuotaExceeded)
	n.submit(onePlan, by("agent:b"))
	_, err = n.trySubmit(onePlan, by("agent:c"))
	hasCode(t, err, fault.RateLimited)
	n.stop()

	n = start(t, log, limits)
	_, err = n.trySubmit(onePlan, by("agent:c"))
	hasCode(t, err, fault.RateLimited)
	_, err = n.Cancel(n.ctx(), api.CancelRequest{ID: wide})
	require.NoError(t, err)
	n.result(wide)
	n.submit(onePlan, by("agent:c"))
	n.submit(onePlan, by("agent:a"))
	_, err = n.trySubmit(onePlan, by("agent:a"))
	hasCode(t, err, fault.QuotaExceeded)
}

// Child tasks are never refused.
func TestChildrenAreNotRefused(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) { c.Limits.MaxOpen, c.Limits.MaxOpenEach = 1, 1 })
	n.serve(echoArgs)
	id := n.submit("orch: v1\nsteps:\n  - id: s\n    run:\n      orch: v1\n      steps:\n        - {id: a, tool: READ}\n")
	assert.Equal(t, statemachine.Done, n.result(id).State)
	n.checkIdle()
}

// A submission that the log refused does not count.
func TestRefusedSubmissionCountsNot(t *testing.T) {
	t.Parallel()
	var failing atomic.Bool
	failing.Store(true)
	n := start(t, memlog.New(memlog.Config{Fail: func(*events.Record) error {
		if failing.Load() {
			return fault.New(fault.DiskFull, "no room")
		}
		return nil
	}}), func(c *orchestrator.Config) { c.Limits.MaxOpen = 1 })
	_, err := n.trySubmit(onePlan)
	hasCode(t, err, fault.DiskFull)
	failing.Store(false)
	require.Eventually(t, func() bool { _, err := n.trySubmit(onePlan); return err == nil }, time.Minute, time.Millisecond)
}

// Requests that wait are limited; others are not.
func TestWaitersAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) { c.Limits.MaxWaiting = 1 })
		id := n.submit(onePlan)
		waits := func() error {
			_, err := n.Result(n.ctx(), api.ResultRequest{ID: id, Wait: 10 * time.Second})
			return err
		}
		first := make(chan error, 1)
		go func() { first <- waits() }()
		synctest.Wait()
		hasCode(t, waits(), fault.RateLimited)
		n.get(id)
		require.NoError(t, <-first)
		require.NoError(t, waits(), "there is room again")
	})
}
