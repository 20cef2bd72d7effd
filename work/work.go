// Package work is the contract between the owner of tasks and the workers that execute tool calls. Neither side knows the
// other. Both use these messages, in one process or over the bus.
//
// A worker polls for calls, reports the start of calls with effects, renews its leases by heartbeats, and reports each outcome
// with the attempt of the call. The attempt is the fencing token: the owner refuses reports of an older attempt.
package work

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// Ref identifies one attempt of one call.
type Ref struct {
	Task events.TaskID `json:"task"`
	// Step is the key of the step instance: its id, or "each[3].id" inside a for_each.
	Step string `json:"step"`
	// Attempt counts from 1.
	Attempt int `json:"attempt"`
}

// String returns the call as text: TASK_…/2/step for the second attempt.
func (r Ref) String() string { return string(r.Task) + "/" + strconv.Itoa(r.Attempt) + "/" + r.Step }

// ParseRef parses the result of Ref.String: INVALID_FORMAT.
func ParseRef(text string) (Ref, error) {
	task, rest, _ := strings.Cut(text, "/")
	number, step, _ := strings.Cut(rest, "/")
	attempt, err := strconv.Atoi(number)
	id, bad := events.ParseTaskID(task)
	if err != nil || bad != nil || attempt < 1 || step == "" || len(step) > maxStepKey {
		return Ref{}, fault.New(fault.InvalidFormat, "is no call, which is TASK_…/ATTEMPT/STEP")
	}
	return Ref{Task: id, Step: step, Attempt: attempt}, nil
}

// maxStepKey limits the bytes of a step key in a Ref.
const maxStepKey = 512

// Call is one tool call for a worker.
type Call struct {
	Ref
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
	// Secrets are the entries of Args that the worker replaces by secrets just before it calls the tool.
	Secrets []Secret `json:"secrets,omitempty"`
	// Effect is read, idempotent, write or destructive: that of the tool, unless it is Declared by the plan. Before a write or
	// destructive call without a Note, the worker must call Start and wait for the answer.
	Effect   string `json:"effect"`
	Declared bool   `json:"declared,omitempty"`
	// Announce requires Start before any other call as well, because an earlier delivery may have killed its worker. The start
	// must be known if that happens again.
	Announce bool `json:"announce,omitempty"`
	// State is the state of the task that the gate checks.
	State string `json:"state"`
	// Handover says who has handed the call on, and why; "" if nobody has.
	Handover string `json:"handover,omitempty"`
	// Handed is data that an agent has handed over with the call, or nil.
	Handed json.RawMessage `json:"handed,omitempty"`
	// Timeout is the time limit of the call; zero means that of the tool.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Lease is the time without a heartbeat after which the call is lost.
	Lease time.Duration `json:"lease"`
	// Reads holds path → SHA-256 (hex) of the files that this execution of the task has read (S0-042, A-25). It is set only for
	// tools that need it.
	Reads map[string]string `json:"reads,omitempty"`
	// Checkpoints holds the checkpoints of the task, id → state data, only for tools that need them.
	Checkpoints map[string]json.RawMessage `json:"checkpoints,omitempty"`
	// Grant is the approval that lets this attempt through, if there is one.
	Grant *Grant `json:"grant,omitempty"`
	// Access is what the task may reach, only for tools that may need an approval.
	Access *Access `json:"open,omitempty"`
	// Approvals holds the approvals of the task by id, only for tools that need them.
	Approvals map[string]json.RawMessage `json:"approvals,omitempty"`
	// Answers holds the answers to the questions that the call has asked so far, by key.
	Answers map[string]json.RawMessage `json:"answers,omitempty"`
	// Note is the newest note of the call, or nil. A call with a note only follows what it has started elsewhere, so it may be
	// repeated any number of times.
	Note json.RawMessage `json:"note,omitempty"`
	// Away is true if the note is about something that continues elsewhere. The call only follows that.
	Away bool `json:"away,omitempty"`
	// Anew is true if a person let a call in doubt be repeated. The doubt about the earlier attempt is settled.
	Anew bool `json:"anew,omitempty"`
	// Recent is how many calls of the tool's rate class the task made in the last minute. RetryAfter is the time until the
	// oldest of them is a minute old (S0-113). Both are zero unless a limit is near.
	Recent     int           `json:"recent,omitempty"`
	RetryAfter time.Duration `json:"retry_after,omitempty"`
	// Session is the session in whose context the call works: workspace, reads, checkpoints and approvals belong to it. It is
	// empty for a call in the context of its task.
	Session events.TaskID `json:"session,omitempty"`
	// Writes is the rule for writes of the session in its project: ask, session or allow (policy.Call).
	Writes string `json:"writes,omitempty"`
	// Name is the name of the task, for logs and workspace notes.
	Name string `json:"name,omitempty"`
	// Requester is who submitted the task or its topmost parent, or who made this single call inside it; empty if that is not
	// known.
	Requester string `json:"requester,omitempty"`
	// Client describes what the program that submitted the task can do for it; nil for nothing.
	Client *events.Client `json:"client,omitempty"`
	// Since is when the task or its topmost parent was submitted, only for tools that need it.
	Since time.Time `json:"since,omitzero"`
	// KeyOf is the task that this one continues, empty for none.
	KeyOf events.TaskID `json:"key_of,omitempty"`
}

