package orchestrator_test

import (
	"context"
	"encoding/json"
	"iter"
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
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/task"
	"github.com/orch-dev/orch/work"
)

// withTaskTools gives the node the tools for logs and checkpoints.
func withTaskTools(t *testing.T) option {
	t.Helper()
	cat, err := tools.New(append(task.Tools(), echo("READ", tools.Read, tools.AnyState))...)
	require.NoError(t, err)
	return func(c *orchestrator.Config) { c.Catalogue = cat }
}

func readOf(text string) string {
	return "orch: v1\nsteps:\n  - {id: a, tool: READ, with: {text: \"" + text + "\"}}\n"
}

// An answer to a poll has a bounded size; what does not fit comes with the next.
func TestBatchesAreBounded(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	for range 30 {
		n.submit(readOf("${{ inputs.x }}"), big(t, "x", 400<<10))
	}
	taken := map[events.TaskID]bool{}
	for len(taken) < 30 {
		b := n.poll("w", 30)
		require.NotEmpty(t, b.Calls)
		wire, err := json.Marshal(b)
		require.NoError(t, err)
		assert.Less(t, len(wire), 4<<20)
		for _, c := range b.Calls {
			require.False(t, taken[c.Task])
			taken[c.Task] = true
			require.NoError(t, n.report("w", *c, `{"n":1}`))
		}
	}
	n.checkIdle()
}

// big declares an input and sets it to a text of size characters.
func big(t *testing.T, sign string, size int) func(*api.SubmitRequest) {
	t.Helper()
	return func(r *api.SubmitRequest) {
		var text string
		require.NoError(t, json.Unmarshal(r.Plan, &text))
		plan, err := json.Marshal(strings.Replace(text, "steps:", "inputs: {properties: {x: {type: string}}}\nsteps:", 1))
		require.NoError(t, err)
		r.Plan, r.Inputs = plan, json.RawMessage(`{"x":"`+strings.Repeat(sign, size)+`"}`)
	}
}

// A call that is too large for any message fails; "<" takes six bytes in one.
func TestTooLargeACall(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(readOf("${{ inputs.x }}"), big(t, "<", 900<<10))
	n.none("w")
	r := n.result(id)
	assert.Equal(t, statemachine.Failed, r.State)
	require.NotNil(t, n.step(id, "a").Error)
	assert.Equal(t, fault.ValidationError, n.step(id, "a").Error.Code)
	assert.Equal(t, "SIZE_LIMIT_EXCEEDED", n.step(id, "a").Error.Reason)
	n.checkIdle()
}

// A call gets only the checkpoint that its arguments name, whatever its state data looks like and however
// large it is (S0-175).
func TestOnlyTheNamedCheckpoint(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}), withTaskTools(t))
	id := n.submit("orch: v1\nsteps:\n  - {id: a, tool: READ}\n  - {id: b, needs: [a], tool: CHECKPOINT_RESTORE, with: {checkpoint_id: two}}\n")
	c := n.take("w")
	states := map[string]string{
		"one": `{"x":"` + strings.Repeat("a", 900<<10) + `"}`, "two": `{"$blob":"mine"}`,
	}
	o := work.Outcome{Ref: c.Ref, Worker: "w", Output: json.RawMessage(`{}`), Values: map[string]json.RawMessage{}}
	for name, state := range states {
		value := events.Offloaded(json.RawMessage(state))
		o.Values[value.Ref()] = json.RawMessage(state)
		o.Facts = append(o.Facts, events.Event{Kind: events.CheckpointCreated, Data: &events.Checkpointed{ID: name, Name: name, State: value, At: time.Now().UTC()}})
	}
	require.NoError(t, n.Report(context.Background(), o))
	for stored, err := range n.log.Read(context.Background(), id, 1) {
		require.NoError(t, err)
		assert.Less(t, len(stored.Data), 4<<10, "large values are not in the log itself")
	}
	restore := n.take("w")
	assert.Equal(t, map[string]json.RawMessage{"two": json.RawMessage(states["two"])}, restore.Checkpoints)
	require.NoError(t, n.report("w", restore, `{}`))
	assert.Equal(t, statemachine.Done, n.result(id).State)
}

