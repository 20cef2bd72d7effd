// Package tools defines the type Tool and the catalogue of tools. A tool has a Spec, which contains its policy as data,
// typed input and output, and a function that runs in an Env. The subpackages contain the families of built-in tools;
// package builtin lists them all.
//
// The root is the directory tree to which a node confines its tools. The workspace of a task is a directory below the
// root in which programs of the task may write.
package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/internal/secret"
	"github.com/orch-dev/orch/statemachine"
)

// Effect classifies what a call changes. It determines how a call is retried and recovered, and whether it needs
// approval.
type Effect string

// The effects, from harmless to dangerous.
const (
	// Read changes nothing; it may run any number of times.
	Read Effect = "read"
	// Idempotent changes something, but a second run with the same arguments changes no more.
	Idempotent Effect = "idempotent"
	// Write changes something, at most once.
	Write Effect = "write"
	// Destructive removes or overwrites data that cannot be restored, at most once.
	Destructive Effect = "destructive"
)

// AtMostOnce reports whether a call with the effect must not be repeated without confirmation.
func (e Effect) AtMostOnce() bool { return e == Write || e == Destructive }

// Gate names the states of a task in which a tool may run (S0 rules, "Allowed Conditions").
type Gate string

// The gates. AnyState permits every state. The values of the others abbreviate the states.
const (
	AnyState         Gate = "ANY"
	InProgress       Gate = "IP"
	AwaitingApproval Gate = "AA"
	BlockedOrActive  Gate = "BL"
)

// States returns the states that the gate permits, in the order in which a task passes through them.
func (g Gate) States() []statemachine.State {
	switch g {
	case AnyState:
		return statemachine.States()
	case AwaitingApproval:
		return []statemachine.State{statemachine.AwaitingApproval}
	case BlockedOrActive:
		return []statemachine.State{statemachine.InProgress, statemachine.Blocked}
	default:
		return []statemachine.State{statemachine.InProgress}
	}
}

// Approval is the approval rule of a tool (S0 rules, "Required Approval State").
type Approval string

// The approval rules.
const (
	// NoApproval: never requires approval.
	NoApproval Approval = "none"
	// OutsideWorkspace: requires approval when a path that the call writes lies outside the task's workspace.
	OutsideWorkspace Approval = "outside_workspace"
	// IfDestructive: requires approval when the command is classified as destructive.
	IfDestructive Approval = "if_destructive"
	// ByIntent: requires approval depending on what the call would do (Intent): for targets that the plan does not
	// name, for changes of databases and protected branches, for destructive commands.
	ByIntent Approval = "by_intent"
	// ByEffect: requires approval for every call that does more than read, as Intent says; without an intent, the effect of
	// the tool counts.
	ByEffect Approval = "by_effect"
	// Always: every call requires approval.
	Always Approval = "always"
)

// Rate is a class of calls that share one limit per task and minute (S0-113).
type Rate string

// The classes of calls.
const (
	// Reads and Writes are the default classes of tools that stay on the machine: Reads for the effect Read, Writes for
	// every other effect.
	Reads  Rate = "reads"
	Writes Rate = "writes"
	// Models is the class of requests to language models. Budgets limit them, not their number in a minute.
	Models Rate = "models"
	// External is the default class of tools with Spec.OpenWorld.
	External Rate = "external"
	// Database is the class of database queries.
	Database Rate = "database"
)

// Access is how a call uses a path.
type Access string

// The kinds of access.
const (
	ReadPath   Access = "read"
	WritePath  Access = "write"
	DeletePath Access = "delete"
)

// Path is an input field that holds a path; the dispatcher confines it to the root before the tool runs.
type Path struct {
	Field  string `json:"field"`
	Access Access `json:"access"`
	// Tree is true when the call moves or deletes a whole directory. Then the directory must not contain a protected
	// file.
	Tree bool `json:"tree,omitempty"`
	// Into is the input field with the destination of a moved tree; empty when the tree is not moved.
	Into string `json:"into,omitempty"`
}

