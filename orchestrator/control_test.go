package orchestrator_test

import (
	"context"
	"encoding/json"
	"slices"
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

// Every pause holds the call back, survives a restart, says so, and ends.
func TestPauses(t *testing.T) {
	t.Parallel()
	for kind, of := range map[string]func(events.TaskID) api.PauseRequest{
		"paused":       func(id events.TaskID) api.PauseRequest { return api.PauseRequest{ID: id} },
		"queue_paused": func(events.TaskID) api.PauseRequest { return api.PauseRequest{Queue: "default"} },
		"tool_paused":  func(events.TaskID) api.PauseRequest { return api.PauseRequest{Tool: "READ"} },
		"node_paused":  func(events.TaskID) api.PauseRequest { return api.PauseRequest{Node: true} },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			log := memlog.New(memlog.Config{})
			n := start(t, log)
			id := n.submit(onePlan)
			r := of(id)
			r.Reason = "a look first"
			n.pause(r)
			n.pause(r)
			n.none("w")
			assert.Equal(t, kind, n.cause(id).Kind)
			assert.Contains(t, n.cause(id).Sentence, "a look first")
			n.stop()
			n = start(t, log)
			n.none("w")
			assert.Equal(t, kind, n.cause(id).Kind)
			n.resume(of(id))
			n.resume(of(id))
			c := n.take("w")
			n.none("w")
			require.NoError(t, n.report("w", c, `{"n":1}`))
			n.result(id)
			n.checkIdle()
		})
	}
}

func TestPauseRequests(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) { c.Paused = true })
	ctx := context.Background()
	for _, r := range []api.PauseRequest{{}, {Node: true, Queue: "a"}, {ID: "x", Tool: "READ"}} {
		_, err := n.Pause(ctx, r)
		hasCode(t, err, fault.ValidationError)
	}
	_, err := n.Pause(ctx, api.PauseRequest{Tool: "NOTHING"})
	hasCode(t, err, fault.NotFound)
	id := n.submit(onePlan)
	assert.Equal(t, "node_paused", n.cause(id).Kind)
	reply, err := n.Resume(ctx, api.PauseRequest{Node: true})
	require.NoError(t, err)
	assert.Empty(t, reply.Paused)
	n.serve(echoArgs)
	n.result(id)
	_, err = n.Pause(ctx, api.PauseRequest{ID: id})
	hasCode(t, err, fault.StateNotAllowed)
}

// A paused task that is cancelled still runs its `always` steps.
func TestCancelOfAPausedTask(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit("orch: v1\nsteps: [{id: a, tool: READ}]\nalways: [{id: z, tool: READ2}]\n")
	n.pause(api.PauseRequest{ID: id})
	require.NoError(t, n.cancel(id))
	c := n.take("w")
	assert.Equal(t, "z", c.Step)
	require.NoError(t, n.report("w", c, `{}`))
	assert.Equal(t, statemachine.Cancelled, n.result(id).State)
	assert.Equal(t, statemachine.StepCancelled, n.step(id, "a").State)
}

