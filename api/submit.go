package api

import (
	"encoding/json"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

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

// ErrAgentSecrets is the error for a plan with secrets that a program submits, such as an agent: who writes a plan could have its
// secrets printed in a form that nobody recognises.
func ErrAgentSecrets() error {
	return fault.New(fault.Forbidden, "agents and MCP clients submit no plans with secrets").WithField("plan.secrets").WithReason("SECRET_NOT_ALLOWED").
		WithHint("a person submits such a plan: orch submit PLAN")
}
