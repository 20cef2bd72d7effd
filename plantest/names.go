package plantest

import (
	"maps"
	"slices"

	"github.com/orch-dev/orch/plan"
)

// checkNames records results and decisions of a case that no step or tool of the plan can use.
func (r *run) checkNames() error {
	program, err := r.plan.Program()
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, tool := range r.plan.Tools() {
		known[tool] = true
	}
	addNames(known, program, "")
	r.checkKnown("results.", "a step or a tool of the plan", known, slices.Sorted(maps.Keys(r.c.Results)))
	r.checkKnown("approvals.", "a step of the plan", known, slices.Sorted(maps.Keys(r.c.Approvals)))
	return nil
}

func (r *run) checkKnown(at, what string, known map[string]bool, given []string) {
	for _, name := range given {
		if !slices.ContainsFunc(names(name), func(n string) bool { return known[n] }) {
			r.missed = append(r.missed, Difference{At: at + name, Want: what, Note: "the plan has none of this name"})
		}
	}
}

// addNames adds the names of the steps of a program and of its sub-plans. Steps of a sub-plan are also added with the
// id of their run step as prefix.
func addNames(known map[string]bool, program *plan.Program, prefix string) {
	for _, nodes := range [][]*plan.Node{program.Steps(), program.Verify(), program.Always()} {
		addNodes(known, nodes, prefix, "")
	}
}

func addNodes(known map[string]bool, nodes []*plan.Node, prefix, each string) {
	for _, n := range nodes {
		for _, name := range []string{n.ID, each + n.ID, prefix + n.ID, prefix + each + n.ID} {
			known[name] = true
		}
		addNodes(known, n.Children, prefix, n.ID+".")
		if n.Sub != nil {
			addNames(known, n.Sub, n.ID+".")
		}
	}
}
