package decide

import (
	"fmt"
	"strings"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
)

// Plan is what is known of the plan of a task beside its history.
type Plan struct {
	// Program is the compiled plan, empty while there is none.
	Program *plan.Program
	// Unusable is why the plan cannot be read; nil for none.
	Unusable *fault.Error
	// over is, by for_each step, the number of leading items that are over.
	over map[string]int
}

// passItems remembers how many leading items of a for_each are over, so that they are not looked at again.
func (p *Plan) passItems(step string, n int) {
	if p.over == nil {
		p.over = map[string]int{}
	}
	p.over[step] = n
}

// Item is the place of a step inside a for_each.
type Item struct {
	// Node is the for_each, Index the place of the item in its list, from 0.
	Node  *plan.Node
	Index int

	value events.Value
}

// Key is the key of the instance of a child step for the item, such as each[2].build.
func (it *Item) Key(child string) string {
	return fmt.Sprintf("%s[%d].%s", it.Node.ID, it.Index, child)
}

// ItemOf returns the id of the for_each that a step key lies in, "" for any other key.
func ItemOf(key string) string {
	if i := strings.IndexByte(key, '['); i > 0 {
		return key[:i]
	}
	return ""
}

// TopOf is the id of the step of the plan that a covered call belongs to.
func TopOf(c plan.Cover) string {
	if c.Each != nil {
		return c.Each.ID
	}
	return c.Call.ID
}
