package statemachine

import (
	"cmp"
	"slices"
)

// liveSteps lists the steps that have not ended, one list for each of liveStates. Each list is in the order of Task.Order.
type liveSteps [liveStates][]*Step

const liveStates = 5

// listOf returns the index of the list of a state; false for a terminal state.
func listOf(state StepState) (int, bool) {
	switch state {
	case StepPending:
		return 0, true
	case StepReady:
		return 1, true
	case StepRunning:
		return 2, true
	case StepParked:
		return 3, true
	case StepInDoubt:
		return 4, true
	default:
		return 0, false
	}
}

// In returns the steps in a state that is not terminal, in the order of their first events. The list is a copy, so that its
// steps may change while it is used. Its length does not depend on the steps that have ended.
func (t *Task) In(state StepState) []*Step {
	i, ok := listOf(state)
	if !ok {
		return nil
	}
	return slices.Clone(t.indexed()[i])
}

// Count returns how many steps are in a state that is not terminal.
func (t *Task) Count(state StepState) int {
	i, ok := listOf(state)
	if !ok {
		return 0
	}
	return len(t.indexed()[i])
}

// Live returns all steps that have not ended, like In.
func (t *Task) Live() []*Step {
	all := slices.Concat(t.indexed()[:]...)
	slices.SortFunc(all, byPosition)
	return all
}

// indexed returns the index of live steps. It is computed on first use, because a decoded snapshot has none.
func (t *Task) indexed() *liveSteps {
	if t.live != nil {
		return t.live
	}
	t.live = &liveSteps{}
	for i, key := range t.Order {
		s := t.Steps[key]
		s.position = i
		t.live.add(s)
	}
	return t.live
}

func (l *liveSteps) add(s *Step) {
	if list, ok := listOf(s.State); ok {
		i, _ := slices.BinarySearchFunc(l[list], s, byPosition)
		l[list] = slices.Insert(l[list], i, s)
	}
}

// remove removes a step from the list of the state that it had.
func (l *liveSteps) remove(s *Step, state StepState) {
	list, _ := listOf(state)
	if i, found := slices.BinarySearchFunc(l[list], s, byPosition); found {
		l[list] = slices.Delete(l[list], i, i+1)
	}
}

func byPosition(a, b *Step) int { return cmp.Compare(a.position, b.position) }
