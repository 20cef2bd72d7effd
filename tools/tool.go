// Package tools defines what a tool is: a Spec that holds its policy as data, typed input and output,
// and a function that does the work inside an Env. The families of tools live in the folders below,
// the explicit list of all of them in builtin.
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

// Effect says what a call does to the world. It decides how the call is retried, gated and recovered.
type Effect string

// The effects, from harmless to dangerous.
const (
	// Read changes nothing; it may run any number of times.
	Read Effect = "read"
	// Idempotent changes something, but a second run with the same arguments changes no more.
	Idempotent Effect = "idempotent"
	// Write changes something, at most once.
	Write Effect = "write"
	// Destructive removes or overwrites what cannot be had back, at most once.
	Destructive Effect = "destructive"
)

// AtMostOnce reports whether a call of the effect must not be made again unasked.
func (e Effect) AtMostOnce() bool { return e == Write || e == Destructive }

// Gate names the states of a task in which a tool may run (seed 000, "Allowed Conditions").
type Gate string

// The gates.
const (
	AnyState         Gate = "ANY"
	InProgress       Gate = "IP"
	AwaitingApproval Gate = "AA"
	BlockedOrActive  Gate = "BL"
)

// States returns the states that the gate lets through, in the order of a task's life.
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

// Approval is the approval rule of a tool (seed 000, "Required Approval State").
type Approval string

// The approval rules.
const (
	// NoApproval: never asks.
	NoApproval Approval = "none"
	// OutsideWorkspace: asks when a path that the call writes lies outside the task's workspace.
	OutsideWorkspace Approval = "outside_workspace"
	// IfDestructive: asks when the command is classified as destructive.
	IfDestructive Approval = "if_destructive"
	// ByIntent: asks for what the call would do (Intent): for targets that the plan does not name, for
	// changes of databases and protected branches, for destructive commands.
	ByIntent Approval = "by_intent"
	// Always: every call asks.
	Always Approval = "always"
)

// Rate is a class of calls that are counted together against a limit per task and minute (S0-113).
type Rate string

// The classes of calls.
const (
	// Reads and Writes are the classes of tools that name none.
	Reads  Rate = "reads"
	Writes Rate = "writes"
	// External is the class of tools that reach outside of the machine.
	External Rate = "external"
	// Database is the class of database queries.
	Database Rate = "database"
)

// Access says what a call does with a path.
type Access string

// The kinds of access.
const (
	ReadPath   Access = "read"
	WritePath  Access = "write"
	DeletePath Access = "delete"
)

// Path is one input field of a tool that holds a path; the dispatcher confines it to the root before
// the tool runs.
type Path struct {
	Field  string `json:"field"`
	Access Access `json:"access"`
	// Tree is true when the call takes a whole directory away: nothing that is protected may be in it.
	Tree bool `json:"tree,omitempty"`
	// Into is the field with the path that a tree is moved to, empty when it goes nowhere.
	Into string `json:"into,omitempty"`
}

