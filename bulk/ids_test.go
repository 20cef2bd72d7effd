package bulk_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bulk"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// desk is a shop whose approvals are listed by id and by task.
type desk struct{ *shop }

// Approvals implements bulk.Node.
func (d desk) Approvals(_ context.Context, r api.ApprovalsRequest) (reply api.ApprovalsReply, err error) {
	for _, a := range d.approvals.Approvals {
		if a.ID == r.ID || a.Task == r.Task {
			reply.Approvals = append(reply.Approvals, a)
		}
	}
	if r.ID != "" && len(reply.Approvals) == 0 {
		return reply, fault.New(fault.NotFound, "no such approval")
	}
	return reply, nil
}

func ofIDs(act string, ids ...string) bulk.Request {
	return bulk.Request{Act: act, Where: bulk.Where{IDs: ids}, Actor: "user:ada"}
}

// Tasks are named by their ids. One that has ended, or is gone, is no part of a cancel, so the set that was shown has changed.
func TestTasksByID(t *testing.T) {
	t.Parallel()
	s := fiveTasks()
	r := ofIDs(bulk.Cancel, "a", "c", "e")
	shown, err := bulk.Select(t.Context(), s, r)
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "c", "e"}, ids(shown))
	assert.Equal(t, map[string]string{"where": "ids=3", "tasks": "3"}, r.Params(shown.Count))
	s.tasks[2].State = statemachine.Done
	r.Set = &shown.Set
	_, err = bulk.Select(t.Context(), s, r)
	assert.Equal(t, bulk.ReasonSetChanged, fault.From(err).Reason)
	s.tasks = s.tasks[:4]
	report, err := run(t, s, ofIDs(bulk.Cancel, "a", "c", "e"))
	require.NoError(t, err)
	assert.Equal(t, []string{"a"}, ids(report))
	report, err = bulk.Select(t.Context(), s, ofIDs(bulk.Redrive, "c"))
	require.NoError(t, err)
	assert.Equal(t, []string{"c"}, ids(report), "the act refuses it, with a reason")
}

// The limit holds for named items too.
func TestMaxOfIDs(t *testing.T) {
	t.Parallel()
	r := ofIDs(bulk.Cancel, "a", "c", "e")
	r.Max = 2
	_, err := bulk.Select(t.Context(), fiveTasks(), r)
	assert.ErrorContains(t, err, "more than 2 are selected")
}

// Approvals are named by their ids, or by their tasks. Those that are decided are no part of the set.
func TestApprovalsByID(t *testing.T) {
	t.Parallel()
	d := desk{fiveTasks()}
	d.approvals.Approvals = []api.ApprovalView{
		{ID: "APR_1", Task: "a", TaskRev: 3, Status: statemachine.ApprovalPending},
		{ID: "APR_2", Task: "a", TaskRev: 3, Status: statemachine.ApprovalPending},
		{ID: "APR_3", Task: "b", Status: statemachine.ApprovalGranted},
		{ID: "APR_4", Task: "c", TaskRev: 7, Status: statemachine.ApprovalPending},
	}
	r := ofIDs(bulk.Approve, "APR_2", "APR_3", "APR_9", "c", "APR_4", "c")
	report, err := bulk.Select(t.Context(), d, r)
	require.NoError(t, err)
	assert.Equal(t, []string{"APR_2", "APR_4"}, ids(report))
	require.NoError(t, bulk.Do(t.Context(), d, r, &report, func(int) {}))
	assert.Equal(t, []string{"granted at 3: APR_2", "granted at 7: APR_4"}, d.acts)
}
