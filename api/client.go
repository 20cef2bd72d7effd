package api

import "context"

// Transport sends a request to a node and fills in the reply. All errors are *fault.Error.
type Transport func(ctx context.Context, c Call) error

// Client implements API for a node that is reached over a transport.
type Client struct {
	transport Transport
}

var _ API = Client{}

// NewClient returns a client that uses a transport.
func NewClient(transport Transport) Client { return Client{transport} }

// Submit implements API.
func (c Client) Submit(ctx context.Context, r SubmitRequest) (SubmitReply, error) {
	return submit.send(ctx, c.transport, r)
}

// SubmitBatch implements API.
func (c Client) SubmitBatch(ctx context.Context, r SubmitBatchRequest) (SubmitBatchReply, error) {
	return submitBatch.send(ctx, c.transport, r)
}

// Find implements API.
func (c Client) Find(ctx context.Context, r FindRequest) (FindReply, error) {
	return find.send(ctx, c.transport, r)
}

// Get implements API.
func (c Client) Get(ctx context.Context, r GetRequest) (TaskView, error) {
	return get.send(ctx, c.transport, r)
}

// Result implements API.
func (c Client) Result(ctx context.Context, r ResultRequest) (ResultReply, error) {
	return result.send(ctx, c.transport, r)
}

// List implements API.
func (c Client) List(ctx context.Context, r ListRequest) (ListReply, error) {
	return list.send(ctx, c.transport, r)
}

// Queue implements API.
func (c Client) Queue(ctx context.Context, r QueueRequest) (QueueReply, error) {
	return queue.send(ctx, c.transport, r)
}

// Watch implements API.
func (c Client) Watch(ctx context.Context, r WatchRequest) (WatchReply, error) {
	return watch.send(ctx, c.transport, r)
}

// History implements API.
func (c Client) History(ctx context.Context, r HistoryRequest) (HistoryReply, error) {
	return history.send(ctx, c.transport, r)
}

// Replay implements API.
func (c Client) Replay(ctx context.Context, r ReplayRequest) (ReplayReply, error) {
	return replay.send(ctx, c.transport, r)
}

// Explain implements API.
func (c Client) Explain(ctx context.Context, r GetRequest) (ExplainReply, error) {
	return explain.send(ctx, c.transport, r)
}

// Conversation implements API.
func (c Client) Conversation(ctx context.Context, r ConversationRequest) (ConversationReply, error) {
	return conversation.send(ctx, c.transport, r)
}

// Costs implements API.
func (c Client) Costs(ctx context.Context, r CostsRequest) (CostsReply, error) {
	return cost.send(ctx, c.transport, r)
}

// Cancel implements API.
func (c Client) Cancel(ctx context.Context, r CancelRequest) (TaskView, error) {
	return cancel.send(ctx, c.transport, r)
}

// Pause implements API.
func (c Client) Pause(ctx context.Context, r PauseRequest) (ControlReply, error) {
	return pause.send(ctx, c.transport, r)
}

// Resume implements API.
func (c Client) Resume(ctx context.Context, r PauseRequest) (ControlReply, error) {
	return resume.send(ctx, c.transport, r)
}

// Retry implements API.
func (c Client) Retry(ctx context.Context, r RetryRequest) (SubmitReply, error) {
	return retry.send(ctx, c.transport, r)
}

// Redrive implements API.
func (c Client) Redrive(ctx context.Context, r RedriveRequest) (SubmitReply, error) {
	return redrive.send(ctx, c.transport, r)
}

// Fork implements API.
func (c Client) Fork(ctx context.Context, r ForkRequest) (ForkReply, error) {
	return fork.send(ctx, c.transport, r)
}

// Diff implements API.
func (c Client) Diff(ctx context.Context, r DiffRequest) (DiffReply, error) {
	return diff.send(ctx, c.transport, r)
}

// Signal implements API.
func (c Client) Signal(ctx context.Context, r SignalRequest) (TaskView, error) {
	return signal.send(ctx, c.transport, r)
}

// Say implements API.
func (c Client) Say(ctx context.Context, r SayRequest) (TaskView, error) {
	return say.send(ctx, c.transport, r)
}

// Resolve implements API.
func (c Client) Resolve(ctx context.Context, r ResolveRequest) (TaskView, error) {
	return resolve.send(ctx, c.transport, r)
}

// Call implements API.
func (c Client) Call(ctx context.Context, r CallRequest) (CallReply, error) {
	return call.send(ctx, c.transport, r)
}

// Checkpoint implements API.
func (c Client) Checkpoint(ctx context.Context, r CheckpointRequest) (CheckpointReply, error) {
	return checkpoint.send(ctx, c.transport, r)
}

// Approvals implements API.
func (c Client) Approvals(ctx context.Context, r ApprovalsRequest) (ApprovalsReply, error) {
	return approvals.send(ctx, c.transport, r)
}