// Secret is one secret in an argument. Args contain Text in its place; the tool gets Prefix and the value that Source names.
type Secret struct {
	Field  string `json:"field"`
	Key    string `json:"key"`
	Name   string `json:"name"`
	Source string `json:"source"`
	Prefix string `json:"prefix,omitempty"`
	Text   string `json:"text"`
}

// Grant is the granted approval of one call (M-3).
type Grant struct {
	ID string `json:"id"`
	// ArgsSHA256 binds it to a tool and its arguments. It is void for any other call.
	ArgsSHA256 string `json:"args_sha256"`
	// Whole is true if the grant covers everything that the call would open, because the approver has seen the whole call.
	Whole bool `json:"whole,omitempty"`
}

// Access is what a task may reach without further approval.
type Access struct {
	// Paths, Endpoints, Connections and Packages are those that its plan allows.
	Paths       []string `json:"paths,omitempty"`
	Endpoints   []string `json:"endpoints,omitempty"`
	Connections []string `json:"connections,omitempty"`
	Packages    []string `json:"packages,omitempty"`
	// Programs are those that its plan allows, with their content at submission.
	Programs []events.Program `json:"programs,omitempty"`
	// Scopes are those that were granted to it (ApprovalRequest.Scopes).
	Scopes []string `json:"scopes,omitempty"`
	// Within holds what the plans of the parent tasks allow. What its own plan allows counts only where each of them allows it
	// too.
	Within []events.Allow `json:"within,omitempty"`
}

// ApprovalRequest is a request to approve a call before it runs. The worker returns the call, and the owner dispatches it again
// once it is granted.
type ApprovalRequest struct {
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
	// Type is pre_execution, checkpoint or destructive_operation. Risk is low, medium or high.
	Type string `json:"type"`
	Risk string `json:"risk,omitempty"`
	// Scopes are opened for the whole task. Without them, the grant is for this call only.
	Scopes []string `json:"scopes,omitempty"`
	// Offers are scopes that the grant may open for the session of the call instead.
	Offers []string `json:"offers,omitempty"`
	// ArgsSHA256 is the digest of the tool and its arguments.
	ArgsSHA256 string `json:"args_sha256"`
	// Impact lists the affected paths and targets.
	Impact []string `json:"impact,omitempty"`
}

// Question is one question of a call, in the terms of MCP.
type Question struct {
	// Key identifies the question in the call, which must not reuse a key.
	Key string `json:"key"`
	// Kind is elicitation, sampling or roots.
	Kind string `json:"kind"`
	// Params are those of the MCP request.
	Params json.RawMessage `json:"params,omitempty"`
}

// Key returns the idempotency key of the call (task/step). It is the same for every attempt, also if another task continues a
// failed one.
func (c Call) Key() string {
	if c.KeyOf != "" {
		return string(c.KeyOf) + "/" + c.Step
	}
	return string(c.Task) + "/" + c.Step
}

// Context returns the session in which the call works, or else its task.
func (c Call) Context() events.TaskID {
	return cmp.Or(c.Session, c.Task)
}

// DefaultQueue is the queue of calls without a queue.
const DefaultQueue = "default"

// NodeQueue is the queue of calls that only the process of the node can run. No plan can name it.
const NodeQueue = "@node"

// AgentsQueue is the queue of calls for registered agents, whatever queue their step names.
const AgentsQueue = "agents"

// AgentLease is how long an agent may be silent before its calls are lost and it counts as offline (M-2).
const AgentLease = 90 * time.Second

