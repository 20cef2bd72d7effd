package statemachine_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// specified is table T-1 of the specification, written down a second time, with finish.
const specified = `
assign: NEEDS_ACTION > ASSIGNED
release: ASSIGNED > NEEDS_ACTION
plan: NEEDS_ACTION ASSIGNED > PLANNING
start: NEEDS_ACTION ASSIGNED PLANNING > IN_PROGRESS
request_approval: NEEDS_ACTION ASSIGNED PLANNING IN_PROGRESS > AWAITING_APPROVAL
approve: AWAITING_APPROVAL > IN_PROGRESS
decline: AWAITING_APPROVAL > IN_PROGRESS
reject: AWAITING_APPROVAL > FAILED
revise: AWAITING_APPROVAL > NEEDS_ACTION
expire: AWAITING_APPROVAL > BLOCKED
block: NEEDS_ACTION ASSIGNED PLANNING IN_PROGRESS > BLOCKED
unblock: BLOCKED > IN_PROGRESS
requeue: BLOCKED IN_PROGRESS > NEEDS_ACTION
complete: IN_PROGRESS > COMPLETED
rework: COMPLETED > IN_PROGRESS
finalize: COMPLETED > DONE
finish: IN_PROGRESS > DONE
fail: NEEDS_ACTION ASSIGNED PLANNING AWAITING_APPROVAL IN_PROGRESS BLOCKED COMPLETED > FAILED
cancel: NEEDS_ACTION ASSIGNED PLANNING AWAITING_APPROVAL IN_PROGRESS BLOCKED COMPLETED > CANCELLED
`

// specifiedEdges returns "STATE event" → state.
func specifiedEdges(t *testing.T) map[string]statemachine.State {
	t.Helper()
	edges := map[string]statemachine.State{}
	for line := range strings.Lines(strings.TrimSpace(specified)) {
		event, rest, ok := strings.Cut(strings.TrimSpace(line), ": ")
		require.True(t, ok)
		from, to, ok := strings.Cut(rest, " > ")
		require.True(t, ok)
		for state := range strings.FieldsSeq(from) {
			edges[state+" "+event] = statemachine.State(to)
		}
	}
	return edges
}

func eventOf(kind events.Kind) string {
	for _, row := range statemachine.Table() {
		if row.Kind == kind {
			return row.Event
		}
	}
	return ""
}

// the full matrix of states and kinds.
func TestMatrix(t *testing.T) {
	t.Parallel()
	edges := specifiedEdges(t)
	assert.Len(t, edges, 40+1, "40 edges and finish")
	found := 0
	for _, from := range statemachine.States() {
		for _, kind := range events.Kinds() {
			event := eventOf(kind)
			assert.Equal(t, event != "", statemachine.IsTransition(kind))
			want, legal := edges[string(from)+" "+event]
			got, ok := statemachine.Next(from, kind)
			require.Equal(t, legal, ok, "%s in %s", kind, from)
			assert.Equal(t, want, got)
			err := statemachine.Check(from, kind)
			if legal {
				found++
				require.NoError(t, err)
				continue
			}
			assert.Equal(t, fault.StateNotAllowed, fault.CodeOf(err))
		}
	}
	assert.Equal(t, len(edges), found)
}

func TestTableIsComplete(t *testing.T) {
	t.Parallel()
	assert.Len(t, statemachine.Table(), 18+1)
	reached := map[statemachine.State]bool{statemachine.NeedsAction: true}
	for range statemachine.States() {
		for _, row := range statemachine.Table() {
			for _, from := range row.From {
				assert.False(t, from.Terminal(), "%s leaves a terminal state", row.Event)
				assert.NotEqual(t, from, row.To, "no edge leads back to its state")
				reached[row.To] = reached[row.To] || reached[from]
			}
		}
	}
	for _, s := range statemachine.States() {
		assert.True(t, reached[s], "%s is reachable", s)
	}
}

// S3-114 and S2-061: table M-1.
func TestViews(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		state    statemachine.State
		block    string
		mcp      string
		queue    string
		assigned bool
	}{
		{statemachine.NeedsAction, "", "working", "pending", false},
		{statemachine.Assigned, "", "working", "assigned", true},
		{statemachine.Planning, "", "working", "in_progress", true},
		{statemachine.AwaitingApproval, "", "input_required", "blocked", false},
		{statemachine.InProgress, "", "working", "in_progress", true},
		{statemachine.Blocked, "input", "input_required", "blocked", false},
		{statemachine.Blocked, "dependency", "working", "blocked", false},
		{statemachine.Blocked, "resource", "working", "blocked", false},
		{statemachine.Blocked, "error", "working", "blocked", false},
		{statemachine.Blocked, "expired", "working", "blocked", false},
		{statemachine.Completed, "", "working", "in_progress", true},
		{statemachine.Done, "", "completed", "", false},
		{statemachine.Failed, "", "failed", "", false},
		{statemachine.Cancelled, "", "cancelled", "", false},
	} {
		want := statemachine.View{MCP: tc.mcp, Queue: tc.queue, Assigned: tc.assigned}
		assert.Equal(t, want, statemachine.ViewOf(tc.state, tc.block), "%s %s", tc.state, tc.block)
	}
	assert.Zero(t, statemachine.ViewOf("NOWHERE", ""))
}

