// Package work is the contract between the owner of tasks and the workers that execute tool calls.
// Neither side knows the other: both speak these messages, in one process or over the bus.
//
// A worker polls for calls, reports the start of calls with effects, renews its leases by
// heartbeat, and reports each outcome under the attempt it was given. The attempt is the fencing
// token: the owner refuses what an older attempt says.
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

// Ref names one attempt of one call.
type Ref struct {
	Task events.TaskID `json:"task"`
	// Step is the key of the step instance: its id, or "each[3].id" inside a for_each.
	Step string `json:"step"`
	// Attempt counts from 1.
	Attempt int `json:"attempt"`
}

// String is the call as text: TASK_…/2/step for the second attempt.
func (r Ref) String() string { return string(r.Task) + "/" + strconv.Itoa(r.Attempt) + "/" + r.Step }

// ParseRef reads what Ref.String writes. INVALID_FORMAT.
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

// maxStepKey bounds the bytes of the key of a step in the name of a call.
const maxStepKey = 512

// Call is one tool call handed to a worker.
type Call struct {
	Ref
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
	// Secrets are the entries of Args for which the worker puts in a secret, just before it calls the tool.
	Secrets []Secret `json:"secrets,omitempty"`
	// Effect is read, idempotent, write or destructive: that of the contract of the tool, unless it is Declared by
	// the plan. Before a write or destructive call without a Note the worker must have an answer to Start.
	Effect   string `json:"effect"`
	Declared bool   `json:"declared,omitempty"`
	// Announce asks for an answer to Start before any other call as well: an earlier delivery may have ended
	// with its worker, which must not stay unknown if that happens again.
	Announce bool `json:"announce,omitempty"`
	// State is the canonical state of the task for the gate.
	State string `json:"state"`
	// Handover says who has handed the call on, and why; "" for a call that nobody has.
	Handover string `json:"handover,omitempty"`
	// Handed is what an agent has handed over with the call, nil for nothing.
	Handed json.RawMessage `json:"handed,omitempty"`
	// Timeout ends the call; zero means the tool's default.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Lease is the time without a heartbeat after which the owner gives the call up.
	Lease time.Duration `json:"lease"`
	// Reads holds path → SHA-256 (hex) of the files that this execution of the task has read
	// (S0-042, A-25); only for tools that ask for it.
	Reads map[string]string `json:"reads,omitempty"`
	// Checkpoints lists the checkpoints of the task, id → state data, only for tools that ask.
	Checkpoints map[string]json.RawMessage `json:"checkpoints,omitempty"`
	// Grant is the approval that lets this attempt through, if somebody granted one.
	Grant *Grant `json:"grant,omitempty"`
	// Access says what the task may reach, only for tools that may need an approval.
	Access *Access `json:"open,omitempty"`
	// Approvals lists the approvals of the task by id, only for tools that ask.
	Approvals map[string]json.RawMessage `json:"approvals,omitempty"`
	// Answers holds the answers to the questions that the call has asked so far, by key.
	Answers map[string]json.RawMessage `json:"answers,omitempty"`
	// Note is the newest note of the call, nil for none. A call with a note only looks after what it has begun
	// elsewhere: it may be made any number of times.
	Note json.RawMessage `json:"note,omitempty"`
	// Away is true when the note is about something that goes on elsewhere: the call only looks after that.
	Away bool `json:"away,omitempty"`
	// Anew is true when a person lets a call in doubt be made again: what it was in doubt about does not count.
	Anew bool `json:"anew,omitempty"`
	// Recent is how many calls of the rate class of the tool the task has made in the last minute, and
	// RetryAfter when the oldest of them is a minute old (S0-113); zero while no limit is near.
	Recent     int           `json:"recent,omitempty"`
	RetryAfter time.Duration `json:"retry_after,omitempty"`
	// Session is the session in whose context the call works: the workspace, the reads, the checkpoints and the approvals are
	// those of it. Empty for a call that works in its task.
	Session events.TaskID `json:"session,omitempty"`
	// Writes says how the session writes in its project: ask, session or allow (policy.Call).
	Writes string `json:"writes,omitempty"`
	// Name is the name of the task, for logs and workspace notes.
	Name string `json:"name,omitempty"`
	// Requester is who submitted the task, or the one of which it is a part, or who made this single call inside of
	// it; empty when that is not known.
	Requester string `json:"requester,omitempty"`
	// Client is what the program that submitted the task can do for it; nil for nothing.
	Client *events.Client `json:"client,omitempty"`
	// Since is when the task was made, or the one of which it is a part, only for tools that judge by it.
	Since time.Time `json:"since,omitzero"`
	// KeyOf is the task that this one goes on for; empty means none.
	KeyOf events.TaskID `json:"key_of,omitempty"`
}

