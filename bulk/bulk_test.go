package bulk_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bulk"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// shop is a node with tasks that fails as told.
type shop struct {
	bulk.Node

	tasks     []api.Summary
	approvals api.ApprovalsReply
	// fails are the errors of the acts, by their targets.
	fails map[string]error
	// acts are the acts that were tried, with their targets.
	acts []string
	list api.ListRequest
}

// List implements bulk.Node. A page has two tasks.
func (s *shop) List(_ context.Context, r api.ListRequest) (api.ListReply, error) {
	s.list = r
	from := len(r.Cursor)
	to := min(from+2, len(s.tasks))
	reply := api.ListReply{Tasks: s.tasks[from:to]}
	if to < len(s.tasks) {
		reply.Next = "xxxxxxxxxxxx"[:to]
	}
	return reply, nil
}

// Get implements bulk.Node.
func (s *shop) Get(_ context.Context, r api.GetRequest) (api.TaskView, error) {
	for _, t := range s.tasks {
		if t.ID == r.ID {
			return api.TaskView{ID: t.ID, State: t.State}, nil
		}
	}
	return api.TaskView{}, fault.New(fault.NotFound, "no such task")
}

// Approvals implements bulk.Node.
func (s *shop) Approvals(context.Context, api.ApprovalsRequest) (api.ApprovalsReply, error) {
	return s.approvals, nil
}

func (s *shop) try(act, target string) error {
	s.acts = append(s.acts, act+" "+target)
	return s.fails[target]
}

// Cancel implements bulk.Node.
func (s *shop) Cancel(_ context.Context, r api.CancelRequest) (api.TaskView, error) {
	return api.TaskView{State: statemachine.Cancelled}, s.try("cancel "+r.Reason, string(r.ID))
}

// Retry implements bulk.Node.
func (s *shop) Retry(_ context.Context, r api.RetryRequest) (api.SubmitReply, error) {
	return api.SubmitReply{ID: "again-" + r.ID}, s.try("retry "+r.From+" "+r.Via, string(r.ID))
}

// Redrive implements bulk.Node.
func (s *shop) Redrive(_ context.Context, r api.RedriveRequest) (api.SubmitReply, error) {
	return api.SubmitReply{ID: "again-" + r.ID}, s.try("redrive", string(r.ID))
}

// Decide implements bulk.Node.
func (s *shop) Decide(_ context.Context, r api.DecideRequest) (api.ApprovalView, error) {
	return api.ApprovalView{Status: statemachine.ApprovalGranted}, s.try(fmt.Sprintf("%s at %d:", r.As, r.SeenRev), r.ID)
}

func fiveTasks() *shop {
	s := &shop{fails: map[string]error{}}
	for _, id := range []events.TaskID{"a", "b", "c", "d", "e"} {
		s.tasks = append(s.tasks, api.Summary{ID: id, State: statemachine.Blocked})
	}
	return s
}

func request(act string) bulk.Request {
	return bulk.Request{Act: act, Where: bulk.Where{Name: "*"}, Via: "test", Actor: "user:ada"}
}

// run selects and acts.
func run(t *testing.T, s *shop, r bulk.Request) (bulk.Report, error) {
	t.Helper()
	report, err := bulk.Select(t.Context(), s, r)
	require.NoError(t, err)
	return report, bulk.Do(t.Context(), s, r, &report, func(int) {})
}

func ids(r bulk.Report) (all []string) {
	for _, item := range r.Items {
		all = append(all, item.ID)
	}
	return all
}

func TestActs(t *testing.T) {
	t.Parallel()
	for act, want := range map[string]struct{ tried, result string }{
		bulk.Cancel:  {"cancel ", "CANCELLED"},
		bulk.Retry:   {"retry  test", "again-a"},
		bulk.Redrive: {"redrive", "again-a"},
	} {
		s := fiveTasks()
		report, err := run(t, s, request(act))
		require.NoError(t, err, act)
		assert.Equal(t, []string{"a", "b", "c", "d", "e"}, ids(report), act)
		assert.Equal(t, []int{5, 5, 0}, []int{report.Count, report.Done, report.Failed}, act)
		assert.Equal(t, want.tried+" a", s.acts[0], act)
		assert.Equal(t, want.result, report.Items[0].Result, act)
	}
}

func TestApprovals(t *testing.T) {
	t.Parallel()
	s := fiveTasks()
	s.approvals.Approvals = []api.ApprovalView{{ID: "APR_1", Task: "b", TaskRev: 3, Status: "pending"}, {ID: "APR_2", Task: "other"}}
	report, err := run(t, s, request(bulk.Approve))
	require.NoError(t, err)
	assert.Equal(t, []string{"granted at 3: APR_1"}, s.acts)
	assert.Equal(t, "granted", report.Items[0].Result)
	s.approvals.Omitted = 1
	_, err = bulk.Select(t.Context(), s, request(bulk.Approve))
	assert.ErrorContains(t, err, "not all pending approvals can be listed")
}

// A cancel selects no tasks that have ended, unless a state is named, and nothing selects imported ones.
func TestSelection(t *testing.T) {
	t.Parallel()
	s := fiveTasks()
	s.tasks[1].State, s.tasks[2].Imported = statemachine.Done, true
	report, err := bulk.Select(t.Context(), s, request(bulk.Cancel))
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "d", "e"}, ids(report))
	named := request(bulk.Cancel)
	named.Where.States = []statemachine.State{statemachine.Done}
	report, err = bulk.Select(t.Context(), s, named)
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b", "d", "e"}, ids(report), "the filter is that of the list")
	assert.Equal(t, named.Where.States, s.list.States)
}

