package plan

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/orch-dev/orch/fault"
)

// This file implements `until`: the call of a step is repeated until the result satisfies an expression.

const (
	maxRounds    = 10_000
	defaultDelay = Duration(time.Second)
	// reasonRounds is the reason of the error for a result that does not satisfy `until` in the last round.
	reasonRounds = "ROUNDS_EXHAUSTED"
)

// roundFields returns the parsers of the fields of a repeated step, by name.
func (s *Step) roundFields() map[string]func(cursor) {
	return map[string]func(cursor){
		"until":      func(c cursor) { s.Until = c.expression() },
		"max_rounds": func(c cursor) { s.MaxRounds = c.count(maxRounds) },
		"delay":      func(c cursor) { s.Delay = c.duration() },
	}
}

// completeRounds reports missing or misplaced fields of a repeated step, and sets the default delay.
func (s *Step) completeRounds(c cursor) {
	if s.Kind != KindTool {
		return
	}
	switch repeated := c.has("until"); {
	case repeated && !c.has("max_rounds"):
		c.location.field("until").report("`until` needs `max_rounds`", "the step fails when it is still false after so many calls: `max_rounds: 60`")
	case !repeated && (c.has("max_rounds") || c.has("delay")):
		c.report("`max_rounds` and `delay` belong to `until`", "`retry` is for calls that fail")
	case repeated && s.Delay == 0:
		s.Delay = defaultDelay
	}
}

// UntilMet reports whether the result of a round (from 1) satisfies `until`. If the result of the last round does not,
// UntilMet returns TOOL_FAILED with the reason ROUNDS_EXHAUSTED. It returns another error when the expression fails.
func (n *Node) UntilMet(output json.RawMessage, round int) (bool, error) {
	if n.until == nil {
		return true, nil
	}
	v, err := decodePart(output, "the output of "+n.Tool)
	if err != nil {
		return false, err
	}
	yes, err := n.evalBool(n.until, "until", Scope{}, map[string]any{rootOutput: v, rootRound: round})
	if yes || err != nil || round < n.MaxRounds {
		return yes, err
	}
	message := fmt.Sprintf("after %d rounds the result is still not as awaited: %s", round, shorten(n.Until))
	if seen := observed(n.Until, v); seen != "" {
		message += ", but " + seen
	}
	return false, fault.New(fault.ToolFailed, "%s", message).WithReason(reasonRounds)
}