// Secret is one entry of an argument that is a secret: Args hold Text there, and the tool gets Prefix and what Source names.
type Secret struct {
	Field  string `json:"field"`
	Key    string `json:"key"`
	Name   string `json:"name"`
	Source string `json:"source"`
	Prefix string `json:"prefix,omitempty"`
	Text   string `json:"text"`
}

// Grant is a granted approval for one call (M-3).
type Grant struct {
	ID string `json:"id"`
	// ArgsSHA256 binds it to a tool and its arguments: it is void for any other call.
	ArgsSHA256 string `json:"args_sha256"`
	// Whole is true when it lets the call through with all that it would open: the approver has seen the whole call.
	Whole bool `json:"whole,omitempty"`
}

// Access is what a task may reach without a further approval.
type Access struct {
	// Paths, Endpoints, Connections and Packages are those that its plan names.
	Paths       []string `json:"paths,omitempty"`
	Endpoints   []string `json:"endpoints,omitempty"`
	Connections []string `json:"connections,omitempty"`
	Packages    []string `json:"packages,omitempty"`
	// Programs are those that its plan names, with the content that was submitted.
	Programs []events.Program `json:"programs,omitempty"`
	// Scopes are those that were granted to it (ApprovalRequest.Scopes).
	Scopes []string `json:"scopes,omitempty"`
	// Within is what the plans of the tasks above name that have spawned this one: what its own plan names
	// counts only as far as each of these names it too.
	Within []events.Allow `json:"within,omitempty"`
}

// ApprovalRequest is what somebody has to allow before a call may run: the worker gives the call back, and the owner
// hands it out again once it is granted.
type ApprovalRequest struct {
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
	// Type is pre_execution, checkpoint or destructive_operation; Risk is low, medium or high.
	Type string `json:"type"`
	Risk string `json:"risk,omitempty"`
	// Scopes are opened for the whole task; none means that the grant is for this call alone.
	Scopes []string `json:"scopes,omitempty"`
	// Offers are scopes that the grant may open for the session of the call instead.
	Offers []string `json:"offers,omitempty"`
	// ArgsSHA256 is the digest of the tool and its arguments.
	ArgsSHA256 string `json:"args_sha256"`
	// Impact are the paths and targets at stake.
	Impact []string `json:"impact,omitempty"`
}

// Question is one thing that a call wants to know, in the words of MCP.
type Question struct {
	// Key names the question in the call, which uses a key once.
	Key string `json:"key"`
	// Kind is elicitation, sampling or roots.
	Kind string `json:"kind"`
	// Params are those of the MCP request.
	Params json.RawMessage `json:"params,omitempty"`
}

// Key is the idempotency key of the call: the same for every attempt (task/step), also when another task
// goes on where the first one failed.
func (c Call) Key() string {
	if c.KeyOf != "" {
		return string(c.KeyOf) + "/" + c.Step
	}
	return string(c.Task) + "/" + c.Step
}

// Context is the task, or the session, in which the call works.
func (c Call) Context() events.TaskID {
	return cmp.Or(c.Session, c.Task)
}

// DefaultQueue is the queue of calls that name none.
const DefaultQueue = "default"

// NodeQueue is the queue of the calls that only the process of the node can run. No plan can name it.
const NodeQueue = "@node"

// AgentsQueue is the queue of the calls that registered agents make, whatever that of their step is.
const AgentsQueue = "agents"

// AgentLease is how long an agent may be silent before its calls are given up, and it is offline (M-2).
const AgentLease = 90 * time.Second

