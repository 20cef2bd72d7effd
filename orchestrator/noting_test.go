package orchestrator_test

import (
	"encoding/json"
	"fmt"
	"strings"
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
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

const handle = `{"id":"job-1"}`

// note reports that a call continues elsewhere, possibly with questions.
func (n *node) note(worker string, c work.Call, note string, asked ...work.Question) error {
	return n.Report(n.ctx(), work.Outcome{Ref: c.Ref, Worker: worker, Note: json.RawMessage(note), Questions: asked, StartedAt: time.Now()})
}

// outlast waits until the leases of all calls have expired.
func outlast() {
	<-time.After(3 * time.Second)
	synctest.Wait()
}

// a call that has started something elsewhere is dispatched again with its note, unannounced, as the same call.
func TestNotedCallGoesOn(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(`{orch: v1, limits: {max_steps: 1}, steps: [{id: a, tool: WRITE, effect: destructive, with: {text: hi}}]}`)
	c := n.take("w")
	require.NoError(t, n.Start(n.ctx(), work.Started{Ref: c.Ref, Worker: "w", Effect: "destructive"}))
	require.NoError(t, n.note("w", c, ` {"id": "job-1"} `))
	require.NoError(t, n.note("w", c, handle), "a repeated report")
	v := n.view(id)
	assert.Equal(t, statemachine.InProgress, v.State)
	assert.Equal(t, statemachine.StepReady, v.Steps[0].State)
	assert.Empty(t, v.Steps[0].Reason)
	assert.Contains(t, n.cause(id).Sentence, "Step a is ready to observe the work that it has started elsewhere")

	again := n.take("w2")
	assert.Equal(t, 2, again.Attempt)
	assert.JSONEq(t, handle, string(again.Note))
	assert.False(t, again.Announce)
	assert.Equal(t, statemachine.StepRunning, n.step(id, "a").State)
	assert.Contains(t, n.cause(id).Sentence, "is running on worker w2 to observe the work that it has started elsewhere")
	require.NoError(t, n.Start(n.ctx(), work.Started{Ref: again.Ref, Worker: "w2", Effect: "destructive"}), "who announces it does no harm")
	require.NoError(t, n.note("w2", again, `"job-2"`))
	assert.Equal(t, fault.Conflict, fault.CodeOf(n.note("w", c, handle)), "that of an older attempt")
	c = n.take("w")
	assert.Equal(t, `"job-2"`, string(c.Note), "the newest counts")
	require.NoError(t, n.report("w", c, `{}`))
	assert.Equal(t, statemachine.Done, n.result(id).State)

	checkpoints := 0
	for _, kind := range n.kinds(id) {
		if kind == events.CheckpointCreated {
			checkpoints++
		}
	}
	assert.Equal(t, 1, checkpoints, "the work begins once")
	r, err := n.Replay(n.ctx(), api.ReplayRequest{ID: id})
	require.NoError(t, err)
	assert.Equal(t, 1, r.Task.Calls)
	assert.Empty(t, r.Task.Steps["a"].Note, "it is over")
	n.checkIdle()
}

// A call that needs no announcement may be dispatched twice when the node restarts. The first note counts, whoever reports it.
// The other worker gets an error for its own note.
func TestTwoNotesOfOneAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{})
		n := start(t, log, short)
		id := n.submit(`{orch: v1, steps: [{id: a, tool: IDEM}]}`)
		first := n.take("w1")
		n.stop()
		n = start(t, log, short)
		second := n.take("w2")
		require.Equal(t, first.Ref, second.Ref)
		require.NoError(t, n.note("w2", second, handle))
		assert.Equal(t, fault.Conflict, fault.CodeOf(n.note("w1", first, `"job-2"`)))
		require.NoError(t, n.note("w2", second, handle), "a repeated report")
		c := n.take("w")
		assert.JSONEq(t, handle, string(c.Note))
		require.NoError(t, n.report("w", c, `{}`))
		assert.Equal(t, statemachine.Done, n.result(id).State)
		n.stop()
	})
}

// What a worker reports beside a note takes precedence: a result or an error ends the call.
func TestNoteBesideAnEnd(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(oneWrite)
	o := work.Outcome{Ref: n.begun("w").Ref, Worker: "w", Note: json.RawMessage(handle), Output: json.RawMessage(`{}`), StartedAt: time.Now()}
	require.NoError(t, n.Report(n.ctx(), o))
	assert.Equal(t, statemachine.Done, n.result(id).State)
	assert.NotContains(t, n.kinds(id), events.StepNoted)
}

