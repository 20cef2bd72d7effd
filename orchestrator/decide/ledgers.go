package decide

import (
	"maps"
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/failpoint"
	"github.com/orch-dev/orch/statemachine"
)

// Ledger is a budget as it stands for a task: one of the node, or that of an agent above the task.
type Ledger struct {
	// Above is set for the budget of an agent above the task.
	Above bool
	// Name describes the budget.
	Name string
	// Limit is what may be spent in a period, Spent what was spent in the current one, with answers that were lost. Held is what turns
	// that have no answer yet may cost besides, also those of the task.
	Limit, Spent, Held events.Spent
	// Until is when the period ends; zero for a budget without periods.
	Until time.Time
	// Counts reports whether the budget counts requests to one of these models.
	Counts func(models []string) bool
}

// The fields of errors about budgets of the node, and about those of agents above the task.
const (
	nodeField  = "models.budgets"
	aboveField = "budget of the agent above"
)

// field returns the field of errors about the budget.
func (l Ledger) field() string {
	if l.Above {
		return aboveField
	}
	return nodeField
}

// OfLedger reports whether an error is about a Ledger.
func OfLedger(err *fault.Error) bool { return err.Field == nodeField || err.Field == aboveField }

// beyondText continues the description of a request for more budget.
func beyondText(err *fault.Error) string {
	switch err.Field {
	case nodeField:
		return ", beyond a budget of the node"
	case aboveField:
		return ", beyond the budget of the agent above it"
	default:
		return ""
	}
}

// draw reports whether the budgets of the node, and those of the agents above the task, permit a turn. wait is set if they may permit it when turns in flight are answered. It
// returns QUOTA_EXCEEDED if one of them is used up.
func (t turns) draw(turn *events.Turn) (wait bool, err *fault.Error) {
	if t.agent().BeyondBudgets || failpoint.On(failpoint.SkipLedger) {
		return false, nil
	}
	ledgers, known := t.standing()
	models := t.agent().Spec.ModelNames()
	for _, l := range ledgers {
		switch {
		case !l.Counts(models):
		case beyondLimit(l.Limit, l.Spent.Plus(turn.Reserved)):
			return false, errLedger(l, turn.Reserved)
		case beyondLimit(l.Limit, l.Spent.Plus(l.Held).Plus(turn.Reserved)):
			wait = true
		}
	}
	return wait || !known, nil
}

// needsPrice returns VALIDATION_ERROR if a budget of the node, or of an agent above, in dollars counts a model, whose price is not known.
func needsPrice(facts Facts, model string) error {
	ledgers, _ := facts.Ledgers()
	above, _ := facts.Above()
	for _, l := range append(ledgers, above...) {
		if l.Limit.NanoUSD > 0 && l.Counts([]string{model}) {
			return fault.New(fault.ValidationError, "the price of the model %s is not known, so the budget of %s cannot be kept", model, l.Name).
				WithField(l.field()).WithHint("set it under models.prices in the settings of the node")
		}
	}
	return nil
}

// standing returns the budgets of the node and of the agents above as they stand at this point of the decision; false while it is not
// known what was spent of them.
func (t *Turn) standing() ([]Ledger, bool) {
	t.drawLedgers()
	above, known := t.Facts.Above()
	all := slices.Concat(t.ledgers.all, above)
	for i := range above { // they do not know yet what this decision has paid
		l := &all[len(t.ledgers.all)+i]
		for _, c := range t.Paid {
			l.Spent = l.Spent.Plus(c.Most())
		}
	}
	return all, known && t.ledgers.known
}

// Charge records what a child task has cost, unless the history contains that already.
func (t *Turn) Charge(d *events.Charged) {
	if _, open := t.Task.Children[d.Child]; open && !t.Task.State.Terminal() && d.Cost != (events.Spent{}) {
		t.Emit(events.TaskCharged, d)
	}
}

// chargeOpen records what the child tasks that have not ended have cost, and the most that their turns in flight can cost: a task that has
// ended records nothing, and a task that continues this one counts it against the budget.
func (t *Turn) chargeOpen() {
	if len(t.Task.Children) == 0 {
		return
	}
	costs := t.Facts.Children()
	for _, child := range slices.Sorted(maps.Keys(costs)) {
		t.Charge(&events.Charged{Step: t.Task.Children[child], Child: child, Cost: costs[child]})
	}
}

