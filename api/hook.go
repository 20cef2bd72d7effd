package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/orch-dev/orch/hooks"
	"github.com/orch-dev/orch/schedules"
)

// Hooks are the methods about hooks, which start or signal tasks when other systems deliver something over HTTP.
type Hooks interface {
	// Hooks returns all hooks, or one, by name. NOT_FOUND for an unknown name.
	Hooks(ctx context.Context, r HooksRequest) (HooksReply, error)
	// PutHook creates a hook or replaces its definition. Errors: CONFLICT if the name is in use and the request does not replace it,
	// those of hooks.Definition.Check and hooks.CheckSecret, VALIDATION_ERROR for a wrong expression, and those of Submit for its
	// plan.
	PutHook(ctx context.Context, r PutHookRequest) (HookView, error)
	// SteerHook pauses, resumes or deletes a hook, or gives it another secret. Errors: NOT_FOUND, VALIDATION_ERROR.
	SteerHook(ctx context.Context, r SteerHookRequest) (HookView, error)
	// TestHook returns what a delivery would do, without doing it. Errors: NOT_FOUND, VALIDATION_ERROR, and those of PutHook for a definition.
	TestHook(ctx context.Context, r TestHookRequest) (TestHookReply, error)
}

// HooksRequest selects hooks.
type HooksRequest struct {
	// Name selects one hook; empty selects all.
	Name string `json:"name,omitempty"`
	// Deliveries is the number of the last deliveries in each view, at most hooks.MaxOutcomes.
	Deliveries int `json:"deliveries,omitempty"`
	// Brief leaves out what can be large: plans, their inputs, and the data of signals.
	Brief bool `json:"brief,omitempty"`
}

// HooksReply contains hooks, by name.
type HooksReply struct {
	Hooks []HookView `json:"hooks"`
}

// PutHookRequest defines a hook.
type PutHookRequest struct {
	// Name is 1 to 63 of a to z, 0 to 9, '.', '_' and '-'.
	Name string `json:"name"`
	// Definition contains a plan as in SubmitRequest.
	Definition hooks.Definition `json:"definition"`
	// Secret is what the sender signs with. Without one, a hook that exists keeps its secret. No answer contains it.
	Secret string `json:"secret,omitempty"`
	// Root is the same as in SubmitRequest.
	Root string `json:"root,omitempty"`
	// Replace permits to replace the definition of an existing hook. It keeps its pause and its deliveries.
	Replace bool `json:"replace,omitempty"`
	// Paused also pauses the hook.
	Paused bool   `json:"paused,omitempty"`
	Actor  string `json:"actor,omitempty"`
}

// ActRotate is the act of SteerHookRequest that sets another secret. ActPause, ActResume and ActDelete are acts too.
const ActRotate = "rotate"

// SteerHookRequest changes what a hook does.
type SteerHookRequest struct {
	Name string `json:"name"`
	Act  string `json:"act"`
	// Note says why a hook is paused.
	Note string `json:"note,omitempty"`
	// Secret is the new secret of a rotation. Keep is how long the secret before it stays valid. Default: 24h.
	Secret string              `json:"secret,omitempty"`
	Keep   *schedules.Duration `json:"keep,omitempty"`
	Actor  string              `json:"actor,omitempty"`
}

// TestHookRequest is a delivery that only shows what it would do.
type TestHookRequest struct {
	Name string `json:"name"`
	// Definition is tested instead of the hook with the name, which need not exist. Deliveries are then not signed.
	Definition *hooks.Definition `json:"definition,omitempty"`
	// Root is the same as in PutHookRequest, for the definition.
	Root string `json:"root,omitempty"`
	// Body is the body. Headers are headers of the sender beside those of its signature, such as X-GitHub-Event; Content-Type is
	// application/json by default.
	Body    string            `json:"body,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	// Delivery is the id of the delivery. Default: a new one.
	Delivery string `json:"delivery,omitempty"`
	// Subject is the subject of a message of a NATS stream. Default: that of the hook, if it takes one alone.
	Subject string `json:"subject,omitempty"`
	Actor   string `json:"actor,omitempty"`
}

// TestHookReply is what a delivery would do.
type TestHookReply struct {
	hooks.Outcome

	// Inputs are those that the task would have, Signal the signal that would be sent.
	Inputs json.RawMessage `json:"inputs,omitempty"`
	Signal *hooks.Signal   `json:"signal,omitempty"`
	// Headers are the headers that expressions see.
	Headers map[string]string `json:"headers"`
}

// HookView describes a hook, without its secret.
type HookView struct {
	Name string `json:"name"`
	ID   string `json:"id"`
	// URL is where deliveries go, on this node; empty if it does not serve HTTP.
	URL        string           `json:"url,omitempty"`
	Definition hooks.Definition `json:"definition"`
	// PlanName is the name of the plan of its tasks.
	PlanName string `json:"plan_name,omitempty"`
	Root     string `json:"root,omitempty"`
	// Requestor is who has written the definition. Its tasks act for that identity.
	Requestor string    `json:"requestor"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	// Paused is who has paused it, when and why; nil while it takes deliveries.
	Paused *hooks.Pause `json:"paused,omitempty"`
	// Problem says why a hook of the provider nats takes no messages at the moment, as far as the node knows.
	Problem string `json:"problem,omitempty"`
	// Waiting is the number of messages of the stream that wait for the hook; nil if it is not known, and in lists.
	Waiting *int `json:"waiting,omitempty"`
	// HasSecret is false if its secret is missing, after a restore: it then takes no deliveries.
	HasSecret bool `json:"has_secret"`
	// PreviousUntil is until when the secret before the current one is valid.
	PreviousUntil *time.Time `json:"previous_until,omitempty"`
	// Limits are the limits of its deliveries.
	Limits HookLimits `json:"limits"`
	// Counts are the numbers of deliveries. Those that were rejected or limited are counted since the node started.
	Counts map[hooks.Result]int `json:"counts"`
	// LastRejected is the last request without a valid signature since the node started.
	LastRejected *hooks.Outcome `json:"last_rejected,omitempty"`
	// LastRefused is the last delivery that was refused, among those that are kept.
	LastRefused *hooks.Outcome `json:"last_refused,omitempty"`
	// Deliveries are the last deliveries, the newest first.
	Deliveries []hooks.Outcome `json:"deliveries"`
}

// HookLimits are the limits of the deliveries to a hook.
type HookLimits struct {
	// PerSecond is the number of deliveries that it takes in a second, AtOnce the number that it takes at once after a pause.
	PerSecond int `json:"per_second"`
	AtOnce    int `json:"at_once"`
	// MaxBody is the maximum size of a body, in bytes.
	MaxBody int `json:"max_body"`
}

// ActorFields returns the field that names who acts.
func (r *PutHookRequest) ActorFields() []*string { return []*string{&r.Actor} }

// ActorFields returns the field that names who acts.
func (r *SteerHookRequest) ActorFields() []*string { return []*string{&r.Actor} }

// ActorFields returns the field that names who acts.
func (r *TestHookRequest) ActorFields() []*string { return []*string{&r.Actor} }