// Every command in every task state answers as the table says, and never breaks the task.
func TestCommandsInStates(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	commands := map[string]func(*node, events.TaskID) error{
		"cancel": func(n *node, id events.TaskID) error { return n.cancel(id) },
		"pause": func(n *node, id events.TaskID) error {
			_, err := n.Pause(ctx, api.PauseRequest{ID: id})
			return err
		},
		"resume": func(n *node, id events.TaskID) error {
			_, err := n.Resume(ctx, api.PauseRequest{ID: id})
			return err
		},
		"signal": func(n *node, id events.TaskID) error {
			_, err := n.Signal(ctx, api.SignalRequest{ID: id, Name: "go"})
			return err
		},
		"resolve": func(n *node, id events.TaskID) error {
			_, err := n.Resolve(ctx, api.ResolveRequest{ID: id, Step: "a", As: "failed"})
			return err
		},
		"retry": func(n *node, id events.TaskID) error {
			_, err := n.Retry(ctx, api.RetryRequest{ID: id})
			return err
		},
		"checkpoint": func(n *node, id events.TaskID) error {
			_, err := n.Checkpoint(ctx, api.CheckpointRequest{Task: id, Name: "c"})
			return err
		},
	}
	open := []string{"cancel", "pause", "resume", "signal", "checkpoint"}
	allowed := map[statemachine.State][]string{
		statemachine.NeedsAction: open, statemachine.InProgress: open, statemachine.Completed: open,
		statemachine.Blocked: append([]string{"resolve"}, open...),
		statemachine.Done:    {}, statemachine.Failed: {"retry"}, statemachine.Cancelled: {"retry"},
	}
	for state, names := range allowed {
		for name, command := range commands {
			n := start(t, memlog.New(memlog.Config{}), short)
			id := n.inState(state)
			require.Equal(t, state, n.get(id).State)
			rev := n.get(id).Rev
			err := command(n, id)
			if slices.Contains(names, name) {
				require.NoError(t, err, "%s in %s", name, state)
			} else {
				require.Error(t, err, "%s in %s", name, state)
				assert.Equal(t, fault.StateNotAllowed, fault.CodeOf(err), "%s in %s: %v", name, state, err)
				assert.Equal(t, rev, n.get(id).Rev, "a refused command writes nothing")
			}
			n.checkReplay(id)
		}
	}
	n := start(t, memlog.New(memlog.Config{}))
	for name, command := range commands {
		err := command(n, events.KeyedTaskID("", "nobody"))
		assert.Equal(t, fault.NotFound, fault.CodeOf(err), name)
		assert.Equal(t, fault.InvalidFormat, fault.CodeOf(command(n, "x")), name)
	}
}

// inState brings a task into a state through ordinary commands.
func (n *node) inState(s statemachine.State) events.TaskID {
	n.t.Helper()
	id := n.submit("orch: v1\nsteps: [{id: a, tool: WRITE}]\nverify: [{id: v, tool: READ}]\n")
	if s == statemachine.NeedsAction {
		return id
	}
	if s == statemachine.Cancelled {
		require.NoError(n.t, n.cancel(id))
		return id
	}
	c := n.take("w")
	require.NoError(n.t, n.Start(context.Background(), startedBy("w", c)))
	switch s {
	case statemachine.InProgress:
	case statemachine.Blocked:
		n.stop()
		m := start(n.t, n.log, func(c *orchestrator.Config) { c.Limits.Lease = 100 * time.Millisecond })
		*n = *m
		require.Eventually(n.t, func() bool { return n.get(id).State == statemachine.Blocked }, time.Minute, 20*time.Millisecond)
	case statemachine.Failed:
		require.NoError(n.t, n.fail("w", c, "denied"))
	default:
		require.NoError(n.t, n.report("w", c, `{}`))
		if v := n.take("w"); s == statemachine.Done {
			require.NoError(n.t, n.report("w", v, `{}`))
		}
	}
	return id
}

// S0-003, S0-008, S0-009: single calls pass the gate of the tool in the state that the task has.
func TestSingleCalls(t *testing.T) {
	t.Parallel()
	for _, state := range []statemachine.State{
		statemachine.NeedsAction, statemachine.InProgress, statemachine.Completed, statemachine.Done, statemachine.Failed, statemachine.Cancelled,
	} {
		n := start(t, memlog.New(memlog.Config{}))
		id := n.inState(state)
		rev := n.get(id).Rev
		if state == statemachine.NeedsAction {
			n.pause(api.PauseRequest{Tool: "WRITE"})
		}
		n.serve(echoArgs)
		r, err := n.Call(context.Background(), api.CallRequest{ID: id, Tool: "READ", Args: json.RawMessage(`{"n":7}`), Wait: time.Minute})
		require.NoError(t, err)
		assert.Equal(t, statemachine.StepSucceeded, r.State, "ANY in %s", state)
		assert.JSONEq(t, `{"n":7}`, string(r.Output))
		assert.Equal(t, rev+2, n.get(id).Rev, "one event for the call, one for its result")
		r, err = n.Call(context.Background(), api.CallRequest{ID: id, Tool: "IP_ONLY", Args: json.RawMessage(`{"n":8}`), Wait: time.Minute})
		require.NoError(t, err)
		if state == statemachine.InProgress {
			assert.Equal(t, statemachine.StepSucceeded, r.State)
		} else {
			require.Equal(t, statemachine.StepFailed, r.State, "IP in %s", state)
			assert.Equal(t, fault.StateNotAllowed, r.Error.Code)
			assert.Contains(t, r.Error.Message, "IP_ONLY")
			assert.Contains(t, r.Error.Message, string(state))
			h, err := n.History(context.Background(), api.HistoryRequest{ID: id, From: n.get(id).Rev})
			require.NoError(t, err)
			said, ok := h.Commits[0].Events[0].Data.(*events.StepError)
			require.True(t, ok)
			assert.Equal(t, "IP_ONLY", said.Tool)
			assert.Equal(t, "call", said.Purpose, "it is no step of the plan")
			assert.JSONEq(t, `{"n":8}`, string(said.Args.Raw))
		}
		assert.Equal(t, state, n.get(id).State, "a single call never moves the task (A-21)")
		n.checkReplay(id)
	}
}

