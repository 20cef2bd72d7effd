package decide

import (
	"cmp"
	"slices"
	"strings"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/plan"
)

// startAgent starts an agent step.
func (t steps) startAgent(n *plan.Node, key string, sc plan.Scope) {
	spec, err := t.specOf(n, key, sc)
	if err = t.OutcomeOf(err); err != nil {
		t.failStep(key, err)
		return
	}
	t.activate()
	t.Emit(events.AgentStarted, spec)
}

// specOf evaluates an agent step.
func (t steps) specOf(n *plan.Node, key string, sc plan.Scope) (*events.Agent, error) {
	a := n.Agent
	spec := &events.Agent{Step: key, MaxTurns: a.MaxTurns, MaxTokens: int64(a.MaxTokens), Temperature: a.Temperature}
	p, err := n.Persona(sc)
	if err != nil {
		return spec, err
	}
	if spec.Models, err = t.modelsOf(p, a.Budget); err != nil {
		return spec, err
	}
	offered, err := t.toolsOf(a)
	if err != nil {
		return spec, err
	}
	instructions, prompt := MustJSON(p.Instructions), MustJSON(p.Prompt)
	if err := t.OutcomeOf(nil, instructions, prompt); err != nil {
		return spec, err
	}
	spec.Instructions, spec.Prompt = t.value(instructions), t.value(prompt)
	if len(offered) > 0 {
		offered, spec.ReadOn = append(offered, resultRead()), true
	}
	if len(a.Handoff) > 0 {
		offered = append(offered, handoff(a.Handoff))
	}
	if len(offered) > 0 {
		spec.Tools = t.offload(MustJSON(offered))
	}
	spec.Result, spec.Chat = events.Inline(a.Result), p.Chat
	if c := a.Context; c != nil {
		spec.Context = &events.Context{CompactAt: int64(c.CompactAt), Keep: c.Keep}
	}
	t.limit(spec, a.Budget)
	return spec, nil
}

// limit sets the limits of an agent.
func (t steps) limit(spec *events.Agent, b *plan.Budget) {
	if b == nil {
		return
	}
	spec.Limit = events.Spent{NanoUSD: b.NanoUSD(), Tokens: int64(b.Tokens), Calls: b.Calls}
	if b.Wall > 0 {
		spec.Until = new(events.Time(t.Now.Add(b.Wall.Std())))
	}
	spec.OnExceeded = cmp.Or(b.OnExceeded, plan.OnExceededFail)
}

// modelsOf returns the models of an agent with their prices.
func (t *Reading) modelsOf(p plan.Persona, b *plan.Budget) (all []events.Model, err error) {
	for _, name := range append([]string{p.Model}, p.Fallback...) {
		price, err := t.priceOf(name, b)
		if err != nil {
			return nil, err
		}
		all = append(all, events.Model{Name: name, Price: price})
	}
	return all, nil
}

// priceOf returns the price of a model. A budget in dollars needs one.
func (t *Reading) priceOf(model string, b *plan.Budget) (events.Price, error) {
	if t.Rules.Models == nil {
		return events.Price{}, fault.New(fault.ToolUnavailable, "this node asks no models").WithField("agent.model")
	}
	price, known, err := t.Rules.Models.Price(model)
	if err == nil && !known && b != nil && b.USD > 0 {
		err = fault.New(fault.ValidationError, "the price of the model %s is not known, so a budget in dollars cannot be kept", model).
			WithField("agent.budget.usd").WithHint("set it under models.prices in the settings, or limit tokens")
	}
	if err == nil && !known {
		err = needsPrice(t.Facts, model)
	}
	return price, err
}

// toolsOf returns the tools that an agent may call, as its model sees them.
func (t steps) toolsOf(a *plan.Agent) ([]offeredTool, error) {
	var offered []offeredTool
	for _, name := range t.Rules.Catalogue.Names() {
		found, ok := t.Rules.Catalogue.Get(name)
		if !ok || !a.Selects(name) || found.Spec().Direct || !MayCall(t.Task.Submitted.Tools, name) {
			continue
		}
		offered = append(offered, offeredTool{Tool: models.Tool{Name: name, Description: found.Spec().Purpose, Schema: found.InputSchema()}})
	}
	for _, pattern := range a.Tools {
		if !strings.HasPrefix(pattern, "!") && !slices.ContainsFunc(offered, func(o offeredTool) bool { return selects(pattern, o.name()) }) {
			return nil, fault.New(fault.NotFound, "no tool that the task may call matches %q", pattern).WithField("agent.tools").
				WithHint("orch tools list shows the tools")
		}
	}
	nameForWire(offered)
	return offered, nil
}

// selects reports whether a pattern of an agent matches the name of a tool.
func selects(pattern, tool string) bool { return (&plan.Agent{Tools: []string{pattern}}).Selects(tool) }
