package orchestrator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
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
	"github.com/orch-dev/orch/work"
)

func (n *node) list(r api.ListRequest) []api.Summary {
	n.t.Helper()
	reply, err := n.List(context.Background(), r)
	require.NoError(n.t, err)
	return reply.Tasks
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// Two lines are kept in memory; the others are in the index of the log.
		n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) { c.Limits.KeepListed, c.Limits.KeepOpen = 2, 1 })
		began := time.Now()
		var ids []events.TaskID
		for i := range 10 {
			<-time.After(time.Minute)
			ids = append(ids, n.submit(setPlan, func(r *api.SubmitRequest) {
				r.Name, r.Labels = fmt.Sprintf("nightly-%d", i), map[string]string{"parity": []string{"even", "odd"}[i%2]}
			}))
		}
		open := n.submit(onePlan)
		assert.Len(t, n.list(api.ListRequest{}), 11)
		assert.Len(t, n.list(api.ListRequest{Name: "nightly-*"}), 10)
		assert.Len(t, n.list(api.ListRequest{Labels: map[string]string{"parity": "odd"}}), 5)
		assert.Len(t, n.list(api.ListRequest{Since: began.Add(150 * time.Second), Until: began.Add(330 * time.Second)}), 3)
		pending := n.list(api.ListRequest{States: []statemachine.State{statemachine.NeedsAction}})
		require.Len(t, pending, 1)
		assert.Equal(t, open, pending[0].ID)
		var paged []events.TaskID
		for cursor := ""; ; {
			r, err := n.List(context.Background(), api.ListRequest{Name: "nightly-*", Limit: 3, Cursor: cursor})
			require.NoError(t, err)
			for _, s := range r.Tasks {
				paged = append(paged, s.ID)
			}
			if cursor = r.Next; cursor == "" {
				break
			}
		}
		for i, id := range paged {
			assert.Equal(t, ids[len(ids)-1-i], id, "the newest first")
		}
		assert.Len(t, paged, 10)
		for _, id := range ids {
			assert.Equal(t, statemachine.Done, n.get(id).State)
			n.checkReplay(id)
		}
	})
}

func TestListRequests(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	for field, r := range map[string]api.ListRequest{
		"limit": {Limit: 1001}, "name": {Name: "["}, "state": {States: []statemachine.State{"X"}}, "cursor": {Cursor: "x"},
	} {
		_, err := n.List(context.Background(), r)
		require.Error(t, err, field)
		assert.Equal(t, field, fault.From(err).Field)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log, func(c *orchestrator.Config) { c.Limits.KeepListed = 3 })
	find := func(text string) (events.TaskID, error) {
		r, err := n.Find(context.Background(), api.FindRequest{Text: text})
		return r.ID, err
	}
	_, err := find("@last")
	hasCode(t, err, fault.NotFound)
	old := n.submit(setPlan, keyed("old"))
	for range 1200 { // more than one page
		n.submit(setPlan)
	}
	last := n.submit(onePlan)
	for text, want := range map[string]events.TaskID{
		string(old): old, string(old)[:12]: old, string(old)[5:14]: old, "@last": last,
		strings.ToLower(string(old)): old, strings.ToLower(string(old)[:12]): old, "\t@LAST\n": last,
	} {
		id, err := find(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, id, text)
	}
	_, err = find(string(last)[:8])
	hasCode(t, err, fault.NotUnique)
	_, err = find("TASK_7ZZZ")
	hasCode(t, err, fault.NotFound)
	_, err = find("T")
	hasCode(t, err, fault.InvalidFormat)
	_, err = find(string(events.KeyedTaskID("", "nobody")))
	hasCode(t, err, fault.NotFound)
}

// I8: a watcher sees every commit once and in order, however often it comes back.
func TestWatch(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log)
	id := n.submit("orch: v1\nsteps:\n  - id: e\n    for_each: 1..20\n    max_parallel: 3\n    do: [{id: d, tool: READ, with: {n: \"${{ item }}\"}}]\n")
	seen, over := uint64(0), false
	watch := func(limit int) {
		r, err := n.Watch(context.Background(), api.WatchRequest{ID: id, After: seen, Wait: time.Minute, Limit: limit})
		require.NoError(t, err)
		for _, c := range r.Commits {
			seen++
			assert.Equal(t, seen, c.Rev)
		}
		over = r.Ended
	}
	watch(1)
	for range 7 {
		require.NoError(t, n.report("w", n.take("w"), `{}`))
	}
	n.stop()
	n = start(t, log)
	watch(2)
	n.serve(echoArgs)
	for !over {
		watch(4)
	}
	n.result(id)
	assert.Equal(t, n.get(id).Rev, seen)
}

