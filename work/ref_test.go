package work_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

func TestRefAsText(t *testing.T) {
	t.Parallel()
	ref := work.Ref{Task: events.KeyedTaskID("", "x"), Step: "each[3].a", Attempt: 12}
	got, err := work.ParseRef(ref.String())
	require.NoError(t, err)
	assert.Equal(t, ref, got)
	task := string(ref.Task)
	for _, text := range []string{"", "x", task, task + "/1", task + "/1/", task + "/0/a", task + "/-1/a", task + "/x/a", "TASK_1/1/a"} {
		_, err := work.ParseRef(text)
		assert.Equal(t, fault.InvalidFormat, fault.CodeOf(err), text)
	}
}
