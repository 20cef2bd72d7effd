// Package work defines the messages between the owner of tasks, which is the orchestrator, and the workers that execute tool
// calls. Both sides depend only on this package. They run in one process or communicate over the bus.
//
// A worker polls for calls, reports the start of calls with effects, renews its leases with heartbeats, and reports each
// outcome with the attempt of the call. The attempt is the fencing token: the owner refuses reports of an older attempt.
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

// ParseRef parses the result of Ref.String. It returns INVALID_FORMAT for any other text.
func ParseRef(text string) (Ref, error) {
	task, rest, _ := strings.Cut(text, "/")
	number, step, _ := strings.Cut(rest, "/")
	attempt, err := strconv.Atoi(number)
	id, bad := events.ParseTaskID(task)
	if err != nil || bad != nil || attempt < 1 || step == "" || len(step) > maxStepKey {
		return Ref{}, fault.New(fault.InvalidFormat, "is not a call; a call is TASK_…/ATTEMPT/STEP")
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
	// Effect is read, idempotent, write or destructive. It is the effect of the tool, or, if Declared is set, the one in the plan.
	// Before a write or destructive call without a Note, the worker must call Start and wait for the answer.
	Effect   string `json:"effect"`
	Declared bool   `json:"declared,omitempty"`
	// Announce requires Start whatever the effect, because an earlier attempt of the call may have killed its worker. With the
	// start in the log, the owner recognizes when that happens again.
	Announce bool `json:"announce,omitempty"`
	// State is the state of the task that the gate checks.
	State string `json:"state"`
	// Handover is a text with the agent that handed the call over, and the reason; "" if none did.
	Handover string `json:"handover,omitempty"`
	// Handed is the data that this agent handed over with the call, or nil.
	Handed json.RawMessage `json:"handed,omitempty"`
	// Timeout is the time limit of the call; zero means the time limit of the tool.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Lease is the time without a heartbeat after which the call is lost.
	Lease time.Duration `json:"lease"`
	// Reads maps the paths of the files that this execution of the task has read to their SHA-256 in hex (S0-042, A-25). It is set
	// only for tools that need it.
	Reads map[string]string `json:"reads,omitempty"`
	// Checkpoints maps the ids of the checkpoints of the task to their state data, only for tools that need them.
	Checkpoints map[string]json.RawMessage `json:"checkpoints,omitempty"`
	// Grant is the approval that allows this attempt, if there is one.
	Grant *Grant `json:"grant,omitempty"`
	// Access lists the resources that the task may access, only for tools that may need an approval.
	Access *Access `json:"open,omitempty"`
	// Approvals holds the approvals of the task by id, only for tools that need them.
	Approvals map[string]json.RawMessage `json:"approvals,omitempty"`
	// Answers holds the answers to the questions that the call has asked so far, by key.
	Answers map[string]json.RawMessage `json:"answers,omitempty"`
	// Note is the newest note of the call, or nil. A note identifies work that the call has started outside the worker. A call
	// with a note only observes that work, so it may be repeated any number of times.
	Note json.RawMessage `json:"note,omitempty"`
	// Away is true if the work that the note identifies continues outside the worker.
	Away bool `json:"away,omitempty"`
	// Anew is true if a person decided to repeat a call that was in doubt.
	Anew bool `json:"anew,omitempty"`
	// Recent is the number of calls in the rate class of the tool that the task made in the last minute. RetryAfter is the time
	// until the oldest of them is a minute old (S0-113). Both are zero for a class without a limit.
	Recent     int           `json:"recent,omitempty"`
	RetryAfter time.Duration `json:"retry_after,omitempty"`
	// Trace is the trace of the task as in events.Parent. It is empty if it follows from the id of the task.
	Trace string `json:"trace,omitempty"`
	// TraceState is the tracestate that the task hands on; empty for none.
	TraceState string `json:"tracestate,omitempty"`
	// Session is the session that provides the context of the call: workspace, reads, checkpoints and approvals belong to it. It
	// is empty for a call in the context of its task.
	Session events.TaskID `json:"session,omitempty"`
	// Home is the task whose workspace the call uses, if it is not its own: the call is in a part of a for_each of that task.
	Home events.TaskID `json:"home,omitempty"`
	// Writes is the rule for writes of the session in its project: ask, session or allow (policy.Call).
	Writes string `json:"writes,omitempty"`
	// Name is the name of the task, for logs and workspace notes.
	Name string `json:"name,omitempty"`
	// Requester is the identity that made this single call inside the task; for the calls of a plan, the submitter of the task or
	// of its topmost parent. It is empty if the identity is not known.
	Requester string `json:"requester,omitempty"`
	// SeesAll is true if Requester sees the tasks of all identities, only for tools that need to know it.
	SeesAll bool `json:"sees_all,omitempty"`
	// Client describes the capabilities of the submitting program that the task can use; nil for none.
	Client *events.Client `json:"client,omitempty"`
	// Since is when the task or its topmost parent was submitted, only for tools that need it.
	Since time.Time `json:"since,omitzero"`
	// KeyOf is the task that provides the idempotency key (Call.Key), if this task continues an earlier one; else empty.
	KeyOf events.TaskID `json:"key_of,omitempty"`
}

// Secret is one secret in the arguments of a call: the entry Key of the field Field. Call.Args contain Text in its place. The
// tool receives Prefix and the value of the secret, which the worker reads from Source.
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
	// ArgsSHA256 is the digest of a tool and its arguments. The grant is valid only for a call with this digest.
	ArgsSHA256 string `json:"args_sha256"`
	// Whole is true if the approver has seen the whole call. The grant then covers all scopes that the call needs.
	Whole bool `json:"whole,omitempty"`
}

