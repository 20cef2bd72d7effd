package plan

import "encoding/json"

// This file is about a for_each that is divided into parts, each of which is a task of its own.

// Part returns a program that runs only one for_each of the program, without its needs and conditions, and fails if it
// fails. It returns nil if the program has no such for_each.
func (pr *Program) Part(id string) *Program {
	whole := pr.byID[id]
	if whole == nil || whole.Kind != KindForEach {
		return nil
	}
	s := *whole.Step
	s.Needs, s.If, s.OnError, s.branch = nil, "", OnErrorFail, nil
	n := *whole
	n.Step, n.Needs, n.Dependants, n.Position, n.cond = &s, nil, nil, 0, nil
	return &Program{
		plan: pr.plan, inputs: pr.inputs, steps: []*Node{&n}, byID: map[string]*Node{id: &n},
		outputs: &field{template: literal{}, fixed: json.RawMessage("{}")},
	}
}

// WaitsForSignal returns the id of a step in `do` that waits for a signal, or "".
func (n *Node) WaitsForSignal() string {
	for _, child := range n.Children {
		if child.Kind == KindWait && child.Step.Wait.Signal != "" {
			return child.ID
		}
	}
	return ""
}
