// Package api is what every face of orch asks of a node: requests, views, and the interface that takes them. The owner of tasks
// implements it in the process of the node; a client elsewhere has it over a connection.
package api

import (
	"context"
)

// API is what every face of orch calls, in the process of the node or over the bus. All errors are
// *fault.Error. Ids are accepted in full only; Resolve finds the id for a prefix.
type API interface {
	// Submit makes a task durable and returns its id (S0-034, X-04). CONFLICT when the idempotency key
	// was used with another input, INVALID_PLAN, VALIDATION_ERROR, SECRET_DETECTED, DISK_FULL.
	Submit(ctx context.Context, r SubmitRequest) (SubmitReply, error)
	// SubmitBatch submits many tasks at once; each has its own answer, in the same order.
	SubmitBatch(ctx context.Context, r SubmitBatchRequest) (SubmitBatchReply, error)
	// Find resolves a full id, a unique prefix or "@last" to an id: NOT_FOUND, NOT_UNIQUE.
	Find(ctx context.Context, r FindRequest) (FindReply, error)
	// Get returns the state of a task.
	Get(ctx context.Context, r GetRequest) (TaskView, error)
	// Result waits until the task is over, at most r.Wait, and returns how it stands then.
	Result(ctx context.Context, r ResultRequest) (ResultReply, error)
	// List returns tasks, the newest first, page by page.
	List(ctx context.Context, r ListRequest) (ListReply, error)
	// Queue returns the open tasks by priority, then age, and counts all of them.
	Queue(ctx context.Context, r QueueRequest) (QueueReply, error)
	// Watch waits for commits after a revision, at most r.Wait.
	Watch(ctx context.Context, r WatchRequest) (WatchReply, error)
	// History returns the commits of a task, page by page.
	History(ctx context.Context, r HistoryRequest) (HistoryReply, error)
	// Replay folds the recorded history again, calls nothing, and compares with the live state.
	Replay(ctx context.Context, r ReplayRequest) (ReplayReply, error)
	// Explain says in one sentence per cause why a task does not move.
	Explain(ctx context.Context, r GetRequest) (ExplainReply, error)
	// Cancel ends a task, its children and its running calls.
	Cancel(ctx context.Context, r CancelRequest) (TaskView, error)
	// Pause keeps a task, a queue, a tool or the whole node from starting calls; Resume lets it go on.
	Pause(ctx context.Context, r PauseRequest) (ControlReply, error)
	Resume(ctx context.Context, r PauseRequest) (ControlReply, error)
	// Retry starts a failed or cancelled task anew, with the recorded results of its succeeded steps.
	Retry(ctx context.Context, r RetryRequest) (SubmitReply, error)
	// Redrive lets a task of the dead letter go on: it starts a failed one anew like Retry, but once, however
	// often it is asked for; a task that was retried before is not started again.
	Redrive(ctx context.Context, r RedriveRequest) (SubmitReply, error)
	// Signal hands data to a step that waits for it, now or later.
	Signal(ctx context.Context, r SignalRequest) (TaskView, error)
	// Resolve decides about a step in doubt.
	Resolve(ctx context.Context, r ResolveRequest) (TaskView, error)
	// Call runs one tool inside an existing task, in whatever state its gate allows.
	Call(ctx context.Context, r CallRequest) (CallReply, error)
	// Checkpoint creates, lists or reads checkpoints of a task.
	Checkpoint(ctx context.Context, r CheckpointRequest) (CheckpointReply, error)
	// Approvals lists approvals, Decide decides about one (M-3): NOT_FOUND, CONFLICT when it is over,
	// FORBIDDEN for who may not, VALIDATION_ERROR for a form that does not fit.
	Approvals(ctx context.Context, r ApprovalsRequest) (ApprovalsReply, error)
	Decide(ctx context.Context, r DecideRequest) (ApprovalView, error)
	// Questions lists what calls ask while they run, Answer answers one: NOT_FOUND, CONFLICT when it is answered
	// or expired, VALIDATION_ERROR for an answer that does not fit.
	Questions(ctx context.Context, r QuestionsRequest) (QuestionsReply, error)
	Answer(ctx context.Context, r AnswerRequest) (TaskView, error)
	// Archive begins to move finished tasks to the archive, or says how that stands.
	Archive(ctx context.Context, r ArchiveRequest) (ArchiveReply, error)
	// Status describes the node.
	Status(ctx context.Context, r StatusRequest) (StatusReply, error)
}