// Spec is the contract and policy of a tool as data.
type Spec struct {
	// Name is the name of the tool, spelled as in the specification.
	Name string `json:"name"`
	// Title and Purpose describe the tool to people and to language models.
	Title   string `json:"title,omitempty"`
	Purpose string `json:"purpose"`
	// Conditions are the conditions of use, in prose.
	Conditions []string `json:"conditions,omitempty"`
	// Example contains the arguments of an example call, as a JSON object. It is for tools that need more explanation
	// than a list of input fields.
	Example  string   `json:"example,omitempty"`
	Effect   Effect   `json:"effect"`
	Gate     Gate     `json:"gate"`
	Approval Approval `json:"approval"`
	// Paths are the input fields that hold paths.
	Paths []Path `json:"paths,omitempty"`
	// Content are the input fields that are searched for secrets.
	Content []string `json:"content,omitempty"`
	// Command is the input field that holds a shell command to classify.
	Command string `json:"command,omitempty"`
	// Environment is the input field with the additional environment variables of Command.
	Environment string `json:"environment,omitempty"`
	// Secrets lists the input fields in which entries may be secrets of a plan. The value is true if text, such as an
	// authentication scheme, may precede the secret in an entry. The tool receives the values of the secrets. It must
	// remove them (Env.Secrets) from output that it truncates or encodes.
	Secrets map[string]bool `json:"secrets,omitempty"`
	// Recipients is the input field that lists the recipients of a call: agent:NAME, user:NAME, group:NAME or all. When
	// a call leaves the field empty, the node chooses the recipient.
	Recipients string `json:"recipients,omitempty"`
	// MayDestroy is true for tools whose Effect is less than Destructive although some calls remove or overwrite data
	// that cannot be restored (S0-010).
	MayDestroy bool `json:"may_destroy,omitempty"`
	// OpenWorld is true for tools that reach outside the machine.
	OpenWorld bool `json:"open_world,omitempty"`
	// Timeout is the default time limit of a call; 0 means two minutes.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Rate is the class of calls for the rate limit; empty means the default class (RateClass).
	Rate Rate `json:"rate,omitempty"`
	// NeedsReads requests the record of files that the task has read (Env.Reads).
	NeedsReads bool `json:"needs_reads,omitempty"`
	// NeedsCheckpoints requests the checkpoints of the task (Env.Checkpoints).
	NeedsCheckpoints bool `json:"needs_checkpoints,omitempty"`
	// NeedsApprovals requests the approvals of the task (Env.Approvals).
	NeedsApprovals bool `json:"needs_approvals,omitempty"`
	// NeedsSight requests whether the caller sees the tasks of all identities, for what the tool shows of others.
	NeedsSight bool `json:"needs_sight,omitempty"`
	// Session specifies how calls change the subscriptions of an MCP session (Env.Client.Session). The input field
	// subscriptionId names the subscription to add or remove.
	Session SessionUse `json:"session,omitempty"`
	// NoWorkspace is true for tools that touch no files, so that no workspace is created for them.
	NoWorkspace bool `json:"no_workspace,omitempty"`
	// LogOnly is true for tools whose only effect is an entry in the log of the task. A read-only node runs them, too
	// (S0-150).
	LogOnly bool `json:"log_only,omitempty"`
	// Tasks specifies how a call of the tool becomes a task of an MCP client (S2-026).
	Tasks TaskMode `json:"tasks,omitempty"`
	// AsksFirst is true for tools that ask their questions before they start their work: a client receives the
	// questions before it gets a task.
	AsksFirst bool `json:"asks_first,omitempty"`
	// Internal is true for tools that only the node itself calls. They are not listed, and no plan may name them.
	Internal bool `json:"internal,omitempty"`
	// Unlisted is true for tools that are not listed because their calls currently fail, such as the tools of an
	// external MCP server that is switched off.
	Unlisted bool `json:"unlisted,omitempty"`
	// ForAgents is true for tools whose calls are executed by registered agents instead of workers. The input has the
	// fields of events.Agents, which select the agents.
	ForAgents bool `json:"for_agents,omitempty"`
	// AtNode is true for tools that only the process of the node can run. Their calls go only to the worker in that
	// process.
	AtNode bool `json:"at_node,omitempty"`
	// InProject is true for tools whose programs write in their starting directory (Env.Start).
	InProject bool `json:"in_project,omitempty"`
	// Direct is true for tools that the MCP interface runs immediately, with the identity of the caller. Such a call
	// does not become a task and cannot be a step of a plan. A registered agent (Env.Agent) can always call these
	// tools, even when its other tools are restricted.
	Direct bool `json:"direct,omitempty"`
	// Unlogged is true for tools that the node still runs, without a record in the log, when the log accepts no writes.
	// They only read the state of the node, which people need to know in that situation.
	Unlogged bool `json:"unlogged,omitempty"`
	// Deprecated is true for tools that remain only for existing plans.
	Deprecated bool `json:"deprecated,omitempty"`
	// Errors lists the names of the errors that a call may return, for the documentation.
	Errors []string `json:"errors,omitempty"`
}

