package events

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/orch-dev/orch/fault"
)

// Kind is the name of an event on the wire. The set is append-only, and so is the shape of each kind.
type Kind string

// The kinds. The task.* kinds that change the state of a task are the rows of table T-1 (package statemachine).
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
	// TaskPart records, after task.submitted, that the task runs a part of a for_each of its parent.
	TaskPart   Kind = "task.part"
	TaskEnding Kind = "task.ending"
	// TaskCharged records what the models have cost that a child task has asked, when the child has ended.
	TaskCharged Kind = "task.charged"

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
	StepDivided   Kind = "step.divided"
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
	// FileChanged records that a call has changed a file of its session's project.
	FileChanged Kind = "file.changed"
)

// Payload is the data of an event. The set is sealed: every payload type is in this package.
type Payload interface{ payload() }

// Submitted is the data of task.submitted: everything that the run needs.
type Submitted struct {
	Name    string `json:"name"`
	Summary string `json:"summary,omitempty"`
	// Plan is the normalised plan, PlanSHA256 its hex digest.
	Plan       Value             `json:"plan"`
	PlanSHA256 string            `json:"plan_sha256"`
	Inputs     Value             `json:"inputs,omitzero"`
	Labels     map[string]string `json:"labels,omitempty"`
	// Priority is critical, high, normal or low.
	Priority string `json:"priority"`
	Queue    string `json:"queue,omitempty"`
	// IdempotencyKey determined the id of this task: the same key with the same plan and inputs gives the same task.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	// KeyScope is how long the task holds its key: forever, until_end, or a duration since it was submitted. Empty
	// means forever, unless the task fails or is cancelled.
	KeyScope string `json:"key_scope,omitempty"`
	// Request is the id that the client chose for its submission. A repeated request finds the same task, even when the
	// task no longer holds its key.
	Request TaskID `json:"request,omitempty"`
	// RequestSHA256 is the digest of plan and inputs that earlier versions wrote.
	RequestSHA256 string       `json:"request_sha256,omitempty"`
	Concurrency   *Concurrency `json:"concurrency,omitempty"`
	Parent        *Parent      `json:"parent,omitempty"`
	DependsOn     []TaskID     `json:"depends_on,omitempty"`
	// NotBefore delays the first step.
	NotBefore *time.Time `json:"not_before,omitempty"`
	// Created is the submission time that the expressions of the plan see. It is nil when no expression uses it and in
	// events of earlier versions; the time of the first commit is then used.
	Created *time.Time `json:"created,omitempty"`
	// Schedule is the firing that submitted the task, or the task that this one continues; nil for none.
	Schedule *Firing `json:"schedule,omitempty"`
	// Hook is the delivery that submitted the task, or the task that this one continues; nil for none.
	Hook *Delivery `json:"hook,omitempty"`
	// Deadline is the time at which the task fails if it has not ended.
	Deadline *time.Time `json:"deadline,omitempty"`
	MaxSteps int        `json:"max_steps,omitempty"`
	// Tools lists the only tools that the task and its children may call; empty means any.
	Tools []string `json:"tools,omitempty"`
	// Allow is the evaluated allow list if the plan's list depends on the inputs; nil means the list in the plan.
	Allow *Allow `json:"allow,omitempty"`
	// Within contains the allow lists of the ancestors that spawned this task by a call. An entry of its plan counts
	// only if all of them allow it too (S0-181).
	Within []Allow `json:"within,omitempty"`
	// RetryOf is the task whose recorded results this task reuses.
	RetryOf TaskID `json:"retry_of,omitempty"`
	// ForkOf is the task whose recorded results a fork stands on, up to revision ForkAt.
	ForkOf TaskID `json:"fork_of,omitempty"`
	ForkAt uint64 `json:"fork_at,omitempty"`
	// KeyOf is the task whose id is part of the idempotency keys of the calls; empty means this task. A task that
	// continues a failed task may repeat its calls. The repeated calls must have the same keys.
	KeyOf TaskID `json:"key_of,omitempty"`
	// Client describes what the submitting program can do for the task; nil for nothing.
	Client *Client `json:"client,omitempty"`
	// Via is the command with which a person submitted the task. It is empty for submissions of programs, and for the
	// auxiliary calls of a command.
	Via string `json:"via,omitempty"`
	// TraceParent is the position in a trace of the program that submitted the task, as W3C Trace Context writes it; empty for
	// none.
	TraceParent string `json:"traceparent,omitempty"`
	// TraceState is the tracestate of that program; empty for none.
	TraceState string `json:"tracestate,omitempty"`
	// Session is the session in which a client submitted the task; a task that is a session names itself. Shares is
	// true for a call that uses the context of its session: its workspace, reads, checkpoints and approvals.
	Session TaskID `json:"session,omitempty"`
	Shares  bool   `json:"shares,omitempty"`
	// Writes is the mode in which a session writes in its project: ask, session or allow. Empty means ask.
	Writes string `json:"writes,omitempty"`
	// Share is the identity whose quota of workers and open tasks the task uses; empty means the requester, or the
	// requester of its first ancestor.
	Share string `json:"share,omitempty"`
	// Root is the folder that the calls of the task are confined to, as an absolute path. It is empty if clients and
	// workers may be on different machines, and in events of earlier versions: any worker may then execute the calls.
	Root string `json:"root,omitempty"`
	// Limited is true when the requester may see only its own tasks. Its calls may not use functions that are reserved
	// for operators.
	Limited bool `json:"limited,omitempty"`
	// LimitKey is the key under which the limits of the node for each key count the calls of the task. It comes from the plan of the
	// task, or from the first ancestor that had one; empty means none.
	LimitKey string `json:"limit_key,omitempty"`
}

