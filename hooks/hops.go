package hooks

import (
	"strconv"

	"github.com/orch-dev/orch/fault"
)

const (
	// HeaderHops is the header in which destinations of orch say how many deliveries have led to this one, itself included. It bounds loops
	// of destinations and hooks.
	HeaderHops = "orch-hops"
	// MaxHops is the most that a hook takes.
	MaxHops = 8
)

// ReasonLoop is the reason of the error for a delivery that has come through too many destinations.
const ReasonLoop = "LOOP_DETECTED"

// HopsOf returns how many deliveries of destinations have led to a delivery. It returns VALIDATION_ERROR with ReasonLoop if they are more
// than MaxHops, or not a number.
func HopsOf(h Headers) (int, error) {
	text, found := h[HeaderHops]
	if !found {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || n < 0:
		return 0, fault.New(fault.ValidationError, "the header %s is not a number", HeaderHops).WithReason(ReasonLoop)
	case n > MaxHops:
		return 0, fault.New(fault.ValidationError, "the delivery has come through %d destinations and hooks, the limit is %d", n, MaxHops).WithReason(ReasonLoop)
	default:
		return n, nil
	}
}