// A change of progress answers a watcher as well.
func TestWatchProgress(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(onePlan)
	c := n.take("w")
	first, err := n.Watch(context.Background(), api.WatchRequest{ID: id})
	require.NoError(t, err)
	_, err = n.Heartbeat(context.Background(), work.Heartbeat{Worker: "w", Calls: []work.CallHeartbeat{{Ref: c.Ref, Tool: c.Tool, Progress: &work.Progress{Done: 1, Total: 4}}}})
	require.NoError(t, err)
	r, err := n.Watch(context.Background(), api.WatchRequest{ID: id, After: 1, SeenVersion: first.Version, Wait: time.Minute})
	require.NoError(t, err)
	assert.InDelta(t, 4.0, r.Progress["a"].Total, 0)
	assert.InDelta(t, 1.0, n.step(id, "a").Progress.Done, 0)
}

func TestHistoryAndReplayAt(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit("orch: v1\nsteps:\n  - {id: a, tool: READ}\n  - {id: b, needs: [a], tool: READ2}\n")
	n.serve(echoArgs)
	n.result(id)
	page, err := n.History(context.Background(), api.HistoryRequest{ID: id, Limit: 2})
	require.NoError(t, err)
	require.Len(t, page.Commits, 2)
	assert.Equal(t, uint64(3), page.Next)
	assert.Equal(t, page.Commits[0].Hash, page.Commits[1].Prev)
	r, err := n.Replay(context.Background(), api.ReplayRequest{ID: id, At: 1})
	require.NoError(t, err)
	assert.Equal(t, statemachine.NeedsAction, r.Task.State)
	assert.Nil(t, r.Live)
	assert.Equal(t, 1, r.Commits)
	_, err = n.Replay(context.Background(), api.ReplayRequest{ID: id, At: 99})
	hasCode(t, err, fault.NotFound)
}

// One case for each kind of cause that is not a pause (TestPauses) or a dependency key.
func TestExplain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short)
		has := func(id events.TaskID, kind, text string) {
			c := n.cause(id)
			assert.Equal(t, kind, c.Kind)
			assert.Contains(t, c.Sentence, text)
			assert.Regexp(t, `^[A-Z].*\.$`, c.Sentence)
		}
		id := n.submit(onePlan)
		has(id, "no_worker", "queue default")
		running := n.take("w").Task
		queued := n.submit(onePlan)
		has(running, "running", "worker w")
		has(queued, "queued", "1 calls queued")
		has(n.submit(onePlan, after(queued)), "dependency", string(queued))
		first := n.submit(keyPlan("queue"))
		has(n.submit(keyPlan("queue")), "concurrency", string(first))
		has(n.submit(onePlan, func(r *api.SubmitRequest) { r.Delay = time.Hour }), "delay", "1h0m0s")
		has(n.submit(timerPlan), "timer", "waits until")
		has(n.submit("orch: v1\nsteps: [{id: g, wait: {signal: go, timeout: 1h}}]\n"), "signal", `"go" until`)
		has(n.submit("orch: v1\nsteps:\n  - id: s\n    run:\n      orch: v1\n      steps: [{id: w, tool: READ}]\n"), "child", "child task TASK_")
		require.NoError(t, n.cancel(queued))
		has(queued, "over", "CANCELLED")
	})
}

func TestExplainRetryCancellingAndFailure(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit("orch: v1\nsteps: [{id: a, tool: READ, retry: {max_attempts: 2, initial: 1h, max: 1h}}]\nalways: [{id: z, tool: READ2}]\n")
	require.NoError(t, n.fail("w", n.take("w"), "tool_error"))
	assert.Equal(t, "retry", n.cause(id).Kind)
	assert.Contains(t, n.cause(id).Sentence, "it broke")
	require.NoError(t, n.cancel(id))
	assert.Equal(t, "cancelling", n.cause(id).Kind)
	failed := n.submit(otherPlan)
	n.serve(echoArgs)
	n.result(id)
	n.result(failed)
}

// Finished tasks are evicted from memory, but all requests about them still work.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) { c.Limits.KeepListed, c.Limits.KeepOpen = 20, 5 })
	n.serve(echoArgs)
	var ids []events.TaskID
	for range 200 {
		ids = append(ids, n.submit(onePlan))
	}
	for _, id := range ids {
		n.result(id)
	}
	assert.LessOrEqual(t, n.Held(), 5+1)
	for _, id := range ids[:20] {
		assert.Equal(t, statemachine.Done, n.get(id).State)
		assert.JSONEq(t, `{"n":1}`, string(n.result(id).Output))
	}
	assert.Len(t, n.list(api.ListRequest{Limit: 1000}), 200)
	assert.LessOrEqual(t, n.Held(), 5+1)
	n.checkIdle()
}