// The loss of a worker does not leave a call with a note in doubt, also if the node was killed. The call is dispatched again
// with the note, and uses up no retry, until too many workers were lost.
func TestLostWithANote(t *testing.T) {
	t.Parallel()
	for _, plan := range []string{
		oneWrite, `{orch: v1, steps: [{id: a, tool: IDEM, effect: destructive}]}`,
		`{orch: v1, steps: [{id: a, tool: READ, retry: {max_attempts: 1}}]}`,
	} {
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				log := memlog.New(memlog.Config{})
				n := start(t, log, short)
				id := n.submit(plan)
				require.NoError(t, n.note("w", n.begun("w"), handle))
				n.stop() // killed between the note and the next attempt
				n = start(t, log, short)
				for round := range 9 {
					c := n.take("w")
					require.JSONEq(t, handle, string(c.Note))
					require.Equal(t, round+2, c.Attempt)
					if round%2 == 0 { // the log records its start
						_, err := n.Heartbeat(n.ctx(), work.Heartbeat{Worker: "w", Calls: []work.CallHeartbeat{{Ref: c.Ref, Tool: c.Tool}}})
						require.NoError(t, err)
					}
					outlast()
				}
				require.NoError(t, n.fail("w", n.take("w"), "shutdown"), "a worker that stops")
				c := n.take("w")
				assert.JSONEq(t, handle, string(c.Note))
				s := n.step(id, "a")
				assert.Equal(t, 9, s.Lost)
				assert.Equal(t, statemachine.StepRunning, s.State)
				require.NoError(t, n.report("w", c, `{}`))
				assert.Equal(t, statemachine.Done, n.result(id).State)
				assert.NotContains(t, n.kinds(id), events.StepInDoubt)
				n.stop()
			})
		})
	}
}

// A call with a note that has lost all of its workers needs a person, who can let it continue with the note. A call without
// effects fails.
func TestPoisonWithANote(t *testing.T) {
	t.Parallel()
	once := func(c *orchestrator.Config) { c.Limits.Lease, c.Limits.MaxDeliveries = time.Second, 1 }
	for _, called := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := start(t, memlog.New(memlog.Config{}), once)
			write, read := n.submit(oneWrite), n.submit(`{orch: v1, steps: [{id: a, tool: READ}]}`)
			for range 2 {
				require.NoError(t, n.note("w", n.take("w"), handle))
			}
			for range 2 {
				if c := n.take("w"); called {
					require.NoError(t, n.Start(n.ctx(), startedBy("w", c)))
				}
			}
			outlast()
			assert.Equal(t, statemachine.StepInDoubt, n.step(write, "a").State)
			assert.Equal(t, fault.WorkerLost, n.step(read, "a").Error.Code)
			_, err := n.Resolve(n.ctx(), api.ResolveRequest{ID: write, Step: "a", As: "retry"})
			require.NoError(t, err)
			c := n.take("w")
			assert.JSONEq(t, handle, string(c.Note))
			require.NoError(t, n.report("w", c, `{}`))
			assert.Equal(t, statemachine.Done, n.result(write).State)
			n.stop()
		})
	}
}

// A failed attempt ends what continues elsewhere, and the next attempt starts again. An attempt that was not made ends nothing.
func TestFailureDropsTheNote(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(`{orch: v1, steps: [{id: a, tool: WRITE, retry: {max_attempts: 2, initial: 1ms}}]}`)
	require.NoError(t, n.note("w", n.begun("w"), handle))
	c := n.take("w")
	require.NoError(t, n.Report(n.ctx(), work.Outcome{
		Ref: c.Ref, Worker: "w", Error: fault.New(fault.RateLimited, "later"), Class: "rate_limited", RetryAfter: time.Millisecond,
	}))
	c = n.take("w")
	require.JSONEq(t, handle, string(c.Note))
	require.NoError(t, n.fail("w", c, "tool_error"))
	c = n.take("w")
	assert.Empty(t, c.Note)
	assert.True(t, c.Announce)
	require.NoError(t, n.Start(n.ctx(), startedBy("w", c)))
	require.NoError(t, n.note("w", c, `"job-2"`))
	require.NoError(t, n.fail("w", n.take("w"), "tool_error"))
	assert.Equal(t, statemachine.Failed, n.result(id).State)
	n.checkIdle()
}