// Access lists the resources that a task may access without further approval.
type Access struct {
	// Paths, Endpoints, Connections and Packages are allowed by the plan of the task.
	Paths       []string `json:"paths,omitempty"`
	Endpoints   []string `json:"endpoints,omitempty"`
	Connections []string `json:"connections,omitempty"`
	Packages    []string `json:"packages,omitempty"`
	// Programs are the programs that the plan allows, with the hashes of their content at submission.
	Programs []events.Program `json:"programs,omitempty"`
	// Scopes were granted to the task by approvals (ApprovalRequest.Scopes).
	Scopes []string `json:"scopes,omitempty"`
	// Within holds the resources that the plans of the parent tasks allow, one entry for each parent. The task may access only
	// resources that each of them allows as well.
	Within []events.Allow `json:"within,omitempty"`
}

// ApprovalRequest is a request to approve a call before it runs. The worker returns the call, and the owner dispatches it again
// once the approval is granted.
type ApprovalRequest struct {
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
	// Type is pre_execution, checkpoint or destructive_operation. Risk is low, medium or high.
	Type string `json:"type"`
	Risk string `json:"risk,omitempty"`
	// Scopes are the scopes that a grant opens for the whole task. Without them, a grant is for this call only.
	Scopes []string `json:"scopes,omitempty"`
	// Offers are scopes that a grant may open for the session of the call instead.
	Offers []string `json:"offers,omitempty"`
	// ArgsSHA256 is the digest of the tool and its arguments.
	ArgsSHA256 string `json:"args_sha256"`
	// Impact lists the affected paths and targets.
	Impact []string `json:"impact,omitempty"`
}

// Question is one question of a call, in the terms of MCP.
type Question struct {
	// Key identifies the question within the call. A call must not use a key for two questions.
	Key string `json:"key"`
	// Kind is elicitation, sampling or roots.
	Kind string `json:"kind"`
	// Params are the parameters of the MCP request.
	Params json.RawMessage `json:"params,omitempty"`
}

// Key returns the idempotency key of the call (task/step). It is the same for every attempt, and also for the calls of a task
// that continues a failed one.
func (c Call) Key() string {
	if c.KeyOf != "" {
		return string(c.KeyOf) + "/" + c.Step
	}
	return string(c.Task) + "/" + c.Step
}

// Context returns the session in which the call works, or else the task whose workspace it uses.
func (c Call) Context() events.TaskID {
	return cmp.Or(c.Session, c.Home, c.Task)
}

// DefaultQueue is the queue of calls without a queue.
const DefaultQueue = "default"

// NodeQueue is the queue of calls that only the process of the node can run. No plan can name it.
const NodeQueue = "@node"

// ModelsQueue is the queue of requests to models, which only the process of the node makes. No plan can name it, and no event does: their
// steps have NodeQueue.
const ModelsQueue = "@models"

// InternalQueue reports whether only the process of the node serves a queue.
func InternalQueue(name string) bool { return name == NodeQueue || name == ModelsQueue }

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
	// Root is the folder that the worker confines its calls to, if it runs on the machine of the node: it receives only the
	// calls of tasks with this root, and those of tasks without a root. Empty means any root.
	Root string `json:"root,omitempty"`
	// Last is set in the last poll of a worker that stops: from then on it counts as offline.
	Last bool `json:"last,omitempty"`
	// Agent is set if a registered agent polls. The agent receives only calls for agents like it (events.Agents).
	Agent *Agent `json:"agent,omitempty"`
}

// Agent describes a registered agent to the owner.
type Agent struct {
	Name string `json:"name"`
	Type string `json:"type"`
	// Capabilities are the names of the capabilities of the agent.
	Capabilities []string `json:"capabilities"`
	// For is the only identity that the agent works for, such as "user:ada"; empty for any.
	For string `json:"for,omitempty"`
}

// WorksFor reports whether the agent works on the tasks of an identity.
func (a *Agent) WorksFor(requester string) bool { return a.For == "" || a.For == requester }

// Batch answers a poll. It may be empty.
type Batch struct {
	// Number is the number of a batch with calls; 0 without calls. It is unique for the worker, also across restarts of the owner.
	Number uint64  `json:"no,omitempty"`
	Calls  []*Call `json:"calls,omitempty"`
	// Cancel lists running calls of this worker that must stop now.
	Cancel []Ref `json:"cancel,omitempty"`
}

