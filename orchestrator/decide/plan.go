package decide

import (
	"strconv"
	"strings"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
)

// Plan holds the data that is derived from the plan of a task.
type Plan struct {
	// Program is the compiled plan, empty until it is loaded.
	Program *plan.Program
	// Unusable is why the plan cannot be read; nil if it can.
	Unusable *fault.Error

	// frontiers are nil for sections that have not begun. items are the items under way of each for_each that has begun.
	frontiers [sections]*frontier
	items     map[string]*begunItems
}

// Item is one item of a for_each.
type Item struct {
	// Node is the for_each. Index is the index of the item in its list, from 0.
	Node  *plan.Node
	Index int

	value events.Value
}

// Key returns the key of the instance of a child step for the item, such as each[2].build.
func (it *Item) Key(child string) string {
	return it.Node.ID + "[" + strconv.Itoa(it.Index) + "]." + child
}

// ItemOf returns the id of the for_each that a step key belongs to, or "" for a step outside a for_each.
func ItemOf(key string) string {
	if i := strings.IndexByte(key, '['); i > 0 {
		return key[:i]
	}
	return ""
}

// TopOf returns the id of the top-level step that a covered call belongs to.
func TopOf(c plan.Cover) string {
	if c.Each != nil {
		return c.Each.ID
	}
	return c.Call.ID
}
