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
	for _, n := range nodes {
		if n.Kind != KindApprove {
			continue
		}
		at := l.stepLocations[n.Step].field("approve")
		for j, name := range n.Approve.Covers {
			l.cover(n, name, nodes, at.field("covers").item(j))
		}
		if len(n.Covers) > 0 && n.Approve.OnExpiry == "approve" {
			at.field("on_expiry").report("the calls that `covers` names are not allowed without a person", "let it fail: on_expiry: reject")
		}
	}
}

// cover resolves one entry of `covers`: the id of a step, or "each.id" for a step in the `do` of a for_each.
func (l *linker) cover(n *Node, name string, nodes []*Node, at location) {
	id, inner, _ := strings.Cut(name, ".")
	target := find(nodes, id)
	switch {
	case target == nil:
		problem, hint := l.needProblem(id, n.ID, func(id string) bool { return find(nodes, id) != nil })
		at.report(problem, hint)
	case target == n || !needsTransitively(target, n.ID, nodes):
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

func find(nodes []*Node, id string) *Node {
	if i := slices.IndexFunc(nodes, func(n *Node) bool { return n.ID == id }); i >= 0 {
		return nodes[i]
	}
	return nil
}

// needsTransitively reports whether a node needs the step id, directly or indirectly.
func needsTransitively(n *Node, id string, nodes []*Node) bool {
	seen := map[string]bool{}
	for queue := slices.Clone(n.Needs); len(queue) > 0; {
		next := queue[0]
		queue = queue[1:]
		if next == id {
			return true
		}
		if need := find(nodes, next); need != nil && !seen[next] {
			seen[next] = true
			queue = append(queue, need.Needs...)
		}
	}
	return false
}

func boolSet(names []string) map[string]bool {
	set := map[string]bool{}
	for _, name := range names {
		set[name] = true
	}
	return set
}
