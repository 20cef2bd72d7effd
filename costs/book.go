package costs

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
)

// The costs of one day are in cells, which itemize less the older they are.
const (
	// maxTasks is how many cells name a task. Of the tasks before, the other items remain.
	maxTasks = 2_000
	// maxItems is how many cells without a task name an agent, an identity and labels. Of those before, the day and the model remain.
	maxItems = 4_000
	// maxModels is how many such cells name a model. Of those before, the day remains.
	maxModels = 8_000
)

// cell says what a sum is about.
type cell struct {
	Day   string        `json:"day"`
	Model string        `json:"model,omitempty"`
	Task  events.TaskID `json:"task,omitempty"`
	// Agent, Identity and Labels are those of Cost. Labels is JSON, so that cells can be compared.
	Agent    string `json:"agent,omitempty"`
	Identity string `json:"identity,omitempty"`
	Labels   string `json:"labels,omitempty"`
}

// levels is the number of kinds of cells, from those that itemize everything to those of a day.
const levels = 4

// fold returns a cell that itemizes as a level does.
func (c cell) fold(level int) cell {
	switch level {
	case 0:
		return c
	case 1:
		c.Task = ""
		return c
	case 2:
		return cell{Day: c.Day, Model: c.Model}
	default:
		return cell{Day: c.Day}
	}
}

// Book sums costs. The zero value is empty. It is not safe for concurrent use.
type Book struct {
	// cells are those of each level.
	cells [levels]map[cell]*Sum
	// budgets are the budgets whose accounts are kept.
	budgets []Budget
	// accounts is what was spent of each budget, by account and period.
	accounts map[account]events.Spent
}

// account is an account of a budget in a period.
type account struct{ name, period string }

// Add adds a cost.
func (b *Book) Add(c Cost) {
	b.add(0, cellOf(c), c.Sum)
	for len(b.cells[0]) > maxTasks {
		b.shrink(0, maxTasks)
	}
	charged := map[string]bool{}
	for _, budget := range b.budgets {
		if name := budget.counted(); !charged[name] && budget.Counts(c.Origin, c.Models) { // two limits may have one account
			charged[name] = true
			b.charge(budget, c.Identity, c.At, c.Most())
		}
	}
}

// cellOf returns the cell of a cost. A lost answer may be that of any of its models.
func cellOf(c Cost) cell {
	at := cell{Day: c.At.UTC().Format(time.DateOnly), Model: strings.Join(c.Models, or), Task: c.Task, Agent: c.Agent, Identity: c.Identity}
	if text, err := json.Marshal(c.Labels); err == nil && len(c.Labels) > 0 {
		at.Labels = string(text)
	}
	return at
}

// or joins the models of which one has lost an answer.
const or = " or "

func splitModels(model string) []string { return strings.Split(model, or) }

// origin returns for whom the tasks of a cell work.
func (c cell) origin() Origin {
	o := Origin{Identity: c.Identity}
	if c.Labels != "" && json.Unmarshal([]byte(c.Labels), &o.Labels) != nil {
		o.Labels = nil
	}
	return o
}

func (b *Book) add(level int, at cell, sum Sum) {
	if b.cells[level] == nil {
		b.cells[level] = map[cell]*Sum{}
	}
	into := b.cells[level][at]
	if into == nil {
		into = &Sum{}
		b.cells[level][at] = into
	}
	into.Add(sum)
}

// shrink folds the oldest quarter of the cells of a level, so that it has fewer than most.
func (b *Book) shrink(level, most int) {
	all := slices.SortedFunc(maps.Keys(b.cells[level]), compareCells)
	for _, c := range all[:len(all)-most*3/4] {
		b.add(level+1, c.fold(level+1), *b.cells[level][c])
		delete(b.cells[level], c)
	}
	if next := [levels]int{maxTasks, maxItems, maxModels, 0}[level+1]; next > 0 && len(b.cells[level+1]) > next {
		b.shrink(level+1, next)
	}
}

// compareCells orders cells by their day and, as ids of tasks begin with the time, by the age of their tasks.
func compareCells(x, y cell) int {
	return cmp.Or(
		cmp.Compare(x.Day, y.Day), cmp.Compare(x.Task, y.Task), cmp.Compare(x.Model, y.Model), cmp.Compare(x.Agent, y.Agent),
		cmp.Compare(x.Identity, y.Identity), cmp.Compare(x.Labels, y.Labels),
	)
}

// charge adds to the account of a budget. Accounts of the period before stay, for a clock that is set back.
func (b *Book) charge(budget Budget, identity string, at time.Time, most events.Spent) {
	if b.accounts == nil {
		b.accounts = map[account]events.Spent{}
	}
	a := account{budget.Account(identity), budget.period(at)}
	before, known := b.accounts[a]
	b.accounts[a] = before.Plus(most)
	if !known {
		b.dropAccounts(budget, at)
	}
}

// dropAccounts drops the accounts of budgets with the same period that ended more than a period before a time.
func (b *Book) dropAccounts(budget Budget, at time.Time) {
	previous := budget.previous(at)
	maps.DeleteFunc(b.accounts, func(a account, _ events.Spent) bool {
		return len(a.period) == len(previous) && a.period < previous
	})
}

// Spent returns what was spent of a budget in the period of a time, with answers that were lost.
func (b *Book) Spent(budget Budget, identity string, at time.Time) events.Spent {
	return b.accounts[account{budget.Account(identity), budget.period(at)}]
}

// Spenders returns the sorted identities for which something was spent of a budget in the period of a time. It returns "" for a budget
// of all.
func (b *Book) Spenders(budget Budget, at time.Time) []string {
	var all []string
	for a := range b.accounts {
		if who, ok := strings.CutPrefix(a.name, budget.counted()+separator); ok && a.period == budget.period(at) {
			all = append(all, who)
		}
	}
	slices.Sort(all)
	return all
}

// Watch keeps accounts for these budgets alone. What was spent of a new one until now is computed from the cells.
func (b *Book) Watch(budgets []Budget, now time.Time) {
	known := counted(b.budgets)
	b.budgets = budgets
	for name := range known {
		if !counted(budgets)[name] {
			maps.DeleteFunc(b.accounts, func(a account, _ events.Spent) bool { return strings.HasPrefix(a.name, name+separator) })
		}
	}
	for i, budget := range budgets {
		if name := budget.counted(); !known[name] && !counted(budgets[:i])[name] {
			b.recount(budget, now)
		}
	}
}

// Watches reports whether accounts are kept for any budget.
func (b *Book) Watches() bool { return len(b.budgets) > 0 }

// counted returns what budgets count.
func counted(budgets []Budget) map[string]bool {
	names := map[string]bool{}
	for _, budget := range budgets {
		names[budget.counted()] = true
	}
	return names
}

// recount charges a budget with the cells of its current period and the one before. A cell that does not itemize what the budget
// needs is left out.
func (b *Book) recount(budget Budget, now time.Time) {
	for level, cells := range b.cells {
		if level >= 2 && (budget.By != "" || len(budget.Labels) > 0) || level >= 3 && budget.Model != "" {
			return
		}
		for c, sum := range cells {
			at, err := time.Parse(time.DateOnly, c.Day)
			if err == nil && budget.period(at) >= budget.previous(now) && budget.Counts(c.origin(), splitModels(c.Model)) {
				b.charge(budget, c.Identity, at, sum.Most())
			}
		}
	}
}
