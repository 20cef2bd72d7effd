package decide

import (
	"fmt"
	"strings"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

// over handles a turn that a limit does not permit: the agent fails, or a person is asked whether it may use its budget once more.
func (t turns) over(turn *events.Turn, err *fault.Error) {
	granted, final := t.allowMore(turn.Reserved, err)
	switch {
	case final != nil:
		t.fail(final, fault.ClassBudget)
	case granted:
		t.moveAgent(t.node, t.step)
	}
}

// asksForMore reports whether a person is asked when a limit does not permit a request that costs at most next. Nobody is asked if it
// alone needs more than a whole budget.
func (t turns) asksForMore(next events.Spent) bool {
	b := t.node.Agent.Budget
	never := b != nil && (b.USD > 0 && next.NanoUSD > b.NanoUSD() || b.Tokens > 0 && next.Tokens > int64(b.Tokens))
	return t.agent().Spec.OnExceeded == plan.OnExceededAsk && !never
}

// allowMore reports whether a person has granted the budget once more, since err does not permit a request that costs at most next. It
// extends the budget then, and asks if nobody was asked yet. It returns an error if the agent may not go on.
func (t turns) allowMore(next events.Spent, err *fault.Error) (granted bool, final *fault.Error) {
	if !t.asksForMore(next) {
		return false, err
	}
	key := statemachine.BudgetKey(t.step.Key, t.agent().Extensions+1)
	s := t.Task.Steps[key]
	switch t.Task.StepState(key) {
	case statemachine.StepPending:
		t.askForMore(key, err)
	case statemachine.StepSucceeded:
		t.extend(t.Newest(s.Approval), err)
		return true, nil
	case statemachine.StepFailed:
		return false, err.WithHint("%s", s.Error.Sentence())
	default: // nobody has decided yet
	}
	return false, nil
}

// askForMore asks whether the agent may use its budget once more.
func (t turns) askForMore(key string, err *fault.Error) {
	a := t.agent()
	more := t.node.Agent.Budget
	request := &events.Approval{
		ID: events.ApprovalIDFrom(t.Task.ID, t.Rules.Entropy), Step: key, Type: "pre_execution",
		Description: fmt.Sprintf("let the agent of step %s go on with %s more", t.step.Key, t.budgetText(more)) + beyondText(err),
		Rationale:   err.Sentence(),
		Details: events.Inline(MustJSON(map[string]any{
			"turns": a.Asked(), "tokens": a.Spent.Tokens, "usd": float64(a.Spent.NanoUSD) / 1e9, "calls": a.Spent.Calls, "budget": more,
		})),
		Priority:  approvalPriority(t.Task.Submitted.Priority),
		ExpiresAt: t.Now.Add(approvalTime("")), OnReject: onRejectFail, OnExpiry: onExpiryBlock,
	}
	t.Approvals().request(request)
	t.Emit(events.StepParked, &events.Parked{Step: key, Approval: request.ID})
}

// extend gives the agent its budget once more, beyond what it has used. reached is the limit that it has reached: of a budget of the
// node it may use more as well.
func (t turns) extend(granted *statemachine.Approval, reached *fault.Error) {
	a, b := t.agent(), t.node.Agent.Budget
	used := a.Spent.Plus(a.Lost)
	more := &events.Extended{
		BeyondBudgets: a.BeyondBudgets || OfLedger(reached),
		Step:          t.step.Key, Approval: granted.ID, MaxTurns: a.Asked() + t.node.Agent.MaxTurns,
		Limit: events.Spent{
			NanoUSD: beyond(used.NanoUSD, b.NanoUSD()), Tokens: beyond(used.Tokens, int64(b.Tokens)), Calls: beyond(used.Calls, b.Calls),
		},
	}
	if b.Wall > 0 {
		more.Until = new(events.Time(t.Now.Add(b.Wall.Std())))
	}
	t.activate()
	t.Emit(events.AgentExtended, more)
}

// beyond returns a limit that permits more than what is used; 0, no limit, stays.
func beyond[N int | int64](used, more N) N {
	if more == 0 {
		return 0
	}
	return used + more
}

// budgetText describes a budget.
func (t turns) budgetText(b *plan.Budget) string {
	texts := []string{count(t.node.Agent.MaxTurns, "turn")}
	if b.USD > 0 {
		texts = append(texts, "$"+events.Dollars(b.NanoUSD()))
	}
	if b.Tokens > 0 {
		texts = append(texts, count(b.Tokens, "token"))
	}
	if b.Calls > 0 {
		texts = append(texts, count(b.Calls, "call"))
	}
	if b.Wall > 0 {
		texts = append(texts, b.Wall.Std().String())
	}
	return strings.Join(texts, ", ")
}
