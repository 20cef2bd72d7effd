package statemachine

import (
	"sync"

	"github.com/looplab/fsm"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// edge is a key of table T-1: a state and the kind of an event.
type edge struct {
	from State
	kind events.Kind
}

// edges maps each edge of table T-1 to its target state. It queries looplab/fsm once and caches the answers, because a
// transition of an fsm.FSM costs a lock and several allocations (ADR 0004).
var edges = sync.OnceValue(func() map[edge]State {
	table := Table()
	descs := make(fsm.Events, len(table))
	for i, t := range table {
		descs[i] = fsm.EventDesc{Name: t.Event, Dst: string(t.To)}
		for _, from := range t.From {
			descs[i].Src = append(descs[i].Src, string(from))
		}
	}
	machine := fsm.NewFSM(string(NeedsAction), descs, nil)
	answers := map[edge]State{}
	for _, t := range table {
		for _, from := range States() {
			machine.SetState(string(from))
			if machine.Can(t.Event) {
				answers[edge{from, t.Kind}] = t.To
			}
		}
	}
	return answers
})

// Next returns the state to which an event of the kind leads from a state, and whether table T-1 has that edge.
func Next(from State, kind events.Kind) (State, bool) {
	to, ok := edges()[edge{from, kind}]
	return to, ok
}

// IsTransition reports whether events of the kind change the state of a task.
func IsTransition(kind events.Kind) bool { return eventNames()[kind] != "" }

// Check returns STATE_NOT_ALLOWED when table T-1 has no edge of the kind from the state.
func Check(from State, kind events.Kind) error {
	if _, ok := Next(from, kind); ok {
		return nil
	}
	return fault.New(fault.StateNotAllowed, "%q is not possible in state %s", eventNames()[kind], from).
		WithHint("possible in: %v", sources(kind))
}

var eventNames = sync.OnceValue(func() map[events.Kind]string {
	names := map[events.Kind]string{}
	for _, t := range Table() {
		names[t.Kind] = t.Event
	}
	return names
})

func sources(kind events.Kind) []State {
	for _, t := range Table() {
		if t.Kind == kind {
			return t.From
		}
	}
	return nil
}