// A task does not end before what it has started elsewhere, unless it is cancelled. A retry of the task does not repeat it
// without being asked to.
func TestEndWhileNoted(t *testing.T) {
	t.Parallel()
	const plan = `{orch: v1, steps: [{id: a, tool: WRITE}, {id: b, tool: READ}], always: [{id: z, tool: IP_ONLY}]}`
	both := func(n *node) (a, b work.Call) {
		calls := map[string]work.Call{}
		for range 2 {
			c := n.take("w")
			calls[c.Step] = c
		}
		return calls["a"], calls["b"]
	}
	t.Run("failure", func(t *testing.T) {
		t.Parallel()
		n := start(t, memlog.New(memlog.Config{}))
		id := n.submit(plan)
		a, b := both(n)
		require.NoError(t, n.note("w", a, handle))
		require.NoError(t, n.fail("w", b, "tool_error"))
		c := n.take("w")
		assert.JSONEq(t, handle, string(c.Note))
		require.NoError(t, n.report("w", c, `{}`))
		c = n.take("w")
		assert.Equal(t, "z", c.Step)
		require.NoError(t, n.report("w", c, `{}`))
		assert.Equal(t, statemachine.Failed, n.result(id).State)
		assert.Equal(t, statemachine.StepSucceeded, n.step(id, "a").State)
		n.checkIdle()
	})
	t.Run("cancel", func(t *testing.T) {
		t.Parallel()
		n := start(t, memlog.New(memlog.Config{}))
		id := n.submit(plan)
		a, b := both(n)
		require.NoError(t, n.note("w", a, handle))
		require.NoError(t, n.report("w", b, `{}`))
		_, err := n.Cancel(n.ctx(), api.CancelRequest{ID: id})
		require.NoError(t, err)
		assert.Equal(t, statemachine.StepCancelled, n.step(id, "a").State)
		c := n.take("w")
		require.NoError(t, n.note("w", c, handle), "an always step")
		c = n.take("w")
		assert.JSONEq(t, handle, string(c.Note))
		require.NoError(t, n.report("w", c, `{}`))
		assert.Equal(t, statemachine.Cancelled, n.result(id).State)
		_, err = n.Retry(n.ctx(), api.RetryRequest{ID: id})
		assert.Equal(t, fault.InDoubt, fault.CodeOf(err))
		assert.Equal(t, fault.Conflict, fault.CodeOf(n.note("w", c, `"late"`)))
		n.checkIdle()
	})
	t.Run("cancel a running one", func(t *testing.T) {
		t.Parallel()
		n := start(t, memlog.New(memlog.Config{}))
		id := n.submit(oneWrite)
		require.NoError(t, n.note("w", n.begun("w"), handle))
		c := n.take("w")
		_, err := n.Cancel(n.ctx(), api.CancelRequest{ID: id})
		require.NoError(t, err)
		assert.Equal(t, []work.Ref{c.Ref}, n.poll("w", 1).Cancel, "its worker ends what goes on elsewhere")
		assert.Equal(t, fault.Conflict, fault.CodeOf(n.note("w", c, handle)))
		assert.Equal(t, statemachine.Cancelled, n.result(id).State)
		n.checkIdle()
	})
}

// A paused task dispatches no call with a note either. It continues when the task does.
func TestPauseWhileNoted(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(oneWrite)
	c := n.begun("w")
	n.pause(api.PauseRequest{ID: id})
	require.NoError(t, n.note("w", c, handle))
	n.none("w")
	n.resume(api.PauseRequest{ID: id})
	require.NoError(t, n.report("w", n.take("w"), `{}`))
	assert.Equal(t, statemachine.Done, n.result(id).State)
}

// Questions and a note are recorded in one commit, and the next call gets both the answers and the note, also after a restart.
func TestNoteWithQuestions(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log)
	id := n.submit(oneWrite)
	c := n.begun("w")
	require.NoError(t, n.note("w", c, handle, elicit("who")))
	require.NoError(t, n.note("w", c, handle, elicit("who")), "a repeated report")
	assert.Equal(t, statemachine.Blocked, n.view(id).State)
	assert.Equal(t, statemachine.StepParked, n.step(id, "a").State)
	n.none("w")
	h, err := n.History(n.ctx(), api.HistoryRequest{ID: id})
	require.NoError(t, err)
	var kinds []events.Kind
	for _, e := range h.Commits[len(h.Commits)-1].Events {
		kinds = append(kinds, e.Kind)
	}
	assert.Equal(t, []events.Kind{events.StepNoted, events.QuestionAsked, events.StepParked, events.TaskBlocked}, kinds)
	n.stop()
	n = start(t, log)
	_, err = n.answer(n.open().ID, ada)
	require.NoError(t, err)
	c = n.take("w")
	assert.JSONEq(t, handle, string(c.Note))
	assert.JSONEq(t, ada, string(c.Answers["who"]))
	assert.False(t, c.Away, "nothing goes on elsewhere: the call has its effect now")
	require.NoError(t, n.Start(n.ctx(), startedBy("w", c)))
	require.NoError(t, n.report("w", c, `{}`))
	assert.Equal(t, statemachine.Done, n.result(id).State)
}

