package orchestrator

import (
	"encoding/json"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/plan"
)

// This file holds what is evaluated once, when a task is submitted, and recorded in its first event.

// evaluateKeys evaluates what the inputs decide about the whole task: the idempotency and the concurrency key, and what
// the task may reach.
func (o *Orchestrator) evaluateKeys(p *events.Submitted, prog *program, inputs json.RawMessage, r SubmitRequest) error {
	sc := plan.Scope{Inputs: inputs, Task: plan.TaskInfo{Name: p.Name, Root: o.cfg.Root}}
	if err := o.evaluateAllow(p, prog, sc); err != nil {
		return err
	}
	key, err := prog.IdempotencyKey(sc)
	if err != nil {
		return err
	}
	p.IdempotencyKey = first(r.IdempotencyKey, key)
	c := prog.Plan().Concurrency
	if c == nil {
		return nil
	}
	if key, err = prog.ConcurrencyKey(sc); err != nil || key == "" {
		return err
	}
	p.Concurrency = &events.Concurrency{Key: key, Limit: max(c.Limit, 1), OnConflict: c.OnConflict}
	return nil
}

// evaluateAllow records what the task may reach, where that is not what its plan says literally.
func (o *Orchestrator) evaluateAllow(p *events.Submitted, prog *program, sc plan.Scope) error {
	allow, err := prog.Allow(sc)
	if err != nil || allow == prog.Plan().Allow {
		return err
	}
	p.Allow = new(events.Allow(*allow))
	if rule, found := o.cfg.FindSecret(mustJSON(p.Allow)); found {
		return secretIn("allow", rule)
	}
	return nil
}

// allowOf is what the plan of a task opens; nil for nothing.
func allowOf(e *entry) *events.Allow {
	if e.task.Submitted.Allow != nil {
		return e.task.Submitted.Allow
	}
	if e.prog == nil || e.prog.Plan() == nil || e.prog.Plan().Allow == nil {
		return nil
	}
	return new(events.Allow(*e.prog.Plan().Allow))
}
