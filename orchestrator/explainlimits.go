package orchestrator

import (
	"fmt"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/statemachine"
)

// becauseLimit fills in c for a call that waits because of a limit of the node (call_limits); it returns false for any other.
func (t *explanation) becauseLimit(s *statemachine.Step, c *api.Cause) bool {
	limit, at, limited := t.rd.engine.queue.dispatcher.LimitOf(t.e.calls.Queued[s.Key])
	if !limited {
		return false
	}
	until := "until another one has ended"
	if !at.IsZero() {
		until = "until " + at.UTC().Format(time.RFC3339)
	}
	c.Kind, c.Sentence = "queued", fmt.Sprintf("Step %s is ready and waits %s, because of a limit of the node (call_limits): %s.", s.Key, until, limit)
	return true
}
