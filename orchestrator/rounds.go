package orchestrator

import (
	"encoding/json"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

// nextRound makes a call again whose result is not yet what its plan waits for, or fails its step when that was the last round.
// It is false when the result is final.
func (t *turn) nextRound(n *plan.Node, s *statemachine.Step, output events.Value, raw json.RawMessage, took time.Duration) bool {
	round := s.Repeats + 1
	settled, err := n.Settled(raw, round)
	switch {
	case settled:
		return false
	case err != nil:
		failure := fault.From(t.rules.redacted(err))
		t.emit(events.StepFailed, &events.StepError{Step: s.Key, Attempt: s.Attempt, Error: failure, Class: classOfResult(err), Duration: took})
	default:
		t.emit(events.StepRetrying, &events.Retrying{
			Step: s.Key, Attempt: s.Attempt, Round: round, Output: output, Duration: took,
			At: events.Time(t.now.Add(n.Delay.Std())), KeepsGrant: t.keepsGrant(s, ""),
		})
	}
	return true
}
