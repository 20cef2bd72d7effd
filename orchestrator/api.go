package orchestrator

import (
	"context"
	"encoding/json"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
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

// SubmitRequest asks for a new task.
type SubmitRequest struct {
	// ID is chosen by the client so that a repeated request is the same task; empty lets the node
	// choose.
	ID events.TaskID `json:"id,omitempty"`
	// Plan is the plan as normalised JSON, or any plan text without references to files.
	Plan   json.RawMessage `json:"plan"`
	Inputs json.RawMessage `json:"inputs,omitempty"`
	// Name, Labels, Priority, Queue and IdempotencyKey override those of the plan.
	Name           string            `json:"name,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
	Priority       string            `json:"priority,omitempty"`
	Queue          string            `json:"queue,omitempty"`
	IdempotencyKey string            `json:"idempotency_key,omitempty"`
	// IdempotencyScope is how long the task holds that key: forever, until_end, or a duration such as 24h since it was submitted.
	// Empty means what the plan says, else for ever, unless the task fails or is cancelled.
	IdempotencyScope string `json:"idempotency_scope,omitempty"`
	// KeysOf is whose idempotency keys count, such as agent:ci: somebody who sees its own tasks alone has keys of its own.
	// Empty means those that all who see every task have in common.
	KeysOf    string          `json:"keys_of,omitempty"`
	DependsOn []events.TaskID `json:"depends_on,omitempty"`
	// Delay puts the first step off.
	Delay time.Duration `json:"delay,omitempty"`
	// Client is what the program that submits can do for the task.
	Client *events.Client `json:"client,omitempty"`
	// Session is the session in which the task is asked for, with the same actor; a task whose ID it is becomes a session
	// itself. Shares lets the calls of the task work in the context of the session.
	Session events.TaskID `json:"session,omitempty"`
	Shares  bool          `json:"shares,omitempty"`
	// Writes says how a session writes in its project: ask for each call, session for one question, allow for none. "" is ask.
	Writes string `json:"writes,omitempty"`
	// For is the call that the task is submitted for: the actor is the agent that holds it. An agent that holds one call alone need
	// not name it.
	For *work.Ref `json:"for,omitempty"`
	// Tools are the only tools that the task and its children may call, whatever the plan says; empty for any.
	Tools []string `json:"tools,omitempty"`
	// Within says what the `allow` of the plan opens at most: only what each of them covers.
	Within []events.Allow `json:"within,omitempty"`
	// NoSecrets refuses a plan with secrets: what asks is a program that must not have them used.
	NoSecrets bool `json:"no_secrets,omitempty"`
	// Actor is who asks, such as "user:ada".
	Actor string `json:"actor,omitempty"`
	// Cause is the id of the request that the task is made for; it stands in the first commit.
	Cause string `json:"cause,omitempty"`
	// Via is the command by which a person asks for the task, such as "submit"; what has none is never their @last.
	Via string `json:"via,omitempty"`
}

// SubmitReply answers Submit.
type SubmitReply struct {
	ID    events.TaskID      `json:"id"`
	State statemachine.State `json:"state"`
	// Existing is true when the idempotency key or the id had made the task before.
	Existing bool `json:"existing,omitempty"`
	// Reused counts the steps whose recorded results were taken over (Retry).
	Reused int `json:"reused,omitempty"`
}

// SubmitBatchRequest asks for many tasks.
type SubmitBatchRequest struct {
	Tasks []SubmitRequest `json:"tasks"`
}

// SubmitBatchReply answers SubmitBatch.
type SubmitBatchReply struct {
	Tasks []SubmitBatchItem `json:"tasks"`
}

// SubmitBatchItem is the answer for one task of a batch.
type SubmitBatchItem struct {
	SubmitReply

	Error *fault.Error `json:"error,omitempty"`
}

// FindRequest asks for an id.
type FindRequest struct {
	// Text is an id, a unique prefix of one (with or without TASK_), or @last.
	Text string `json:"text"`
	// Actor is who asks: their @last is the newest task that they have submitted by a command. Empty for that of anybody,
	// however it was submitted.
	Actor string `json:"actor,omitempty"`
}

// FindReply answers Find.
type FindReply struct {
	ID events.TaskID `json:"id"`
}

// GetRequest names a task.
type GetRequest struct {
	ID events.TaskID `json:"id"`
}

// TaskView is a task as clients see it.
type TaskView struct {
	ID       events.TaskID      `json:"id"`
	Name     string             `json:"name"`
	Summary  string             `json:"summary,omitempty"`
	State    statemachine.State `json:"state"`
	Reason   string             `json:"reason,omitempty"`
	Block    string             `json:"block,omitempty"`
	Paused   bool               `json:"paused,omitempty"`
	Labels   map[string]string  `json:"labels,omitempty"`
	Priority string             `json:"priority"`
	Queue    string             `json:"queue,omitempty"`
	Parent   events.TaskID      `json:"parent,omitempty"`
	// ParentStep is the step of the parent that the task is for, Agent the type of agent that it is a child task of.
	ParentStep string        `json:"parent_step,omitempty"`
	Agent      string        `json:"agent,omitempty"`
	RetryOf    events.TaskID `json:"retry_of,omitempty"`
	// Requestor is who submitted the task; for a part of another task, "task:" and its id.
	Requestor string `json:"requestor,omitempty"`
	// Session is the one in which the task was asked for, its own id for a session.
	Session events.TaskID `json:"session,omitempty"`
	// DependsOn lists the dependencies that are not done yet.
	DependsOn []events.TaskID `json:"depends_on,omitempty"`
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`
	EndedAt   *time.Time      `json:"ended_at,omitempty"`
	Deadline  *time.Time      `json:"deadline,omitempty"`
	Inputs    json.RawMessage `json:"inputs,omitempty"`
	Steps     []StepView      `json:"steps"`
	// Questions are those of running calls that are open.
	Questions   []QuestionView   `json:"questions,omitempty"`
	Checkpoints []CheckpointView `json:"checkpoints,omitempty"`
	Output      json.RawMessage  `json:"output,omitempty"`
	Error       *fault.Error     `json:"error,omitempty"`
	Rev         uint64           `json:"rev"`
	Archived    bool             `json:"archived,omitempty"`
}

// StepView is a step as clients see it.
type StepView struct {
	Key   string                 `json:"key"`
	Kind  string                 `json:"kind"`
	State statemachine.StepState `json:"state"`
	Tool  string                 `json:"tool,omitempty"`
	// Attempt is the number of the newest attempt, Tries counts those that the retry rule counts: a call that was
	// only put aside for an approval or a question was not tried by that.
	// Title is what an agent is to do, in a line.
	Title   string `json:"title,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Tries   int    `json:"tries,omitempty"`
	// Rounds counts the results so far that were not what the plan waits for.
	Rounds int `json:"rounds,omitempty"`
	// Lost counts the attempts that ended with their worker.
	Lost   int    `json:"lost,omitempty"`
	Worker string `json:"worker,omitempty"`
	// For are the agents that may take the call; nil for one that workers execute.
	For   *events.Agents `json:"for,omitempty"`
	Since *time.Time     `json:"since,omitempty"`
	// Due is when a retry, a timer or a timeout fires.
	Due      *time.Time      `json:"due,omitempty"`
	Signal   string          `json:"signal,omitempty"`
	Approval string          `json:"approval,omitempty"`
	Child    events.TaskID   `json:"child,omitempty"`
	Duration time.Duration   `json:"duration,omitempty"`
	Progress *work.Progress  `json:"progress,omitempty"`
	Output   json.RawMessage `json:"output,omitempty"`
	Error    *fault.Error    `json:"error,omitempty"`
	Reason   string          `json:"reason,omitempty"`
}

// CheckpointView is a checkpoint in the list of its task.
type CheckpointView struct {
	ID   string    `json:"id"`
	Name string    `json:"name"`
	At   time.Time `json:"at"`
}

// ResultRequest asks for the end of a task.
type ResultRequest struct {
	ID   events.TaskID `json:"id"`
	Wait time.Duration `json:"wait,omitempty"`
	// Attend answers as well when the task waits for people: for an approval, or for an answer (M-1).
	Attend bool `json:"attend,omitempty"`
	// SizeOnly leaves out an output of events.MaxInline or more, of which the reply has the size alone.
	SizeOnly bool `json:"size_only,omitempty"`
}

// ResultReply is how a task stands.
type ResultReply struct {
	ID    events.TaskID      `json:"id"`
	State statemachine.State `json:"state"`
	Over  bool               `json:"over"`
	// Waits says that the task waits for people.
	Waits  bool            `json:"waits,omitempty"`
	Reason string          `json:"reason,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
	// Size is that of an output that was left out, in bytes.
	Size  int64        `json:"size,omitempty"`
	Error *fault.Error `json:"error,omitempty"`
}

// WatchRequest asks for what comes after a revision; it is how a watcher resumes without a gap.
type WatchRequest struct {
	ID    events.TaskID `json:"id"`
	After uint64        `json:"after"`
	// Seen is WatchReply.Version of the answer before; a change of progress answers as well.
	Seen uint64        `json:"seen,omitempty"`
	Wait time.Duration `json:"wait,omitempty"`
	// Limit is 1 to 500 commits, default 100.
	Limit int `json:"limit,omitempty"`
	// Output asks for what the programs of running calls write, from after the piece Heard on (Output.No).
	Output bool   `json:"output,omitempty"`
	Heard  uint64 `json:"heard,omitempty"`
}

// Output is a piece of what the programs of a running call write. It is in no history.
type Output struct {
	work.Output

	// No grows from piece to piece of a task.
	No      uint64 `json:"no"`
	Step    string `json:"step"`
	Attempt int    `json:"attempt"`
}

// WatchReply holds the next commits of a task, each exactly once and in order (I8).
type WatchReply struct {
	Commits []CommitView `json:"commits,omitempty"`
	// Progress is that of running steps, by key.
	Progress map[string]work.Progress `json:"progress,omitempty"`
	// Output are the pieces that are new, as WatchRequest.Output asks. Who asks seldom misses some.
	Output  []Output           `json:"output,omitempty"`
	Version uint64             `json:"version"`
	State   statemachine.State `json:"state"`
	// Over is true when the task is over and no further commit will come.
	Over bool `json:"over"`
}

// CommitView is a commit as clients see it.
type CommitView struct {
	Seq    uint64         `json:"seq"`
	Rev    uint64         `json:"rev"`
	At     time.Time      `json:"at"`
	Actor  string         `json:"actor,omitempty"`
	Cause  string         `json:"cause,omitempty"`
	Hash   string         `json:"hash"`
	Prev   string         `json:"prev,omitempty"`
	Events []events.Event `json:"events"`
}

// HistoryRequest asks for commits from revision From (1 is the first).
type HistoryRequest struct {
	ID    events.TaskID `json:"id"`
	From  uint64        `json:"from,omitempty"`
	Limit int           `json:"limit,omitempty"`
}

// HistoryReply is a page of commits; Next is the From of the following page, 0 at the end.
type HistoryReply struct {
	Commits []CommitView `json:"commits"`
	Next    uint64       `json:"next,omitempty"`
}

// ReplayRequest asks for a replay, up to revision At when that is set.
type ReplayRequest struct {
	ID events.TaskID `json:"id"`
	At uint64        `json:"at,omitempty"`
}

// ReplayReply is what a replay found.
type ReplayReply struct {
	Task *statemachine.Task `json:"task"`
	// Commits and Events were folded; no tool was called.
	Commits int `json:"commits"`
	Events  int `json:"events"`
	// Chain is true when every hash link holds; otherwise Replay is an error.
	Chain bool `json:"chain"`
	// Live says whether the fold equals the state that the node holds, byte for byte; it is nil for a
	// replay up to an earlier revision.
	Live *bool `json:"live,omitempty"`
	// Took is the time of reading and folding.
	Took time.Duration `json:"took"`
}

// ExplainReply holds one sentence per cause; the first is the most important.
type ExplainReply struct {
	ID     events.TaskID      `json:"id"`
	State  statemachine.State `json:"state"`
	Causes []Cause            `json:"causes"`
}

// Cause is one reason why a task does not move.
type Cause struct {
	// Kind is stable for programs: over, dependency, paused, node_paused, queue_paused, tool_paused,
	// concurrency, delay, retry, timer, signal, child, running, in_doubt, no_worker, queued, approval,
	// question, blocked, cancelling, store, deadline, budget. A call whose worker is silent, or was running before the node restarted, is
	// running as well; its sentence says when the call is given up.
	Kind     string `json:"kind"`
	Step     string `json:"step,omitempty"`
	Sentence string `json:"sentence"`
	// Next is a command that helps, if there is one.
	Next string `json:"next,omitempty"`
	// Approval is the approval that is waited for, Task the child task.
	Approval string        `json:"approval,omitempty"`
	Task     events.TaskID `json:"task,omitempty"`
}

// CancelRequest cancels a task.
type CancelRequest struct {
	ID     events.TaskID `json:"id"`
	Reason string        `json:"reason,omitempty"`
	Actor  string        `json:"actor,omitempty"`
}

// PauseRequest pauses or resumes exactly one of a task, a queue, a tool, or the node.
type PauseRequest struct {
	ID    events.TaskID `json:"id,omitempty"`
	Queue string        `json:"queue,omitempty"`
	Tool  string        `json:"tool,omitempty"`
	Node  bool          `json:"node,omitempty"`
	// Checkpoint is one of the task that its resume restores first.
	Checkpoint string `json:"checkpoint,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Actor      string `json:"actor,omitempty"`
}

// ControlReply lists what is paused on the node, and the task if the request named one.
type ControlReply struct {
	Paused []Hold    `json:"paused"`
	Task   *TaskView `json:"task,omitempty"`
	// Restored is set for a resume at a checkpoint.
	Restored *RestoredView `json:"restored,omitempty"`
}

// Hold is one pause of the node.
type Hold struct {
	// Kind is node, queue or tool.
	Kind   string    `json:"kind"`
	Name   string    `json:"name,omitempty"`
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at"`

	// passing holds end with the process: they are those of its configuration.
	passing bool
}

// RetryRequest asks for a new task that goes on where another one failed.
type RetryRequest struct {
	ID events.TaskID `json:"id"`
	// From is the step to run again together with all that needs it; empty means every step that ended
	// badly, with all that needs it, and those that never began.
	From  string `json:"from,omitempty"`
	Actor string `json:"actor,omitempty"`
	// Via is that of SubmitRequest.
	Via string `json:"via,omitempty"`
}

// RedriveRequest names a task of the dead letter.
type RedriveRequest struct {
	ID    events.TaskID `json:"id"`
	Actor string        `json:"actor,omitempty"`
}

// SignalRequest hands data to a waiting step.
type SignalRequest struct {
	ID    events.TaskID   `json:"id"`
	Name  string          `json:"name"`
	Data  json.RawMessage `json:"data,omitempty"`
	Actor string          `json:"actor,omitempty"`
}

// ResolveRequest decides about a step in doubt.
type ResolveRequest struct {
	ID   events.TaskID `json:"id"`
	Step string        `json:"step"`
	// As is succeeded, failed or retry.
	As     string          `json:"as"`
	Output json.RawMessage `json:"output,omitempty"`
	Reason string          `json:"reason,omitempty"`
	Actor  string          `json:"actor,omitempty"`
}

// CallRequest asks for one call of a tool inside a task.
type CallRequest struct {
	ID    events.TaskID   `json:"id"`
	Tool  string          `json:"tool"`
	Args  json.RawMessage `json:"args,omitempty"`
	Wait  time.Duration   `json:"wait,omitempty"`
	Actor string          `json:"actor,omitempty"`
}

// CallReply is the end of a call, or how it stands when the wait was over.
type CallReply struct {
	Step   string                 `json:"step"`
	State  statemachine.StepState `json:"state"`
	Output json.RawMessage        `json:"output,omitempty"`
	Error  *fault.Error           `json:"error,omitempty"`
	// Questions are those that the call waits for; it goes on by itself when they are answered.
	Questions []QuestionView `json:"questions,omitempty"`
}

// ArchiveRequest begins a run that archives the tasks that ended longer ago than Age. It goes on in the background, also
// after a restart of the node; when one goes on already, that one does what both ask for.
type ArchiveRequest struct {
	Age time.Duration `json:"age"`
	// Look begins nothing: it asks how the newest run stands.
	Look bool `json:"look,omitempty"`
	// Wait is how long to wait for the end of the run, at most 30 s.
	Wait time.Duration `json:"wait,omitempty"`
}

// ArchiveReply says how a run stands.
type ArchiveReply struct {
	// Archived counts the tasks that were archived since the run began or, after a restart, since that.
	Archived int `json:"archived"`
	// Left counts those that were in use or could not be archived.
	Left int `json:"left,omitempty"`
	// Running is set as long as the run goes on.
	Running bool `json:"running,omitempty"`
	// Before is the time before which the tasks have ended.
	Before time.Time `json:"before,omitzero"`
	// Error is why the run stands still; it is tried again.
	Error *fault.Error `json:"error,omitempty"`
}