// S0-175, X-06: what a checkpoint keeps comes back byte for byte, also when its entry is lost.
func TestCheckpoints(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	log := memlog.New(memlog.Config{})
	n := start(t, log)
	id := n.submit(onePlan)
	state := `{"big":12345678901234567890,"text":"ü \u0000 <&> 😀","none":null,"f":1.0}`
	made, err := n.Checkpoint(ctx, api.CheckpointRequest{Task: id, Name: "before", State: json.RawMessage(state)})
	require.NoError(t, err)
	ref := api.CheckpointRequest{Task: id, ID: made.Checkpoints[0].ID}
	for range 2 {
		r, err := n.Checkpoint(ctx, ref)
		require.NoError(t, err)
		assert.JSONEq(t, state, string(r.Snapshot.State))
		assert.Contains(t, string(r.Snapshot.State), "12345678901234567890")
		assert.Equal(t, uint64(2), r.Snapshot.Rev)
		n.stop()
		n = start(t, log)
	}
	ref.ID = "CKPT_nothing"
	_, err = n.Checkpoint(ctx, ref)
	hasCode(t, err, fault.NotFound)
	list, err := n.Checkpoint(ctx, api.CheckpointRequest{Task: id})
	require.NoError(t, err)
	assert.Equal(t, "before", list.Checkpoints[0].Name)
}

// Large values, and values that look like references, are stored in the blob store and come back unchanged.
func TestLargeValues(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log)
	n.serve(echoArgs)
	big := fmt.Sprintf("%0100000d", 7)
	inputs, err := json.Marshal(map[string]any{"text": big, "trick": map[string]any{"$blob": "sha256-x", "size": 1}})
	require.NoError(t, err)
	plan := "orch: v1\ninputs: {type: object, properties: {text: {type: string}, trick: {type: object}}}\nsteps:\n  - {id: a, tool: READ, with: {text: \"${{ inputs.text }}\"}}\n  - {id: b, set: {t: \"${{ steps.a.output.text }}\"}}\n  - {id: c, set: {$blob: \"${{ inputs.trick }}\"}}\noutputs: {t: \"${{ steps.b.output.t }}\", c: \"${{ steps.c.output }}\"}\n"
	id := n.submit(plan, func(r *api.SubmitRequest) { r.Inputs = inputs })
	want, err := json.Marshal(map[string]any{"t": big, "c": map[string]any{"$blob": map[string]any{"$blob": "sha256-x", "size": 1}}})
	require.NoError(t, err)
	assert.JSONEq(t, string(want), string(n.result(id).Output))
	n.stop()
	n = start(t, log)
	assert.JSONEq(t, string(want), string(n.result(id).Output))
	for stored, err := range log.Read(context.Background(), id, 1) {
		require.NoError(t, err)
		assert.Less(t, len(stored.Data), 10_000)
	}
}

// The output of a for_each with many medium-sized items is smaller than a message.
func TestLargeForEach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // a slow machine takes longer for it than a request may wait
		log := memlog.New(memlog.Config{})
		n := start(t, log)
		defer n.stop()
		items := make([]string, 700)
		for i := range items {
			items[i] = fmt.Sprintf("%05000d", i)
		}
		inputs, err := json.Marshal(map[string]any{"items": items})
		require.NoError(t, err)
		plan := "orch: v1\ninputs: {type: object, properties: {items: {type: array}}}\nsteps:\n  - id: e\n    for_each: inputs.items\n    max_parallel: 2\n    do: [{id: d, tool: READ, with: {text: \"${{ item }}\"}}]\n"
		id := n.submit(plan, func(r *api.SubmitRequest) { r.Inputs = inputs })
		require.Len(t, n.poll("w", 2).Calls, 2)
		for stored, err := range log.Read(context.Background(), id, 1) {
			require.NoError(t, err)
			assert.Less(t, len(stored.Data), 2<<20)
		}
		n.checkReplay(id)
	})
}

// Every request returns UNAVAILABLE when the node has stopped, and nobody waits forever.
func TestStopped(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(onePlan)
	waiting := make(chan error, 1)
	go func() {
		_, err := n.Result(context.Background(), api.ResultRequest{ID: id, Wait: time.Minute})
		waiting <- err
	}()
	n.stop()
	hasCode(t, <-waiting, fault.Unavailable)
	_, err := n.trySubmit(onePlan)
	hasCode(t, err, fault.Unavailable)
	_, err = n.Poll(context.Background(), work.Poll{Worker: "w", Free: 1})
	hasCode(t, err, fault.Unavailable)
	_, err = n.Get(context.Background(), api.GetRequest{ID: id})
	hasCode(t, err, fault.Unavailable)
}

// A clock that is set back does not make replay and the live state differ.
func TestClockGoesBack(t *testing.T) {
	t.Parallel()
	noon, calls := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), atomic.Int64{}
	n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) {
		c.Clock = func() time.Time { return noon.Add(-time.Duration(calls.Add(1)) * time.Second) }
		c.Limits.Lease = 24 * time.Hour
	})
	id := n.submit(onePlan)
	require.NoError(t, n.report("w", n.take("w"), `{"n":1}`))
	n.result(id)
}