// Env is the environment of one call. A tool reaches the file system only through Root and starts programs only
// through Exec.
type Env struct {
	Task events.TaskID
	// Session is the session of the call, "" for none (see Context).
	Session events.TaskID
	Step    string
	Attempt int
	// Trace is the trace of the task, TraceState its tracestate, as in work.Call.
	Trace, TraceState string
	// Key identifies the call (task/step). It is the same for every attempt.
	Key   string
	State statemachine.State
	// Requester is the identity that made the call; for a step of a plan that is the identity that submitted the task.
	// It is empty when unknown. A worker cannot verify it: only tools that run at the node (Spec.AtNode) may base
	// decisions on it.
	Requester string
	// Agent is the id of the registered agent that calls a Direct tool with its own credential; empty in any other
	// call.
	Agent string
	// Since is when the task, or its topmost parent, was created; zero when unknown.
	Since time.Time
	// Root confines every path.
	Root *pathguard.Root
	// Judged maps each path field ("field", or "field[i]" for a list) to the real absolute path that the policy
	// resolved and checked.
	Judged map[string]string
	// Workspace is the absolute path Working/TASK_<id> of the task. It contains the directories workspace/, temp/ and
	// outputs/.
	Workspace string
	// Writable are the directories, besides Workspace, in which the programs of the call may write because a person
	// permitted it for the session.
	Writable []string
	// Exec starts child processes.
	Exec *proc.Runner
	// Secrets are the secrets among the arguments of the call; nil for none.
	Secrets *secret.Set
	Log     *slog.Logger
	// Now is the clock.
	Now func() time.Time
	// Reads maps the path of each file that this execution of the task has read to the SHA-256 (hex) of its content.
	Reads map[string]string
	// Checkpoints holds the state data of the task's checkpoints by id.
	Checkpoints map[string]json.RawMessage
	// Approvals holds the state of each approval of the task by id.
	Approvals map[string]json.RawMessage
	// Approval is the id of the approval that permits this call, empty when it needs none.
	Approval string
	// Allows reports whether the policy permits this call to use a target: Intent returned the target, the plan names
	// it, or a person approved it for the task. Nil permits none.
	Allows func(Target) bool
	// Client describes the MCP client that submitted the task, including the questions that it can answer; nil for
	// none.
	Client *events.Client
	// Answers holds the answers to the questions that this call has asked so far (Asking), by key.
	Answers map[string]json.RawMessage
	// Anew is true when a call was in doubt (its effect was unknown) and a person decided that it starts again from the
	// beginning.
	Anew bool
	// Note is the latest note of this call (see Noted), nil for none. When an attempt fails, the work elsewhere ends,
	// too: the next attempt has no note.
	Note json.RawMessage
	// Progress reports progress; never nil.
	Progress func(done, total float64, message string)
	// repositories caches the result of Repositories by directory, as it was before the call.
	repositories map[string][]string
	// Output streams the output of the programs of the call to observers; never nil in a worker. It does not retain
	// p.
	Output func(p []byte)
	// Record adds a fact to the log, atomically with the result of the call; never nil.
	Record func(kind events.Kind, data events.Payload)
	// Undo restores the files that calls of a session have changed; nil when no backups are stored.
	Undo func(context.Context, Undo) (Undone, error)
	// Spawn starts a child task after the tool has returned. The output of the tool is dropped, and the call ends with
	// the outcome of the child. Never nil.
	Spawn func(Spawn)
}