// Firing is a time at which a schedule starts a task.
type Firing struct {
	// Name is the name of the schedule.
	Name string `json:"name"`
	// Time is the instant that the rules of the schedule name, without its jitter, or the time at which somebody triggered it.
	Time time.Time `json:"time"`
}

// Client describes what the submitting program can do for a task, and what the task may reach.
type Client struct {
	// Asks lists the kinds of questions that the program answers while a call runs: Elicitation, Sampling, Roots. SamplingTools is
	// listed as well if the program accepts tools in questions of the kind Sampling.
	Asks []string `json:"asks,omitempty"`
	// Roots are absolute paths. The calls of the task reach only files below them and in its workspace (S2-050). Empty
	// means the whole root.
	Roots []string `json:"roots,omitempty"`
	// Session identifies the session of an MCP client, for tools that act on it. A client cannot learn the session of
	// another client.
	Session string `json:"session,omitempty"`
}

// Concurrency limits how many tasks of one key run at the same time.
type Concurrency struct {
	Key   string `json:"key"`
	Limit int    `json:"limit"`
	// OnConflict is queue, reject or cancel_running.
	OnConflict string `json:"on_conflict"`
}

// Allow lists what a task may reach without a further approval.
type Allow struct {
	Paths       []string `json:"paths,omitempty"`
	Endpoints   []string `json:"endpoints,omitempty"`
	Connections []string `json:"connections,omitempty"`
	Packages    []string `json:"packages,omitempty"`
	// Programs are the user's programs with the content that they had at submission.
	Programs []Program `json:"programs,omitempty"`
}

