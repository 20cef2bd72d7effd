package crash

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/costs"
	"github.com/orch-dev/orch/events"
)

// Budget is a budget of the node for models. It is checked with code of its own, so that an error in package costs does not hide itself.
type Budget struct {
	// Model is the model that is counted.
	Model string
	// Key and Value are the label that tasks must have to be counted; "" for all tasks.
	Key, Value string
	// Each is set for a budget that each identity has for itself, Monthly for one of a month instead of a day.
	Each, Monthly bool
	// Limits are the limits with their beginning, in order. They only grow.
	Limits []Limit
}

// Limit is the limit of a budget from a time on. Fields that are 0 do not limit.
type Limit struct {
	From time.Time
	events.Spent
}

// origin says for whom a task works.
type origin struct {
	identity string
	labels   map[string]string
}

func originOf(c *events.Commit, d *events.Submitted) origin {
	if p := d.Parent; p != nil && p.Requester != "" {
		return origin{p.Requester, p.Labels}
	}
	return origin{c.Actor, d.Labels}
}

// counts reports whether the budget counts requests to one of these models for a task.
func (b Budget) counts(o origin, models []string) bool {
	return slices.Contains(models, b.Model) && (b.Key == "" || o.labels[b.Key] == b.Value)
}

// at returns the limit at a time.
func (b Budget) at(at time.Time) events.Spent {
	limit := events.Spent{}
	for _, l := range b.Limits {
		if !l.From.After(at) {
			limit = l.Spent
		}
	}
	return limit
}

// account names the account of an identity at a time.
func (b Budget) account(identity string, at time.Time) string {
	period := at.UTC().Format(time.DateOnly)
	if b.Monthly {
		period = period[:len("2026-11")]
	}
	if !b.Each {
		identity = ""
	}
	return period + " " + identity
}

// movement is what an event changes of the cost of models: what was spent, with lost answers, and what turns in flight may cost.
type movement struct {
	seq         uint64
	at          time.Time
	task        events.TaskID
	origin      origin
	models      []string
	spent, held events.Spent
}

// costSums are the costs in the histories, by what they are about and its key.
type costSums map[string]map[string]costs.Sum

func (s costSums) add(by, key string, sum costs.Sum) {
	if s[by] == nil {
		s[by] = map[string]costs.Sum{}
	}
	all := s[by][key]
	all.Add(sum)
	s[by][key] = all
}

// reserve records that the turn in flight of an agent may have a cost; zero ends the turn.
func (h *history) reserve(a *agentHistory, cost events.Spent) {
	h.moved(a, events.Spent{}, cost.Minus(a.reserved))
	a.reserved = cost
}

// answered records the cost of an answer.
func (h *history) answered(a *agentHistory, d *events.Answered) {
	h.reserve(a, events.Spent{})
	h.moved(a, d.Cost(), events.Spent{})
	model := a.models[min(max(d.Model, 0), len(a.models)-1)]
	h.spend(model, costs.Sum{Turns: 1, NanoUSD: d.NanoUSD, Usage: d.Usage})
}

// lost records the most that an answer can have cost that was lost.
func (h *history) lost(a *agentHistory, cost events.Spent) {
	h.moved(a, cost, events.Spent{})
	h.spend(strings.Join(a.models, " or "), costs.Sum{Lost: 1, LostNanoUSD: cost.NanoUSD, LostTokens: cost.Tokens})
}

func (h *history) moved(a *agentHistory, spent, held events.Spent) {
	h.movements = append(h.movements, movement{h.seq, h.at, h.task, h.origin, a.models, spent, held})
}

// spend adds to the sums of the histories.
func (h *history) spend(model string, sum costs.Sum) {
	h.costs.add(costs.ByDay, h.at.UTC().Format(time.DateOnly), sum)
	h.costs.add(costs.ByModel, model, sum)
	h.costs.add(costs.ByTask, string(h.task), sum)
	h.costs.add(costs.ByIdentity, h.origin.identity, sum)
	h.costs.add(LabelOfCosts, h.origin.labels[strings.TrimPrefix(LabelOfCosts, costs.LabelPrefix)], sum)
}

// LabelOfCosts is the label by which Evidence.Costs are itemized, as the node is asked for it.
const LabelOfCosts = costs.LabelPrefix + "team"

// checkBudgets checks that at no commit more was spent of a budget, with what turns in flight could cost, than its limit (I20).
func (c *checker) checkBudgets() {
	slices.SortStableFunc(c.movements, func(x, y movement) int { return cmp.Compare(x.seq, y.seq) })
	for _, b := range c.evidence.Budgets {
		c.checkBudget(b)
	}
}

func (c *checker) checkBudget(b Budget) {
	spent, held := map[string]events.Spent{}, map[string]events.Spent{}
	counted := slices.DeleteFunc(slices.Clone(c.movements), func(m movement) bool { return !b.counts(m.origin, m.models) })
	for i, m := range counted {
		account, who := b.account(m.origin.identity, m.at), b.account(m.origin.identity, time.Time{})
		spent[account], held[who] = spent[account].Plus(m.spent), held[who].Plus(m.held)
		if i+1 < len(counted) && counted[i+1].seq == m.seq {
			continue // the commit goes on
		}
		if most, limit := spent[account].Plus(held[who]), b.at(m.at); beyond(most, limit) {
			c.violate("I20", m.task, "the budget of %s has %v at position %d, and %v was spent or is in flight", b.Model, limit, m.seq, most)
			return
		}
	}
}

// beyond reports whether a cost is beyond a limit.
func beyond(cost, limit events.Spent) bool {
	return limit.Tokens > 0 && cost.Tokens > limit.Tokens || limit.NanoUSD > 0 && cost.NanoUSD > limit.NanoUSD
}

// checkCosts compares the costs that the node has answered with the sums of the histories (I20). Rows of costs that are not itemized any
// more can be compared only as a whole.
func (c *checker) checkCosts() {
	for _, by := range slices.Sorted(maps.Keys(c.evidence.Costs)) {
		want, total, sum, older := c.costs[by], costs.Sum{}, costs.Sum{}, false
		for _, row := range c.evidence.Costs[by] {
			sum.Add(row.Sum)
			older = older || row.Older
		}
		for key, s := range want {
			total.Add(s)
			if row := rowOf(c.evidence.Costs[by], key); !older && row != s {
				c.violate("I20", "", "the costs of %s %q are %+v in the histories and %+v for the node", by, key, s, row)
			}
		}
		if sum != total {
			c.violate("I20", "", "the costs by %s are %+v in the histories and %+v for the node", by, total, sum)
		}
	}
}

func rowOf(rows []costs.Row, key string) costs.Sum {
	for _, row := range rows {
		if row.Key == key {
			return row.Sum
		}
	}
	return costs.Sum{}
}
