package orchestrator_test

import (
	"fmt"
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
)

const failingPlan = "orch: v1\nsteps: [{id: a, set: {x: '${{ int(\"no\") }}'}}]\n"

func scoped(key, scope string) func(*api.SubmitRequest) {
	return func(r *api.SubmitRequest) { r.IdempotencyKey, r.IdempotencyScope = key, scope }
}

// Whether a key makes a new run depends on how the last run ended and how long ago.
func TestKeysAreHeldAsLongAsTheirScope(t *testing.T) {
	t.Parallel()
	type held struct{ open, done, failed, cancelled, later bool }
	for scope, want := range map[string]held{
		"":          {open: true, done: true, later: true},
		"forever":   {true, true, true, true, true},
		"until_end": {open: true},
		"1h":        {open: true, done: true, failed: true, cancelled: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := start(t, memlog.New(memlog.Config{}))
			again := func(plan, key string) bool {
				r, err := n.trySubmit(plan, scoped(key, scope))
				require.NoError(t, err)
				return r.Existing
			}
			require.False(t, again(signalPlan, "open"))
			assert.Equal(t, want.open, again(signalPlan, "open"), scope)
			require.False(t, again(setPlan, "done"))
			n.result(events.KeyedTaskID("", "done"))
			assert.Equal(t, want.done, again(setPlan, "done"), scope)
			require.False(t, again(failingPlan, "failed"))
			n.result(events.KeyedTaskID("", "failed"))
			assert.Equal(t, want.failed, again(failingPlan, "failed"), scope)
			require.NoError(t, n.cancel(events.KeyedTaskID("", "open")))
			assert.Equal(t, want.cancelled, again(signalPlan, "open"), scope)
			require.False(t, again(setPlan, "later"))
			<-time.After(time.Hour)
			assert.Equal(t, want.later, again(setPlan, "later"), scope)
		})
	}
}

// However many runs a key has had, the next one is found in few lookups, also after a restart, and each run is a separate task.
func TestGenerationsOfAKey(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log)
	ids := map[events.TaskID]bool{}
	for i := range 40 {
		if i == 20 {
			n.stop()
			n = start(t, log)
		}
		r, err := n.trySubmit(setPlan, scoped("k", "until_end"))
		require.NoError(t, err)
		require.False(t, r.Existing)
		require.False(t, ids[r.ID])
		ids[r.ID] = true
		n.result(r.ID)
	}
	for i := range 40 {
		assert.True(t, ids[events.KeyedTaskIDAt("", "k", i)], "%d", i)
	}
}

// A request that is repeated because its answer was lost finds its run, although that has failed meanwhile.
func TestTheSameRequestIsTheSameRun(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	request := func(r *api.SubmitRequest) {
		r.ID, r.IdempotencyKey = "TASK_01M844EQQ6FH2F63YNYYVWTXDF", "k"
	}
	first, err := n.trySubmit(failingPlan, request)
	require.NoError(t, err)
	n.result(first.ID)
	again, err := n.trySubmit(failingPlan, request)
	require.NoError(t, err)
	assert.True(t, again.Existing)
	assert.Equal(t, first.ID, again.ID)
	next, err := n.trySubmit(setPlan, keyed("k"))
	require.NoError(t, err, "who asks anew may have mended the plan")
	assert.NotEqual(t, first.ID, next.ID)
}

// Many concurrent requests with a released key get one run.
func TestAReleasedKeyIsTakenOnce(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	first, err := n.trySubmit(failingPlan, keyed("k"))
	require.NoError(t, err)
	n.result(first.ID)
	type answer struct {
		reply api.SubmitReply
		err   error
	}
	answers := make(chan answer)
	for range 20 {
		go func() {
			r, err := n.trySubmit(signalPlan, keyed("k"))
			answers <- answer{r, err}
		}()
	}
	fresh := 0
	for range 20 {
		a := <-answers
		require.NoError(t, a.err)
		assert.Equal(t, events.KeyedTaskIDAt("", "k", 1), a.reply.ID)
		if !a.reply.Existing {
			fresh++
		}
	}
	assert.Equal(t, 1, fresh)
}

// The error names the holder of the key, how long it holds it, and what differs.
func TestConflictsOfKeysSayWhatDiffers(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	const asking = "orch: v1\ninputs: {additionalProperties: true}\nidempotency: {key: k, scope: 2h}\nsteps: [{id: w, wait: {signal: go}}]\n"
	with := func(night int) func(*api.SubmitRequest) {
		return func(r *api.SubmitRequest) { r.Inputs = fmt.Appendf(nil, `{"same":1,"night":%d}`, night) }
	}
	first, err := n.trySubmit(asking, with(1))
	require.NoError(t, err)
	_, err = n.trySubmit(asking, with(2))
	hasCode(t, err, fault.Conflict)
	require.ErrorContains(t, err, string(first.ID))
	require.ErrorContains(t, err, "another value of night among its inputs")
	assert.Contains(t, fault.From(err).Hint, "for 2h since it was submitted, and until it is over")
	_, err = n.trySubmit(setPlan, keyed("k"))
	require.ErrorContains(t, err, "another plan")
	_, err = n.trySubmit(setPlan, scoped("other", "1ms"))
	hasCode(t, err, fault.ValidationError)
	assert.Equal(t, "idempotency_scope", fault.From(err).Field)
}

// An archived task holds its key no longer than its scope says.
func TestRemovedTasksReleaseTheirKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), keeping(10*day, 10*day))
		n.submit(setPlan, scoped("k", "until_end"))
		<-time.After(12 * day)
		_, err := n.Get(n.ctx(), api.GetRequest{ID: events.KeyedTaskID("", "k")})
		hasCode(t, err, fault.Gone)
		_, err = n.trySubmit(setPlan, keyed("k"))
		hasCode(t, err, fault.Gone)
		r, err := n.trySubmit(setPlan, scoped("k", "until_end"))
		require.NoError(t, err)
		assert.Equal(t, events.KeyedTaskIDAt("", "k", 1), r.ID)
	})
}

// A retry sees the submission time of the first run.
func TestRetriesKeepTheTimeOfTheirTask(t *testing.T) {
	t.Parallel()
	clock := clockAt(time.Date(2026, 11, 22, 23, 30, 0, 0, time.UTC))
	n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) { c.Clock = clock.now })
	id := n.submit("orch: v1\nsteps:\n  - {id: w, wait: {signal: go}}\n  - {id: a, tool: READ, needs: [w], with: {text: '${{ task.created }}'}}\n")
	require.NoError(t, n.cancel(id))
	clock.pass(48 * time.Hour)
	r, err := n.Retry(n.ctx(), api.RetryRequest{ID: id})
	require.NoError(t, err)
	_, err = n.Signal(n.ctx(), api.SignalRequest{ID: r.ID, Name: "go"})
	require.NoError(t, err)
	assert.JSONEq(t, `{"text":"2026-11-22T23:30:00Z"}`, string(n.poll("w", 1).Calls[0].Args))
}