// mayRepeat returns QUOTA_EXCEEDED if the budgets of the node, or of the agents above, do not permit to repeat the request of an agent whose answer was lost. What
// the repetition may cost is held.
func (t Attempts) mayRepeat(agent *statemachine.Agent) *fault.Error {
	if agent.BeyondBudgets {
		return nil
	}
	ledgers, _ := t.standing()
	for _, l := range ledgers {
		if l.Counts(agent.Spec.ModelNames()) && beyondLimit(l.Limit, l.Spent.Plus(l.Held)) {
			return errLedger(l, agent.Reserved)
		}
	}
	return nil
}

// mayAskAgain reports whether the call of a model may be made again now. After a restart that is when it is known what was spent of the
// budgets of the node and of the agents above. Answers that were lost may have used them up, or the budget of the agent: then the call
// fails, or waits until a person has decided.
func (t Attempts) mayAskAgain(s *statemachine.Step) bool {
	of := t.turnsOf(s)
	agent := of.agent()
	if _, known := t.standing(); !known && !agent.BeyondBudgets {
		t.Facts.AwaitLedgers(t.Now)
		return false
	}
	err, asks := t.mayRepeat(agent), of.asksForMore(agent.Reserved)
	if err == nil && asks {
		err = exceeded(agent, agent.Reserved)
	}
	switch {
	case err == nil:
		return true
	case asks && (t.Task.Cancelling || t.Task.Ending || !t.stepsMayStart()):
		return false
	}
	granted, final := of.allowMore(agent.Reserved, err)
	if final != nil {
		t.Emit(events.StepFailed, &events.StepError{Step: s.Key, Attempt: s.Attempt, Error: final, Class: fault.ClassBudget})
	}
	return granted
}

// drawnLedgers are the budgets of the node that count a task, with the turns of a decision.
type drawnLedgers struct {
	all []Ledger
	// known is unset while it is not known what was spent. read is set when the fields above are.
	known, read bool
	// events and paid are how many events of the decision, and their costs, are in them.
	events, paid int
}

// drawLedgers brings Turn.ledgers up to date.
func (t *Turn) drawLedgers() {
	d := &t.ledgers
	if !d.read {
		d.all, d.known = t.Facts.Ledgers()
		d.read = true
	}
	for i := range d.all {
		for _, c := range t.Paid[d.paid:] {
			if d.all[i].Counts(c.Models) {
				d.all[i].Spent = d.all[i].Spent.Plus(c.Most())
			}
		}
		for _, e := range t.Events[d.events:] {
			d.all[i].hold(t.Task, e)
		}
	}
	d.events, d.paid = len(t.Events), len(t.Paid)
}

// hold changes what turns may cost by an event of the task.
func (l *Ledger) hold(task *statemachine.Task, e events.Event) {
	switch e.Kind {
	case events.TurnRequested, events.TurnAnswered, events.TurnRefused:
	default:
		return
	}
	agent := task.Steps[events.StepOf(e.Data)].Agent
	if !l.Counts(agent.Spec.ModelNames()) {
		return
	}
	switch d := e.Data.(type) {
	case *events.Turn:
		l.Held = l.Held.Plus(d.Reserved)
	case *events.Answered:
		l.Held = l.Held.Minus(agent.Turns[d.Turn-1].Requested.Reserved)
	case *events.RefusedTurn:
		l.Held = l.Held.Minus(agent.Turns[d.Turn-1].Requested.Reserved)
	}
}

// beyondLimit reports whether a cost is beyond a limit.
func beyondLimit(limit, cost events.Spent) bool {
	return limit.NanoUSD > 0 && cost.NanoUSD > limit.NanoUSD || limit.Tokens > 0 && cost.Tokens > limit.Tokens
}

// errLedger returns the error of a budget that does not permit a request.
func errLedger(l Ledger, next events.Spent) *fault.Error {
	until := ""
	if !l.Until.IsZero() {
		until = " until " + Clock(l.Until)
	}
	err := fault.New(fault.QuotaExceeded, "the next request may use more than what is left of the budget of %s%s", l.Name, until).WithField(l.field())
	switch {
	case beyondLimit(l.Limit, next):
		return err.WithHint("it alone may use more than the whole budget; a smaller max_tokens lowers that")
	case l.Above:
		return err.WithHint("a larger budget of that agent, or a smaller max_tokens of this one, permits more")
	default:
		return err.WithHint("orch retry goes on in the next period; orch costs shows what was spent")
	}
}