// Poll asks for work.
type Poll struct {
	// Worker is the unique name of the worker process.
	Worker string `json:"worker"`
	// Queues the worker serves; empty means "default".
	Queues []string `json:"queues,omitempty"`
	// Tools the worker has; empty means all.
	Tools []string `json:"tools,omitempty"`
	// Free is the number of calls the worker can take now; 0 only waits for cancellations.
	Free int `json:"free"`
	// Slots is the number of calls that the worker can have at the same time; 0 keeps none of them for operators.
	Slots int `json:"slots,omitempty"`
	// Wait is how long the owner may hold the poll open when there is nothing.
	Wait time.Duration `json:"wait"`
	// LastBatch is the number of the newest batch with calls that the worker has received, 1 before the first. The
	// calls of a later one were lost on their way: the owner hands them out again at once. 0 says nothing.
	LastBatch uint64 `json:"got,omitempty"`
	// Agent is set when a registered agent asks, who gets the calls that are for agents like it and no others.
	Agent *Agent `json:"agent,omitempty"`
}

// Agent is what the owner needs to know of a registered agent.
type Agent struct {
	Name string `json:"name"`
	Type string `json:"type"`
	// Capabilities are the names of what it can do.
	Capabilities []string `json:"capabilities"`
	// For is the only identity whose tasks it works on, such as "user:ada"; empty for everybody's.
	For string `json:"for,omitempty"`
}

// WorksFor reports whether the agent works on the tasks of an identity.
func (a *Agent) WorksFor(requester string) bool { return a.For == "" || a.For == requester }

// Batch answers a poll. It may be empty.
type Batch struct {
	// Number is the number of a batch with calls, unique for the worker also when the owner restarts.
	Number uint64 `json:"no,omitempty"`
	Calls  []Call `json:"calls,omitempty"`
	// Cancel lists running calls of this worker that must stop now.
	Cancel []Ref `json:"cancel,omitempty"`
}

// DefaultTimeout ends a call when neither the call nor its tool has a time limit.
const DefaultTimeout = 2 * time.Minute

