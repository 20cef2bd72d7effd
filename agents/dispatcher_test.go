package agents_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

// stuck is an owner with one call, and checks that block because the log accepts nothing.
type stuck struct {
	work.Owner
	agents.Chain
}

func (stuck) Poll(context.Context, work.Poll) (work.Batch, error) {
	return work.Batch{Calls: []*work.Call{{Ref: work.Ref{Task: "TASK_01JD0000000000000000000000", Step: "a", Attempt: 1}, Lease: 10 * time.Millisecond}}}, nil
}

func (stuck) Pass(ctx context.Context, _ string, _ work.Call) (work.Outcome, error) {
	<-ctx.Done()
	return work.Outcome{Error: fault.From(ctx.Err())}, nil
}

// A claim ends although its call cannot start. The call does not end: nobody has made it.
func TestClaimEndsWhenItsCallCannotBegin(t *testing.T) {
	t.Parallel()
	d := agents.NewDispatcher(stuck{}, stuck{}, agents.NewRegistry(agents.Config{}))
	w, err := d.Claim(t.Context(), agents.Member{Name: "ada", Profile: agents.Profile{MaxTasks: 1}}, agents.Claim{Free: 1})
	assert.Equal(t, fault.Unavailable, fault.CodeOf(err))
	assert.Empty(t, w.Calls)
}

// A report with an invalid task id is rejected before the owner is called; there is none in this test.
func TestReportOfNoTask(t *testing.T) {
	t.Parallel()
	d := agents.NewDispatcher(nil, nil, agents.NewRegistry(agents.Config{}))
	for _, id := range []string{"", "../x", "TASK_", "TASK_01JD000000000000000000000\x1f"} {
		err := d.Report(t.Context(), agents.Member{}, agents.Report{Ref: work.Ref{Task: events.TaskID(id), Step: "a", Attempt: 1}})
		assert.Equal(t, fault.InvalidFormat, fault.CodeOf(err), id)
	}
}

// goneOwner has a call for an agent that stops waiting in that moment.
type goneOwner struct {
	work.Owner

	leave    context.CancelFunc
	call     work.Call
	reported []work.Outcome
}

func (o *goneOwner) Poll(context.Context, work.Poll) (work.Batch, error) {
	o.leave()
	return work.Batch{Number: 2, Calls: []*work.Call{&o.call}}, nil
}

func (o *goneOwner) Report(_ context.Context, out work.Outcome) error {
	o.reported = append(o.reported, out)
	return nil
}

// A call of an agent that disconnected before the start is returned, and does not count as an attempt.
func TestCallForWhoIsGone(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	o := &goneOwner{leave: leave, call: work.Call{Ref: work.Ref{Task: events.NewTaskID(time.Now()), Step: "a", Attempt: 1}}}
	d := agents.NewDispatcher(o, nil, agents.NewRegistry(agents.Config{}))
	m := agents.Member{Name: "ada", Profile: agents.Profile{ID: "agent-1", MaxTasks: 1}}
	got, err := d.Claim(ctx, m, agents.Claim{Free: 1})
	require.NoError(t, err)
	assert.Empty(t, got.Calls)
	require.Len(t, o.reported, 1)
	assert.Equal(t, o.call.Ref, o.reported[0].Ref)
	assert.Equal(t, "shutdown", o.reported[0].Class)
	assert.Equal(t, "agent:ada", o.reported[0].Worker)
}

// willing is an owner with one call, and gates that are open.
type willing struct {
	work.Owner

	passed   work.Call
	reported work.Outcome
}

func (o *willing) Poll(context.Context, work.Poll) (work.Batch, error) {
	return work.Batch{Calls: []*work.Call{{Ref: work.Ref{Task: events.NewTaskID(time.Now()), Step: "a", Attempt: 1}}}}, nil
}

func (o *willing) Pass(_ context.Context, _ string, c work.Call) (work.Outcome, error) {
	o.passed = c
	return work.Outcome{AgentCall: &work.AgentCall{Timeout: c.Timeout}}, nil
}

func (*willing) Vet(output json.RawMessage) (json.RawMessage, error) { return output, nil }

func (o *willing) Report(_ context.Context, out work.Outcome) error {
	o.reported = out
	return nil
}

// S3-085: the timeout and the retries of the registration are those of its calls.
func TestConfigurationOfAnAgentHolds(t *testing.T) {
	t.Parallel()
	o := &willing{}
	d := agents.NewDispatcher(o, o, agents.NewRegistry(agents.Config{}))
	m := agents.Member{Name: "ada", Profile: agents.Profile{ID: "agent-1", MaxTasks: 1, Timeout: 7 * time.Second, MaxRetries: 2, Backoff: time.Millisecond}}
	got, err := d.Claim(t.Context(), m, agents.Claim{Free: 1})
	require.NoError(t, err)
	require.Len(t, got.Calls, 1)
	assert.Equal(t, 7*time.Second, o.passed.Timeout)
	assert.Equal(t, 7*time.Second, got.Calls[0].Remaining)
	require.NoError(t, d.Report(t.Context(), m, agents.Report{Ref: got.Calls[0].Ref, Error: "not now"}))
	assert.Equal(t, &work.Retry{Max: 2, Backoff: time.Millisecond}, o.reported.Retry)
}

// A report may have only a summary, without a result; an empty report is rejected.
func TestReportOfASummary(t *testing.T) {
	t.Parallel()
	o := &willing{}
	d := agents.NewDispatcher(o, o, agents.NewRegistry(agents.Config{}))
	m, ref := agents.Member{Name: "ada"}, work.Ref{Task: events.NewTaskID(time.Now()), Step: "a", Attempt: 1}
	err := d.Report(t.Context(), m, agents.Report{Ref: ref})
	assert.Equal(t, fault.RequiredField, fault.CodeOf(err))
	require.NoError(t, d.Report(t.Context(), m, agents.Report{Ref: ref, Summary: "done"}))
	require.Nil(t, o.reported.Error)
	assert.JSONEq(t, `{"agent":"ada","result":null,"summary":"done"}`, string(o.reported.Output))
}