func stepStates() []statemachine.StepState {
	return []statemachine.StepState{
		statemachine.StepPending, statemachine.StepReady, statemachine.StepRunning, statemachine.StepSucceeded,
		statemachine.StepFailed, statemachine.StepSkipped, statemachine.StepInDoubt, statemachine.StepCancelled,
		statemachine.StepParked,
	}
}

// stepEvent returns an event of the kind about step a.
func stepEvent(kind events.Kind) events.Event {
	data := map[events.Kind]events.Payload{
		events.StepReady: &events.Ready{Step: "a", Attempt: 1}, events.StepCalled: &events.Called{Step: "a"},
		events.StepExpanded: &events.Expanded{Step: "a"}, events.StepDivided: &events.Divided{Step: "a"}, events.StepWaiting: &events.Waiting{Step: "a"},
		events.StepSpawned: &events.Spawned{Step: "a"}, events.StepSucceeded: &events.Succeeded{Step: "a"},
		events.StepReused: &events.Reused{Step: "a"}, events.StepFailed: &events.StepError{Step: "a"},
		events.StepRetrying: &events.Retrying{Step: "a"}, events.StepInDoubt: &events.InDoubt{Step: "a"},
		events.StepResolved: &events.Resolved{Step: "a", As: "succeeded"}, events.StepSkipped: &events.Skipped{Step: "a"},
		events.StepCancelled: &events.Skipped{Step: "a"}, events.StepParked: &events.Parked{Step: "a"},
		events.AgentStarted: &events.Agent{Step: "a"},
		events.StepNoted:    &events.Noted{Step: "a", Note: json.RawMessage(`{}`), Elsewhere: true},
	}
	return events.Event{Kind: kind, Data: data[kind]}
}

// The whole step table: every state and kind of event.
func TestStepMatrix(t *testing.T) {
	t.Parallel()
	paths := map[statemachine.StepState][]events.Kind{
		statemachine.StepPending: {}, statemachine.StepReady: {events.StepReady},
		statemachine.StepRunning:   {events.StepReady, events.StepCalled},
		statemachine.StepSucceeded: {events.StepReused}, statemachine.StepFailed: {events.StepFailed},
		statemachine.StepSkipped: {events.StepSkipped}, statemachine.StepCancelled: {events.StepCancelled},
		statemachine.StepInDoubt: {events.StepReady, events.StepCalled, events.StepInDoubt},
		statemachine.StepParked:  {events.StepReady, events.StepParked},
	}
	require.Len(t, paths, len(stepStates()))
	for state, path := range paths {
		for _, row := range statemachine.StepTable() {
			task := submitted(t)
			for _, kind := range path {
				require.NoError(t, task.Apply(task.CreatedAt, stepEvent(kind)))
			}
			require.Equal(t, state, task.StepState("a"))
			err := task.Apply(task.CreatedAt, stepEvent(row.Kind))
			if strings.Contains(fmt.Sprint(row.From)+" ", string(state)) {
				require.NoError(t, err, "%s in %s", row.Kind, state)
				assert.Equal(t, row.To, task.StepState("a"))
			} else {
				assert.Equal(t, fault.StateNotAllowed, fault.CodeOf(err), "%s in %s", row.Kind, state)
				assert.Equal(t, state, task.StepState("a"))
			}
			assert.Equal(t, state == statemachine.StepSucceeded || state == statemachine.StepFailed || state == statemachine.StepSkipped || state == statemachine.StepCancelled, state.Terminal())
		}
	}
}

func TestResolutions(t *testing.T) {
	t.Parallel()
	for as, want := range map[string]statemachine.StepState{"succeeded": statemachine.StepSucceeded, "failed": statemachine.StepFailed, "retry": statemachine.StepPending} {
		task := submitted(t)
		for _, kind := range []events.Kind{events.StepReady, events.StepCalled, events.StepInDoubt} {
			require.NoError(t, task.Apply(task.CreatedAt, stepEvent(kind)))
		}
		require.NoError(t, task.Apply(task.CreatedAt, events.Event{Kind: events.StepResolved, Data: &events.Resolved{Step: "a", As: as}}))
		assert.Equal(t, want, task.StepState("a"))
	}
}

func submitted(t require.TestingT) *statemachine.Task {
	task := &statemachine.Task{}
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	require.NoError(t, task.Apply(at, events.Event{Kind: events.TaskSubmitted, Data: &events.Submitted{Name: "n"}}))
	return task
}

func asJSON(t require.TestingT, task *statemachine.Task) string {
	data, err := json.Marshal(task)
	require.NoError(t, err)
	return string(data)
}
