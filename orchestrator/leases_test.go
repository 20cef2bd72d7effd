package orchestrator_test

import (
	"context"
	"encoding/json"
	"iter"
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

// kinds lists the kinds of all events of a task in order.
func (n *node) kinds(id events.TaskID) []events.Kind {
	n.t.Helper()
	h, err := n.History(context.Background(), api.HistoryRequest{ID: id})
	require.NoError(n.t, err)
	var kinds []events.Kind
	for _, c := range h.Commits {
		for _, e := range c.Events {
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

func (n *node) beat(worker string, calls ...work.Call) work.HeartbeatReply {
	n.t.Helper()
	b := work.Heartbeat{Worker: worker}
	for _, c := range calls {
		b.Calls = append(b.Calls, work.CallHeartbeat{Ref: c.Ref, Tool: c.Tool})
	}
	r, err := n.Heartbeat(context.Background(), b)
	require.NoError(n.t, err)
	return r
}

// the lease of a silent worker ends, another one gets the next attempt, the first is fenced off.
func TestLostWorkerOfARead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short)
		id := n.submit(onePlan)
		old := n.take("old")
		for range 5 { // a heartbeat keeps the lease
			<-time.After(800 * time.Millisecond)
			assert.Empty(t, n.beat("old", old).Stop)
		}
		<-time.After(3 * time.Second)
		c := n.take("new")
		assert.Equal(t, 2, c.Attempt)
		assert.Equal(t, []work.Ref{old.Ref}, n.beat("old", old).Stop)
		hasCode(t, n.report("old", old, `{"n":9}`), fault.Conflict)
		hasCode(t, n.Start(context.Background(), startedBy("other", c)), fault.Conflict)
		require.NoError(t, n.report("new", c, `{"n":1}`))
		require.NoError(t, n.report("new", c, `{"n":1}`), "a repeated report is heard")
		r := n.result(id)
		assert.JSONEq(t, `{"n":1}`, string(r.Output), "no result of an older attempt (I7)")
		assert.Contains(t, n.kinds(id), events.ResultRefused)
		n.checkIdle()
	})
}

// The loss of a worker during a call with effects leaves the call in doubt. It is never repeated blindly.
func TestLostWorkerOfAWrite(t *testing.T) {
	t.Parallel()
	for as, want := range map[string]statemachine.State{"succeeded": statemachine.Done, "failed": statemachine.Failed, "retry": statemachine.Done} {
		synctest.Test(t, func(t *testing.T) {
			n := start(t, memlog.New(memlog.Config{}), short)
			id := n.submit(writePlan)
			c := n.take("w")
			require.NoError(t, n.Start(context.Background(), startedBy("w", c)))
			require.NoError(t, n.Start(context.Background(), startedBy("w", c)), "asking twice is one start")
			<-time.After(3 * time.Second)
			v := n.get(id)
			assert.Equal(t, statemachine.Blocked, v.State)
			assert.Equal(t, "input", v.Block)
			assert.Equal(t, statemachine.StepInDoubt, n.step(id, "a").State)
			assert.Equal(t, "in_doubt", n.cause(id).Kind)
			n.none("other")
			resolve := func(step, as string) error {
				_, err := n.Resolve(context.Background(), api.ResolveRequest{ID: id, Step: step, As: as, Output: json.RawMessage(`{"n":1}`)})
				return err
			}
			hasCode(t, resolve("a", "maybe"), fault.ValidationError)
			hasCode(t, resolve("nothing", "retry"), fault.NotFound)
			require.NoError(t, resolve("a", as))
			if as == "retry" {
				again := n.take("x")
				assert.Equal(t, 2, again.Attempt)
				require.NoError(t, n.report("x", again, `{}`))
			}
			assert.Equal(t, want, n.result(id).State)
			hasCode(t, resolve("a", as), fault.StateNotAllowed)
		})
	}
}

const verifiedPlan = "orch: v1\nsteps:\n  - id: a\n    tool: WRITE\n    timeout: 5s\n    with: {n: 4}\n    verify: {tool: READ, with: {n: \"${{ args.n }}\"}, expect: output.n == 4}\n"

// overrun is the time after which the call of verifiedPlan with a silent worker has ended for certain.
const overrun = 16 * time.Second

