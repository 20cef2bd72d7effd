package statemachine_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

// A note lasts until its call fails or ends.
func TestNoteLastsAsLongAsItsCall(t *testing.T) {
	t.Parallel()
	const note = `{"id":1}`
	for name, tc := range map[string]struct {
		then  []events.Event
		state statemachine.StepState
		kept  bool
	}{
		"noted":        {nil, statemachine.StepPending, true},
		"ready again":  {[]events.Event{ready(2)}, statemachine.StepReady, true},
		"asks as well": {[]events.Event{{Kind: events.StepParked, Data: &events.Parked{Step: "a", Questions: []string{"q"}}}}, statemachine.StepParked, true},
		"lost": {
			[]events.Event{ready(2), {Kind: events.StepRetrying, Data: &events.Retrying{Step: "a", Class: "worker_lost"}}},
			statemachine.StepPending, true,
		},
		"failed, to be tried again": {
			[]events.Event{ready(2), {Kind: events.StepRetrying, Data: &events.Retrying{Step: "a", Counts: true}}},
			statemachine.StepPending, false,
		},
		"failed":    {[]events.Event{{Kind: events.StepFailed, Data: &events.StepError{Step: "a"}}}, statemachine.StepFailed, false},
		"succeeded": {[]events.Event{{Kind: events.StepSucceeded, Data: &events.Succeeded{Step: "a"}}}, statemachine.StepSucceeded, false},
		"cancelled": {[]events.Event{{Kind: events.StepCancelled, Data: &events.Skipped{Step: "a"}}}, statemachine.StepCancelled, true},
		"in doubt":  {[]events.Event{ready(2), doubted()}, statemachine.StepInDoubt, true},
		"resolved to go on": {
			[]events.Event{ready(2), doubted(), {Kind: events.StepResolved, Data: &events.Resolved{Step: "a", As: "retry"}}},
			statemachine.StepPending, true,
		},
		"resolved": {
			[]events.Event{ready(2), doubted(), {Kind: events.StepResolved, Data: &events.Resolved{Step: "a", As: "succeeded"}}},
			statemachine.StepSucceeded, false,
		},
	} {
		task := submitted(t)
		for _, e := range append([]events.Event{ready(1), stepEvent(events.StepCalled), noted(note)}, tc.then...) {
			require.NoError(t, task.Apply(task.CreatedAt, e), name)
		}
		s := task.Steps["a"]
		assert.Equal(t, tc.state, s.State, name)
		assert.Equal(t, tc.kept, s.RunsElsewhere(), name)
		assert.Equal(t, 1, s.Rounds, name)
		assert.Equal(t, 1, task.Calls, name)
		if tc.kept {
			assert.Equal(t, note, string(s.Note), name)
			assert.Equal(t, 1, s.NotedIn, name)
		} else {
			assert.Zero(t, s.NotedIn, name)
		}
	}
}

// A call that stores a note keeps its grant, after the grant's expiry and after a lost worker; a failure ends that.
func TestGrantOfANotedCall(t *testing.T) {
	t.Parallel()
	task := submitted(t)
	at := task.CreatedAt
	apply := func(list ...events.Event) {
		t.Helper()
		for _, e := range list {
			require.NoError(t, task.Apply(at, e))
		}
	}
	apply(events.Event{Kind: events.ApprovalRequested, Data: &events.Approval{ID: "g", Step: "a"}},
		events.Event{Kind: events.ApprovalGranted, Data: &events.Decision{ID: "g", At: at, ValidUntil: &at}})
	grant, late := task.Approval("g"), at.Add(24*time.Hour)
	begins := func(attempt int) {
		t.Helper()
		r := &events.Ready{Step: "a", Attempt: attempt, Approval: "g"}
		apply(events.Event{Kind: events.StepReady, Data: r}, stepEvent(events.StepCalled))
		assert.False(t, grant.UsableFor("a", at))
	}
	begins(1)
	apply(noted(`1`))
	assert.True(t, grant.UsableFor("a", late))
	assert.False(t, grant.Usable(at))
	begins(2)
	apply(events.Event{Kind: events.StepRetrying, Data: &events.Retrying{Step: "a", Class: "worker_lost"}})
	assert.True(t, grant.UsableFor("a", late))
	assert.False(t, grant.UsableFor("b", at))
	begins(3)
	apply(events.Event{Kind: events.StepRetrying, Data: &events.Retrying{Step: "a", Counts: true}})
	assert.False(t, grant.UsableFor("a", at))
}

func ready(attempt int) events.Event {
	return events.Event{Kind: events.StepReady, Data: &events.Ready{Step: "a", Attempt: attempt, Tool: "T"}}
}

func noted(note string) events.Event {
	return events.Event{Kind: events.StepNoted, Data: &events.Noted{Step: "a", Attempt: 1, Note: json.RawMessage(note), Elsewhere: true}}
}

func doubted() events.Event {
	return events.Event{Kind: events.StepInDoubt, Data: &events.InDoubt{Step: "a", Attempt: 2}}
}