// Context returns the id under which workspace, reads, checkpoints and approvals are stored: that of the session, or
// that of the task if there is no session.
func (e *Env) Context() events.TaskID {
	return cmp.Or(e.Session, e.Task)
}

// Undo selects the changes to restore.
type Undo struct {
	// Session is the session of the calls to undo. Task selects one call of the session; "" means all calls.
	Session, Task events.TaskID
	// Force also restores files that were changed after the calls. DryRun changes nothing.
	Force, DryRun bool
}

// Undone lists the files that were restored or skipped, by absolute path.
type Undone struct {
	// Restored files have their previous content again. Removed files did not exist before the calls, so they were
	// removed. Conflicts are files that were changed after the calls; they were left as they are.
	Restored, Removed, Conflicts []string
	// Later are the files that were changed after the calls.
	Later []ChangedLater
}

// ChangedLater is a file that was changed after the calls to undo.
type ChangedLater struct {
	Path string      `json:"path" jsonschema:"The file"`
	Lost bool        `json:"lost" jsonschema:"The undo overwrites these changes; otherwise the file is left as it is"`
	By   []ChangedBy `json:"by" jsonschema:"Who has changed it, in the order of time"`
	Diff string      `json:"diff,omitempty" jsonschema:"What was changed, as a unified diff; empty for content that is no text, too large, or not to be read by the call"`
}

// ChangedBy is who has changed a file, and when.
type ChangedBy struct {
	Task events.TaskID `json:"task,omitempty" jsonschema:"The task of the call that has changed it"`
	Step string        `json:"step,omitempty" jsonschema:"The step of the call"`
	Who  string        `json:"who,omitempty" jsonschema:"Who it was, if no task is named"`
	At   *time.Time    `json:"at,omitempty" jsonschema:"When"`
}

// Spawn is a child task that a call starts.
type Spawn struct {
	// Agent is the agent type of the child.
	Agent string
	// File is the name of the plan file, for messages; empty when there is no file.
	File string
	// Plan is the text of a plan file.
	Plan []byte
	// Inputs is the JSON object of the inputs of the plan.
	Inputs json.RawMessage
}

// StillAt returns CONFLICT if the policy checked a path for an input field and abs, the current real path of the field,
// is a different one. The decision of the policy does not apply to the new path.
func (e *Env) StillAt(field, abs string) error {
	if judged, ok := e.Judged[field]; ok && judged != abs {
		return fault.New(fault.Conflict, "the path now leads to %s, but led to %s when the policy checked the call", abs, judged).WithField(field)
	}
	return nil
}

// RateClass returns the rate limit class of the tool.
func (s Spec) RateClass() Rate {
	switch {
	case s.Rate != "":
		return s.Rate
	case s.OpenWorld:
		return External
	case s.Effect == Read:
		return Reads
	default:
		return Writes
	}
}

// Tool is one tool of the catalogue.
type Tool interface {
	Spec() Spec
	// InputSchema and OutputSchema are JSON Schemas (2020-12) with an object at the root.
	InputSchema() json.RawMessage
	OutputSchema() json.RawMessage
	// Check validates args and applies defaults. It fails with REQUIRED_FIELD, VALIDATION_ERROR or INVALID_FORMAT
	// naming the field (S0-005, S0-006). It returns the arguments for Call in canonical form: equal arguments have
	// equal bytes, except for the content of free JSON objects (type Object).
	Check(args json.RawMessage) (json.RawMessage, error)
	// Call runs the tool with checked arguments and returns its structured output.
	Call(ctx context.Context, env *Env, args json.RawMessage) (json.RawMessage, error)
}