// Notes and questions count as rounds together. Those in one report count as one.
func TestTooManyNotes(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(oneWrite)
	for i := range 11 {
		c := n.begun("w")
		switch i % 3 {
		case 0:
			require.NoError(t, n.note("w", c, handle))
			continue
		case 1:
			require.NoError(t, n.inquire("w", c, elicit(fmt.Sprint("k", i))))
		default:
			require.NoError(t, n.note("w", c, handle, elicit(fmt.Sprint("k", i))))
		}
		if i < 10 {
			_, err := n.answer(n.open().ID, ada)
			require.NoError(t, err)
		}
	}
	assert.Equal(t, statemachine.Failed, n.result(id).State)
	assert.Contains(t, n.step(id, "a").Error.Message, "10 times")
	id = n.submit(oneWrite)
	for range 11 {
		require.NoError(t, n.note("w", n.begun("w"), handle))
	}
	assert.Equal(t, statemachine.Failed, n.result(id).State)
	assert.Equal(t, "note", n.step(id, "a").Error.Field)
}

// Invalid questions fail the call. Its note is recorded nevertheless, for whoever follows what the call has started.
func TestNoteOfACallThatMayNotAsk(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(oneWrite)
	require.NoError(t, n.inquire("w", n.begun("w"), elicit("who")))
	_, err := n.answer(n.open().ID, ada)
	require.NoError(t, err)
	require.NoError(t, n.note("w", n.begun("w"), handle, elicit("who")), "a key is used once")
	assert.Equal(t, statemachine.Failed, n.result(id).State)
	assert.Contains(t, n.kinds(id), events.StepNoted)
	n.checkIdle()
}

// A note that cannot be stored is the error of its call.
func TestWrongNotes(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	for _, note := range []string{`{`, `null`, `"` + strings.Repeat("x", tools.MaxNote-2) + `"`} {
		id := n.submit(oneWrite)
		require.NoError(t, n.note("w", n.begun("w"), note))
		assert.Equal(t, statemachine.Failed, n.result(id).State)
		assert.Equal(t, "note", n.step(id, "a").Error.Field)
		assert.NotContains(t, n.kinds(id), events.StepNoted)
	}
	id := n.submit(oneWrite)
	require.NoError(t, n.note("w", n.begun("w"), `"`+strings.Repeat("x", tools.MaxNote-3)+`"`))
	require.NoError(t, n.report("w", n.take("w"), `{}`))
	assert.Equal(t, statemachine.Done, n.result(id).State)
}

// secrets enter no note.
func TestSecretsInNotes(t *testing.T) {
	t.Parallel()
	const secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyzAB"
	n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) { c.Redact = policy.Redact })
	id := n.submit(oneWrite)
	require.NoError(t, n.note("w", n.begun("w"), `{"id":"job-1","of":"`+secret+`"}`))
	c := n.take("w")
	assert.Contains(t, string(c.Note), `"id":"job-1"`)
	require.NoError(t, n.report("w", c, `{}`))
	n.result(id)
	for stored, err := range n.log.Read(n.ctx(), id, 1) {
		require.NoError(t, err)
		assert.NotContains(t, string(stored.Data), secret)
	}
}

// A single call can report notes like any other, and its caller gets the result.
func TestSingleCallNotes(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(`{orch: v1, steps: [{id: w, wait: {signal: go}}]}`)
	reply := make(chan api.CallReply, 1)
	go func() {
		r, err := n.Call(n.ctx(), api.CallRequest{ID: id, Tool: "WRITE2", Wait: time.Minute})
		assert.NoError(t, err)
		reply <- r
	}()
	require.NoError(t, n.note("w", n.begun("w"), handle))
	c := n.take("w")
	assert.JSONEq(t, handle, string(c.Note))
	require.NoError(t, n.report("w", c, `{"n":1}`))
	r := <-reply
	assert.Equal(t, statemachine.StepSucceeded, r.State)
	assert.JSONEq(t, `{"n":1}`, string(r.Output))
}