// Poll is a request for calls.
type Poll struct {
	// Worker is the unique name of the worker process.
	Worker string `json:"worker"`
	// Queues are the queues that the worker serves; empty means "default".
	Queues []string `json:"queues,omitempty"`
	// Tools are the tools that the worker offers; empty means all.
	Tools []string `json:"tools,omitempty"`
	// Free is the number of calls the worker can take now. A poll with 0 waits for cancellations only.
	Free int `json:"free"`
	// Slots is the number of calls that the worker can run at the same time; with 0 no slot is reserved for operators.
	Slots int `json:"slots,omitempty"`
	// Wait is how long the owner may hold the poll open while there are no calls.
	Wait time.Duration `json:"wait"`
	// LastBatch is the number of the newest batch with calls that the worker has received, 1 before the first. The calls of a
	// later batch were lost on their way, and the owner requeues them at once. 0 means unknown.
	LastBatch uint64 `json:"got,omitempty"`
	// Agent is set if a registered agent polls. It only gets calls for agents that match it.
	Agent *Agent `json:"agent,omitempty"`
}

// Agent is what the owner needs to know about a registered agent.
type Agent struct {
	Name string `json:"name"`
	Type string `json:"type"`
	// Capabilities are what the agent can do, by name.
	Capabilities []string `json:"capabilities"`
	// For is the only identity that the agent works for, such as "user:ada"; empty for any.
	For string `json:"for,omitempty"`
}

// WorksFor reports whether the agent works on the tasks of an identity.
func (a *Agent) WorksFor(requester string) bool { return a.For == "" || a.For == requester }

// Batch answers a poll. It may be empty.
type Batch struct {
	// Number is the number of a batch with calls. It is unique for the worker, also across restarts of the owner.
	Number uint64 `json:"no,omitempty"`
	Calls  []Call `json:"calls,omitempty"`
	// Cancel lists running calls of this worker that must stop now.
	Cancel []Ref `json:"cancel,omitempty"`
}

// DefaultTimeout is the time limit of a call if neither the call nor its tool has one.
const DefaultTimeout = 2 * time.Minute

