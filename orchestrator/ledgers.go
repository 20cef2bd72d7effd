package orchestrator

import (
	"slices"
	"time"

	"github.com/orch-dev/orch/costs"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
)

// ledgers holds what turns without an answer may cost, for the budgets of the node. What was spent is in Config.Costs. A turn is held from
// the decision that begins it until the commit that ends it is counted there, so that both together are never less than what the
// providers can bill. A restart holds the turns of the open tasks again.
type ledgers struct {
	*core

	// wake decides about a task.
	wake func(events.TaskID)
	// held are the turns of each task.
	held map[events.TaskID][]heldTurn
	// sums are what the turns may cost, by account of a budget and by position of the budget in the configuration.
	sums map[heldAccount]events.Spent
	// waiting are the tasks that wait until turns are answered, and queued those of them that are in it.
	waiting []events.TaskID
	queued  map[events.TaskID]bool
	// released is set when turns were answered since the last wakeFirst.
	released bool
}

// heldTurn is a turn without an answer.
type heldTurn struct {
	step   string
	number int
	cost   events.Spent
	// in are the accounts that hold it.
	in []heldAccount
}

// heldAccount is an account of a budget.
type heldAccount struct {
	budget int
	name   string
}

const (
	// ledgerPause is how long a task waits at most until its budgets are looked at again.
	ledgerPause = 2 * time.Second
	// ledgerWakes is how many of the waiting tasks are decided about when a turn was answered.
	ledgerWakes = 16
)

func newLedgers(c *core, wake func(events.TaskID)) *ledgers {
	return &ledgers{core: c, wake: wake, held: map[events.TaskID][]heldTurn{}, sums: map[heldAccount]events.Spent{}, queued: map[events.TaskID]bool{}}
}

// of returns the budgets that count a task; false while it is not known what was spent of them. mu must be held.
func (ls *ledgers) of(e *entry) ([]decide.Ledger, bool) {
	if len(ls.cfg.Budgets) == 0 {
		return nil, true
	}
	origin, now := costs.OriginOf(e.task), ls.now()
	var all []decide.Ledger
	for i, b := range ls.cfg.Budgets {
		if b.CountsFor(origin) {
			all = append(all, decide.Ledger{
				Name: b.Name(origin.Identity), Limit: b.Limit(), Spent: ls.cfg.Costs.Spent(b, origin.Identity, now),
				Held: ls.sums[heldAccount{i, b.Account(origin.Identity)}], Until: b.Until(now), Counts: b.CountsModel,
			})
		}
	}
	return all, closed(ls.ready) && closed(ls.cfg.Costs.Ready())
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// hold holds the turns that a decision begins. mu must be held.
func (ls *ledgers) hold(e *entry, t *decide.Turn) {
	if len(ls.cfg.Budgets) == 0 {
		return
	}
	for _, event := range t.Events {
		if d, ok := event.Data.(*events.Turn); ok {
			if s := e.task.Steps[d.Step]; inFlight(e.task, s) && s.Agent.Last().Requested == d {
				ls.add(e, s)
			}
		}
	}
}

// settle holds exactly the turns of a task that have no answer. It is called when the commits before are counted in Config.Costs. mu must
// be held.
func (ls *ledgers) settle(e *entry) {
	if len(ls.cfg.Budgets) == 0 {
		return
	}
	had := len(ls.held[e.id])
	ls.drop(e.id)
	for _, s := range e.task.In(statemachine.StepRunning) {
		if inFlight(e.task, s) {
			ls.add(e, s)
		}
	}
	ls.released = ls.released || had > 0
}

// inFlight reports whether an agent step has a turn without an answer that its provider may bill.
func inFlight(t *statemachine.Task, s *statemachine.Step) bool {
	if s == nil || s.Agent == nil || s.State != statemachine.StepRunning || s.Agent.Phase != statemachine.AgentAsking {
		return false
	}
	asked := t.StepState(statemachine.ModelKey(s.Key, s.Agent.Last().Requested.Turn))
	return asked != statemachine.StepFailed && asked != statemachine.StepCancelled
}

// add holds the newest turn of an agent step.
func (ls *ledgers) add(e *entry, s *statemachine.Step) {
	turn := s.Agent.Last().Requested
	h := heldTurn{step: s.Key, number: turn.Turn, cost: turn.Reserved}
	if slices.ContainsFunc(ls.held[e.id], func(o heldTurn) bool { return o.step == h.step && o.number == h.number }) {
		return
	}
	origin, models := costs.OriginOf(e.task), s.Agent.Spec.ModelNames()
	for i, b := range ls.cfg.Budgets {
		if b.Counts(origin, models) {
			a := heldAccount{i, b.Account(origin.Identity)}
			ls.sums[a] = ls.sums[a].Plus(h.cost)
			h.in = append(h.in, a)
		}
	}
	ls.held[e.id] = append(ls.held[e.id], h)
}

// drop holds no turn of a task any more.
func (ls *ledgers) drop(id events.TaskID) {
	for _, h := range ls.held[id] {
		for _, a := range h.in {
			if ls.sums[a] = ls.sums[a].Minus(h.cost); ls.sums[a] == (events.Spent{}) {
				delete(ls.sums, a)
			}
		}
	}
	delete(ls.held, id)
}

// forget holds no turn of a task that is not in the log. mu must be held.
func (ls *ledgers) forget(id events.TaskID) {
	ls.released = ls.released || len(ls.held[id]) > 0
	ls.drop(id)
}

// await adds a task to those that wait. mu must be held.
func (ls *ledgers) await(id events.TaskID) {
	if !ls.queued[id] {
		ls.queued[id] = true
		ls.waiting = append(ls.waiting, id)
	}
}

// waitText says why an agent waits for budgets that it shares; "" if it does not. mu must be held.
func (ls *ledgers) waitText(id events.TaskID, s *statemachine.Step) string {
	switch {
	case !ls.queued[id] || s.Agent.Phase == statemachine.AgentAsking:
		return ""
	case len(ls.cfg.Budgets) > 0 && !closed(ls.cfg.Costs.Ready()):
		return "It waits until the node has counted what was spent of its budgets."
	default:
		return "It waits for answers to other agents, whose turns hold what is left of a budget that they share."
	}
}

// wakeFirst decides about the first of the tasks that wait, if turns were answered. mu must be held.
func (ls *ledgers) wakeFirst() {
	if !ls.released || len(ls.waiting) == 0 {
		return
	}
	ls.released = false
	first := slices.Clone(ls.waiting[:min(len(ls.waiting), ledgerWakes)])
	ls.waiting = slices.Delete(ls.waiting, 0, len(first))
	for _, id := range first {
		delete(ls.queued, id)
	}
	for _, id := range first {
		ls.wake(id)
	}
}
