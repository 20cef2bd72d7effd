package receiver

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/hooks"
	"github.com/orch-dev/orch/plan"
)

// definition is what somebody has defined, as the journal stores it.
type definition struct {
	hooks.Definition

	ID   string `json:"id"`
	Root string `json:"root,omitempty"`
	// Since is the time of the first message that it takes of its stream; zero for all messages.
	Since time.Time `json:"since,omitzero"`
	// By is who wrote it; its tasks act for that identity.
	By        string    `json:"by"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// hook is a hook at one time. It is never changed: a turn replaces it.
type hook struct {
	Name       string               `json:"name"`
	Definition definition           `json:"definition"`
	Paused     *hooks.Pause         `json:"paused,omitempty"`
	Outcomes   []hooks.Outcome      `json:"outcomes,omitempty"` // the newest last
	Counts     map[hooks.Result]int `json:"counts,omitempty"`

	// rules is nil if this version of orch cannot compile the expressions.
	rules *plan.HookRules
	// planName is the name of the plan.
	planName string
}

// with returns a copy with another outcome.
func (h *hook) with(o hooks.Outcome) *hook {
	next := *h
	next.Outcomes = append(slices.Clone(h.Outcomes), o)
	if excess := len(next.Outcomes) - hooks.MaxOutcomes; excess > 0 {
		next.Outcomes = slices.Delete(next.Outcomes, 0, excess)
	}
	next.Counts = map[hooks.Result]int{}
	maps.Copy(next.Counts, h.Counts)
	next.Counts[o.Result]++
	return &next
}

// key returns the idempotency key of a delivery.
func (h *hook) key(delivery string) string { return "hook/" + h.Name + "/" + delivery }

// taskOf returns the id of the task that a delivery starts.
func (h *hook) taskOf(delivery string) events.TaskID { return events.KeyedTaskID("", h.key(delivery)) }

// values are what the expressions of a definition compute for a delivery.
type values struct {
	Inputs json.RawMessage `json:"inputs,omitempty"`
	Signal *hooks.Signal   `json:"signal,omitempty"`
}

// compile compiles the expressions of a definition.
func compile(d hooks.Definition) (*plan.HookRules, error) {
	computed, err := computedOf(d)
	if err != nil {
		return nil, err
	}
	return plan.CompileHook(d.When, computed)
}

// computedOf returns the values of a definition, with their templates.
func computedOf(d hooks.Definition) (json.RawMessage, error) {
	raw, err := json.Marshal(values{d.Inputs, d.Signal})
	if err != nil {
		return nil, fault.Wrap(fault.InvalidFormat, err, "the inputs are not JSON").WithField("inputs")
	}
	return raw, nil
}

// valuesOf evaluates the expressions for a delivery.
func (h *hook) valuesOf(in plan.HookInfo) (values, error) {
	raw, err := h.rules.Values(in)
	if err != nil {
		return values{}, err
	}
	var v values
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, fault.New(fault.ValidationError, "signal.task and signal.name are texts").WithField("signal")
	}
	if v.Signal != nil && len(v.Signal.Data) == 0 {
		v.Signal.Data = in.Body
	}
	return v, nil
}

// labelName is the label of the tasks of hooks.
const labelName = "hook"

// submission returns the request that starts the task of a delivery.
func (h *hook) submission(in plan.HookInfo, inputs json.RawMessage) api.SubmitRequest {
	d := h.Definition
	return api.SubmitRequest{
		Plan: d.Plan, Inputs: inputs, Root: d.Root, Actor: d.By,
		IdempotencyKey: h.key(in.Delivery), IdempotencyScope: "forever", Cause: "hook " + h.Name, Labels: map[string]string{labelName: h.Name},
		Hook: &events.Delivery{Name: h.Name, ID: in.Delivery, Subject: in.Subject, Headers: in.Headers, Body: events.Inline(in.Body)},
	}
}

// view returns the view for clients, with a number of deliveries.
func (h *hook) view(deliveries int) api.HookView {
	d := h.Definition
	v := api.HookView{
		Name: h.Name, ID: d.ID, Definition: d.Definition, PlanName: h.planName, Root: d.Root, Requestor: d.By, CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt,
		Paused: h.Paused, Counts: map[hooks.Result]int{}, Deliveries: []hooks.Outcome{},
	}
	maps.Copy(v.Counts, h.Counts)
	for _, o := range slices.Backward(h.Outcomes) {
		if o.Result == hooks.Refused {
			v.LastRefused = &o
			break
		}
	}
	last := h.Outcomes[max(len(h.Outcomes)-deliveries, 0):]
	v.Deliveries = append(v.Deliveries, last...)
	slices.Reverse(v.Deliveries)
	return v
}

// sameDefinition reports whether two definitions mean the same.
func sameDefinition(a, b definition) bool {
	left, errLeft := json.Marshal(a.Definition)
	right, errRight := json.Marshal(b.Definition)
	return errLeft == nil && errRight == nil && string(left) == string(right) && a.Root == b.Root && a.By == b.By
}
