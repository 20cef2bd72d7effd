package decide

import (
	"slices"
	"strconv"
	"strings"

	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

// section is a list of steps of a plan.
type section int

const (
	mainSection section = iota
	verifySection
	alwaysSection
	sections
)

// frontier knows which steps of one section of a plan can make a transition, so that a decision visits them alone. It is derived
// from the task and its plan.
type frontier struct {
	nodes []*plan.Node
	// waits counts, for each node, the needs that have not ended.
	waits []int
	// open holds the nodes that have no unended need and have not ended themselves. due holds those of them that the next pass
	// visits.
	open, due positions
	// unended counts the nodes that have not ended.
	unended int
}

func newFrontier(nodes []*plan.Node, task *statemachine.Task) *frontier {
	n := len(nodes)
	space := make([]int, 3*n)
	f := &frontier{nodes: nodes, waits: space[:n:n], open: space[n : n : 2*n], due: space[2*n : 2*n]}
	for _, node := range nodes {
		if !task.StepState(node.ID).Terminal() {
			f.unended++
			for _, d := range node.Dependants {
				f.waits[d]++
			}
		}
	}
	for i, node := range nodes {
		state := task.StepState(node.ID)
		mayEndTask := state == statemachine.StepFailed
		if f.waits[i] == 0 && !state.Terminal() || mayEndTask {
			f.open = append(f.open, i)
		}
	}
	f.due = append(f.due, f.open...)
	return f
}

// touch lets the next pass visit a node.
func (f *frontier) touch(i int) {
	if f.waits[i] == 0 {
		f.due.add(i)
	}
}

// end records that the step of a node has ended.
func (f *frontier) end(i int) {
	f.unended--
	for _, d := range f.nodes[i].Dependants {
		if f.waits[d]--; f.waits[d] == 0 {
			f.open.add(d)
			f.due.add(d)
		}
	}
}

// begunItems knows which items of a for_each are under way. It is derived from the task.
type begunItems struct {
	// open holds the items that have begun and have not ended. due holds those of them that the next pass visits.
	open, due positions
	// next is the first item that has not begun.
	next int
	// failed is the last item that ends the for_each, failedStep its failed step. failedStep is "" if there is none.
	failed     int
	failedStep string
}

// fail records that an item has failed and ends the for_each.
func (b *begunItems) fail(item int, step string) {
	if b.failedStep == "" || item >= b.failed {
		b.failed, b.failedStep = item, step
	}
}

// forget removes an item that has not begun.
func (b *begunItems) forget(item int) {
	b.open.remove(item)
	b.due.remove(item)
}

// frontierOf returns the frontier of a section that runs nodes.
func (p *Plan) frontierOf(s section, nodes []*plan.Node, task *statemachine.Task) *frontier {
	if p.frontiers[s] == nil {
		p.frontiers[s] = newFrontier(nodes, task)
	}
	return p.frontiers[s]
}

// touch records that an event has changed a step.
func (p *Plan) touch(task *statemachine.Task, key string) {
	if p.Program == nil {
		return
	}
	called, _, _ := strings.Cut(key, verifySuffix)
	top, item, _ := strings.Cut(statemachine.AgentOf(called), "[")
	n := p.Program.Node(top)
	if n == nil {
		return
	}
	if each := p.items[top]; each != nil && item != "" {
		index, _, _ := strings.Cut(item, "]")
		if i, err := strconv.Atoi(index); err == nil && each.open.has(i) {
			each.due.add(i)
		}
	}
	for _, f := range p.frontiers {
		if f == nil || n.Position >= len(f.nodes) || f.nodes[n.Position] != n {
			continue
		}
		f.touch(n.Position)
		if key == n.ID && task.Steps[key].State.Terminal() {
			f.end(n.Position)
		}
	}
}

// touchAll lets the next pass visit every step that has not ended: time has passed, or something outside the task has changed.
func (p *Plan) touchAll() {
	for _, f := range p.frontiers {
		if f != nil {
			f.due = append(f.due[:0], f.open...)
		}
	}
	for _, each := range p.items {
		each.due = append(each.due[:0], each.open...)
	}
}

// positions is a sorted set of positions in a list.
type positions []int

func (p *positions) add(i int) {
	if at, found := slices.BinarySearch(*p, i); !found {
		*p = slices.Insert(*p, at, i)
	}
}

func (p *positions) has(i int) bool {
	_, found := slices.BinarySearch(*p, i)
	return found
}

func (p *positions) remove(i int) {
	if at, found := slices.BinarySearch(*p, i); found {
		*p = slices.Delete(*p, at, at+1)
	}
}

// take removes the first position that is not before from, and returns it; false if there is none.
func (p *positions) take(from int) (int, bool) {
	at, _ := slices.BinarySearch(*p, from)
	if at == len(*p) {
		return 0, false
	}
	i := (*p)[at]
	*p = slices.Delete(*p, at, at+1)
	return i, true
}
