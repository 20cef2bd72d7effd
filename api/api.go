// Package api defines the requests to a node, the views that it returns, and the interface API with all methods. The command
// line, the MCP servers and the HTTP server use it. The orchestrator implements API inside the process of the node. Client
// implements API over a connection.
package api

import (
	"context"
)

// API is the interface of a node, for callers in its process and over the bus. All errors are *fault.Error. Methods accept full
// ids only; Find resolves a prefix to an id.
type API interface {
	Tasks
	Schedules
	Audits
	Hooks
	Destinations
	Files
	Stores
}

// Files are the methods about the files in the workspaces of tasks. Errors of both: NOT_FOUND for an unknown task or path, and with the
// reason NO_WORKSPACE or WORKSPACE_ELSEWHERE for a workspace that is not there; GONE for one that was removed; INVALID_FORMAT for a path
// that is none, leads through a link or is of another kind; PROTECTED_PATH or FORBIDDEN for a file whose content is not shown.
type Files interface {
	// Files lists a folder of the workspace of a task, page by page.
	Files(ctx context.Context, r FilesRequest) (FilesReply, error)
	// File reads a part of a file in the workspace of a task, with secrets replaced.
	File(ctx context.Context, r FileRequest) (FileReply, error)
}

// Tasks are the methods about tasks and the node.
type Tasks interface {
	// Submit makes a task durable and returns its id (S0-034, X-04). Errors: CONFLICT if the idempotency key was used with a
	// different input, INVALID_PLAN, VALIDATION_ERROR, SECRET_DETECTED, DISK_FULL.
	Submit(ctx context.Context, r SubmitRequest) (SubmitReply, error)
	// SubmitBatch submits many tasks at once. The reply has one item for each task, in the same order.
	SubmitBatch(ctx context.Context, r SubmitBatchRequest) (SubmitBatchReply, error)
	// Find resolves a full id, a unique prefix or "@last" to an id: NOT_FOUND, NOT_UNIQUE.
	Find(ctx context.Context, r FindRequest) (FindReply, error)
	// Get returns the state of a task.
	Get(ctx context.Context, r GetRequest) (TaskView, error)
	// Result waits until the task has ended, at most r.Wait, and returns its state. It returns STATE_NOT_ALLOWED with the reason
	// IMPORTED instead of waiting for an imported task that had not ended.
	Result(ctx context.Context, r ResultRequest) (ResultReply, error)
	// List returns tasks, the newest first, page by page.
	List(ctx context.Context, r ListRequest) (ListReply, error)
	// Queue returns the open tasks by priority, then age, and counts all of them.
	Queue(ctx context.Context, r QueueRequest) (QueueReply, error)
	// Watch waits for commits after a revision, at most r.Wait.
	Watch(ctx context.Context, r WatchRequest) (WatchReply, error)
	// History returns the commits of a task, page by page.
	History(ctx context.Context, r HistoryRequest) (HistoryReply, error)
	// Value returns a part of a large value of a task, which its history has only by its reference. Errors: NOT_FOUND for an unknown task,
	// a reference that the task does not have, and a value that is lost; VALIDATION_ERROR for an offset behind the end.
	Value(ctx context.Context, r ValueRequest) (ValueReply, error)
	// Replay computes the state of a task from its recorded history, without calling tools, and compares it with the state in the
	// node.
	Replay(ctx context.Context, r ReplayRequest) (ReplayReply, error)
	// Explain returns why a task does not move, one sentence per cause.
	Explain(ctx context.Context, r GetRequest) (ExplainReply, error)
	// Conversation returns turns of an agent step with its model, page by page, at any revision. Errors: NOT_FOUND for an unknown step or
	// revision, NOT_UNIQUE without a step for a task with several agent steps, VALIDATION_ERROR for another step.
	Conversation(ctx context.Context, r ConversationRequest) (ConversationReply, error)
	// Costs returns what requests to models cost, in rows, and the state of the budgets of the node. Errors: VALIDATION_ERROR for an
	// unknown kind of rows.
	Costs(ctx context.Context, r CostsRequest) (CostsReply, error)
	// Cancel ends a task, its children and its running calls.
	Cancel(ctx context.Context, r CancelRequest) (TaskView, error)
	// Pause keeps a task, a queue, a tool or the whole node from starting calls. Resume ends the pause.
	Pause(ctx context.Context, r PauseRequest) (ControlReply, error)
	Resume(ctx context.Context, r PauseRequest) (ControlReply, error)
	// Retry submits a new task that continues a failed or cancelled one. It reuses the recorded results of succeeded steps.
	Retry(ctx context.Context, r RetryRequest) (SubmitReply, error)
	// Redrive continues a task of the dead letter (ListRequest.Dead). It works like Retry, but starts at most one new task,
	// however often it is called. A task that was retried before is not started again.
	Redrive(ctx context.Context, r RedriveRequest) (SubmitReply, error)
	// Fork submits a new task that stands on recorded results of another one, in any state, up to a cut, and calls tools after it.
	// Errors: NOT_FOUND for an unknown step or revision, VALIDATION_ERROR for inputs that the plan does not accept, and
	// STATE_NOT_ALLOWED with ReasonRepeats if the fork would repeat effects that the request does not allow.
	Fork(ctx context.Context, r ForkRequest) (ForkReply, error)
	// Diff compares two tasks: plans, inputs, steps, outputs and times.
	Diff(ctx context.Context, r DiffRequest) (DiffReply, error)
	// Signal delivers data to a step that waits for a signal of this name, now or later.
	Signal(ctx context.Context, r SignalRequest) (TaskView, error)
	// Say says something to an agent. Its model hears it in its next turn. It returns STATE_NOT_ALLOWED if no agent works on the step.
	Say(ctx context.Context, r SayRequest) (TaskView, error)
	// Resolve sets the outcome of a step in doubt.
	Resolve(ctx context.Context, r ResolveRequest) (TaskView, error)
	// Call runs one tool inside an existing task, if the gate of the tool allows the state of the task.
	Call(ctx context.Context, r CallRequest) (CallReply, error)
	// Checkpoint creates, lists or reads checkpoints of a task.
	Checkpoint(ctx context.Context, r CheckpointRequest) (CheckpointReply, error)
	// Approvals lists approvals. Decide decides about an approval (M-3). Errors of Decide: NOT_FOUND, CONFLICT if the approval was
	// decided or has expired, FORBIDDEN if the actor may not decide, VALIDATION_ERROR for an invalid form.
	Approvals(ctx context.Context, r ApprovalsRequest) (ApprovalsReply, error)
	Decide(ctx context.Context, r DecideRequest) (ApprovalView, error)
	// Questions lists the questions of running calls. Answer answers a question. Errors of Answer: NOT_FOUND, CONFLICT if the
	// question was answered or has expired, VALIDATION_ERROR for an invalid answer.
	Questions(ctx context.Context, r QuestionsRequest) (QuestionsReply, error)
	Answer(ctx context.Context, r AnswerRequest) (TaskView, error)
	// Archive starts to move finished tasks to the archive, or returns the progress of that move.
	Archive(ctx context.Context, r ArchiveRequest) (ArchiveReply, error)
	// Export returns an export file with whole histories, part by part, see ExportRequest. Errors: NOT_FOUND for an unknown task or a
	// file that the node no longer has, SECRET_DETECTED if a history contains a secret of the node, DATA_LOSS.
	Export(ctx context.Context, r ExportRequest) (ExportReply, error)
	// Import receives an export file, part by part, verifies it and stores its tasks for reading, see ImportRequest. Errors: those of
	// export.Verify, CONFLICT if a task exists with another history, GONE if it was removed.
	Import(ctx context.Context, r ImportRequest) (ImportReply, error)
	// Retention says what retention would remove now, and which rule says so.
	Retention(ctx context.Context, r RetentionRequest) (RetentionReply, error)
	// PlaceHold places a hold on tasks, which then stay whatever the rules of retention say. It changes nothing for a task that is held
	// for the same reason. Errors: NOT_FOUND, GONE for a task that was removed, QUOTA_EXCEEDED, VALIDATION_ERROR; then no task is held.
	PlaceHold(ctx context.Context, r HoldRequest) (HoldsReply, error)
	// ReleaseHold ends holds and returns them. NOT_FOUND if a task has no such hold; then none ends.
	ReleaseHold(ctx context.Context, r ReleaseHoldRequest) (HoldsReply, error)
	// Holds returns the holds of the node, page by page.
	Holds(ctx context.Context, r HoldsRequest) (HoldsReply, error)
	// Status describes the node.
	Status(ctx context.Context, r StatusRequest) (StatusReply, error)
}