// Started asks the owner to make durable that a call with effects begins.
type Started struct {
	Ref
	Worker string `json:"worker"`
	// Effect is that of this very call. A destructive one gets a checkpoint before it (S0-171).
	Effect string `json:"effect,omitempty"`
	// Timeout is the time limit of the call, counted from before this request at the latest.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// Progress is the progress of a running call in the manner of MCP.
type Progress struct {
	Done    float64 `json:"done"`
	Total   float64 `json:"total,omitempty"`
	Message string  `json:"message,omitempty"`
}

// MaxOutput bounds the text of one Output, in bytes before secrets are removed from it.
const MaxOutput = 16 << 10

// Output is a piece of what the programs of a running call write, on both streams. It is shown to those who watch and kept nowhere.
type Output struct {
	// From and To are where the piece begins and ends in all that was written, in bytes. What lies between two pieces is left out.
	From int64 `json:"from"`
	To   int64 `json:"to"`
	// Text are whole lines without secrets.
	Text string `json:"text"`
}

// CallHeartbeat is the heartbeat of one running call.
type CallHeartbeat struct {
	Ref
	// Tool, with the worker's name, lets an owner that has restarted recognise the call.
	Tool string `json:"tool"`
	// Effect is that of this very call once the worker knows it, as in Outcome.
	Effect   string    `json:"effect,omitempty"`
	Progress *Progress `json:"progress,omitempty"`
	// Output is what is new of the output of a call that somebody watches.
	Output *Output `json:"output,omitempty"`
	// Undelivered is true for a call that was sent to an agent which has not said yet that it has it.
	Undelivered bool `json:"unheard,omitempty"`
}

// Heartbeat renews the leases of all running calls of a worker.
type Heartbeat struct {
	Worker string          `json:"worker"`
	Queues []string        `json:"queues,omitempty"`
	Calls  []CallHeartbeat `json:"calls,omitempty"`
	// Final is true for the last heartbeat of an agent that ends.
	Final bool `json:"leaving,omitempty"`
}

// HeartbeatReply answers a heartbeat.
type HeartbeatReply struct {
	// Stop lists calls that are cancelled, or no longer this worker's: it must end them and not
	// report them.
	Stop []Ref `json:"stop,omitempty"`
	// Show lists calls whose output somebody watches: the next heartbeats bring it.
	Show []Ref `json:"show,omitempty"`
}

// Outcome reports the end of a call.
type Outcome struct {
	Ref
	Worker string `json:"worker"`
	// StartedAt and Duration are measured by the worker.
	StartedAt time.Time     `json:"started_at"`
	Duration  time.Duration `json:"duration"`
	// Output is the structured result; nil when Error is set.
	Output json.RawMessage `json:"output,omitempty"`
	Error  *fault.Error    `json:"error,omitempty"`
	// Class is the class of Error (fault.ClassTimeout and so on). A shutdown uses up no retry.
	Class string `json:"class,omitempty"`
	// Effect is that of this very call where it is another one than that of its tool: a SELECT, a GET. Empty also
	// when the call ended before it was known.
	Effect string `json:"effect,omitempty"`
	// ApprovalRequest is set instead of Output and Error when the call was not made because it needs an approval.
	ApprovalRequest *ApprovalRequest `json:"ask,omitempty"`
	// Questions are set instead of Output and Error when the call cannot go on without answers. It is handed out
	// again when all of them are there.
	Questions []Question `json:"questions,omitempty"`
	// Note is set instead of Output and Error, maybe beside Questions, when the call has begun something elsewhere
	// that goes on without it. It is handed out again with the note, without Questions at once.
	Note json.RawMessage `json:"note,omitempty"`
	// RetryAfter is set with RATE_LIMITED when the call was not made and may be made then.
	RetryAfter time.Duration `json:"retry_after,omitempty"`
	// Facts are the events that the call adds to the log, in the same commit as its result.
	Facts []events.Event `json:"facts,omitempty"`
	// Values holds, by reference, the large values of Facts, which themselves have only the reference.
	Values map[string]json.RawMessage `json:"values,omitempty"`
	// Spawn is set instead of Output and Error when the call goes on as a child task, whose end is its end.
	Spawn *Spawn `json:"spawn,omitempty"`
	// HandTo is set beside Error when the agent that has the call leaves it to others, and says that it is in no doubt.
	HandTo *events.Agents `json:"hand_to,omitempty"`
	// Handed is what it hands over to them.
	Handed json.RawMessage `json:"handed,omitempty"`
	// Retry is how the agent that had the call wishes it to be tried again. It never leaves the process.
	Retry *Retry `json:"-"`
	// AgentCall is set instead of Output and Error when the call has passed all gates and is made by an agent, who reports
	// its end. It never leaves the process.
	AgentCall *AgentCall `json:"-"`
	// Unleased is set when the worker is not known to have had the attempt. A refusal of it is not noted in the log, which
	// anybody could fill by that. It never leaves the process.
	Unleased bool `json:"-"`
}

// Retry is a wish about calls that have failed: the plan goes first, and calls with effects are not made again by it.
type Retry struct {
	// Max is how often a call is tried again.
	Max int
	// Backoff is how long it waits before the first time; each wait is twice as long as the one before.
	Backoff time.Duration
}

// AgentCall is a call that has passed all gates, for the agent that makes it.
type AgentCall struct {
	// Args are the arguments with all defaults.
	Args json.RawMessage
	// Timeout is how long the call may take from now on.
	Timeout time.Duration
}

// Spawn is a child task that a call asks for.
type Spawn struct {
	// Agent is the type of the agent that the child is.
	Agent string `json:"agent"`
	// File is the file of the plan, for messages; empty when no file holds it.
	File string `json:"file,omitempty"`
	// Plan is the text of the plan as a JSON string, or the plan itself.
	Plan   json.RawMessage `json:"plan"`
	Inputs json.RawMessage `json:"inputs"`
}

// MaxFacts bounds the bytes of the facts of a call with their values, so that they fit into one commit.
const MaxFacts = 2 << 20

// Owner is what a worker talks to. Errors are *fault.Error: CONFLICT when the attempt is no longer
// the current one, UNAVAILABLE when the owner cannot be reached (ask again).
type Owner interface {
	// Poll waits up to p.Wait for work. A worker has one poll at a time: a new one ends the one before,
	// which then brings nothing. One with neither Free nor Wait takes the worker back. After a restart of the owner a call may be handed out again
	// that the worker is executing: it must run an attempt only once.
	Poll(ctx context.Context, p Poll) (Batch, error)
	// Start returns when the start of the call is durable. CONFLICT means: do not call.
	Start(ctx context.Context, s Started) error
	// Heartbeat renews leases.
	Heartbeat(ctx context.Context, b Heartbeat) (HeartbeatReply, error)
	// Report returns when the outcome is durable. CONFLICT means: too late, dropped and noted.
	Report(ctx context.Context, o Outcome) error
}

// Source is the Owner at the other end: where the calls come from.
type Source interface {
	Owner
	// Undelivered takes back the calls of the batch with a number, which nobody was there to receive. A number that
	// is not the newest of its worker does nothing.
	Undelivered(no uint64)
}