// Spec is a tool's contract and policy as data.
type Spec struct {
	// Name is the name of the source document, verbatim.
	Name string `json:"name"`
	// Title and Purpose are for people and models.
	Title   string `json:"title,omitempty"`
	Purpose string `json:"purpose"`
	// Conditions repeats the source document's conditions in prose.
	Conditions []string `json:"conditions,omitempty"`
	// Example is the arguments of a call, as a JSON object, for tools whose inputs are not told by a list of them.
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
	// Environment is the input field with the variables that Command sees beside those of every call.
	Environment string `json:"environment,omitempty"`
	// Secrets are the input fields whose entries may be secrets of a plan, each with whether a text may stand before one. The tool
	// gets their values, and takes them out of what it returns wherever it cuts or encodes that (Env.Secrets).
	Secrets map[string]bool `json:"secrets,omitempty"`
	// Recipients is the input field that lists whom a call gives something: agent:NAME, user:NAME, group:NAME or all. A call
	// without goes to somebody who is found out.
	Recipients string `json:"recipients,omitempty"`
	// MayDestroy is true for tools whose Effect is a milder one, but of which some calls remove or overwrite what
	// cannot be had back (S0-010).
	MayDestroy bool `json:"may_destroy,omitempty"`
	// OpenWorld is true for tools that reach outside the machine.
	OpenWorld bool `json:"open_world,omitempty"`
	// Timeout is the default time limit of a call; 0 means two minutes.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Rate is the class of its rate limit; empty follows OpenWorld and Effect.
	Rate Rate `json:"rate,omitempty"`
	// NeedsReads asks for the record of files the task has read (Env.Reads).
	NeedsReads bool `json:"needs_reads,omitempty"`
	// NeedsCheckpoints asks for the checkpoints of the task (Env.Checkpoints).
	NeedsCheckpoints bool `json:"needs_checkpoints,omitempty"`
	// NeedsApprovals asks for the approvals of the task (Env.Approvals).
	NeedsApprovals bool `json:"needs_approvals,omitempty"`
	// Session says that calls act on the session of an MCP client (Env.Client.Session), and how: their input field
	// subscriptionId names what the session then hears of, or no longer does.
	Session SessionUse `json:"session,omitempty"`
	// NoWorkspace is true for tools that touch no files, so that no workspace is made for them.
	NoWorkspace bool `json:"no_workspace,omitempty"`
	// LogOnly is true for tools whose only effect is an entry in the log of the task: a node that is
	// read-only lets them run (S0-150).
	LogOnly bool `json:"log_only,omitempty"`
	// Tasks says how a call of the tool becomes a task of an MCP client (S2-026).
	Tasks TaskMode `json:"tasks,omitempty"`
	// AsksFirst is true for tools that ask their questions before they begin their work: a client hears them
	// before it is given a task.
	AsksFirst bool `json:"asks_first,omitempty"`
	// Internal is true for tools that only the node itself calls: they stand in no list, and no plan may name
	// them.
	Internal bool `json:"internal,omitempty"`
	// Unlisted is true for tools that stand in no list because calls of them are refused for now, such as those of
	// an outside server that is switched off.
	Unlisted bool `json:"unlisted,omitempty"`
	// ForAgents is true for tools whose calls registered agents make. Their input has the fields of events.Agents.
	ForAgents bool `json:"for_agents,omitempty"`
	// AtNode is true for tools that only the process of the node can run: their calls go to its own worker alone.
	AtNode bool `json:"at_node,omitempty"`
	// InProject is true for tools whose programs write in the directory where they start (Env.Start).
	InProject bool `json:"in_project,omitempty"`
	// Direct is true for tools by which somebody speaks for himself to the node: a face calls them at once, for the
	// identity that has asked. No task is made of such a call, no step of a plan is one, and who is a registered agent
	// (Env.Agent) sees them whatever else it sees.
	Direct bool `json:"direct,omitempty"`
	// Unlogged is true for tools that the node answers outside of the log when the log takes nothing: they only read
	// the node itself, and are what somebody asks then.
	Unlogged bool `json:"unlogged,omitempty"`
	// Deprecated is true for tools that stay for old plans.
	Deprecated bool `json:"deprecated,omitempty"`
	// Errors lists the error names a call may end with, for the documentation.
	Errors []string `json:"errors,omitempty"`
}