// Program is a file that the system or an interpreter executes, with the digest of its content.
type Program struct {
	// Path is its real absolute path, SHA256 the hex digest of its content.
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// Moved is the data of the kinds that change the state of the task.
type Moved struct {
	// Reason explains the transition to people.
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

// CancelRequested is the data of task.cancel_requested: from now on only `always` steps run.
type CancelRequested struct {
	Reason string `json:"reason,omitempty"`
}

// Ending is the data of task.ending: from now on only `always` steps start.
type Ending struct {
	// Error is set when the task will fail.
	Error *fault.Error `json:"error,omitempty"`
}

// Ready is the data of step.ready: the call is fully determined and waits for a worker.
type Ready struct {
	Step    string        `json:"step"`
	Attempt int           `json:"attempt"`
	Tool    string        `json:"tool"`
	Args    Value         `json:"args,omitzero"`
	Effect  string        `json:"effect"`
	Queue   string        `json:"queue,omitempty"`
	Timeout time.Duration `json:"timeout,omitempty"`
	// Purpose is "" for a step, "verify_call" for the call that resolves a call in doubt, "call" for a single call
	// inside an existing task.
	Purpose string `json:"purpose,omitempty"`
	// Approval is the granted approval that permits this attempt.
	Approval string `json:"approval,omitempty"`
	// By is the identity that made a single call inside the task.
	By string `json:"by,omitempty"`
	// For selects the agents that may claim the call; nil for a call that workers execute.
	For *Agents `json:"for,omitempty"`
}

// Agents selects registered agents (S3 rules). An agent must satisfy every field.
type Agents struct {
	// Agent is the name of a single agent, Type the role; empty means any.
	Agent string `json:"agent,omitempty"`
	Type  string `json:"type,omitempty"`
	// Requires are names of capabilities, sorted; the agent must have all of them.
	Requires []string `json:"requires,omitempty"`
}

// Called is the data of step.called: a worker starts the call.
type Called struct {
	Step    string    `json:"step"`
	Attempt int       `json:"attempt"`
	Worker  string    `json:"worker"`
	At      time.Time `json:"at"`
	// Effect is the effect of this call if it differs from that of step.ready.
	Effect string `json:"effect,omitempty"`
	// Timeout is the time limit of a call with effects if it differs from that of step.ready.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// Succeeded is the data of step.succeeded.
type Succeeded struct {
	Step     string        `json:"step"`
	Attempt  int           `json:"attempt,omitempty"`
	Output   Value         `json:"output,omitzero"`
	Duration time.Duration `json:"duration,omitempty"`
	// Calls is how many calls a part of a for_each has made.
	Calls int `json:"calls,omitempty"`
}

// Skipped is the data of step.skipped and step.cancelled.
type Skipped struct {
	Step   string `json:"step"`
	Reason string `json:"reason"`
}

// Waiting is the data of step.waiting.
type Waiting struct {
	Step string `json:"step"`
	// Until is when the timer, or the timeout of the signal, fires.
	Until  *time.Time `json:"until,omitempty"`
	Signal string     `json:"signal,omitempty"`
	// Default is the output when the signal times out; without it the step fails.
	Default Value `json:"default,omitzero"`
}

// Reused is the data of step.reused: the recorded output of another task's step replaces the call.
type Reused struct {
	Step   string `json:"step"`
	From   TaskID `json:"from"`
	Output Value  `json:"output,omitzero"`
}

// Noted is the data of step.noted: the call has stored a note, which its next attempt receives.
type Noted struct {
	Step    string `json:"step"`
	Attempt int    `json:"attempt"`
	// Note is the state that the tool needs in order to continue.
	Note json.RawMessage `json:"note,omitempty"`
	// Elsewhere is true when the call started an operation that continues outside of this process.
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// Signal is the data of signal.received.
type Signal struct {
	Name string `json:"name"`
	Data Value  `json:"data,omitzero"`
	// Key identifies the delivery of a hook that sent the signal; empty for others. A task takes each key once.
	Key string `json:"key,omitempty"`
}

// Met is the data of dependency.met.
type Met struct {
	Task  TaskID `json:"task"`
	State string `json:"state"`
}

// Read is the data of file.read: the digest of content that the task has read (S0-042).
type Read struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	// Step is the step of the task whose call has read the content; "" for a call of another task.
	Step string `json:"step,omitempty"`
}

// Changed is the data of file.changed. `orch undo` restores the file.
type Changed struct {
	Path string `json:"path"`
	// How is A for added, M for modified, D for deleted and T for a changed file type.
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

// Refused is the data of result.refused: a worker reported the outcome of an attempt that is not the current attempt.
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
func (*Waiting) payload()         {}
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
	case StepDivided:
		return new(Divided)
	case TaskPart:
		return new(Part)
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
		return newAgentPayload(k)
	}
}

// Valid reports whether the event has data of the type that its kind requires.
func (e Event) Valid() bool {
	want, known := payloadTypes[e.Kind]
	have := reflect.ValueOf(e.Data)
	return known && have.IsValid() && have.Type() == want && !have.IsNil()
}

// payloadTypes maps each kind to the type of its payload.
var payloadTypes = func() map[Kind]reflect.Type {
	types := map[Kind]reflect.Type{}
	for _, k := range Kinds() {
		types[k] = reflect.TypeOf(newPayload(k))
	}
	return types
}()

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
		TaskPart, StepDivided,
		AgentStarted, TurnRequested, TurnAnswered, TurnLost, TurnRefused, AgentExtended, AgentTold, TaskCharged,
	}
}
