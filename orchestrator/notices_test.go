package orchestrator_test

import (
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
	"github.com/orch-dev/orch/orchestrator"
)

// heard collects the notices of a node.
type heard struct {
	mu  sync.Mutex
	all []orchestrator.Notice
}

func (h *heard) hear(c *orchestrator.Config) {
	c.Hooks.Notify = func(n orchestrator.Notice) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.all = append(h.all, n)
	}
}

// take returns the notices since the last call, without keys, which are all different.
func (h *heard) take(t *testing.T) []orchestrator.Notice {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := map[string]bool{}
	all := h.all
	for i := range all {
		assert.False(t, seen[all[i].Key], "%s twice", all[i].Key)
		seen[all[i].Key] = true
		assert.False(t, all[i].At.IsZero())
		all[i].Key, all[i].At = "", time.Time{}
	}
	h.all = nil
	return all
}

// S0-186: a task that fails is announced once, and neither a restart nor a replay announces it again.
func TestFailureIsAnnounced(t *testing.T) {
	t.Parallel()
	var h heard
	log := memlog.New(memlog.Config{})
	n := start(t, log, h.hear)
	for priority, want := range map[string]string{"normal": "high", "critical": "critical"} {
		id := n.submit(`{orch: v1, name: build, steps: [{id: a, tool: WRITE}]}`, func(r *api.SubmitRequest) { r.Priority = priority })
		require.NoError(t, n.fail("w", n.take("w"), "tool_error"))
		n.result(id)
		assert.Equal(t, []orchestrator.Notice{
			{Kind: orchestrator.NoticeFailed, Task: id, Name: "build", Priority: want, Text: "step a: args.x: it broke"},
		}, h.take(t))
	}
	preview := n.submit(`{orch: v1, name: build, steps: [{id: a, tool: WRITE}]}`, func(r *api.SubmitRequest) { r.Name, r.Internal = api.UndoPreviewName, true })
	require.NoError(t, n.fail("w", n.take("w"), "tool_error"))
	n.result(preview)
	done := n.submit(`{orch: v1, steps: [{id: a, tool: READ}]}`)
	require.NoError(t, n.report("w", n.take("w"), `{}`))
	n.result(done)
	assert.Empty(t, h.take(t), "neither a preview of an undo nor a task that is done is announced")
	n.stop()
	n = start(t, log, h.hear)
	n.result(done)
	assert.Empty(t, h.take(t))
}

// S0-186: a task that waits for another one is not announced.
func TestBlockIsAnnounced(t *testing.T) {
	t.Parallel()
	var h heard
	n := start(t, memlog.New(memlog.Config{}), h.hear)
	first := n.submit(`{orch: v1, steps: [{id: a, tool: READ}]}`)
	next := n.submit(`{orch: v1, steps: [{id: a, tool: READ}]}`, func(r *api.SubmitRequest) { r.DependsOn = []events.TaskID{first} })
	assert.Equal(t, []orchestrator.Notice{
		{Kind: orchestrator.NoticeBlocked, Task: next, Name: "task", Priority: "low", Text: "waits for other tasks"},
	}, h.take(t))
}

// A task that waits for an answer is announced with its question.
func TestQuestionIsAnnounced(t *testing.T) {
	t.Parallel()
	var h heard
	n := start(t, memlog.New(memlog.Config{}), h.hear)
	id := n.submit(oneWrite)
	require.NoError(t, n.inquire("w", n.begun("w"), elicit("who")))
	got := h.take(t)
	require.Len(t, got, 1)
	assert.Equal(t, orchestrator.NoticeBlocked, got[0].Kind)
	assert.Equal(t, id, got[0].Task)
	assert.Equal(t, n.open().ID, got[0].Question)
}

// The approvals of a critical task are requested, reminded of, expire and are replaced. Then the task is blocked.
func TestApprovalsAreAnnounced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var h heard
		n := start(t, memlog.New(memlog.Config{}), h.hear)
		id := n.submit(guardedPlan, func(r *api.SubmitRequest) { r.Priority = "critical" })
		n.park("w", n.take("w"), ask())
		first := n.pending()
		expect := func(kind, approval string) {
			t.Helper()
			got := h.take(t)
			require.Len(t, got, 1)
			assert.Equal(t, kind, got[0].Kind)
			assert.Equal(t, approval, got[0].Approval)
			assert.Equal(t, id, got[0].Task)
			assert.Equal(t, "critical", got[0].Priority)
			if approval != "" {
				assert.Contains(t, got[0].Text, "allow WRITE in step a: it lies outside")
			}
		}
		expect(orchestrator.NoticeApprovalRequested, first.ID)
		pass := func(d time.Duration) { <-time.After(d); synctest.Wait() }
		pass(16 * time.Minute)
		expect(orchestrator.NoticeApprovalReminded, first.ID)
		pass(15 * time.Minute)
		second := n.pending()
		expect(orchestrator.NoticeApprovalEscalated, second.ID)
		pass(15 * time.Minute)
		expect(orchestrator.NoticeApprovalReminded, second.ID)
		pass(16 * time.Minute)
		expect(orchestrator.NoticeBlocked, "")
		n.stop()
	})
}

// A decision that the log refused is not announced. Once the log accepts it, it is announced once.
func TestOnlyDurableFactsAreAnnounced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var h heard
		var away atomic.Bool
		n := start(t, memlog.New(memlog.Config{Fail: func(*events.Record) error {
			if away.Load() {
				return gone()
			}
			return nil
		}}), h.hear)
		id := n.submit(`{orch: v1, steps: [{id: a, tool: WRITE}]}`)
		c := n.take("w")
		away.Store(true)
		require.Error(t, n.fail("w", c, "tool_error"))
		synctest.Wait()
		assert.Empty(t, h.take(t))
		away.Store(false)
		require.NoError(t, n.fail("w", c, "tool_error"))
		n.result(id)
		assert.Len(t, h.take(t), 1)
		n.stop()
	})
}
