package node_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

const labelledPlan = `
orch: v1
name: labelled
labels: {team: blue}
steps:
  - {id: a, set: {x: 1}}
`

// The node that becomes active reads the archive into its index of lists, and takes the changes of later tasks.
func TestListsOfTheNextNode(t *testing.T) {
	t.Parallel()
	server := natsServer(t)
	first, second := serveMember(t, server), serveMember(t, server)
	r := dialNode(t, second.cfg)
	var want []events.TaskID
	for range 3 {
		id := submit(t, r, labelledPlan)
		require.Equal(t, statemachine.Done, result(t, r, id).State)
		want = append(want, id)
	}
	run, err := r.Archive(t.Context(), api.ArchiveRequest{Wait: 30 * time.Second})
	require.NoError(t, err)
	require.Equal(t, len(want), run.Archived)
	first.shutDown()
	require.Eventually(t, func() bool {
		status, err := r.Status(t.Context(), api.StatusRequest{})
		require.NoError(t, err)
		return status.Finished == len(want)
	}, time.Minute, 5*time.Millisecond)
	want = append(want, submit(t, r, labelledPlan))
	require.Equal(t, statemachine.Done, result(t, r, want[3]).State)
	list, err := r.List(t.Context(), api.ListRequest{Labels: map[string]string{"team": "blue"}})
	require.NoError(t, err)
	var got []events.TaskID
	for _, line := range list.Tasks {
		got = append(got, line.ID)
		assert.Equal(t, line.ID != want[3], line.Archived)
	}
	assert.ElementsMatch(t, want, got)
}
