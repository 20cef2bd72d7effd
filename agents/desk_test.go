package agents_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

// What is no task is not looked for: the owner, of which there is none here, never hears of it.
func TestReportOfNoTask(t *testing.T) {
	t.Parallel()
	d := agents.NewDesk(nil, nil, agents.NewRegistry(agents.Config{}))
	for _, id := range []string{"", "../x", "TASK_", "TASK_01JD000000000000000000000\x1f"} {
		err := d.Report(t.Context(), agents.Member{}, agents.Report{Ref: work.Ref{Task: events.TaskID(id), Step: "a", Attempt: 1}})
		assert.Equal(t, fault.InvalidFormat, fault.CodeOf(err), id)
	}
}