// Started reports that a call with effects is about to start, so that the owner makes that durable.
type Started struct {
	Ref
	Worker string `json:"worker"`
	// Effect is the effect of this particular call. A destructive call gets a checkpoint first (S0-171).
	Effect string `json:"effect,omitempty"`
	// Timeout is the time limit of the call, counted from before this request.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// Progress is the progress of a running call, as in MCP.
type Progress struct {
	Done    float64 `json:"done"`
	Total   float64 `json:"total,omitempty"`
	Message string  `json:"message,omitempty"`
}

// MaxOutput limits the text of one Output, in bytes before secrets are removed.
const MaxOutput = 16 << 10

// Output is a piece of the output of the programs of a running call, both streams. It is sent to watchers and not stored.
type Output struct {
	// From and To are the byte offsets of the piece in the whole output. What lies between two pieces is left out.
	From int64 `json:"from"`
	To   int64 `json:"to"`
	// Text contains whole lines without secrets.
	Text string `json:"text"`
}

// CallHeartbeat is the part of a heartbeat for one running call.
type CallHeartbeat struct {
	Ref
	// Tool and the worker's name let an owner that has restarted recognize the call.
	Tool string `json:"tool"`
	// Effect is the effect of this particular call once the worker knows it, as in Outcome.
	Effect   string    `json:"effect,omitempty"`
	Progress *Progress `json:"progress,omitempty"`
	// Output is the new output of a call that is being watched.
	Output *Output `json:"output,omitempty"`
	// Undelivered is true for a call that was sent to an agent which has not confirmed it yet.
	Undelivered bool `json:"unheard,omitempty"`
}

// Heartbeat renews the leases of the running calls of a worker.
type Heartbeat struct {
	Worker string          `json:"worker"`
	Queues []string        `json:"queues,omitempty"`
	Calls  []CallHeartbeat `json:"calls,omitempty"`
	// Final is true for the last heartbeat of an agent that ends.
	Final bool `json:"leaving,omitempty"`
}

// HeartbeatReply answers a heartbeat.
type HeartbeatReply struct {
	// Stop lists calls that are cancelled or no longer leased to this worker. The worker must end them and not report them.
	Stop []Ref `json:"stop,omitempty"`
	// Show lists calls that are being watched. The next heartbeats must contain their output.
	Show []Ref `json:"show,omitempty"`
}

// Outcome reports the end of a call, or why it cannot continue now.
type Outcome struct {
	Ref
	Worker string `json:"worker"`
	// StartedAt and Duration are measured by the worker.
	StartedAt time.Time     `json:"started_at"`
	Duration  time.Duration `json:"duration"`
	// Output is the structured result; nil if Error is set.
	Output json.RawMessage `json:"output,omitempty"`
	Error  *fault.Error    `json:"error,omitempty"`
	// Class is the class of Error (fault.ClassTimeout and so on). The class shutdown uses up no retry.
	Class string `json:"class,omitempty"`
	// Effect is the effect of this particular call if it differs from that of its tool, as for a SELECT or a GET. It is also
	// empty if the call ended before the effect was known.
	Effect string `json:"effect,omitempty"`
	// ApprovalRequest is set instead of Output and Error if the call was not made because it needs an approval.
	ApprovalRequest *ApprovalRequest `json:"ask,omitempty"`
	// Questions are set instead of Output and Error if the call cannot continue without answers. It is dispatched again when
	// all of them are answered.
	Questions []Question `json:"questions,omitempty"`
	// Note is set instead of Output and Error, possibly beside Questions, if the call has started something that continues
	// elsewhere. The call is dispatched again with the note, at once unless there are Questions.
	Note json.RawMessage `json:"note,omitempty"`
	// RetryAfter is set with RATE_LIMITED if the call was not made. It is the time until it may be made.
	RetryAfter time.Duration `json:"retry_after,omitempty"`
	// Facts are events that the call adds to the log, in the same commit as its result.
	Facts []events.Event `json:"facts,omitempty"`
	// Values holds the large values of Facts by reference. The facts contain only the references.
	Values map[string]json.RawMessage `json:"values,omitempty"`
	// Spawn is set instead of Output and Error if the call continues as a child task. The call ends when the child ends.
	Spawn *Spawn `json:"spawn,omitempty"`
	// HandTo is set beside Error if the agent that holds the call hands it to others, and reports that it is not in doubt.
	HandTo *events.Agents `json:"hand_to,omitempty"`
	// Handed is data that it hands over to them.
	Handed json.RawMessage `json:"handed,omitempty"`
	// Retry is the retry rule that the agent wishes for the call. It is used only inside the process.
	Retry *Retry `json:"-"`
	// AgentCall is set instead of Output and Error if the call has passed all gates and is made by an agent, which reports its
	// end. It is used only inside the process.
	AgentCall *AgentCall `json:"-"`
	// Unleased is set if the worker is not known to have held the attempt. A refusal of the outcome is then not recorded in the
	// log, because anybody could fill the log that way. It is used only inside the process.
	Unleased bool `json:"-"`
}

// Retry is a retry rule that an agent wishes. The plan takes precedence, and calls with effects are not repeated because of it.
type Retry struct {
	// Max is how often a call is retried.
	Max int
	// Backoff is the wait before the first retry. Each further wait is twice as long.
	Backoff time.Duration
}

// AgentCall is a call that has passed all gates, for the agent that makes it.
type AgentCall struct {
	// Args are the arguments including defaults.
	Args json.RawMessage
	// Timeout is how long the call may take from now on.
	Timeout time.Duration
}

// Spawn describes a child task that a call starts.
type Spawn struct {
	// Agent is the agent type of the child.
	Agent string `json:"agent"`
	// File is the file of the plan, for messages; empty if there is none.
	File string `json:"file,omitempty"`
	// Plan is the text of the plan as a JSON string, or the plan itself.
	Plan   json.RawMessage `json:"plan"`
	Inputs json.RawMessage `json:"inputs"`
}

// MaxFacts limits the bytes of the facts of a call and their values, so that they fit into one commit.
const MaxFacts = 2 << 20

// Owner is the interface of the owner for a worker. Errors are *fault.Error: CONFLICT if the attempt is no longer current,
// UNAVAILABLE if the owner cannot be reached and the worker should try again.
type Owner interface {
	// Poll waits up to p.Wait for calls. A worker has one poll at a time: a new poll ends the previous one, which then returns
	// an empty batch. A poll with neither Free nor Wait unregisters the worker. After a restart of the owner, a call that the
	// worker is executing may be dispatched again; the worker must run an attempt only once.
	Poll(ctx context.Context, p Poll) (Batch, error)
	// Start returns when the start of the call is durable. After CONFLICT the worker must not make the call.
	Start(ctx context.Context, s Started) error
	// Heartbeat renews leases.
	Heartbeat(ctx context.Context, b Heartbeat) (HeartbeatReply, error)
	// Report returns when the outcome is durable. CONFLICT means that it came too late, and was dropped and recorded.
	Report(ctx context.Context, o Outcome) error
}

// Source is an Owner that also takes back undelivered calls.
type Source interface {
	Owner
	// Undelivered requeues the calls of the batch with a number, because nobody received it. It ignores a number that is not
	// the newest of its worker.
	Undelivered(no uint64)
}
