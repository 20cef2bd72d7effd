package undo_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/undo"
)

const (
	session = events.TaskID("TASK_01KE0000000000000000000001")
	ofCall  = events.TaskID("TASK_01KE0000000000000000000002")
	alone   = events.TaskID("TASK_01KE0000000000000000000003")
	undoing = events.TaskID("TASK_01KE0000000000000000000004")
)

// fakeAPI is an API whose undo asks for an approval unless it is free, and then ends with a result.
type fakeAPI struct {
	api.API // panics for the methods below that are missing

	result    api.ResultReply
	refuses   error
	never     bool
	free      bool
	submitted api.SubmitRequest
	decided   []api.DecideRequest
}

func (f *fakeAPI) Get(_ context.Context, r api.GetRequest) (api.TaskView, error) {
	v := api.TaskView{ID: r.ID, Root: "/project"}
	if r.ID != alone {
		v.Session = session
	}
	return v, nil
}

func (f *fakeAPI) Submit(_ context.Context, r api.SubmitRequest) (api.SubmitReply, error) {
	f.submitted = r
	return api.SubmitReply{ID: undoing}, nil
}

func (f *fakeAPI) Result(ctx context.Context, _ api.ResultRequest) (api.ResultReply, error) {
	if f.never {
		<-ctx.Done()
		return api.ResultReply{}, fault.From(ctx.Err())
	}
	if len(f.decided) == 0 && !f.free {
		return api.ResultReply{ID: undoing, Waits: true}, nil
	}
	return f.result, nil
}

func (f *fakeAPI) Approvals(_ context.Context, r api.ApprovalsRequest) (api.ApprovalsReply, error) {
	if r.Task != undoing {
		return api.ApprovalsReply{}, nil
	}
	return api.ApprovalsReply{Approvals: []api.ApprovalView{{ID: "APR_1"}}}, nil
}

func (f *fakeAPI) Decide(_ context.Context, r api.DecideRequest) (api.ApprovalView, error) {
	f.decided = append(f.decided, r)
	return api.ApprovalView{}, f.refuses
}

// arguments returns the arguments of the only call of the submitted plan.
func (f *fakeAPI) arguments(t *testing.T) string {
	t.Helper()
	var p struct {
		Steps []struct {
			Tool string
			With json.RawMessage
		}
	}
	require.NoError(t, json.Unmarshal(f.submitted.Plan, &p))
	require.Len(t, p.Steps, 1)
	assert.Equal(t, "PROJECT_UNDO", p.Steps[0].Tool)
	return string(p.Steps[0].With)
}

func TestRun(t *testing.T) {
	t.Parallel()
	f := &fakeAPI{free: true, result: api.ResultReply{Ended: true, Output: json.RawMessage(`{"result":{"restored":["/a"],"removed":[],"conflicts":["/c"],
		"later":[{"path":"/c","lost":false,"by":[{"task":"` + string(ofCall) + `","step":"call","at":"2026-11-29T12:00:00Z"}],"diff":"-a"}]}}`)}}
	got, err := undo.Run(t.Context(), f, undo.Request{ID: ofCall, DryRun: true, Actor: "user:ada"})
	require.NoError(t, err)
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	later := []undo.LaterChange{{Path: "/c", By: []undo.ChangedBy{{Task: ofCall, Step: "call", At: &at}}, Diff: "-a"}}
	assert.Equal(t, undo.Outcome{Task: undoing, Done: true, Files: undo.Files{Restored: []string{"/a"}, Removed: []string{}, Conflicts: []string{"/c"}, Later: later}}, got)
	assert.JSONEq(t, `{"session":"`+string(session)+`","task":"`+string(ofCall)+`","force":false,"dry_run":true}`, f.arguments(t))
	assert.Equal(t, "/project", f.submitted.Root)
	assert.Equal(t, "user:ada", f.submitted.Actor)
	assert.Empty(t, f.decided, "a dry run needs no approval")
	assert.Equal(t, api.UndoPreviewName, f.submitted.Name, "a list never shows a preview as an undo")
	assert.Empty(t, f.submitted.Undoes)
}

func TestRunOfSession(t *testing.T) {
	t.Parallel()
	f := &fakeAPI{result: api.ResultReply{Ended: true, Output: json.RawMessage(`{"result":{}}`)}}
	_, err := undo.Run(t.Context(), f, undo.Request{ID: session, Force: true})
	require.NoError(t, err)
	assert.JSONEq(t, `{"session":"`+string(session)+`","force":true,"dry_run":false}`, f.arguments(t))
	assert.Empty(t, f.submitted.Name)
	assert.Equal(t, session, f.submitted.Undoes)
	require.Len(t, f.decided, 1)
	assert.Equal(t, "orch undo", f.decided[0].Reason)
}

func TestRunFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		id   events.TaskID
		api  fakeAPI
		want fault.Code
	}{
		"no session":        {id: alone, want: fault.StateNotAllowed},
		"may not decide":    {id: session, api: fakeAPI{refuses: fault.New(fault.Forbidden, "another person decides")}, want: fault.Forbidden},
		"the tool fails":    {id: session, api: fakeAPI{result: api.ResultReply{Ended: true, Error: fault.New(fault.NotFound, "no backups")}}, want: fault.NotFound},
		"a strange output":  {id: session, api: fakeAPI{result: api.ResultReply{Ended: true, Output: json.RawMessage(`7`)}}, want: fault.Internal},
		"the caller leaves": {id: session, api: fakeAPI{never: true}, want: fault.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, leave := context.WithCancel(t.Context())
			if c.api.never {
				leave()
			}
			defer leave()
			_, err := undo.Run(ctx, &c.api, undo.Request{ID: c.id})
			assert.Equal(t, c.want, fault.CodeOf(err), "%v", err)
		})
	}
}

// If the policy file asks for an approval of a dry run, whoever asks for it gives it.
func TestRunDryWhereThePolicyAsks(t *testing.T) {
	t.Parallel()
	f := &fakeAPI{result: api.ResultReply{Ended: true, Output: json.RawMessage(`{"result":{}}`)}}
	_, err := undo.Run(t.Context(), f, undo.Request{ID: session, DryRun: true, Actor: "user:ada"})
	require.NoError(t, err)
	assert.Equal(t, []api.DecideRequest{{ID: "APR_1", As: "granted", Reason: "orch undo --dry-run", Actor: "user:ada"}}, f.decided)
}

// A caller that cannot wait gets the task, which goes on.
func TestRunWaits(t *testing.T) {
	t.Parallel()
	got, err := undo.Run(t.Context(), &fakeAPI{never: true}, undo.Request{ID: session, Wait: time.Millisecond})
	require.NoError(t, err)
	assert.Equal(t, undo.Outcome{Task: undoing, Files: undo.Files{Restored: []string{}, Removed: []string{}, Conflicts: []string{}}}, got)
}
