package rest

import (
	"context"
	"errors"
	"strings"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// scopeTo returns the API as a client sees it.
func scopeTo(c Client, a api.API) api.API {
	if c.Role().seesAll() {
		return a
	}
	return scoped{a, c}
}

// scoped is the API for a client that sees only its own tasks. All other tasks do not exist for it. It does not embed api.API, so
// that a new method is not open before somebody has decided what it shows.
type scoped struct {
	all    api.API
	client Client
}

var _ api.API = scoped{}

// noTask is the error for a task that does not exist, and for one that belongs to somebody else.
func noTask(text string) error {
	return scopeFault(fault.New(fault.NotFound, "there is no task %q", clip(text)).WithField("id"))
}

// own returns NOT_FOUND unless a task belongs to the client.
func (s scoped) own(ctx context.Context, id events.TaskID) error {
	owns, err := s.client.Owns(ctx, id)
	if err == nil && !owns {
		err = noTask(string(id))
	}
	return err
}

// ownOnly calls do for a task of the client.
func ownOnly[In, Out any](ctx context.Context, s scoped, id events.TaskID, in In, do func(context.Context, In) (Out, error)) (out Out, err error) {
	if err := s.own(ctx, id); err != nil {
		return out, err
	}
	return do(ctx, in)
}

// forbidden is the error of the methods that only operators and viewers may use. Routes refuse them before.
func forbidden() error {
	return scopeFault(fault.New(fault.Forbidden, "the role may not do that").WithReason("ROLE_NOT_ALLOWED"))
}

// errScope is the cause of the errors with which scoped refuses a request itself, so that the API does not record the refusal.
var errScope = errors.New("outside the scope of the client")

func scopeFault(f *fault.Error) error {
	f.Err = errScope
	return f
}

// errKeyTaken is the error for a task of somebody else with the same id or idempotency key.
func errKeyTaken() *fault.Error {
	return fault.New(fault.Conflict, "the id or the idempotency key is taken").WithField("idempotency_key").WithHint("choose another one")
}

// Submit implements api.API.
func (s scoped) Submit(ctx context.Context, r api.SubmitRequest) (api.SubmitReply, error) {
	if err := s.ownDependencies(ctx, r, ""); err != nil {
		return api.SubmitReply{}, err
	}
	reply, err := s.all.Submit(ctx, r)
	if err == nil && reply.Existing && s.own(ctx, reply.ID) != nil {
		return api.SubmitReply{}, errKeyTaken()
	}
	return reply, err
}

// ownDependencies returns an error if a task depends on a task of somebody else.
func (s scoped) ownDependencies(ctx context.Context, r api.SubmitRequest, at string) error {
	for _, id := range r.DependsOn {
		if err := s.own(ctx, id); err != nil {
			return fault.From(err).WithField(at + "depends_on")
		}
	}
	return nil
}

// SubmitBatch implements api.API.
func (s scoped) SubmitBatch(ctx context.Context, r api.SubmitBatchRequest) (api.SubmitBatchReply, error) {
	for _, one := range r.Tasks {
		if err := s.ownDependencies(ctx, one, "tasks."); err != nil {
			return api.SubmitBatchReply{}, err
		}
	}
	reply, err := s.all.SubmitBatch(ctx, r)
	for i, one := range reply.Tasks {
		if one.Existing && s.own(ctx, one.ID) != nil {
			reply.Tasks[i] = api.SubmitBatchItem{Error: errKeyTaken()}
		}
	}
	return reply, err
}

// Find implements api.API.
func (s scoped) Find(ctx context.Context, r api.FindRequest) (api.FindReply, error) {
	r.Actor = s.client.Name()
	reply, err := s.all.Find(ctx, r)
	if fault.Has(err, fault.NotUnique) || fault.Has(err, fault.NotFound) || err == nil && s.own(ctx, reply.ID) != nil {
		return api.FindReply{}, noTask(r.Text)
	}
	return reply, err
}

// Get implements api.API.
func (s scoped) Get(ctx context.Context, r api.GetRequest) (api.TaskView, error) {
	t, err := ownOnly(ctx, s, r.ID, r, s.all.Get)
	t.Holds = nil // they are for those who see all tasks
	return t, err
}

// Result implements api.API.
func (s scoped) Result(ctx context.Context, r api.ResultRequest) (api.ResultReply, error) {
	return ownOnly(ctx, s, r.ID, r, s.all.Result)
}

// List implements api.API. Tree and Parent also select the child tasks that the tasks of the client have started.
func (s scoped) List(ctx context.Context, r api.ListRequest) (api.ListReply, error) {
	mine := s.client.Name()
	if r.Requestor != "" && r.Requestor != mine {
		return api.ListReply{Tasks: []api.Summary{}}, nil
	}
	for _, id := range []events.TaskID{r.Tree, r.Parent, r.Session} {
		if id == "" {
			continue
		}
		if err := s.own(ctx, id); err != nil {
			return api.ListReply{}, err
		}
	}
	family := r.Tree != "" || r.Parent != ""
	if !family {
		r.Requestor = mine
	}
	reply, err := s.all.List(ctx, r)
	if family {
		reply.Tasks, reply.Omitted = ownLines(reply.Tasks, r.Parent, mine), 0
	}
	return reply, err
}

// ownLines returns the lines of a list, parents first, that belong to an identity, or are children of its tasks. parent is the
// parent of all of them, or empty.
func ownLines(lines []api.Summary, parent events.TaskID, who string) []api.Summary {
	mine := map[events.TaskID]bool{parent: parent != ""}
	own := []api.Summary{}
	for _, line := range lines {
		if line.Requestor == who || strings.HasPrefix(line.Requestor, "task:") && mine[line.Parent] {
			mine[line.ID] = true
			own = append(own, line)
		}
	}
	return own
}

// Queue implements api.API.
func (s scoped) Queue(context.Context, api.QueueRequest) (api.QueueReply, error) {
	return api.QueueReply{}, forbidden()
}

// Watch implements api.API.
func (s scoped) Watch(ctx context.Context, r api.WatchRequest) (api.WatchReply, error) {
	return ownOnly(ctx, s, r.ID, r, s.all.Watch)
}

// History implements api.API.
func (s scoped) History(ctx context.Context, r api.HistoryRequest) (api.HistoryReply, error) {
	return ownOnly(ctx, s, r.ID, r, s.all.History)
}

// Replay implements api.API.
func (s scoped) Replay(ctx context.Context, r api.ReplayRequest) (api.ReplayReply, error) {
	return ownOnly(ctx, s, r.ID, r, s.all.Replay)
}

// Explain implements api.API.
func (s scoped) Explain(ctx context.Context, r api.GetRequest) (api.ExplainReply, error) {
	return ownOnly(ctx, s, r.ID, r, s.all.Explain)
}

// Conversation implements api.API.
func (s scoped) Conversation(ctx context.Context, r api.ConversationRequest) (api.ConversationReply, error) {
	return ownOnly(ctx, s, r.ID, r, s.all.Conversation)
}

// Costs implements api.API. A client sees the costs and the budgets of its own tasks alone.
func (s scoped) Costs(ctx context.Context, r api.CostsRequest) (api.CostsReply, error) {
	if r.Identity != "" && r.Identity != s.client.Name() {
		return api.NoCosts(), nil
	}
	r.Identity = s.client.Name()
	return s.all.Costs(ctx, r)
}

// Cancel implements api.API.
func (s scoped) Cancel(ctx context.Context, r api.CancelRequest) (api.TaskView, error) {
	return ownOnly(ctx, s, r.ID, r, s.all.Cancel)
}

// Pause implements api.API.
func (s scoped) Pause(context.Context, api.PauseRequest) (api.ControlReply, error) {
	return api.ControlReply{}, forbidden()
}

// Resume implements api.API.
func (s scoped) Resume(context.Context, api.PauseRequest) (api.ControlReply, error) {
	return api.ControlReply{}, forbidden()
}

// Retry implements api.API.
func (s scoped) Retry(context.Context, api.RetryRequest) (api.SubmitReply, error) {
	return api.SubmitReply{}, forbidden()
}

// Redrive implements api.API.
func (s scoped) Redrive(context.Context, api.RedriveRequest) (api.SubmitReply, error) {
	return api.SubmitReply{}, forbidden()
}

// Fork implements api.API.
func (s scoped) Fork(context.Context, api.ForkRequest) (api.ForkReply, error) {
	return api.ForkReply{}, forbidden()
}

// Diff implements api.API.
func (s scoped) Diff(ctx context.Context, r api.DiffRequest) (api.DiffReply, error) {
	if err := s.own(ctx, r.A); err != nil {
		return api.DiffReply{}, fault.From(err).WithField("a")
	}
	return ownOnly(ctx, s, r.B, r, s.all.Diff)
}

// Signal implements api.API.
func (s scoped) Signal(context.Context, api.SignalRequest) (api.TaskView, error) {
	return api.TaskView{}, forbidden()
}

// Say implements api.API.
func (s scoped) Say(ctx context.Context, r api.SayRequest) (api.TaskView, error) {
	return ownOnly(ctx, s, r.ID, r, s.all.Say)
}

// Resolve implements api.API.
func (s scoped) Resolve(context.Context, api.ResolveRequest) (api.TaskView, error) {
	return api.TaskView{}, forbidden()
}

// Call implements api.API.
func (s scoped) Call(context.Context, api.CallRequest) (api.CallReply, error) {
	return api.CallReply{}, forbidden()
}

// Checkpoint implements api.API. It reads checkpoints, and creates none.
func (s scoped) Checkpoint(ctx context.Context, r api.CheckpointRequest) (api.CheckpointReply, error) {
	if r.Name != "" {
		return api.CheckpointReply{}, forbidden()
	}
	return ownOnly(ctx, s, r.Task, r, s.all.Checkpoint)
}

// Approvals implements api.API.
func (s scoped) Approvals(ctx context.Context, r api.ApprovalsRequest) (api.ApprovalsReply, error) {
	mine := s.client.Name()
	if r.Submitter != "" && r.Submitter != mine {
		return api.ApprovalsReply{Approvals: []api.ApprovalView{}}, nil
	}
	if r.Task != "" {
		if err := s.own(ctx, r.Task); err != nil {
			return api.ApprovalsReply{}, err
		}
	}
	r.Submitter = mine
	reply, err := s.all.Approvals(ctx, r)
	own := []api.ApprovalView{}
	for _, a := range reply.Approvals {
		if a.Submitter == mine {
			own = append(own, a)
		}
	}
	reply.Approvals, reply.Unread = own, 0 // the count includes the tasks of others
	return reply, err
}

// Decide implements api.API.
func (s scoped) Decide(context.Context, api.DecideRequest) (api.ApprovalView, error) {
	return api.ApprovalView{}, forbidden()
}

// Questions implements api.API.
func (s scoped) Questions(ctx context.Context, r api.QuestionsRequest) (api.QuestionsReply, error) {
	if r.Task != "" {
		if err := s.own(ctx, r.Task); err != nil {
			return api.QuestionsReply{}, err
		}
	}
	reply, err := s.all.Questions(ctx, r)
	if err != nil {
		return api.QuestionsReply{}, err
	}
	owns, own := map[events.TaskID]bool{}, []api.QuestionView{}
	for _, q := range reply.Questions {
		if _, known := owns[q.Task]; !known {
			owns[q.Task] = s.own(ctx, q.Task) == nil
		}
		if owns[q.Task] {
			own = append(own, q)
		}
	}
	return api.QuestionsReply{Questions: own}, nil
}

// Answer implements api.API.
func (s scoped) Answer(context.Context, api.AnswerRequest) (api.TaskView, error) {
	return api.TaskView{}, forbidden()
}

// Archive implements api.API.
func (s scoped) Archive(context.Context, api.ArchiveRequest) (api.ArchiveReply, error) {
	return api.ArchiveReply{}, forbidden()
}

// Export implements api.API.
func (s scoped) Export(context.Context, api.ExportRequest) (api.ExportReply, error) {
	return api.ExportReply{}, forbidden()
}

// Import implements api.API.
func (s scoped) Import(context.Context, api.ImportRequest) (api.ImportReply, error) {
	return api.ImportReply{}, forbidden()
}

// Retention implements api.API. Retention and holds are read and changed by those who see all tasks.
func (s scoped) Retention(context.Context, api.RetentionRequest) (api.RetentionReply, error) {
	return api.RetentionReply{}, forbidden()
}

// PlaceHold implements api.API.
func (s scoped) PlaceHold(context.Context, api.HoldRequest) (api.HoldsReply, error) {
	return api.HoldsReply{}, forbidden()
}

// ReleaseHold implements api.API.
func (s scoped) ReleaseHold(context.Context, api.ReleaseHoldRequest) (api.HoldsReply, error) {
	return api.HoldsReply{}, forbidden()
}

// Holds implements api.API.
func (s scoped) Holds(context.Context, api.HoldsRequest) (api.HoldsReply, error) {
	return api.HoldsReply{}, forbidden()
}

// Schedules implements api.API. Schedules are read and changed by those who see all tasks.
func (s scoped) Schedules(context.Context, api.SchedulesRequest) (api.SchedulesReply, error) {
	return api.SchedulesReply{}, forbidden()
}

// PutSchedule implements api.API.
func (s scoped) PutSchedule(context.Context, api.PutScheduleRequest) (api.ScheduleView, error) {
	return api.ScheduleView{}, forbidden()
}

// SteerSchedule implements api.API.
func (s scoped) SteerSchedule(context.Context, api.SteerScheduleRequest) (api.SteerScheduleReply, error) {
	return api.SteerScheduleReply{}, forbidden()
}

// Audit implements api.API. The audit stream is read by those who see all tasks.
func (s scoped) Audit(context.Context, api.AuditRequest) (api.AuditReply, error) {
	return api.AuditReply{}, forbidden()
}

// AuditEntries implements api.API.
func (s scoped) AuditEntries(context.Context, api.AuditEntriesRequest) (api.AuditEntriesReply, error) {
	return api.AuditEntriesReply{}, forbidden()
}

// Hooks implements api.API. Hooks are read and changed by those who see all tasks.
func (s scoped) Hooks(context.Context, api.HooksRequest) (api.HooksReply, error) {
	return api.HooksReply{}, forbidden()
}

// PutHook implements api.API.
func (s scoped) PutHook(context.Context, api.PutHookRequest) (api.HookView, error) {
	return api.HookView{}, forbidden()
}

// SteerHook implements api.API.
func (s scoped) SteerHook(context.Context, api.SteerHookRequest) (api.HookView, error) {
	return api.HookView{}, forbidden()
}

// TestHook implements api.API.
func (s scoped) TestHook(context.Context, api.TestHookRequest) (api.TestHookReply, error) {
	return api.TestHookReply{}, forbidden()
}

// Destinations implements api.API. Destinations are read and changed by those who see all tasks.
func (s scoped) Destinations(context.Context, api.DestinationsRequest) (api.DestinationsReply, error) {
	return api.DestinationsReply{}, forbidden()
}

// PutDestination implements api.API.
func (s scoped) PutDestination(context.Context, api.PutDestinationRequest) (api.DestinationView, error) {
	return api.DestinationView{}, forbidden()
}

// SteerDestination implements api.API.
func (s scoped) SteerDestination(context.Context, api.SteerDestinationRequest) (api.DestinationView, error) {
	return api.DestinationView{}, forbidden()
}

// Files implements api.API.
func (s scoped) Files(ctx context.Context, r api.FilesRequest) (api.FilesReply, error) {
	return ownOnly(ctx, s, r.ID, r, s.all.Files)
}

// File implements api.API.
func (s scoped) File(ctx context.Context, r api.FileRequest) (api.FileReply, error) {
	return ownOnly(ctx, s, r.ID, r, s.all.File)
}

// Value implements api.API.
func (s scoped) Value(ctx context.Context, r api.ValueRequest) (api.ValueReply, error) {
	return ownOnly(ctx, s, r.ID, r, s.all.Value)
}

// Status implements api.API. It leaves out what describes the work of others.
func (s scoped) Status(ctx context.Context, r api.StatusRequest) (api.StatusReply, error) {
	all, err := s.all.Status(ctx, r)
	return api.StatusReply{
		Version: all.Version, Ready: all.Ready, Durability: all.Durability, Syncing: all.Syncing, Store: all.Store, Refusing: all.Refusing,
		StartedAt: all.StartedAt, Queued: map[string]int{}, Workers: []api.WorkerView{}, Paused: []api.PauseView{},
	}, err
}
