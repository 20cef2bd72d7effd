package orchestrator

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/events"
)

// The approvals of a batch have the order of their tasks, although the node asked for them in another one within a second.
func TestApprovalsOfABatchHaveTheOrderOfTheirTasks(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	ref := func(id, task, step string, asked time.Duration) approvalRef {
		return approvalRef{id: id, task: "TASK_" + events.TaskID(task), step: step, requested: at.Add(asked), expires: at.Add(asked + time.Hour)}
	}
	refs := []approvalRef{
		ref("c", "3", "a", 100*time.Millisecond), ref("later", "1", "c", time.Second), ref("b2", "2", "b", 0),
		ref("b1", "2", "a", 900*time.Millisecond), ref("a", "1", "z", 500*time.Millisecond),
	}
	slices.SortFunc(refs, byUrgency)
	ids := make([]string, len(refs))
	for i, r := range refs {
		ids[i] = r.id
	}
	assert.Equal(t, []string{"a", "b1", "b2", "c", "later"}, ids)
}