// The verify tool checks each attempt again.
func TestVerifyToolDecides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short)
		id := n.submit(verifiedPlan)
		for attempt, found := range []string{`{"n":0}`, `{"n":4}`} {
			c := n.take("w")
			require.Equal(t, "WRITE", c.Tool)
			assert.Equal(t, attempt+1, c.Attempt)
			require.NoError(t, n.Start(context.Background(), startedBy("w", c)))
			<-time.After(overrun)
			probe := n.take("v")
			require.Equal(t, "READ", probe.Tool, "attempt %d is asked about", attempt+1)
			assert.JSONEq(t, `{"n":4}`, string(probe.Args))
			require.NoError(t, n.report("v", probe, found))
		}
		r := n.result(id)
		assert.Equal(t, statemachine.Done, r.State)
		n.checkIdle()
	})
}

// If a person resolves the call before the verify tool does, the verify call is dropped.
func TestPersonBeforeVerifyTool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short)
		id := n.submit(verifiedPlan)
		require.NoError(t, n.Start(context.Background(), startedBy("w", n.take("w"))))
		<-time.After(3 * time.Second)
		_, err := n.Resolve(context.Background(), api.ResolveRequest{ID: id, Step: "a", As: "succeeded"})
		require.NoError(t, err)
		assert.Equal(t, statemachine.Done, n.result(id).State)
		n.none("v")
		n.checkIdle()
	})
}

func TestFailingVerifyToolLeavesItToAPerson(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short)
		id := n.submit(verifiedPlan)
		c := n.take("w")
		require.NoError(t, n.Start(context.Background(), startedBy("w", c)))
		<-time.After(overrun)
		require.NoError(t, n.fail("v", n.take("v"), "tool_error"))
		assert.Equal(t, statemachine.Blocked, n.get(id).State)
	})
}

// A restarted node gives the workers of running calls time to reconnect.
func TestRestartReattachesRunningCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{})
		n := start(t, log, short)
		write, read := n.submit(writePlan), n.submit(onePlan)
		b := n.poll("w", 2)
		require.Len(t, b.Calls, 2)
		for _, c := range b.Calls {
			if c.Effect == "write" {
				require.NoError(t, n.Start(context.Background(), startedBy("w", *c)))
			}
		}
		n.stop()
		n = start(t, log, short)
		assert.Empty(t, n.beat("w", callsOf(b)...).Stop)
		n.none("other")
		for range 4 {
			<-time.After(700 * time.Millisecond)
			assert.Empty(t, n.beat("w", callsOf(b)...).Stop)
		}
		for _, c := range b.Calls {
			require.NoError(t, n.report("w", *c, `{"n":1}`))
		}
		assert.Equal(t, statemachine.Done, n.result(write).State)
		assert.Equal(t, statemachine.Done, n.result(read).State)
	})
}

// of racing claims one wins.
func TestRacingClaims(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	n.submit(onePlan)
	var won atomic.Int32
	done := make(chan struct{})
	for i := range 50 {
		go func() {
			defer func() { done <- struct{}{} }()
			b, err := n.Poll(context.Background(), work.Poll{Worker: "w" + string(rune('A'+i)), Free: 1, Wait: 2 * time.Second})
			assert.NoError(t, err)
			won.Add(int32(len(b.Calls)))
		}()
	}
	for range 50 {
		<-done
	}
	assert.Equal(t, int32(1), won.Load())
}

// a thousand tasks for two workers, by priority, then age.
func TestQueueOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		names := []string{"low", "normal", "high", "critical"}
		byPriority := map[string][]events.TaskID{}
		for i := range 1000 {
			<-time.After(time.Millisecond)
			p := names[i*7%4]
			byPriority[p] = append(byPriority[p], n.submit(onePlan, prioritised(p)))
		}
		var want, got []events.TaskID
		for _, p := range []string{"critical", "high", "normal", "low"} {
			want = append(want, byPriority[p]...)
		}
		for i := range 1000 {
			worker := "w" + string(rune('0'+i%2))
			c := n.take(worker)
			got = append(got, c.Task)
			require.NoError(t, n.report(worker, c, `{"n":1}`))
		}
		assert.Equal(t, want, got)
		n.checkIdle()
	})
}

// A worker without a tool, and several queues, must not keep the node from answering.
func TestWorkersOfSomeToolsAndQueues(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	inQueue := func(q, p string) func(*api.SubmitRequest) {
		return func(r *api.SubmitRequest) { r.Queue, r.Priority = q, p }
	}
	n.submit(onePlan, inQueue("a", "critical"))
	n.submit(onePlan, inQueue("b", "high"))
	n.submit(onePlan, inQueue("a", "low"))
	poll := func(tools ...string) []work.Call {
		b, err := n.Poll(context.Background(), work.Poll{Worker: "w", Free: 5, Queues: []string{"a", "b"}, Tools: tools})
		require.NoError(t, err)
		return callsOf(b)
	}
	assert.Empty(t, poll("WRITE"))
	n.none("w", "c")
	assert.Len(t, poll("READ", "WRITE"), 3)
}

