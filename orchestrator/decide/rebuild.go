package decide

import (
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

// maxAtOnce limits the bytes of the large values that SaidUpTo needs at once, unless one turn has more.
const maxAtOnce = maxNeeded / 2

// SaidUpTo returns messages of the newest turn of an agent step that follow those of said, as many as have large values of at most 32 MiB.
// It reports whether more follow than ModelRequest can read at once. Values that are not in memory are added to Missing; the messages are
// then incomplete.
func (t *Reading) SaidUpTo(key string, said Said) (next Said, more bool) {
	s := t.Task.Steps[key]
	if s == nil || s.Agent == nil || s.Agent.Phase != statemachine.AgentAsking || s.Agent.Shortened(len(s.Agent.Turns)) {
		return said, false
	}
	c := conversation{t, s}
	if said.Turn >= len(s.Agent.Turns)-1 && !c.beginsAnew(said) {
		return said, false
	}
	all, turn := c.begin(said)
	last := turn
	for size := int64(0); last < len(s.Agent.Turns); last++ {
		size += c.sizeBefore(s.Agent.Turns[last].Requested)
		if size > maxAtOnce && last > turn {
			break
		}
	}
	if last == len(s.Agent.Turns) {
		return said, false
	}
	return Said{Turn: last, Messages: c.upTo(all, turn, last), begun: true}, true
}

// sizeBefore returns how many bytes the large values have that the messages of a turn have more than those of the turn before.
func (c conversation) sizeBefore(turn *events.Turn) int64 {
	size := turn.Added.Size()
	for _, m := range turn.Heard {
		size += m.Text.Size()
	}
	before := c.step.Agent.Turns[turn.Turn-2]
	if before.Answered == nil {
		return size
	}
	size += c.outputSize(statemachine.ModelKey(c.step.Key, turn.Turn-1))
	for call := range before.Answered.Calls {
		size += c.outputSize(statemachine.CallKey(c.step.Key, turn.Turn-1, call+1))
	}
	return size
}

// outputSize returns the size of the output of a step if it is a large value.
func (c conversation) outputSize(key string) int64 {
	if s := c.Task.Steps[key]; s != nil {
		return s.Output.Size()
	}
	return 0
}
