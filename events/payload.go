package events

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/orch-dev/orch/fault"
)

// Kind is the name of an event on the wire. The set is append-only, and so is the shape of each kind.
type Kind string

// The kinds. task.* that move the state machine are listed in table T-1 (package statemachine).
const (
	TaskSubmitted         Kind = "task.submitted"
	TaskAssigned          Kind = "task.assigned"
	TaskReleased          Kind = "task.released"
	TaskPlanned           Kind = "task.planned"
	TaskStarted           Kind = "task.started"
	TaskApprovalRequested Kind = "task.approval_requested"
	TaskApproved          Kind = "task.approved"
	TaskDeclined          Kind = "task.declined"
	TaskRejected          Kind = "task.rejected"
	TaskRevised           Kind = "task.revised"
	TaskExpired           Kind = "task.expired"
	TaskBlocked           Kind = "task.blocked"
	TaskUnblocked         Kind = "task.unblocked"
	TaskRequeued          Kind = "task.requeued"
	TaskCompleted         Kind = "task.completed"
	TaskReworked          Kind = "task.reworked"
	TaskFinalized         Kind = "task.finalized"
	TaskFinished          Kind = "task.finished"
	TaskFailed            Kind = "task.failed"
	TaskCancelled         Kind = "task.cancelled"

	TaskPaused          Kind = "task.paused"
	TaskResumed         Kind = "task.resumed"
	TaskCancelRequested Kind = "task.cancel_requested"
	TaskEnding          Kind = "task.ending"

	StepReady     Kind = "step.ready"
	StepCalled    Kind = "step.called"
	StepSucceeded Kind = "step.succeeded"
	StepFailed    Kind = "step.failed"
	StepRetrying  Kind = "step.retrying"
	StepSkipped   Kind = "step.skipped"
	StepInDoubt   Kind = "step.in_doubt"
	StepResolved  Kind = "step.resolved"
	StepCancelled Kind = "step.cancelled"
	StepExpanded  Kind = "step.expanded"
	StepWaiting   Kind = "step.waiting"
	StepSpawned   Kind = "step.spawned"
	StepReused    Kind = "step.reused"
	StepNoted     Kind = "step.noted"

	SignalReceived     Kind = "signal.received"
	DependencyMet      Kind = "dependency.met"
	FileRead           Kind = "file.read"
	LogWritten         Kind = "log.written"
	CheckpointCreated  Kind = "checkpoint.created"
	CheckpointRestored Kind = "checkpoint.restored"
	ResultRefused      Kind = "result.refused"
	// FileChanged says that a call has changed a file of the project of its session.
	FileChanged Kind = "file.changed"
)

// Payload is the data of an event. The set is sealed: every payload type is in this package.
type Payload interface{ payload() }

// Submitted is the data of task.submitted: everything the run will ever need.
type Submitted struct {
	Name    string `json:"name"`
	Summary string `json:"summary,omitempty"`
	// Plan is the normalised plan, PlanSHA256 the hex digest of it.
	Plan       Value             `json:"plan"`
	PlanSHA256 string            `json:"plan_sha256"`
	Inputs     Value             `json:"inputs,omitzero"`
	Labels     map[string]string `json:"labels,omitempty"`
	// Priority is critical, high, normal or low.
	Priority string `json:"priority"`
	Queue    string `json:"queue,omitempty"`
	// IdempotencyKey made the id of this task; the same key with the same plan and inputs is the same task.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	// KeyScope is how long the task holds its key: forever, until_end, or a duration since it was submitted. Empty means for ever,
	// unless it fails or is cancelled.
	KeyScope string `json:"key_scope,omitempty"`
	// Request is the id that the client has chosen for its submission: the same again is the same task, though it holds its key no more.
	Request TaskID `json:"request,omitempty"`
	// RequestSHA256 is the digest of plan and inputs that earlier versions wrote.
	RequestSHA256 string       `json:"request_sha256,omitempty"`
	Concurrency   *Concurrency `json:"concurrency,omitempty"`
	Parent        *Parent      `json:"parent,omitempty"`
	DependsOn     []TaskID     `json:"depends_on,omitempty"`
	// NotBefore delays the first step.
	NotBefore *time.Time `json:"not_before,omitempty"`
	// Created is when the task was submitted, as the expressions of its plan see it; nil where they do not look, and in what earlier
	// versions wrote: it is the time of the first commit then.
	Created *time.Time `json:"created,omitempty"`
	// Deadline fails the task when it is not over by then.
	Deadline *time.Time `json:"deadline,omitempty"`
	MaxSteps int        `json:"max_steps,omitempty"`
	// Tools are the only tools that the task and its children may call; none means any.
	Tools []string `json:"tools,omitempty"`
	// Allow is what the plan opens, where that depends on the inputs; nil means what the plan says.
	Allow *Allow `json:"allow,omitempty"`
	// Within is what the tasks above may reach that have spawned this one by a call: what its plan allows
	// counts only as far as each of them names it too (S0-181).
	Within []Allow `json:"within,omitempty"`
	// RetryOf is the task whose recorded results this one reuses.
	RetryOf TaskID `json:"retry_of,omitempty"`
	// KeyOf is the task whose id stands in the idempotency keys of the calls; empty means this one. A task
	// that goes on where another one failed may repeat its calls, which then keep their keys.
	KeyOf TaskID `json:"key_of,omitempty"`
	// Client is what the program that submitted the task can do for it; nil for nothing.
	Client *Client `json:"client,omitempty"`
	// Via is the command by which a person submitted the task; empty for what programs submit, and for calls that a
	// command makes on its way.
	Via string `json:"via,omitempty"`
	// Session is the session in which a client has asked for the task; a task that is one itself names itself. Shares is true
	// for a call that works in the context of its session: its workspace, what was read in it, its checkpoints and approvals.
	Session TaskID `json:"session,omitempty"`
	Shares  bool   `json:"shares,omitempty"`
	// Writes says how a session writes in its project: ask, session or allow. Empty is ask.
	Writes string `json:"writes,omitempty"`
	// Share is the identity whose share of the workers and of the open tasks the task counts in; empty for that of who asked for it,
	// or for the first of its parents.
	Share string `json:"share,omitempty"`
	// Limited is set for whoever sees its own tasks alone: what is reserved for operators is not for its calls.
	Limited bool `json:"limited,omitempty"`
}

