package api

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// SubmitRequest asks for a new task.
type SubmitRequest struct {
	// ID is chosen by the client, so that a repeated request creates one task. If it is empty, the node chooses it.
	ID events.TaskID `json:"id,omitempty"`
	// Plan is the plan as normalized JSON, or a plan text without references to files.
	Plan   json.RawMessage `json:"plan"`
	Inputs json.RawMessage `json:"inputs,omitempty"`
	// Name, Labels, Priority, Queue and IdempotencyKey override the values in the plan.
	Name           string            `json:"name,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
	Priority       string            `json:"priority,omitempty"`
	Queue          string            `json:"queue,omitempty"`
	IdempotencyKey string            `json:"idempotency_key,omitempty"`
	// IdempotencyScope is how long the task holds the idempotency key: forever, until_end, or a duration since submission such as
	// 24h. Empty means the scope in the plan. If the plan has none, the key is held forever unless the task fails or is cancelled.
	IdempotencyScope string `json:"idempotency_scope,omitempty"`
	// KeysOf is the namespace of the idempotency key, such as agent:ci for an identity that sees only its own tasks. Empty
	// means the namespace shared by all identities that see every task.
	KeysOf    string          `json:"keys_of,omitempty"`
	DependsOn []events.TaskID `json:"depends_on,omitempty"`
	// Delay postpones the first step.
	Delay time.Duration `json:"delay,omitempty"`
	// Schedule is the firing that submits the task. Only the node sets it.
	Schedule *events.Firing `json:"-"`
	// Hook is the delivery that submits the task. Only the node sets it.
	Hook *events.Delivery `json:"-"`
	// Internal permits the name of an internal task, which begins with OwnPrefix. Only the node sets it.
	Internal bool `json:"-"`
	// Client describes the capabilities of the submitting program that the task can use.
	Client *events.Client `json:"client,omitempty"`
	// Session is the session in which the task is submitted; the actor must be the same. A task with ID equal to Session
	// becomes a session itself. Shares lets the calls of the task work in the context of the session.
	Session events.TaskID `json:"session,omitempty"`
	Shares  bool          `json:"shares,omitempty"`
	// Writes determines which writes of a session in its project need an approval: every call (ask or ""), only the first
	// (session), or none (allow).
	Writes string `json:"writes,omitempty"`
	// For is the call that the task is submitted for, if the actor is an agent that works on a call. An agent that holds exactly
	// one call may leave it empty.
	For *work.Ref `json:"for,omitempty"`
	// Tools lists the tools that the task and its children may call, regardless of the plan; empty for any.
	Tools []string `json:"tools,omitempty"`
	// Within restricts the `allow` section of the plan: it opens only the resources that every entry of Within covers.
	Within []events.Allow `json:"within,omitempty"`
	// NoSecrets refuses a plan with secrets, because the submitting program must not use them.
	NoSecrets bool `json:"no_secrets,omitempty"`
	// Root is the folder that the calls of the task are confined to, as an absolute path without symbolic links. Empty means
	// the root of the node. Only programs on the machine of the node may choose it.
	Root string `json:"root,omitempty"`
	// Undoes is the session or the call of one that the task undoes. Such a submission is an act for the audit stream.
	Undoes events.TaskID `json:"undoes,omitempty"`
	// Actor is the submitter, such as "user:ada".
	Actor string `json:"actor,omitempty"`
	// Cause is the id of the request that caused the task. It is recorded in the first commit.
	Cause string `json:"cause,omitempty"`
	// Via is the command with which a person submits the task, such as "submit". A task without Via is never the @last of a
	// person.
	Via string `json:"via,omitempty"`
	// TraceParent is the position in a trace of the submitting program, as W3C Trace Context writes it. The spans of the task are
	// below it.
	TraceParent string `json:"traceparent,omitempty"`
	// TraceState is the tracestate beside TraceParent. Programs that the task asks get it; of more than 512 characters, the first
	// members.
	TraceState string `json:"tracestate,omitempty"`
}

// ConcurrencyKeyField is the field of the CONFLICT with which a plan with on_conflict: reject is refused while its concurrency key is in
// use. Other conflicts do not say that there is no task.
const ConcurrencyKeyField = "concurrency.key"

// SubmitReply answers Submit.
type SubmitReply struct {
	ID    events.TaskID      `json:"id"`
	State statemachine.State `json:"state"`
	// Existing is true if a task with the same idempotency key or id existed already.
	Existing bool `json:"existing,omitempty"`
	// Reused counts the steps with reused results (Retry).
	Reused int `json:"reused,omitempty"`
}

// SubmitBatchRequest submits many tasks.
type SubmitBatchRequest struct {
	Tasks []SubmitRequest `json:"tasks"`
}

// Expect makes room for the tasks of an encoded request, so that they are not moved while it is decoded into r.
func (r *SubmitBatchRequest) Expect(encoded []byte) {
	const most = 10_000 // of a batch
	r.Tasks = make([]SubmitRequest, 0, min(bytes.Count(encoded, []byte(`"plan":`)), most))
}

// SubmitBatchReply answers SubmitBatch.
type SubmitBatchReply struct {
	Tasks []SubmitBatchItem `json:"tasks"`
}

// SubmitBatchItem is the result for one task of a batch.
type SubmitBatchItem struct {
	SubmitReply

	Error *fault.Error `json:"error,omitempty"`
}

// RetryRequest asks for a new task that continues a failed one.
type RetryRequest struct {
	ID events.TaskID `json:"id"`
	// From is a step to run again together with all steps that depend on it. Empty means the failed and the cancelled steps, and
	// all steps that depend on them. Steps that never started run in any case.
	From  string `json:"from,omitempty"`
	Actor string `json:"actor,omitempty"`
	// SeenRev is the same as in CancelRequest.
	SeenRev uint64 `json:"seen_rev,omitempty"`
	// Via is the same as in SubmitRequest.
	Via string `json:"via,omitempty"`
}

// RedriveRequest names a task of the dead letter.
type RedriveRequest struct {
	ID    events.TaskID `json:"id"`
	Actor string        `json:"actor,omitempty"`
	// SeenRev is the same as in CancelRequest.
	SeenRev uint64 `json:"seen_rev,omitempty"`
}

// ErrAgentSecrets returns the error for a plan with secrets that a program submits, such as an agent. The author of such a plan
// could print the secrets in a form that the redaction does not recognize.
func ErrAgentSecrets() error {
	return fault.New(fault.Forbidden, "agents and MCP clients submit no plans with secrets").WithField("plan.secrets").WithReason("SECRET_NOT_ALLOWED").
		WithHint("a person submits such a plan: orch submit PLAN")
}
