package orchestrator_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

const waitsForGo = "orch: v1\nsteps: [{id: w, wait: {signal: go}}]\n"

// slowLog is a log whose answers take a time that the test sets.
type slowLog struct{ delay time.Duration }

func (s *slowLog) start(t *testing.T) *node {
	t.Helper()
	return start(t, memlog.New(memlog.Config{Delay: func(*events.Record) time.Duration { return s.delay }}))
}

// assertRefused checks that nothing of a request was done, and when it may be repeated.
func assertRefused(t *testing.T, err error) {
	t.Helper()
	require.Error(t, err)
	f := fault.From(err)
	assert.Equal(t, []any{fault.Unavailable, fault.Overloaded}, []any{f.Code, f.Reason}, f.Message)
	assert.True(t, f.RetryAt.After(time.Now()))
}

// New tasks are refused while the log does not acknowledge, before anything of them is appended.
func TestSlowLogRefusesNewTasks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := &slowLog{}
		n := slow.start(t)
		defer n.stop()
		existing := n.submit(waitsForGo, func(r *api.SubmitRequest) { r.IdempotencyKey = "a" })
		slow.delay = 20 * time.Second
		first := make(chan error, 1)
		go func() { _, err := n.trySubmit(waitsForGo); first <- err }()
		<-time.After(4 * time.Second) // of the bubble
		synctest.Wait()
		second := make(chan error, 1)
		go func() { _, err := n.trySubmit(waitsForGo); second <- err }()
		<-time.After(2 * time.Second)
		_, err := n.trySubmit(waitsForGo)
		assertRefused(t, err)
		reply, err := n.SubmitBatch(n.ctx(), api.SubmitBatchRequest{Tasks: []api.SubmitRequest{{Plan: []byte(`"` + "orch: v1\\nsteps: [{id: w, wait: {signal: go}}]" + `"`)}}})
		require.NoError(t, err)
		assertRefused(t, reply.Tasks[0].Error)
		require.NoError(t, <-first, "what was begun is answered")
		require.NoError(t, <-second)
		slow.delay = 0
		n.submit(waitsForGo)
		list, err := n.List(n.ctx(), api.ListRequest{})
		require.NoError(t, err)
		assert.Len(t, list.Tasks, 4)
		assert.Equal(t, statemachine.InProgress, n.view(existing).State)
	})
}

// A request that has waited too long for its turn is refused, and so is one whose caller gives up before.
func TestRequestsThatWaitTooLong(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ slow, timeout time.Duration }{
		"too long":       {15 * time.Second, time.Minute},
		"the caller not": {5 * time.Second, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				slow := &slowLog{}
				n := slow.start(t)
				defer n.stop()
				id := n.submit(waitsForGo)
				slow.delay = test.slow
				paused := make(chan error, 1)
				go func() { _, err := n.Pause(n.ctx(), api.PauseRequest{ID: id}); paused <- err }()
				synctest.Wait()
				slow.delay = 0
				ctx, stop := context.WithTimeout(n.ctx(), test.timeout)
				defer stop()
				_, err := n.Signal(ctx, api.SignalRequest{ID: id, Name: "go"})
				assertRefused(t, err)
				require.NoError(t, <-paused)
				synctest.Wait()
				assert.NotContains(t, n.kinds(id), events.SignalReceived)
				n.signal(id)
			})
		})
	}
}

// A batch whose time ends is answered task by task: done, refused, or unknown for what the log has not acknowledged.
func TestBatchIsAnsweredTaskByTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{Delay: func(r *events.Record) time.Duration {
			if r.Name == "slow" {
				return time.Minute
			}
			return 0
		}})
		n := start(t, log)
		defer n.stop()
		ctx, stop := context.WithTimeout(n.ctx(), 20*time.Second)
		defer stop()
		plan := []byte(`"orch: v1\nsteps: [{id: w, wait: {signal: go}}]"`)
		reply, err := n.SubmitBatch(ctx, api.SubmitBatchRequest{Tasks: []api.SubmitRequest{{Plan: plan}, {Plan: plan, Name: "slow"}, {Plan: []byte(`"x"`)}}})
		require.NoError(t, err)
		assert.Nil(t, reply.Tasks[0].Error)
		assert.Equal(t, fault.OutcomeUnknown, reply.Tasks[1].Error.Reason)
		assert.Equal(t, fault.InvalidPlan, reply.Tasks[2].Error.Code)
	})
}

// A refusal of the log leaves no trace of a new task, and the node does not read the log for it.
func TestRefusalOfTheLog(t *testing.T) {
	t.Parallel()
	refuse := true
	n := start(t, memlog.New(memlog.Config{Fail: func(*events.Record) error {
		if refuse {
			return fault.NewOverloaded(time.Now(), "full")
		}
		return nil
	}}))
	chosen := events.NewTaskID(time.Now())
	choose := func(r *api.SubmitRequest) { r.ID = chosen }
	_, err := n.trySubmit(waitsForGo, choose)
	assertRefused(t, err)
	_, err = n.Get(n.ctx(), api.GetRequest{ID: chosen})
	assert.Equal(t, fault.NotFound, fault.CodeOf(err))
	refuse = false
	assert.Equal(t, chosen, n.submit(waitsForGo, choose))
}