// Client is what the program that submitted a task can do for it, and how far it lets it reach.
type Client struct {
	// Asks are the kinds of questions that it answers while a call runs: Elicitation, Sampling, Roots.
	Asks []string `json:"asks,omitempty"`
	// Roots are absolute paths; the calls of the task reach no file outside of them and of its workspace (S2-050).
	// None means all of the root.
	Roots []string `json:"roots,omitempty"`
	// Session stands for the session of an MCP client, for tools that act on it; no client knows the name of another's.
	Session string `json:"session,omitempty"`
}

// Concurrency limits how many tasks of one key run at the same time.
type Concurrency struct {
	Key   string `json:"key"`
	Limit int    `json:"limit"`
	// OnConflict is queue, reject or cancel_running.
	OnConflict string `json:"on_conflict"`
}

// Parent links a child task to the step that started it.
type Parent struct {
	Task  TaskID `json:"task"`
	Step  string `json:"step"`
	Depth int    `json:"depth"`
	// Agent is the type of the agent that the child is, empty for a sub-plan.
	Agent string `json:"agent,omitempty"`
	// Requester is who submitted the first of the parents: the child acts for them.
	Requester string `json:"requester,omitempty"`
	// Since is when that first one was made.
	Since time.Time `json:"since,omitzero"`
	// Attempt is set for a delegated task: it was the attempt of the step that the agent held which submitted the task.
	Attempt int `json:"attempt,omitempty"`
	// Level is how many calls of agents are above the task.
	Level int `json:"level,omitempty"`
}

// Delegated reports whether an agent has submitted the task for a call that it held. The step does not wait for it.
func (p *Parent) Delegated() bool { return p.Attempt > 0 }

// Allow is what a task may reach without a further approval.
type Allow struct {
	Paths       []string `json:"paths,omitempty"`
	Endpoints   []string `json:"endpoints,omitempty"`
	Connections []string `json:"connections,omitempty"`
	Packages    []string `json:"packages,omitempty"`
	// Programs are programs of the user's own, as they were when the task was submitted.
	Programs []Program `json:"programs,omitempty"`
}