// Env is what a call may use. A tool reaches the file system only through Root and starts programs
// only through Exec.
type Env struct {
	Task events.TaskID
	// Session is the session in whose context the call works, "" for none (Context).
	Session events.TaskID
	Step    string
	Attempt int
	// Key is the same for every attempt of the call (task/step).
	Key   string
	State statemachine.State
	// Requester is who submitted the task, or made this call inside of it; empty when that is not known. It is what the
	// worker was told: only tools that run at the node (Spec.AtNode) may decide by it.
	Requester string
	// Agent is the id of the registered agent that makes a call of a Direct tool, with its own credential; empty in any
	// other call.
	Agent string
	// Since is when the task was made, or the one of which it is a part; zero when that is not known.
	Since time.Time
	// Root confines every path.
	Root *pathguard.Root
	// Judged holds the real absolute path of each path field ("field", or "field[i]" for a list) as the gates saw it.
	Judged map[string]string
	// Workspace is the absolute path Working/TASK_<id> of the task, with workspace/, temp/, outputs/.
	Workspace string
	// Writable are the places beside Workspace in which the programs of the call may write, because somebody has let its session.
	Writable []string
	// Exec starts child processes.
	Exec *proc.Runner
	// Secrets are those among the arguments of the call; nil for none.
	Secrets *secret.Set
	Log     *slog.Logger
	// Now is the clock.
	Now func() time.Time
	// Reads holds path → SHA-256 (hex) of what this execution of the task has read.
	Reads map[string]string
	// Checkpoints holds the state data of the task's checkpoints by id.
	Checkpoints map[string]json.RawMessage
	// Approvals holds how the approvals of the task stand, by id.
	Approvals map[string]json.RawMessage
	// Approval is the id of the approval that lets this call through, empty when it needs none.
	Approval string
	// Allows reports whether a target is open to this call beside those of its Intent: the plan names it
	// or somebody approved it for the task. Nil allows none.
	Allows func(Target) bool
	// Client is what the program that submitted the task can do for the call; nil for nothing.
	Client *events.Client
	// Answers holds the answers to the questions that this call has asked so far (Asking), by key.
	Answers map[string]json.RawMessage
	// Anew is true when a person lets a call that was in doubt be made again from its beginning.
	Anew bool
	// Note is the newest note of this call (Noted), nil for none. An attempt that fails ends what goes on elsewhere
	// too: the next one has no note.
	Note json.RawMessage
	// Progress reports progress; never nil.
	Progress func(done, total float64, message string)
	// repositories are those below places, as they were before the call.
	repositories map[string][]string
	// Output shows those who watch what a program of the call writes, as it comes; never nil in a worker. It does not keep p.
	Output func(p []byte)
	// Record adds a fact to the log, in the same commit as the result of the call; never nil.
	Record func(kind events.Kind, data events.Payload)
	// Undo puts back what the calls of a session have changed; nil when nothing is kept.
	Undo func(context.Context, Undo) (Undone, error)
	// Spawn lets the call go on as a child task once the tool has returned: the output of the tool is dropped,
	// and what becomes of the child is the end of the call. Never nil.
	Spawn func(Spawn)
}

// Context is the task, or the session, whose workspace, reads, checkpoints and approvals those of the call are.
func (e *Env) Context() events.TaskID {
	return cmp.Or(e.Session, e.Task)
}

// Undo says what to put back.
type Undo struct {
	// Session is whose calls are undone, Task the only one of them; "" for all.
	Session, Task events.TaskID
	// Force also puts back what has changed since. DryRun only looks.
	Force, DryRun bool
}

// Undone says what was put back, by absolute paths.
type Undone struct {
	// Restored were written again, Removed were new, Conflicts have changed since and stay.
	Restored, Removed, Conflicts []string
}

// Spawn is a child task that a call asks for.
type Spawn struct {
	// Agent is the type of the agent that the child is.
	Agent string
	// File is the file of the plan, for messages; empty when no file holds it.
	File string
	// Plan is the text of a plan file.
	Plan []byte
	// Inputs is the JSON object of the inputs of the plan.
	Inputs json.RawMessage
}

// StillAt returns CONFLICT when an input field, whose real path is abs now, led elsewhere when the call was judged: what
// was allowed there is not allowed here.
func (e *Env) StillAt(field, abs string) error {
	if judged, ok := e.Judged[field]; ok && judged != abs {
		return fault.New(fault.Conflict, "the path leads to %s now, and led to %s when the call was judged", abs, judged).WithField(field)
	}
	return nil
}

// RateClass returns the class of the tool's rate limit.
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

// Tool is a tool of the catalogue.
type Tool interface {
	Spec() Spec
	// InputSchema and OutputSchema are JSON Schemas (2020-12) with an object at the root.
	InputSchema() json.RawMessage
	OutputSchema() json.RawMessage
	// Check applies defaults to args and validates them: REQUIRED_FIELD, VALIDATION_ERROR or
	// INVALID_FORMAT naming the field (S0-005, S0-006). It returns the arguments to call with in
	// canonical form: equal arguments have equal bytes, apart from what is inside free objects.
	Check(args json.RawMessage) (json.RawMessage, error)
	// Call runs the tool with checked arguments and returns its structured output.
	Call(ctx context.Context, env *Env, args json.RawMessage) (json.RawMessage, error)
}