// A task that has changed its state since it was selected is left alone, and so is everything after an interruption.
func TestEachTaskIsCheckedAgain(t *testing.T) {
	t.Parallel()
	s := fiveTasks()
	r := request(bulk.Cancel)
	report, err := bulk.Select(t.Context(), s, r)
	require.NoError(t, err)
	s.tasks[0].State = statemachine.InProgress
	err = bulk.Do(t.Context(), s, r, &report, func(int) {})
	assert.True(t, fault.Has(err, fault.Conflict), "%v", err)
	assert.Contains(t, report.Items[0].Error.Message, "it was BLOCKED, and is IN_PROGRESS")
	assert.Equal(t, []int{4, 1}, []int{report.Done, report.Failed})
	assert.NotContains(t, s.acts, "cancel  a")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	s.acts = nil
	err = bulk.Do(ctx, s, r, &report, func(int) {})
	assert.True(t, fault.Has(err, fault.Cancelled), "%v", err)
	assert.Empty(t, s.acts)
}

// After the node has stopped to answer nothing more is tried.
func TestBulkEndsWithTheNode(t *testing.T) {
	t.Parallel()
	s := fiveTasks()
	s.fails = map[string]error{"a": fault.New(fault.StateNotAllowed, "no"), "c": fault.New(fault.Unavailable, "gone")}
	report, err := run(t, s, request(bulk.Redrive))
	assert.True(t, fault.Has(err, fault.Unavailable), "%v", err)
	assert.Len(t, s.acts, 3)
	assert.Equal(t, []int{1, 4}, []int{report.Done, report.Failed})
	assert.Contains(t, report.Items[4].Error.Message, "not tried")
	s = fiveTasks()
	s.fails = map[string]error{"a": errors.New("odd")}
	report, err = run(t, s, request(bulk.Redrive))
	assert.True(t, fault.Has(err, fault.Internal), "%v", err)
	assert.Equal(t, 4, report.Done)
}

// The digest of a set depends on the ids alone, in any order, and a set that has changed is refused.
func TestSets(t *testing.T) {
	t.Parallel()
	s := fiveTasks()
	before, err := bulk.Select(t.Context(), s, request(bulk.Redrive))
	require.NoError(t, err)
	s.tasks[0], s.tasks[1] = s.tasks[1], s.tasks[0]
	r := request(bulk.Redrive)
	r.Set = &before.Set
	_, err = bulk.Select(t.Context(), s, r)
	require.NoError(t, err)
	s.tasks = s.tasks[1:]
	_, err = bulk.Select(t.Context(), s, r)
	assert.True(t, fault.Has(err, fault.Conflict), "%v", err)
	assert.Equal(t, bulk.ReasonSetChanged, fault.From(err).Reason)
	s.tasks = nil
	r.Set = new("")
	_, err = bulk.Select(t.Context(), s, r)
	assert.NoError(t, err, "an empty set")
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		r     bulk.Request
		field string
	}{
		"no act":         {bulk.Request{Where: bulk.Where{Dead: true}}, "act"},
		"unknown act":    {bulk.Request{Act: "kill", Where: bulk.Where{Dead: true}}, "act"},
		"no filter":      {bulk.Request{Act: bulk.Cancel}, "where"},
		"unknown state":  {bulk.Request{Act: bulk.Cancel, Where: bulk.Where{States: []statemachine.State{"failed"}}}, "where.states"},
		"ids and more":   {bulk.Request{Act: bulk.Cancel, Where: bulk.Where{Dead: true, IDs: []string{"a"}}}, "where.ids"},
		"an empty id":    {bulk.Request{Act: bulk.Approve, Where: bulk.Where{IDs: []string{"a", ""}}}, "where.ids"},
		"too many ids":   {bulk.Request{Act: bulk.Cancel, Where: bulk.Where{IDs: make([]string, bulk.MaxItems+1)}}, "where.ids"},
		"negative limit": {bulk.Request{Act: bulk.Cancel, Where: bulk.Where{Dead: true}, Max: -1}, "max"},
		"high limit":     {bulk.Request{Act: bulk.Cancel, Where: bulk.Where{Dead: true}, Max: bulk.MaxItems + 1}, "max"},
		"from":           {bulk.Request{Act: bulk.Redrive, Where: bulk.Where{Dead: true}, From: "a"}, "from"},
		"reason":         {bulk.Request{Act: bulk.Retry, Where: bulk.Where{Dead: true}, Reason: "a"}, "reason"},
	} {
		_, err := bulk.Select(t.Context(), fiveTasks(), c.r)
		require.Error(t, err, name)
		assert.Equal(t, c.field, fault.From(err).Field, name)
	}
	r := request(bulk.Cancel)
	r.Max = 4
	_, err := bulk.Select(t.Context(), fiveTasks(), r)
	assert.ErrorContains(t, err, "more than 4 are selected")
}

func TestFilterInOneLine(t *testing.T) {
	t.Parallel()
	w := bulk.Where{
		States: []statemachine.State{"FAILED"}, Labels: map[string]string{"b": "2", "a": "1"}, Name: "x*", Parent: "P", Session: "S", Requestor: "user:ada",
		Since: time.Unix(0, 0), Until: time.Unix(60, 0), Dead: true,
	}
	assert.Equal(t, "dead=true label=a=1 label=b=2 name=x* parent=P requestor=user:ada session=S since=1970-01-01T00:00:00Z state=FAILED until=1970-01-01T00:01:00Z", w.String())
	r := bulk.Request{Act: bulk.Approve, Where: bulk.Where{Dead: true}}
	assert.Equal(t, map[string]string{"where": "dead=true", "approvals": "2"}, r.Params(2))
}