// Program is a file that programs of the system or the system itself run, with its content.
type Program struct {
	// Path is its real absolute path, SHA256 the hex digest of its content.
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// Moved is the data of the kinds that move the state machine.
type Moved struct {
	// Reason says why, for people.
	Reason string `json:"reason,omitempty"`
	// Block is the kind of a block: dependency, input, resource, error, expired.
	Block string `json:"block,omitempty"`
	// Output is the result of the task (finished, finalized).
	Output Value `json:"output,omitzero"`
	// Error is why the task failed.
	Error *fault.Error `json:"error,omitempty"`
}

// Paused is the data of task.paused and task.resumed.
type Paused struct {
	Reason string `json:"reason,omitempty"`
}

// CancelRequested is the data of task.cancel_requested: the task only runs its `always` steps now.
type CancelRequested struct {
	Reason string `json:"reason,omitempty"`
}

// Ending is the data of task.ending: no further step starts but those of `always`.
type Ending struct {
	// Error is set when the task will fail.
	Error *fault.Error `json:"error,omitempty"`
}

// Ready is the data of step.ready: the call is fixed and waits for a worker.
type Ready struct {
	Step    string        `json:"step"`
	Attempt int           `json:"attempt"`
	Tool    string        `json:"tool"`
	Args    Value         `json:"args,omitzero"`
	Effect  string        `json:"effect"`
	Queue   string        `json:"queue,omitempty"`
	Timeout time.Duration `json:"timeout,omitempty"`
	// Purpose is "" for a step, "verify_call" for the tool that decides an in-doubt call, "call" for a
	// single call inside an existing task.
	Purpose string `json:"purpose,omitempty"`
	// Approval is the granted approval that lets this attempt through.
	Approval string `json:"approval,omitempty"`
	// By is who made a single call inside the task.
	By string `json:"by,omitempty"`
	// For says which agents may take the call; nil for a call that workers execute.
	For *Agents `json:"for,omitempty"`
}

// Agents selects registered agents (seed 003): those that are all of what it says.
type Agents struct {
	// Agent is the name of the only one, Type that of the role; empty for any.
	Agent string `json:"agent,omitempty"`
	Type  string `json:"type,omitempty"`
	// Requires are the names of capabilities, sorted; the agent must have all.
	Requires []string `json:"requires,omitempty"`
}

// Called is the data of step.called: a worker begins to execute the call.
type Called struct {
	Step    string    `json:"step"`
	Attempt int       `json:"attempt"`
	Worker  string    `json:"worker"`
	At      time.Time `json:"at"`
	// Effect is that of this very call where it differs from the one that the step was made ready with.
	Effect string `json:"effect,omitempty"`
	// Timeout is the time limit of a call with effects where the step was made ready without that one.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// Succeeded is the data of step.succeeded.
type Succeeded struct {
	Step     string        `json:"step"`
	Attempt  int           `json:"attempt,omitempty"`
	Output   Value         `json:"output,omitzero"`
	Duration time.Duration `json:"duration,omitempty"`
}

// Skipped is the data of step.skipped and step.cancelled.
type Skipped struct {
	Step   string `json:"step"`
	Reason string `json:"reason"`
}

// Expanded is the data of step.expanded: the items of a for_each.
type Expanded struct {
	Step  string  `json:"step"`
	Items []Value `json:"items"`
}

// Waiting is the data of step.waiting.
type Waiting struct {
	Step string `json:"step"`
	// Until is when a timer or the timeout of a signal fires.
	Until  *time.Time `json:"until,omitempty"`
	Signal string     `json:"signal,omitempty"`
	// Default is the output when a signal does not come; without it the step fails.
	Default Value `json:"default,omitzero"`
}

// Spawned is the data of step.spawned: the step is a child task.
type Spawned struct {
	Step   string `json:"step"`
	Child  TaskID `json:"child"`
	Inputs Value  `json:"inputs,omitzero"`
	// Agent and Plan are set when a call has asked for the child (TASK_SPAWN): the type of the agent, and its
	// plan in normal form.
	Agent string `json:"agent,omitempty"`
	Plan  Value  `json:"plan,omitzero"`
}

// Reused is the data of step.reused: the recorded output of another task's step stands for a call.
type Reused struct {
	Step   string `json:"step"`
	From   TaskID `json:"from"`
	Output Value  `json:"output,omitzero"`
}

// Noted is the data of step.noted: the call has left a note, with which it is made again.
type Noted struct {
	Step    string `json:"step"`
	Attempt int    `json:"attempt"`
	// Note is what the tool has to know to go on.
	Note json.RawMessage `json:"note,omitempty"`
	// Elsewhere is true when the call has begun something that goes on without it.
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// Signal is the data of signal.received.
type Signal struct {
	Name string `json:"name"`
	Data Value  `json:"data,omitzero"`
}

// Met is the data of dependency.met.
type Met struct {
	Task  TaskID `json:"task"`
	State string `json:"state"`
}

// Read is the data of file.read: the content a task has seen (S0-042).
type Read struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// Changed is the data of file.changed. `orch undo` puts the file back.
type Changed struct {
	Path string `json:"path"`
	// How is A for added, M for modified, D for deleted and T for another type.
	How string `json:"how"`
}

// Logged is the data of log.written (S0-150).
type Logged struct {
	Step string `json:"step,omitempty"`
	// Level is DEBUG, INFO, WARN, ERROR or CRITICAL.
	Level   string          `json:"level"`
	Message string          `json:"message"`
	Context json.RawMessage `json:"context,omitempty"`
	At      time.Time       `json:"at"`
}

// Refused is the data of result.refused: an outcome came from an attempt that is no longer current.
type Refused struct {
	Step    string `json:"step"`
	Attempt int    `json:"attempt"`
	Tool    string `json:"tool,omitempty"`
	Worker  string `json:"worker"`
	Reason  string `json:"reason"`
}

func (*Submitted) payload()       {}
func (*Changed) payload()         {}
func (*Moved) payload()           {}
func (*Paused) payload()          {}
func (*CancelRequested) payload() {}
func (*Ending) payload()          {}
func (*Ready) payload()           {}
func (*Called) payload()          {}
func (*Succeeded) payload()       {}
func (*Skipped) payload()         {}
func (*Expanded) payload()        {}
func (*Waiting) payload()         {}
func (*Spawned) payload()         {}
func (*Reused) payload()          {}
func (*Noted) payload()           {}
func (*Signal) payload()          {}
func (*Met) payload()             {}
func (*Read) payload()            {}
func (*Logged) payload()          {}
func (*Checkpointed) payload()    {}
func (*Restored) payload()        {}
func (*Refused) payload()         {}

// newPayload returns an empty payload for a kind, or nil for a kind that this version does not know.
func newPayload(k Kind) Payload {
	switch k {
	case TaskSubmitted:
		return new(Submitted)
	case TaskAssigned, TaskReleased, TaskPlanned, TaskStarted, TaskApprovalRequested, TaskApproved,
		TaskDeclined, TaskRejected, TaskRevised, TaskExpired, TaskBlocked, TaskUnblocked, TaskRequeued,
		TaskCompleted, TaskReworked, TaskFinalized, TaskFinished, TaskFailed, TaskCancelled:
		return new(Moved)
	case TaskPaused, TaskResumed:
		return new(Paused)
	case TaskCancelRequested:
		return new(CancelRequested)
	case TaskEnding:
		return new(Ending)
	case StepReady:
		return new(Ready)
	case StepCalled:
		return new(Called)
	case StepSucceeded:
		return new(Succeeded)
	case StepFailed:
		return new(StepError)
	case StepRetrying:
		return new(Retrying)
	case StepSkipped, StepCancelled:
		return new(Skipped)
	case StepInDoubt:
		return new(InDoubt)
	case StepResolved:
		return new(Resolved)
	case StepExpanded:
		return new(Expanded)
	case StepWaiting:
		return new(Waiting)
	case StepSpawned:
		return new(Spawned)
	case StepReused:
		return new(Reused)
	case StepNoted:
		return new(Noted)
	case SignalReceived:
		return new(Signal)
	case DependencyMet:
		return new(Met)
	case FileRead:
		return new(Read)
	case LogWritten:
		return new(Logged)
	case CheckpointCreated:
		return new(Checkpointed)
	case CheckpointRestored:
		return new(Restored)
	case ResultRefused:
		return new(Refused)
	case StepParked:
		return new(Parked)
	case ApprovalRequested:
		return new(Approval)
	case ApprovalVoted, ApprovalGranted, ApprovalRejected, ApprovalRevoked:
		return new(Decision)
	case ApprovalExpired, ApprovalReminded:
		return new(Elapsed)
	case ApprovalUsed:
		return new(Used)
	case FileChanged:
		return new(Changed)
	case QuestionAsked:
		return new(Question)
	case QuestionAnswered:
		return new(Answer)
	case QuestionExpired:
		return new(Unanswered)
	default:
		return nil
	}
}

// Fits reports whether the event has data, of the type of its kind.
func (e Event) Fits() bool {
	want := newPayload(e.Kind)
	if want == nil || e.Data == nil {
		return false
	}
	have := reflect.ValueOf(e.Data)
	return have.Type() == reflect.TypeOf(want) && !have.IsNil()
}

// Kinds returns every kind that this version can read, in the order of their declaration.
func Kinds() []Kind {
	return []Kind{
		TaskSubmitted, TaskAssigned, TaskReleased, TaskPlanned, TaskStarted, TaskApprovalRequested,
		TaskApproved, TaskDeclined, TaskRejected, TaskRevised, TaskExpired, TaskBlocked, TaskUnblocked,
		TaskRequeued, TaskCompleted, TaskReworked, TaskFinalized, TaskFinished, TaskFailed, TaskCancelled,
		TaskPaused, TaskResumed, TaskCancelRequested, TaskEnding,
		StepReady, StepCalled, StepSucceeded, StepFailed, StepRetrying, StepSkipped, StepInDoubt,
		StepResolved, StepCancelled, StepExpanded, StepWaiting, StepSpawned, StepReused,
		SignalReceived, DependencyMet, FileRead, LogWritten, CheckpointCreated, CheckpointRestored,
		ResultRefused,
		StepParked, ApprovalRequested, ApprovalVoted, ApprovalGranted, ApprovalRejected, ApprovalExpired, ApprovalReminded,
		QuestionAsked, QuestionAnswered, QuestionExpired,
		StepNoted, ApprovalUsed, FileChanged, ApprovalRevoked,
	}
}
