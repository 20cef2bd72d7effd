package sim_test

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/orch-dev/orch/costs"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/statemachine"
)

// prices are the prices of all models.
type prices struct{}

// Price implements orchestrator.Models.
func (prices) Price(string) (events.Price, bool, error) {
	return events.Price{Input: 1000, Output: 2000, AsOf: "2026-11-01"}, true, nil
}

// Slots implements orchestrator.Models.
func (prices) Slots(string) int { return 2 }

// answerOfModel draws the answer of a model: a text, or calls, some of which cannot be made.
func (w *world) answerOfModel() json.RawMessage {
	answer := models.Answer{Stop: models.StopEnd, Usage: models.Usage{Input: int64(w.rnd.IntN(2000)), Output: int64(w.rnd.IntN(500))}}
	answer.Message.Role = models.Model
	for i := range w.rnd.IntN(3) {
		answer.Stop = models.StopCalls
		call := &models.Call{ID: fmt.Sprint("c", i), Name: []string{"READ", "WRITE", "READ", "SPAWN", "NONE"}[w.rnd.IntN(5)], Args: `{"text":"x"}`}
		if w.chance(1, 8) {
			call.Args = `{"text":`
		}
		answer.Message.Parts = append(answer.Message.Parts, models.Part{Call: call})
	}
	if answer.Stop == models.StopEnd {
		answer.Message.Parts = []models.Part{{Text: "done"}}
		answer.Stop = []models.Stop{models.StopEnd, models.StopEnd, models.StopLength, models.StopRefused}[w.rnd.IntN(4)]
	}
	raw, err := json.Marshal(models.Called{Answer: answer})
	if err != nil {
		panic(err)
	}
	return raw
}

// checkMessages checks that a model hears what people say once, in order, and nothing else.
func (w *world) checkMessages(past []*history) {
	for _, h := range past {
		told, heard := map[string][]string{}, map[string][]string{}
		for _, c := range h.commits {
			for _, e := range c.Events {
				switch d := e.Data.(type) {
				case *events.Told:
					if !d.Text.IsZero() {
						told[d.Step] = append(told[d.Step], string(d.Text.Raw))
					}
				case *events.RefusedTurn: // what it has heard is heard again
					told[d.Step] = append(heard[d.Step], told[d.Step]...)
				case *events.Turn:
					heard[d.Step] = nil
					for _, m := range d.Heard {
						heard[d.Step] = append(heard[d.Step], string(m.Text.Raw))
						if len(told[d.Step]) == 0 {
							if c.Rev > 1 { // a first commit may take over turns
								w.fail("turn %d of %s %s hears %s, which nobody has said", d.Turn, h.id, d.Step, m.Text.Raw)
							}
							continue
						}
						if first := told[d.Step][0]; first != string(m.Text.Raw) {
							w.fail("turn %d of %s %s hears %s before %s", d.Turn, h.id, d.Step, m.Text.Raw, first)
						}
						told[d.Step] = told[d.Step][1:]
					}
				}
			}
		}
	}
}

// checkTrees checks that an agent and the tasks below it have not cost more than its budget together, unless a person has permitted more.
func (w *world) checkTrees(past []*history) {
	paid, below, extended := map[events.TaskID]map[string]events.Spent{}, map[events.TaskID][]*history{}, map[events.TaskID]bool{}
	for _, h := range past {
		paid[h.id] = map[string]events.Spent{}
		task := &statemachine.Task{ID: h.id}
		for _, c := range h.commits {
			for _, e := range c.Events {
				if cost, ok := costs.Of(task, c.At, e); ok {
					agent := statemachine.AgentOf(events.StepOf(e.Data))
					paid[h.id][agent] = paid[h.id][agent].Plus(cost.Most())
				}
				extended[h.id] = extended[h.id] || e.Kind == events.AgentExtended
				if err := task.Apply(c.At, e); err != nil {
					w.fail("%s: %v", h.id, err)
				}
			}
		}
		if p := h.task.Submitted.Parent; p != nil {
			below[p.Task] = append(below[p.Task], h)
		}
	}
	var sum func(h *history, agent string) (cost events.Spent, more bool)
	sum = func(h *history, agent string) (cost events.Spent, more bool) {
		more = extended[h.id]
		for step, spent := range paid[h.id] {
			if agent == "" || step == agent {
				cost = cost.Plus(spent)
			}
		}
		for _, child := range below[h.id] {
			if agent == "" || statemachine.AgentOf(child.task.Submitted.Parent.Step) == agent {
				c, m := sum(child, "")
				cost, more = cost.Plus(c), more || m
			}
		}
		return cost, more
	}
	for _, h := range past {
		for key, s := range h.task.Steps {
			if s.Agent == nil {
				continue
			}
			limit := s.Agent.Spec.Limit
			cost, more := sum(h, key)
			if !more && (limit.Tokens > 0 && cost.Tokens > limit.Tokens || limit.NanoUSD > 0 && cost.NanoUSD > limit.NanoUSD) {
				w.fail("agent %s %s and the tasks below it have cost %+v of %+v", h.id, key, cost, limit)
			}
		}
	}
}

// takesOver reports whether a commit takes over the end of a step from another task: its result, or its failure, since it was not called
// in this one.
func takesOver(c *events.Commit, step string) bool {
	return slices.ContainsFunc(c.Events, func(e events.Event) bool {
		switch d := e.Data.(type) {
		case *events.Reused:
			return d.Step == step
		case *events.StepError:
			return e.Kind == events.StepFailed && d.Step == step && d.Attempt == 0
		default:
			return false
		}
	})
}

// checkBudgets checks that no turn of an agent was begun that might have exceeded its budget, and that each turn has one answer at
// most. A turn that a retry takes over was begun under the budget of the task before: it asks nothing again.
func (w *world) checkBudgets(past []*history) {
	for _, h := range past {
		limits, spent, answered := map[string]events.Spent{}, map[string]events.Spent{}, map[string]int{}
		for _, c := range h.commits {
			for _, e := range c.Events {
				switch d := e.Data.(type) {
				case *events.Agent:
					limits[d.Step], spent[d.Step] = d.Limit, d.Carried.Plus(d.Lost)
				case *events.Turn:
					limit, cost := limits[d.Step], spent[d.Step].Plus(d.Reserved)
					over := limit.NanoUSD > 0 && cost.NanoUSD > limit.NanoUSD || limit.Tokens > 0 && cost.Tokens > limit.Tokens
					if over && !takesOver(c, statemachine.ModelKey(d.Step, d.Turn)) {
						w.fail("turn %d of %s %s may cost %+v of %+v", d.Turn, h.id, d.Step, cost, limit)
					}
				case *events.Answered:
					if answered[d.Step]++; answered[d.Step] != d.Turn {
						w.fail("turn %d of %s %s is answer %d", d.Turn, h.id, d.Step, answered[d.Step])
					}
					spent[d.Step] = spent[d.Step].Plus(events.Spent{NanoUSD: d.NanoUSD, Tokens: d.Usage.Request() + d.Usage.Output})
				case *events.Extended:
					limits[d.Step] = d.Limit
				case *events.Charged:
					agent := statemachine.AgentOf(d.Step)
					spent[agent] = spent[agent].Plus(d.Cost)
				case *events.RefusedTurn:
					if answered[d.Step]++; answered[d.Step] != d.Turn {
						w.fail("turn %d of %s %s is refused after %d answers", d.Turn, h.id, d.Step, answered[d.Step]-1)
					}
				case *events.LostTurn:
					spent[d.Step] = spent[d.Step].Plus(d.Cost)
				}
			}
		}
	}
}