// Decide implements API.
func (c Client) Decide(ctx context.Context, r DecideRequest) (ApprovalView, error) {
	return decide.send(ctx, c.transport, r)
}

// Questions implements API.
func (c Client) Questions(ctx context.Context, r QuestionsRequest) (QuestionsReply, error) {
	return questions.send(ctx, c.transport, r)
}

// Answer implements API.
func (c Client) Answer(ctx context.Context, r AnswerRequest) (TaskView, error) {
	return answer.send(ctx, c.transport, r)
}

// Archive implements API.
func (c Client) Archive(ctx context.Context, r ArchiveRequest) (ArchiveReply, error) {
	return archive.send(ctx, c.transport, r)
}

// Export implements API.
func (c Client) Export(ctx context.Context, r ExportRequest) (ExportReply, error) {
	return exportFile.send(ctx, c.transport, r)
}

// Import implements API.
func (c Client) Import(ctx context.Context, r ImportRequest) (ImportReply, error) {
	return importFile.send(ctx, c.transport, r)
}

// Schedules implements API.
func (c Client) Schedules(ctx context.Context, r SchedulesRequest) (SchedulesReply, error) {
	return listSchedules.send(ctx, c.transport, r)
}

// PutSchedule implements API.
func (c Client) PutSchedule(ctx context.Context, r PutScheduleRequest) (ScheduleView, error) {
	return putSchedule.send(ctx, c.transport, r)
}

// SteerSchedule implements API.
func (c Client) SteerSchedule(ctx context.Context, r SteerScheduleRequest) (SteerScheduleReply, error) {
	return steerSchedule.send(ctx, c.transport, r)
}

// Audit implements API.
func (c Client) Audit(ctx context.Context, r AuditRequest) (AuditReply, error) {
	return listActs.send(ctx, c.transport, r)
}

// AuditEntries implements API.
func (c Client) AuditEntries(ctx context.Context, r AuditEntriesRequest) (AuditEntriesReply, error) {
	return auditEntries.send(ctx, c.transport, r)
}

// Hooks implements API.
func (c Client) Hooks(ctx context.Context, r HooksRequest) (HooksReply, error) {
	return listHooks.send(ctx, c.transport, r)
}

// PutHook implements API.
func (c Client) PutHook(ctx context.Context, r PutHookRequest) (HookView, error) {
	return putHook.send(ctx, c.transport, r)
}

// SteerHook implements API.
func (c Client) SteerHook(ctx context.Context, r SteerHookRequest) (HookView, error) {
	return steerHook.send(ctx, c.transport, r)
}

// TestHook implements API.
func (c Client) TestHook(ctx context.Context, r TestHookRequest) (TestHookReply, error) {
	return testHook.send(ctx, c.transport, r)
}

// Retention implements API.
func (c Client) Retention(ctx context.Context, r RetentionRequest) (RetentionReply, error) {
	return retained.send(ctx, c.transport, r)
}

// PlaceHold implements API.
func (c Client) PlaceHold(ctx context.Context, r HoldRequest) (HoldsReply, error) {
	return hold.send(ctx, c.transport, r)
}

// ReleaseHold implements API.
func (c Client) ReleaseHold(ctx context.Context, r ReleaseHoldRequest) (HoldsReply, error) {
	return releaseHold.send(ctx, c.transport, r)
}

// Holds implements API.
func (c Client) Holds(ctx context.Context, r HoldsRequest) (HoldsReply, error) {
	return listHolds.send(ctx, c.transport, r)
}

// Status implements API.
func (c Client) Status(ctx context.Context, r StatusRequest) (StatusReply, error) {
	return status.send(ctx, c.transport, r)
}

// Destinations implements API.
func (c Client) Destinations(ctx context.Context, r DestinationsRequest) (DestinationsReply, error) {
	return listDestinations.send(ctx, c.transport, r)
}

// PutDestination implements API.
func (c Client) PutDestination(ctx context.Context, r PutDestinationRequest) (DestinationView, error) {
	return putDestination.send(ctx, c.transport, r)
}

// SteerDestination implements API.
func (c Client) SteerDestination(ctx context.Context, r SteerDestinationRequest) (DestinationView, error) {
	return steerDestination.send(ctx, c.transport, r)
}

// Files implements API.
func (c Client) Files(ctx context.Context, r FilesRequest) (FilesReply, error) {
	return listFiles.send(ctx, c.transport, r)
}

// File implements API.
func (c Client) File(ctx context.Context, r FileRequest) (FileReply, error) {
	return readFile.send(ctx, c.transport, r)
}

// Value implements API.
func (c Client) Value(ctx context.Context, r ValueRequest) (ValueReply, error) {
	return readValue.send(ctx, c.transport, r)
}