func TestReportCannotForgeEvents(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(onePlan)
	c := n.take("w")
	o := work.Outcome{Ref: c.Ref, Worker: "w", Output: json.RawMessage(`{"n":1}`), Facts: []events.Event{{Kind: events.TaskCancelled, Data: &events.Moved{}}}}
	hasCode(t, n.Report(context.Background(), o), fault.ValidationError)
	o.Facts = []events.Event{{Kind: events.FileRead, Data: &events.Read{Path: "a", SHA256: "b"}}}
	require.NoError(t, n.Report(context.Background(), o))
	assert.Equal(t, statemachine.Done, n.result(id).State)
	assert.Contains(t, n.kinds(id), events.FileRead)
}

// A result that could not be written is reported again, also that of an item of a for_each.
func TestReportAfterAFailedAppend(t *testing.T) {
	t.Parallel()
	var fail atomic.Bool
	log := memlog.New(memlog.Config{Fail: func(*events.Record) error {
		if fail.Load() {
			return fault.New(fault.DiskFull, "full")
		}
		return nil
	}})
	n := start(t, log)
	id := n.submit("orch: v1\nsteps:\n  - id: e\n    for_each: \"[1, 2]\"\n    max_parallel: 1\n    do: [{id: d, tool: READ, with: {n: \"${{ item }}\"}}]\noutputs: {l: \"${{ map(steps.e.output, #.d.n) }}\"}\n")
	for range 2 {
		c := n.take("w")
		fail.Store(true)
		hasCode(t, n.report("w", c, string(c.Args)), fault.DiskFull)
		fail.Store(false)
		require.NoError(t, n.report("w", c, string(c.Args)))
	}
	assert.JSONEq(t, `{"l":[1,2]}`, string(n.result(id).Output))
	n.checkIdle()
}

// An item whose result was not written has not ended, even if the node assumed so in between.
func TestItemsAfterAFailedAppend(t *testing.T) {
	t.Parallel()
	var fail atomic.Bool
	n := start(t, memlog.New(memlog.Config{Fail: func(*events.Record) error {
		if fail.Load() {
			return fault.New(fault.DiskFull, "full")
		}
		return nil
	}}))
	id := n.submit("orch: v1\nsteps:\n  - id: e\n    for_each: \"[1, 2]\"\n    do: [{id: d, tool: READ, with: {n: \"${{ item }}\"}}]\noutputs: {l: \"${{ map(steps.e.output, #.d.n) }}\"}\n")
	calls := n.poll("w", 2).Calls
	require.Len(t, calls, 2)
	fail.Store(true)
	hasCode(t, n.report("w", *calls[0], string(calls[0].Args)), fault.DiskFull)
	fail.Store(false)
	require.NoError(t, n.report("w", *calls[1], string(calls[1].Args)))
	require.NoError(t, n.report("w", *calls[0], string(calls[0].Args)))
	assert.JSONEq(t, `{"l":[1,2]}`, string(n.result(id).Output))
}

// slowly is a log that takes its time to read one task.
type slowly struct {
	*memlog.Log

	task events.TaskID
	by   time.Duration
}

func (s *slowly) Read(ctx context.Context, task events.TaskID, from uint64) iter.Seq2[events.Stored, error] {
	if task == s.task {
		<-time.After(s.by)
	}
	return s.Log.Read(ctx, task, from)
}

// The grace period of running calls after a restart starts when workers can send heartbeats, however long the node reads its
// log.
func TestGraceBeginsWhenTheNodeIsReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{})
		n := start(t, log, short)
		id := n.submit(writePlan)
		c := n.take("w")
		require.NoError(t, n.Start(context.Background(), startedBy("w", c)))
		other := n.submit(setPlan)
		waiting := n.submit("orch: v1\nsteps:\n  - {id: w, wait: {for: 1h}}\n")
		n.result(other)
		n.stop()
		n = start(t, log, short, func(cfg *orchestrator.Config) { cfg.Log = &slowly{Log: log, task: waiting, by: 5 * cfg.Limits.Lease} })
		<-time.After(800 * time.Millisecond)
		assert.Empty(t, n.beat("w", c).Stop)
		assert.Equal(t, statemachine.StepRunning, n.step(id, c.Step).State)
		require.NoError(t, n.report("w", c, `{"n":1}`))
		assert.Equal(t, statemachine.Done, n.result(id).State)
	})
}