func TestCallArguments(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(setPlan)
	_, err := n.Call(context.Background(), api.CallRequest{ID: id, Tool: "NOTHING"})
	hasCode(t, err, fault.NotFound)
	_, err = n.Call(context.Background(), api.CallRequest{ID: id, Tool: "READ", Args: json.RawMessage(`{"n":"x"}`)})
	require.Error(t, err)
	assert.Equal(t, "n", fault.From(err).Field)
}

// Retry rules: classes, attempts, delays, and what is recorded about each.
func TestRetryRules(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		retry, class string
		tool         string
		attempts     int
	}{
		"default transport": {"", "transport", "READ", 3},
		"default lost":      {"", "heartbeat_lost", "IDEM", 3},
		"default timeout":   {"", "timeout", "IDEM", 1},
		"default error":     {"", "tool_error", "READ", 1},
		"default write":     {"", "transport", "WRITE", 1},
		"rule":              {", retry: {max_attempts: 4}", "tool_error", "READ", 4},
		"rule not on":       {", retry: {max_attempts: 4, not_on: [tool_error]}", "tool_error", "READ", 1},
		"rule on":           {", retry: {max_attempts: 2, on: [tool_error]}", "tool_error", "WRITE", 2},
		"hopeless":          {", retry: {max_attempts: 4}", "invalid_args", "READ", 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := start(t, memlog.New(memlog.Config{}))
			id := n.submit("orch: v1\nsteps: [{id: a, tool: " + tc.tool + tc.retry + "}]\n")
			for attempt := 1; attempt <= tc.attempts; attempt++ {
				began := time.Now()
				b := n.polls("w", time.Minute)
				require.Len(t, b, 1, "%s: attempt %d", name, attempt)
				assert.Equal(t, attempt, b[0].Attempt)
				if attempt > 1 {
					assert.Equal(t, time.Second<<(attempt-2), time.Since(began).Round(time.Millisecond), name)
				}
				if tc.tool == "WRITE" {
					require.NoError(t, n.Start(context.Background(), startedBy("w", b[0])))
				}
				require.NoError(t, n.fail("w", b[0], tc.class))
				require.NoError(t, n.fail("w", b[0], tc.class), "a repeated report is heard")
			}
			r := n.result(id)
			assert.Equal(t, statemachine.Failed, r.State, name)
			retries := 0
			for _, k := range n.kinds(id) {
				if k == events.StepRetrying {
					retries++
				}
			}
			assert.Equal(t, tc.attempts-1, retries, name)
			n.checkIdle()
		})
	}
}

// A shutdown of the worker uses up no retry.
func TestShutdownCountsNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		id := n.submit(onePlan)
		for range 10 {
			require.NoError(t, n.fail("w", n.take("w"), "shutdown"))
		}
		require.NoError(t, n.report("w", n.take("w"), `{"n":1}`))
		assert.Equal(t, statemachine.Done, n.result(id).State)
	})
}

