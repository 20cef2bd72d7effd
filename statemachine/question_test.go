package statemachine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// A question is open until its first end, and has one.
func TestQuestionEndsOnce(t *testing.T) {
	t.Parallel()
	ends := map[statemachine.QuestionStatus]events.Event{
		statemachine.QuestionAnswered: {Kind: events.QuestionAnswered, Data: &events.Answer{ID: "q", By: "user:ada"}},
		statemachine.QuestionExpired:  {Kind: events.QuestionExpired, Data: &events.Unanswered{ID: "q", Reason: "r"}},
	}
	asked := events.Event{Kind: events.QuestionAsked, Data: &events.Question{ID: "q", Step: "a", Key: "k"}}
	for status, end := range ends {
		task := submitted(t)
		require.Equal(t, fault.StateNotAllowed, fault.CodeOf(task.Apply(task.CreatedAt, end)))
		require.NoError(t, task.Apply(task.CreatedAt, asked))
		assert.True(t, task.HasOpenQuestion())
		assert.Equal(t, fault.StateNotAllowed, fault.CodeOf(task.Apply(task.CreatedAt, asked)), "an id is used once")
		require.NoError(t, task.Apply(task.CreatedAt, end))
		assert.False(t, task.HasOpenQuestion())
		assert.Equal(t, status, task.Question("q").Status)
		for _, again := range ends {
			assert.Equal(t, fault.StateNotAllowed, fault.CodeOf(task.Apply(task.CreatedAt, again)))
		}
	}
}

// A call that asks a question keeps its grant, after the grant's expiry. The grant ends with the call, and no other
// step can use it.
func TestGrantOfACallThatAsks(t *testing.T) {
	t.Parallel()
	task := submitted(t)
	at := task.CreatedAt
	apply := func(kind events.Kind, data events.Payload) {
		t.Helper()
		require.NoError(t, task.Apply(at, events.Event{Kind: kind, Data: data}))
	}
	late := at.Add(24 * time.Hour)
	apply(events.ApprovalRequested, &events.Approval{ID: "g", Step: "a"})
	apply(events.ApprovalGranted, &events.Decision{ID: "g", At: at, ValidUntil: &at})
	grant := task.Approval("g")
	for round := range 2 {
		apply(events.StepReady, &events.Ready{Step: "a", Attempt: round + 1, Approval: "g"})
		assert.Equal(t, round > 0, grant.UsableFor("a", late))
		apply(events.StepCalled, &events.Called{Step: "a"})
		assert.False(t, grant.UsableFor("a", at))
		apply(events.StepParked, &events.Parked{Step: "a", Questions: []string{"q"}})
		assert.True(t, grant.UsableFor("a", late))
		assert.False(t, grant.UsableFor("b", at))
		assert.False(t, grant.Usable(at))
		assert.Equal(t, round+1, task.Steps["a"].Rounds)
		assert.Equal(t, []string{"q"}, task.Steps["a"].Questions)
	}
	apply(events.StepReady, &events.Ready{Step: "a", Attempt: 3, Approval: "g"})
	assert.Empty(t, task.Steps["a"].Questions)
	apply(events.StepCalled, &events.Called{Step: "a"})
	apply(events.StepRetrying, &events.Retrying{Step: "a"})
	assert.False(t, grant.UsableFor("a", at))
}
