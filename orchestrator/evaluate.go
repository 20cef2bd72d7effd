package orchestrator

import (
	"bytes"
	"cmp"
	"encoding/json"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/plan"
)

// The values in this file are evaluated once, when a task is submitted, and recorded in its first event.

// evaluateKeys evaluates the expressions that depend on the inputs and concern the whole task: the idempotency key, the
// concurrency key, the key of the limits, and the allowed resources.
func (cp *compiler) evaluateKeys(p *events.Submitted, prog *program, inputs json.RawMessage, r api.SubmitRequest, extra *submitExtra) error {
	now := events.Time(cp.now())
	if extra.created != nil {
		now = *extra.created
	}
	if bytes.Contains(prog.text, []byte("created")) || bytes.Contains(prog.text, []byte("schedule")) {
		p.Created = &now
	}
	sc := plan.Scope{Inputs: inputs, Task: func() plan.TaskInfo {
		t := plan.TaskInfo{Name: p.Name, Root: cmp.Or(p.Root, cp.cfg.Root), Created: plan.CreatedAt(now)}
		return decide.WithSchedule(t, p.Schedule)
	}}
	if hook := r.Hook; hook != nil {
		sc.Hook = func() plan.HookInfo { return decide.HookInfo(hook, hook.Body.Raw) }
	}
	if err := cp.evaluateAllow(p, prog, sc, extra); err != nil {
		return err
	}
	if err := evaluateLimitKey(p, prog, sc, extra.limitKey); err != nil {
		return err
	}
	key, err := prog.IdempotencyKey(sc)
	if err != nil {
		return err
	}
	p.IdempotencyKey = cmp.Or(r.IdempotencyKey, key)
	if p.IdempotencyKey != "" {
		p.KeyScope = scopeOf(prog.Plan(), r)
	}
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

// evaluateLimitKey records the key of the limits: the inherited one, or else that of the plan.
func evaluateLimitKey(p *events.Submitted, prog *program, sc plan.Scope, inherited string) error {
	if p.LimitKey = inherited; inherited != "" {
		return nil
	}
	key, err := prog.LimitKey(sc)
	if err != nil {
		return fault.From(err).WithField("limits.key")
	}
	p.LimitKey = key
	return nil
}

// evaluateAllow records the resources that the plan allows, if the plan contains expressions or programs for them.
func (cp *compiler) evaluateAllow(p *events.Submitted, prog *program, sc plan.Scope, extra *submitExtra) error {
	allow, err := prog.Allow(sc)
	if err != nil || allow == nil {
		return err
	}
	programs, err := cp.pin(allow.Programs, cmp.Or(p.Root, cp.cfg.Root), extra)
	if err != nil || allow == prog.Plan().Allow && len(programs) == 0 {
		return err
	}
	p.Allow = allowWith(allow, programs)
	if rule, found := cp.cfg.FindSecret(decide.MustJSON(p.Allow)); found {
		return decide.SecretIn("allow", rule)
	}
	return nil
}

// allowWith returns the resources that a plan allows, with programs as its programs.
func allowWith(a *plan.Allow, programs []events.Program) *events.Allow {
	return &events.Allow{Paths: a.Paths, Endpoints: a.Endpoints, Connections: a.Connections, Packages: a.Packages, Programs: programs}
}

// allowOf returns the resources that the plan of a task allows, or nil for none. Programs are allowed only if the first event
// of the task contains them.
func allowOf(e *entry) *events.Allow {
	if e.task.Submitted.Allow != nil {
		return e.task.Submitted.Allow
	}
	if e.plan.Program == nil || e.plan.Program.Plan() == nil || e.plan.Program.Plan().Allow == nil {
		return nil
	}
	return allowWith(e.plan.Program.Plan().Allow, nil)
}