func TestRetryOfATask(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	plan := "orch: v1\nidempotency_key: once\nsteps:\n  - {id: a, tool: READ, with: {n: 1}}\n  - {id: b, tool: READ2, with: {n: \"${{ steps.a.output.n + 1 }}\"}}\n  - {id: c, needs: [b], tool: WRITE}\noutputs: {n: \"${{ steps.b.output.n }}\"}\n"
	id := n.submit(plan)
	require.NoError(t, n.report("w", n.take("w"), `{"n":1}`))
	require.NoError(t, n.report("w", n.take("w"), `{"n":2}`))
	require.NoError(t, n.fail("w", n.take("w"), "denied"))
	n.result(id)
	r, err := n.Retry(context.Background(), api.RetryRequest{ID: id})
	require.NoError(t, err)
	assert.NotEqual(t, id, r.ID)
	assert.False(t, r.Existing)
	assert.Equal(t, 2, r.Reused)
	assert.Equal(t, id, n.get(r.ID).RetryOf)
	c := n.take("w")
	assert.Equal(t, "c", c.Step)
	require.NoError(t, n.report("w", c, `{}`))
	assert.JSONEq(t, `{"n":2}`, string(n.result(r.ID).Output))
	r, err = n.Retry(context.Background(), api.RetryRequest{ID: r.ID, From: "b"})
	require.NoError(t, err)
	assert.Equal(t, 1, r.Reused)
	assert.Equal(t, "b", n.take("w").Step)
	_, err = n.Retry(context.Background(), api.RetryRequest{ID: id, From: "x"})
	hasCode(t, err, fault.NotFound)
	_, err = n.Retry(context.Background(), api.RetryRequest{ID: r.ID})
	hasCode(t, err, fault.StateNotAllowed)
}

// A retry does not repeat a call in doubt unless it is asked to.
func TestRetryOfADoubtfulCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}), short)
		id := n.submit(writePlan)
		require.NoError(t, n.Start(context.Background(), startedBy("w", n.take("w"))))
		<-time.After(3 * time.Second)
		require.NoError(t, n.cancel(id))
		_, err := n.Retry(context.Background(), api.RetryRequest{ID: id})
		hasCode(t, err, fault.InDoubt)
		_, err = n.Retry(context.Background(), api.RetryRequest{ID: id, From: "a"})
		require.NoError(t, err)
	})
}

func TestSignals(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	send := func(id events.TaskID, name, data string) error {
		_, err := n.Signal(context.Background(), api.SignalRequest{ID: id, Name: name, Data: json.RawMessage(data)})
		return err
	}
	plan := "orch: v1\nsteps:\n  - {id: a, tool: READ}\n  - {id: g, needs: [a], wait: {signal: go}}\n  - {id: h, needs: [g], wait: {signal: go}}\noutputs: {g: \"${{ steps.g.output }}\", h: \"${{ steps.h.output }}\"}\n"
	id := n.submit(plan)
	require.NoError(t, send(id, "go", `1`), "before the wait")
	require.NoError(t, send(id, "other", `0`))
	require.NoError(t, n.report("w", n.take("w"), `{}`))
	assert.Equal(t, "signal", n.cause(id).Kind)
	assert.Equal(t, statemachine.StepSucceeded, n.step(id, "g").State)
	require.NoError(t, send(id, "go", `{"x": 12345678901234567890}`))
	assert.JSONEq(t, `{"g":1,"h":{"x":12345678901234567890}}`, string(n.result(id).Output))
	hasCode(t, send(id, "go", `1`), fault.StateNotAllowed)
	hasCode(t, send(id, "", `1`), fault.RequiredField)
	hasCode(t, send(id, "go", `{`), fault.InvalidFormat)
}

const timerPlan = "orch: v1\nsteps:\n  - {id: t, wait: {for: 1h}}\n  - {id: a, needs: [t], tool: READ}\n"