// Facts are bounded, and refer to no value that they do not bring.
func TestFactsOfACall(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(onePlan)
	o := work.Outcome{Ref: n.take("w").Ref, Worker: "w", Output: json.RawMessage(`{}`)}
	point := func(state events.Value) []events.Event {
		return []events.Event{{Kind: events.CheckpointCreated, Data: &events.Checkpointed{ID: "c", Name: "c", State: state, At: time.Now().UTC()}}}
	}
	large := json.RawMessage(`"` + strings.Repeat("a", work.MaxFacts) + `"`)
	for _, state := range []events.Value{events.Offloaded(large), events.Inline(large)} {
		o.Facts = point(state)
		hasCode(t, n.Report(context.Background(), o), fault.ValidationError)
	}
	o.Facts = point(events.Inline(json.RawMessage(`{"$blob":"x"}`)))
	require.NoError(t, n.Report(context.Background(), o))
	n.result(id)
	reply, err := n.Checkpoint(context.Background(), api.CheckpointRequest{Task: id, ID: "c"})
	require.NoError(t, err)
	assert.JSONEq(t, `{"$blob":"x"}`, string(reply.Snapshot.State))
}

// While a task is read again after an error of the log, its calls continue.
func TestBeatWhileATaskIsUnread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bad := &flakyRead{Log: memlog.New(memlog.Config{})}
		n := start(t, bad.Log, func(c *orchestrator.Config) { c.Log = bad })
		id := n.submit(writePlan)
		c := n.take("w")
		require.NoError(t, n.Start(context.Background(), startedBy("w", c)))
		n.stop()
		bad.away.Store(true)
		n = start(t, bad.Log, func(c *orchestrator.Config) { c.Log = bad })
		beat := work.Heartbeat{Worker: "w", Calls: []work.CallHeartbeat{{Ref: c.Ref, Tool: c.Tool}}}
		reply, err := n.Heartbeat(context.Background(), beat)
		require.NoError(t, err)
		assert.Empty(t, reply.Stop)
		bad.away.Store(false)
		<-time.After(5 * time.Second)
		require.NoError(t, n.report("w", c, `{"n":1}`))
		assert.Equal(t, statemachine.Done, n.result(id).State)
	})
}

// A paused node still cancels calls at once.
func TestCancellationsPassAHold(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(writePlan)
	c := n.take("w")
	require.NoError(t, n.Start(context.Background(), startedBy("w", c)))
	n.pause(api.PauseRequest{Node: true})
	got := make(chan work.Batch, 1)
	go func() {
		b, _ := n.Poll(context.Background(), work.Poll{Worker: "w", Free: 1, Wait: 20 * time.Second})
		got <- b
	}()
	require.Eventually(t, func() bool { return n.Pollers() == 1 }, time.Minute, time.Millisecond)
	require.NoError(t, n.cancel(id))
	assert.Equal(t, []work.Ref{c.Ref}, (<-got).Cancel)
}

// A worker has one poll: a new one ends the previous one, which gets no calls.
func TestANewPollEndsTheOlder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		older := make(chan work.Batch, 1)
		go func() {
			b, _ := n.Poll(context.Background(), work.Poll{Worker: "w", Free: 1, Wait: 20 * time.Second})
			older <- b
		}()
		synctest.Wait()
		began := time.Now()
		b, err := n.Poll(context.Background(), work.Poll{Worker: "w"})
		require.NoError(t, err)
		assert.Empty(t, b.Calls)
		assert.Empty(t, (<-older).Calls)
		assert.Equal(t, began, time.Now())
		n.submit(onePlan)
		n.take("v")
	})
}

func TestBeatNeedsAName(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	for _, name := range []string{"", strings.Repeat("w", 257)} {
		_, err := n.Heartbeat(context.Background(), work.Heartbeat{Worker: name})
		hasCode(t, err, fault.RequiredField)
	}
}

// flakyRead is a log whose histories cannot be read while it is away.
type flakyRead struct {
	*memlog.Log
	away atomic.Bool
}

// Read implements events.Log.
func (f *flakyRead) Read(ctx context.Context, id events.TaskID, from uint64) iter.Seq2[events.Stored, error] {
	if !f.away.Load() {
		return f.Log.Read(ctx, id, from)
	}
	return func(yield func(events.Stored, error) bool) { yield(events.Stored{}, gone()) }
}