// DefaultTimeout is the time limit of a call if neither the call nor its tool has one.
const DefaultTimeout = 2 * time.Minute

// Started reports that a call with effects is about to start. The owner records the start durably.
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

// Output is a piece of the output that the programs of a running call write to stdout and stderr. It is sent to watchers and
// not stored.
type Output struct {
	// From and To are the byte offsets of the piece in the whole output. There may be gaps between pieces.
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
	// Undelivered is true for a call that was sent to an agent and that the agent has not confirmed yet.
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
	// Class is the class of Error (fault.ClassTimeout and so on). An error of class shutdown does not count as a retry.
	Class string `json:"class,omitempty"`
	// Effect is the effect of this particular call if it differs from the effect of its tool, as for a SELECT or a GET. It is also
	// empty if the call ended before the effect was known.
	Effect string `json:"effect,omitempty"`
	// ApprovalRequest is set instead of Output and Error if the call was not made because it needs an approval.
	ApprovalRequest *ApprovalRequest `json:"ask,omitempty"`
	// Questions are set instead of Output and Error if the call cannot continue without answers. It is dispatched again when
	// all of them are answered.
	Questions []Question `json:"questions,omitempty"`
	// Note is set instead of Output and Error, possibly together with Questions, if the call has started work that continues
	// outside the worker. The call is dispatched again with the note: at once, or after the answers if there are Questions.
	Note json.RawMessage `json:"note,omitempty"`
	// RetryAfter is set with RATE_LIMITED if the call was not made. It is the time until the call may be made.
	RetryAfter time.Duration `json:"retry_after,omitempty"`
	// Facts are events that the call adds to the log, in the same commit as its result.
	Facts []events.Event `json:"facts,omitempty"`
	// Values holds the large values of Facts by reference. The facts contain only the references.
	Values map[string]json.RawMessage `json:"values,omitempty"`
	// Spawn is set instead of Output and Error if the call continues as a child task. The call ends when the child ends.
	Spawn *Spawn `json:"spawn,omitempty"`
	// HandTo selects the agents that the reporting agent hands the call over to. It is set together with Error. The reporting
	// agent confirms with it that the call is not in doubt.
	HandTo *events.Agents `json:"hand_to,omitempty"`
	// Handed is data that is handed over with the call.
	Handed json.RawMessage `json:"handed,omitempty"`
	// Retry is the retry rule that the agent requests for the call. It is used only inside the process.
	Retry *Retry `json:"-"`
	// AgentCall is set instead of Output and Error if the call has passed all gates and an agent makes it and reports its end. It
	// is used only inside the process.
	AgentCall *AgentCall `json:"-"`
	// Unleased is set if it is not known that the worker held the attempt. A refusal of the outcome is then not recorded in the
	// log, because any client could fill the log that way. It is used only inside the process.
	Unleased bool `json:"-"`
}

// Retry is a retry rule that an agent requests. The rule of the plan takes precedence. A call with effects is not repeated
// because of a requested rule.
type Retry struct {
	// Max is the maximum number of retries.
	Max int
	// Backoff is the wait before the first retry. Each further wait is twice as long.
	Backoff time.Duration
}

// AgentCall holds the checked arguments and the time limit of a call that an agent makes. The call has passed all gates.
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
	// File is the file name of the plan, for messages; empty if there is none.
	File string `json:"file,omitempty"`
	// Plan is the text of the plan as a JSON string, or the plan itself.
	Plan   json.RawMessage `json:"plan"`
	Inputs json.RawMessage `json:"inputs"`
}

// MaxFacts limits the bytes of the facts of a call and their values, so that they fit into one commit.
const MaxFacts = 2 << 20

// Owner is the interface of the orchestrator for workers. Errors are *fault.Error: CONFLICT if the attempt is no longer
// current, UNAVAILABLE if the owner cannot be reached and the worker should try again.
type Owner interface {
	// Poll waits up to p.Wait for calls. A worker has one poll at a time: a new poll ends the previous one, which then returns
	// an empty batch. A poll with both Free and Wait zero unregisters the worker. After a restart of the owner, a call that the
	// worker is executing may be dispatched again; the worker must run an attempt only once.
	Poll(ctx context.Context, p Poll) (Batch, error)
	// Start returns when the start of the call is durable. After CONFLICT the worker must not make the call.
	Start(ctx context.Context, s Started) error
	// Heartbeat renews leases.
	Heartbeat(ctx context.Context, b Heartbeat) (HeartbeatReply, error)
	// Report returns when the outcome is durable. CONFLICT means that it came too late: the outcome is dropped, and the log
	// records that.
	Report(ctx context.Context, o Outcome) error
}

// Source is an Owner that also requeues undelivered calls.
type Source interface {
	Owner
	// Undelivered requeues the calls of the batch with a number, because no worker received the batch. It ignores a number that is
	// not the newest of its worker.
	Undelivered(no uint64)
}
