package costs

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
)

// What rows are about: ByIdentity, one of these, or a label, as in LabelPrefix + "team".
const (
	ByDay       = "day"
	ByModel     = "model"
	ByAgent     = "agent"
	ByTask      = "task"
	LabelPrefix = "label:"
)

// Query selects costs.
type Query struct {
	// By is what the rows are about; "" is ByDay.
	By string
	// Since and Until are times of the first and the last day, in UTC; zero for all.
	Since, Until time.Time
	// Identity selects the costs of the tasks of one identity, with their child tasks.
	Identity string
}

// Row is a part of the costs.
type Row struct {
	// Key is the day, model, agent and so on; "" for what has none, such as tasks without the label.
	Key string `json:"key"`
	// Older is set for costs of which the key is not kept any more.
	Older bool `json:"older,omitempty"`
	Sum
}

// key returns the key of a cell; false if cells of its level have none.
func (q Query) key(c cell, level int) (key string, kept bool) {
	if label, ok := strings.CutPrefix(q.By, LabelPrefix); ok {
		return c.origin().Labels[label], level < 2
	}
	switch q.By {
	case ByModel:
		return c.Model, level < 3
	case ByTask:
		return string(c.Task), level < 1
	case ByAgent:
		return c.Agent, level < 2
	case ByIdentity:
		return c.Identity, level < 2
	default:
		return c.Day, true
	}
}

// Rows returns the costs that a query selects: days in order, others from the most expensive, and what is older at the end.
func (b *Book) Rows(q Query) []Row { return b.Snapshot().Rows(q) }

// Rows returns the costs that a query selects, as Book.Rows does.
func (s *Snapshot) Rows(q Query) []Row {
	since, until := "", "9999"
	if !q.Since.IsZero() {
		since = q.Since.UTC().Format(time.DateOnly)
	}
	if !q.Until.IsZero() {
		until = q.Until.UTC().Format(time.DateOnly)
	}
	type group struct {
		key  string
		kept bool
	}
	groups := map[group]*Row{}
	for level, cells := range s.Cells {
		for _, c := range cells {
			if c.Day < since || c.Day > until || q.Identity != "" && c.Identity != q.Identity {
				continue
			}
			var g group
			g.key, g.kept = q.key(c.cell, level)
			if groups[g] == nil {
				groups[g] = &Row{Key: g.key, Older: !g.kept}
			}
			groups[g].Add(c.Sum)
		}
	}
	rows := make([]Row, 0, len(groups))
	for _, row := range groups {
		rows = append(rows, *row)
	}
	slices.SortFunc(rows, q.compare)
	return rows
}

func (q Query) compare(x, y Row) int {
	switch {
	case x.Older != y.Older:
		if y.Older {
			return -1
		}
		return 1
	case q.By == "" || q.By == ByDay:
		return cmp.Compare(x.Key, y.Key)
	}
	most, other := x.Most(), y.Most()
	return cmp.Or(cmp.Compare(other.NanoUSD, most.NanoUSD), cmp.Compare(other.Tokens, most.Tokens), cmp.Compare(x.Key, y.Key))
}

// storedCell is a cell in its stored form.
type storedCell struct {
	cell
	Sum Sum `json:"sum"`
}

// storedAccount is an account in its stored form.
type storedAccount struct {
	Name   string       `json:"name"`
	Period string       `json:"period"`
	Spent  events.Spent `json:"spent"`
}

// Snapshot is a book in its stored form.
type Snapshot struct {
	Cells    [levels][]storedCell `json:"cells"`
	Budgets  []Budget             `json:"budgets,omitempty"`
	Accounts []storedAccount      `json:"accounts,omitempty"`
}

// Snapshot returns a copy of the book in its stored form.
func (b *Book) Snapshot() *Snapshot {
	s := &Snapshot{Budgets: b.budgets}
	for level, cells := range b.cells {
		s.Cells[level] = make([]storedCell, 0, len(cells))
		for c, sum := range cells {
			s.Cells[level] = append(s.Cells[level], storedCell{c, *sum})
		}
	}
	for a, spent := range b.accounts {
		s.Accounts = append(s.Accounts, storedAccount{a.name, a.period, spent})
	}
	return s
}

// Book returns the book of a stored form; an empty one of nil.
func (s *Snapshot) Book() Book {
	b := Book{accounts: map[account]events.Spent{}}
	if s == nil {
		return b
	}
	b.budgets = s.Budgets
	for level, cells := range s.Cells {
		for _, c := range cells {
			b.add(level, c.cell, c.Sum)
		}
	}
	for _, a := range s.Accounts {
		b.accounts[account{a.Name, a.Period}] = a.Spent
	}
	return b
}
