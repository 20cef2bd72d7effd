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
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/work"
)

// The cause of a running call says whether its worker is silent.
func TestExplainSilentWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{})
		n := start(t, log, short)
		id := n.submit(writePlan)
		c := n.take("w")
		require.NoError(t, n.Start(context.Background(), startedBy("w", c)))
		assert.Contains(t, n.cause(id).Sentence, "is running on worker w since")
		_, err := n.Heartbeat(context.Background(), work.Heartbeat{Worker: "w", Calls: []work.CallHeartbeat{{
			Ref: c.Ref, Tool: c.Tool, Progress: &work.Progress{Done: 6, Message: "bytes of output"},
		}}})
		require.NoError(t, err)
		assert.Contains(t, n.cause(id).Sentence, "; its tool reports 6 (bytes of output).", "not 6 of the steps")
		<-time.After(700 * time.Millisecond)
		assert.Regexp(t, `^Step a \(WRITE\) runs on worker w, which was last heard of 1s ago; at .* its call is given up\.$`, n.cause(id).Sentence)
		n.none("w")
		assert.Contains(t, n.cause(id).Sentence, "which has not reported it for 1s")
		n.beat("w", c)
		assert.Contains(t, n.cause(id).Sentence, "is running on worker w since")
		n.stop()
		n = start(t, log, short)
		assert.Regexp(t, `^Step a \(WRITE\) was running on worker w before the node restarted; unless w is heard from by .*, its call is given up\.$`, n.cause(id).Sentence)
		assert.Equal(t, "running", n.cause(id).Kind)
		n.beat("w", c)
		assert.Contains(t, n.cause(id).Sentence, "is running on worker w since")
		<-time.After(3 * time.Second)
		assert.Equal(t, "in_doubt", n.cause(id).Kind)
	})
}

// The causes distinguish a silent worker from one that is online.
func TestSilentWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) { c.Limits.Lease = 15 * time.Second })
		n.none("gone")
		<-time.After(65 * time.Second)
		n.none("there")
		s, err := n.Status(context.Background(), api.StatusRequest{})
		require.NoError(t, err)
		silent := map[string]bool{}
		for _, w := range s.Workers {
			silent[w.Name] = w.Silent
		}
		assert.Equal(t, map[string]bool{"gone": true, "there": false}, silent)
	})
}

// The causes of a paused task are the pause, and what else it waits for.
func TestExplainPaused(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit("orch: v1\nsteps:\n  - {id: a, tool: READ}\n  - {id: g, wait: {signal: go}}\n")
	n.pause(api.PauseRequest{ID: id})
	e, err := n.Explain(context.Background(), api.GetRequest{ID: id})
	require.NoError(t, err)
	var kinds []string
	for _, c := range e.Causes {
		kinds = append(kinds, c.Kind)
	}
	assert.Equal(t, []string{"paused", "signal"}, kinds)
}

// A timer that fired during a pause is not a cause.
func TestExplainPassedTimer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		id := n.submit("orch: v1\nsteps: [{id: s, wait: {for: 1s}}]\n")
		n.pause(api.PauseRequest{ID: id})
		<-time.After(2 * time.Second)
		e, err := n.Explain(context.Background(), api.GetRequest{ID: id})
		require.NoError(t, err)
		require.Len(t, e.Causes, 1)
		assert.Equal(t, "paused", e.Causes[0].Kind)
	})
}

// A cause that ends by itself says when, so that programs need not read its sentence.
func TestCausesSayWhenTheyEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		for plan, until := range map[string]time.Time{
			"orch: v1\nsteps: [{id: g, wait: {signal: go, timeout: 1h}}]\n": time.Now().Add(time.Hour),
			"orch: v1\nsteps: [{id: g, wait: {for: 2h}}]\n":                 time.Now().Add(2 * time.Hour),
			"orch: v1\nsteps: [{id: g, wait: {signal: go}}]\n":              {},
		} {
			e, err := n.Explain(n.ctx(), api.GetRequest{ID: n.submit(plan)})
			require.NoError(t, err)
			require.Len(t, e.Causes, 1)
			assert.Equal(t, until.UTC(), e.Causes[0].Until.UTC(), plan)
		}
	})
}

// A list says what open tasks wait for.
func TestListReasons(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	want := map[events.TaskID]string{}
	first := n.submit(keyPlan("queue"))
	want[n.submit(keyPlan("queue"))] = string(first)
	want[n.submit(onePlan, func(r *api.SubmitRequest) { r.Delay = time.Hour })] = "is to start at"
	want[n.submit(timerPlan)] = "waits until"
	want[n.submit("orch: v1\nsteps: [{id: g, wait: {signal: go}}]\n")] = `signal "go"`
	want[n.submit(otherPlan)] = "no worker serves queue default"
	paused := n.submit(otherPlan)
	n.pause(api.PauseRequest{ID: paused})
	want[paused] = "is paused"
	done := n.submit(setPlan)
	for _, s := range n.list(api.ListRequest{}) {
		assert.Contains(t, s.Reason, want[s.ID], s.ID)
		if s.ID == done {
			assert.Empty(t, s.Reason)
		}
	}
	n.pause(api.PauseRequest{Node: true})
	for _, s := range n.list(api.ListRequest{}) {
		if s.ID == first {
			assert.Contains(t, s.Reason, "the node is paused")
		}
	}
}
