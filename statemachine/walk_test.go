package statemachine_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// mcpMove reports whether the protocol allows a task to move between two statuses.
func mcpMove(from, to string) bool {
	if from == to {
		return true
	}
	return from == "working" || from == "input_required"
}

// S2-061: in random walks a task starts in working, makes only legal transitions, and never leaves a terminal status.
func TestMCPMoves(t *testing.T) {
	t.Parallel()
	kinds := []events.Kind{}
	for _, row := range statemachine.Table() {
		kinds = append(kinds, row.Kind)
	}
	rapid.Check(t, func(t *rapid.T) {
		task := submitted(t)
		status := statemachine.ViewOf(task.State, task.Block).MCP
		require.Equal(t, "working", status)
		over := false
		for _, kind := range rapid.SliceOfN(rapid.SampledFrom(kinds), 1, 40).Draw(t, "walk") {
			block := rapid.SampledFrom([]string{"input", "dependency", "expired"}).Draw(t, "block")
			err := task.Apply(task.CreatedAt, events.Event{Kind: kind, Data: &events.Moved{Block: block}})
			next := statemachine.ViewOf(task.State, task.Block).MCP
			require.True(t, mcpMove(status, next), "%s to %s", status, next)
			if over {
				require.Error(t, err)
				require.Equal(t, status, next)
			}
			status, over = next, task.State.Terminal()
		}
	})
}

// anyEvent draws an event of any kind, often with data of another kind.
func anyEvent(t *rapid.T) events.Event {
	step := rapid.SampledFrom([]string{"a", "b", "each[0].a", ""}).Draw(t, "step")
	name := rapid.SampledFrom([]string{"go", "stop"}).Draw(t, "name")
	raw := events.Inline(json.RawMessage(rapid.SampledFrom([]string{"", "null", `{"a":1}`}).Draw(t, "raw")))
	all := []events.Payload{
		&events.Submitted{Name: name, DependsOn: []events.TaskID{events.KeyedTaskID("", name)}}, &events.Moved{Output: raw, Block: name},
		&events.Paused{Reason: name}, &events.CancelRequested{}, &events.Ending{Error: fault.New(fault.Timeout, "x")},
		&events.Ready{Step: step, Attempt: 1, Args: raw}, &events.Called{Step: step, Worker: name}, &events.Succeeded{Step: step, Output: raw},
		&events.StepError{Step: step}, &events.Retrying{Step: step, Counts: true}, &events.Skipped{Step: step}, &events.InDoubt{Step: step},
		&events.Resolved{Step: step, As: rapid.SampledFrom([]string{"retry", "failed", "succeeded", "?"}).Draw(t, "as")},
		&events.Expanded{Step: step, Items: []events.Value{raw}}, &events.Waiting{Step: step, Signal: name}, &events.Spawned{Step: step},
		&events.Divided{Step: step, Lists: []events.Value{raw}, Chunk: 2, Total: 2, Size: 1}, &events.Part{Step: step, List: raw, Count: 1},
		&events.Reused{Step: step}, &events.Signal{Name: name, Data: raw}, &events.Met{Task: events.KeyedTaskID("", name)},
		&events.Read{Path: name}, &events.Logged{}, &events.Checkpointed{ID: name, State: raw}, &events.Restored{ID: name}, &events.Refused{Step: step},
		&events.Parked{Step: step, Approval: name}, &events.Parked{Step: step, Questions: []string{name}},
		&events.Noted{Step: step, Attempt: 1, Note: raw.Raw, Elsewhere: true},
		&events.Agent{Step: step, Prompt: raw}, &events.Turn{Step: step, Turn: 1}, &events.Answered{Step: step, Turn: 1, Calls: 1},
		&events.RefusedTurn{Step: step, Turn: 1, CompactAt: 900},
		&events.Question{ID: name, Step: step}, &events.Answer{ID: name, Response: raw}, &events.Unanswered{ID: name},
		&events.Approval{ID: name, Step: step}, &events.Decision{ID: name}, &events.Elapsed{ID: name},
		nil, (*events.Ready)(nil), (*events.Moved)(nil),
	}
	kinds := append(events.Kinds(), "", "task.unknown")
	e := events.Event{Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Data: rapid.SampledFrom(all).Draw(t, "data")}
	if rapid.IntRange(0, 3).Draw(t, "fit") == 0 {
		return e
	}
	for _, p := range all { // make it fit where it can
		if fitting := (events.Event{Kind: e.Kind, Data: p}); fitting.Valid() {
			return fitting
		}
	}
	return e
}