// Durable timers fire once, on time, over any number of restarts.
func TestTimersOverRestarts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		plan  string
		delay time.Duration
		cause string
	}{
		"wait":  {timerPlan, 0, "timer"},
		"delay": {onePlan, time.Hour + 123*time.Nanosecond, "delay"},
	} {
		synctest.Test(t, func(t *testing.T) {
			log := memlog.New(memlog.Config{})
			n := start(t, log, patient)
			began := time.Now()
			id := n.submit(tc.plan, func(r *api.SubmitRequest) { r.Delay = tc.delay })
			for range 3 {
				assert.Equal(t, tc.cause, n.cause(id).Kind, name)
				<-time.After(15 * time.Minute)
				n.stop()
				n = start(t, log, patient)
			}
			require.Len(t, n.polls("w", time.Hour), 1, name)
			assert.Equal(t, time.Hour, time.Since(began).Round(time.Millisecond), name)
			assert.Empty(t, n.polls("w", 2*time.Hour))
			n.stop()
			n = start(t, log, patient)
			assert.Equal(t, 1, count(n.kinds(id), events.StepReady))
		})
	}
}

func patient(c *orchestrator.Config) { c.Limits.Lease = 24 * time.Hour }

func count(kinds []events.Kind, k events.Kind) int {
	n := 0
	for _, x := range kinds {
		if x == k {
			n++
		}
	}
	return n
}

// A timer that was due while the node was down fires when it is up.
func TestTimerDueWhileDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{})
		n := start(t, log)
		n.submit(timerPlan)
		n.stop()
		<-time.After(5 * time.Hour)
		n = start(t, log)
		require.Len(t, n.polls("w", time.Second), 1)
	})
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		id := n.submit("orch: v1\nlimits: {deadline: 10s}\nsteps: [{id: a, tool: READ}]\nalways: [{id: z, tool: READ2}]\n")
		c := n.take("w")
		b := n.pollNow("w", 2*time.Minute)
		assert.Equal(t, c.Ref, b.Cancel[0])
		z := b.Calls[0]
		assert.Equal(t, "z", z.Step)
		require.NoError(t, n.report("w", *z, `{}`))
		r := n.result(id)
		assert.Equal(t, statemachine.Failed, r.State)
		assert.Equal(t, fault.Timeout, r.Error.Code)
		early := n.submit("orch: v1\nlimits: {deadline: 10s}\nsteps: [{id: a, tool: READ}]\n")
		require.NoError(t, n.report("w", n.take("w"), `{}`))
		<-time.After(time.Hour)
		assert.Equal(t, statemachine.Done, n.result(early).State)
		n.checkIdle()
	})
}

// max_steps ends the task, and does not count the `always` steps that clean up after it.
func TestMaxSteps(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	n.serve(echoArgs)
	id := n.submit("orch: v1\nlimits: {max_steps: 2}\nsteps:\n  - id: e\n    for_each: 1..9\n    do: [{id: d, tool: READ}]\n  - {id: b, tool: READ}\nalways: [{id: z, tool: READ2}]\n")
	r := n.result(id)
	assert.Equal(t, statemachine.Failed, r.State)
	assert.Equal(t, fault.QuotaExceeded, r.Error.Code)
	assert.Equal(t, statemachine.StepSucceeded, n.step(id, "z").State)
	assert.Equal(t, 1, count(n.kinds(id), events.TaskEnding))
	assert.Equal(t, 3, count(n.kinds(id), events.StepReady))
}

// While the log refuses appends, the node retries by itself, but not too often. Then it continues.
func TestLogOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		var tries atomic.Int32
		log := memlog.New(memlog.Config{Fail: func(*events.Record) error {
			if down.Load() {
				tries.Add(1)
				return fault.New(fault.Unavailable, "down")
			}
			return nil
		}})
		n := start(t, log, short)
		timed := n.submit("orch: v1\nsteps: [{id: t, wait: {for: 2s}}]\n")
		dep := n.submit(onePlan)
		waits := n.submit(onePlan, after(dep))
		parent := n.submit("orch: v1\nsteps:\n  - id: s\n    run:\n      orch: v1\n      steps: [{id: w, tool: READ2}]\n")
		<-time.After(time.Second)
		b := n.poll("w", 2)
		require.Len(t, b.Calls, 2)
		down.Store(true)
		<-time.After(time.Minute)
		assert.Less(t, tries.Load(), int32(600), "a few tries a second for each task")
		down.Store(false)
		n.serve(echoArgs)
		for _, id := range []events.TaskID{timed, dep, waits, parent} {
			assert.Equal(t, statemachine.Done, n.result(id).State)
		}
		n.checkIdle()
	})
}
