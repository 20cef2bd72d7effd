package plan

import (
	"fmt"
	"slices"
	"strings"
)

// Cover is a tool step whose calls an approve step approves in advance.
type Cover struct {
	// Each is the for_each that contains it; nil for a top-level step.
	Each *Node
	// Call is the tool step.
	Call *Node
}

// covers resolves the `covers` of the approve steps of a section. The approve step needs the steps that the arguments
// of the covered calls refer to, because it shows the arguments.
func (l *linker) covers(nodes []*Node) {
	byID := index(nodes)
	for _, n := range nodes {
		if n.Kind != KindApprove || len(n.Approve.Covers) == 0 {
			continue
		}
		at := l.stepLocations[n.Step].field("approve")
		waiting := whoNeed(n.ID, nodes)
		for j, name := range n.Approve.Covers {
			l.cover(n, name, byID, waiting, at.field("covers").item(j))
		}
		if len(n.Covers) > 0 && n.Approve.OnExpiry == "approve" {
			at.field("on_expiry").report("the calls that `covers` names are not allowed without a person", "let it fail: on_expiry: reject")
		}
	}
}

// cover resolves one entry of `covers`: the id of a step, or "each.id" for a step in the `do` of a for_each. waiting are the steps
// that need n, directly or indirectly.
func (l *linker) cover(n *Node, name string, nodes map[string]*Node, waiting map[string]bool, at location) {
	id, inner, _ := strings.Cut(name, ".")
	target := nodes[id]
	switch {
	case target == nil:
		problem, hint := l.needProblem(id, n.ID, func(id string) bool { return nodes[id] != nil })
		at.report(problem, hint)
	case target == n || !waiting[id]:
		at.report(fmt.Sprintf("the step %q does not need %q, so it would not wait for the approval", id, n.ID), "add `needs: ["+n.ID+"]` to it")
	case target.Kind == KindTool && inner == "":
		n.addCover(at, Cover{Call: target}, target.args)
	case target.Kind == KindForEach:
		n.coverItems(target, inner, at)
	default:
		at.report(quote(name)+" is not a call of a tool", "name tool steps, and for_each steps or their steps as each.step")
	}
}

// coverItems covers the calls of one inner step of a for_each, or of all inner steps.
func (n *Node) coverItems(each *Node, inner string, at location) {
	found := false
	for _, child := range each.Children {
		if child.Kind == KindTool && (inner == "" || inner == child.ID) {
			found = true
			n.addCover(at, Cover{Each: each, Call: child}, child.args, each.items)
		}
	}
	if !found {
		at.report("the for_each "+quote(each.ID)+" has no such call of a tool", "")
	}
}

// addCover adds a covered step. It reports a problem when the arguments are not known before the approve step asks.
func (n *Node) addCover(at location, c Cover, fields ...*field) {
	for _, f := range fields {
		if f == nil {
			continue
		}
		for _, id := range f.steps {
			inner := c.Each != nil && slices.ContainsFunc(c.Each.Children, func(child *Node) bool { return child.ID == id })
			if id == n.ID || inner {
				at.report(fmt.Sprintf("the arguments of %q refer to the step %q, so they are not known when this step asks", c.Call.ID, id), "a call whose arguments are not known asks by itself")
				return
			}
		}
		n.Needs = union(f.steps, boolSet(n.Needs))
	}
	n.Covers = append(n.Covers, c)
	// The steps between the approve step and the covered step may be reused from another task, so the covered step
	// needs the grant directly.
	waits := c.Call
	if c.Each != nil {
		waits = c.Each
	}
	waits.Needs = union([]string{n.ID}, boolSet(waits.Needs))
}

// index returns the nodes of a list by id.
func index(nodes []*Node) map[string]*Node {
	byID := make(map[string]*Node, len(nodes))
	for _, n := range nodes {
		byID[n.ID] = n
	}
	return byID
}

// whoNeed returns the steps of a list that need a step, directly or indirectly.
func whoNeed(id string, nodes []*Node) map[string]bool {
	direct := map[string][]string{}
	for _, n := range nodes {
		for _, need := range n.Needs {
			direct[need] = append(direct[need], n.ID)
		}
	}
	all := map[string]bool{}
	for queue := []string{id}; len(queue) > 0; queue = queue[1:] {
		for _, n := range direct[queue[0]] {
			if !all[n] {
				all[n] = true
				queue = append(queue, n)
			}
		}
	}
	return all
}

func boolSet(names []string) map[string]bool {
	set := map[string]bool{}
	for _, name := range names {
		set[name] = true
	}
	return set
}
