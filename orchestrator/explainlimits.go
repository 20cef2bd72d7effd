package orchestrator

import (
	"fmt"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
)

// becauseLimit fills in c for a call that waits because of a limit of the node (call_limits); it returns false for any other.
func (t *explanation) becauseLimit(s *statemachine.Step, c *api.Cause) bool {
	limit, at, limited := t.rd.engine.queue.dispatcher.LimitOf(t.e.calls.Queued.Get(s.Key))
	if !limited {
		return false
	}
	until := "until another one has ended"
	if !at.IsZero() {
		until = "at least until " + decide.Clock(at.UTC())
	}
	c.Kind, c.Sentence = "limit", fmt.Sprintf("Step %s is ready and waits %s, because of a limit of the node (call_limits): %s.", s.Key, until, limit)
	if limit.OfKeys() {
		c.Sentence += keyOfLimits(t.Task.Submitted.LimitKey)
	}
	return true
}

// keyOfLimits says under which key the calls of a task count.
func keyOfLimits(key string) string {
	if key == "" {
		return " The plan gives no key (limits.key)."
	}
	return fmt.Sprintf(" The key is %q.", decide.Clip(key))
}