// Apply is total: it never panics, and a refused event changes nothing. Accepted events survive the log: folding the
// encoded commits gives the same task, byte for byte (I5).
func TestApplyIsTotal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		live, folded := &statemachine.Task{}, &statemachine.Task{}
		id := events.KeyedTaskID("", "x")
		at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
		if rapid.Bool().Draw(t, "begun") {
			live = apply(t, live, folded, id, at, events.Event{Kind: events.TaskSubmitted, Data: &events.Submitted{Name: "n"}})
		}
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			at = at.Add(time.Second)
			live = apply(t, live, folded, id, at, anyEvent(t))
		}
	})
}

// apply applies one event to both tasks, to one of them through the log.
func apply(t *rapid.T, live, folded *statemachine.Task, id events.TaskID, at time.Time, e events.Event) *statemachine.Task {
	before, wasOver, state := asJSON(t, live), live.State.Terminal(), live.State
	if err := live.Apply(at, e); err != nil {
		require.Equal(t, fault.StateNotAllowed, fault.CodeOf(err))
		require.Equal(t, before, asJSON(t, live), "a refused %s changes nothing", e.Kind)
		return live
	}
	if wasOver {
		require.Equal(t, state, live.State, "a terminal state never changes")
	}
	live.ID, live.Requestor = id, "a"
	c := &events.Commit{Task: id, Rev: folded.Rev + 1, At: at, Actor: "a", Prev: folded.Head, Events: []events.Event{e}}
	data, err := events.Encode(c)
	require.NoError(t, err)
	live.AdvanceHead(at, data)
	decoded, err := events.Decode(data)
	require.NoError(t, err)
	require.NoError(t, folded.Fold(decoded, data))
	require.Equal(t, asJSON(t, live), asJSON(t, folded))
	return live
}

func TestFoldHoldsTheChain(t *testing.T) {
	t.Parallel()
	task := &statemachine.Task{}
	id, other := events.KeyedTaskID("", "x"), events.KeyedTaskID("", "y")
	commit := func(id events.TaskID, rev uint64, prev string, e events.Event) (*events.Commit, []byte) {
		c := &events.Commit{Task: id, Rev: rev, At: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Actor: "a", Prev: prev, Events: []events.Event{e}}
		data, err := events.Encode(c)
		require.NoError(t, err)
		return c, data
	}
	note := events.Event{Kind: events.TaskPaused, Data: &events.Paused{}}
	c, data := commit(id, 1, "", events.Event{Kind: events.TaskSubmitted, Data: &events.Submitted{}})
	require.NoError(t, task.Fold(c, data))
	for _, wrong := range []struct {
		id   events.TaskID
		rev  uint64
		prev string
	}{{id, 1, ""}, {id, 3, task.Head}, {id, 2, ""}, {id, 2, events.Hash(nil)}, {other, 2, task.Head}} {
		c, data := commit(wrong.id, wrong.rev, wrong.prev, note)
		copied := *task
		assert.Equal(t, fault.DataLoss, fault.CodeOf(copied.Fold(c, data)))
	}
	c, data = commit(id, 2, task.Head, note)
	require.NoError(t, task.Fold(c, data))
	assert.True(t, task.Paused)
}

// TestSnapshotGoesOn: a snapshot of a task before its first step can be folded on.
func TestSnapshotGoesOn(t *testing.T) {
	t.Parallel()
	at := time.Unix(1, 0)
	task := &statemachine.Task{}
	require.NoError(t, task.Apply(at, events.Event{Kind: events.TaskSubmitted, Data: &events.Submitted{Name: "x"}}))
	text, err := json.Marshal(task)
	require.NoError(t, err)
	snapshot := &statemachine.Task{}
	require.NoError(t, json.Unmarshal(text, snapshot))
	ready := events.Event{Kind: events.StepReady, Data: &events.Ready{Step: "a", Attempt: 1, Tool: "READ"}}
	require.NoError(t, snapshot.Apply(at, ready))
	require.NoError(t, task.Apply(at, ready))
	assert.Equal(t, task.Steps, snapshot.Steps)
}
