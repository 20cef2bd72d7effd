package tree

import (
	"math"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// serverValue evaluates a server value: the time in milliseconds since 1970, or the number of the node old plus an
// increment.
func (w *writer) serverValue(server any, old *Node) (any, *fault.Error) {
	if server == "timestamp" {
		return float64(w.at.UnixMilli()), nil
	}
	object, _ := server.(map[string]any)
	by, ok := object["increment"].(float64)
	if !ok || len(object) != 1 {
		return nil, refusal.New(refusal.InvalidDataType, `".sv" is "timestamp" or {"increment": number}`)
	}
	var now float64
	if old != nil {
		now, _ = old.scalar.(float64)
	}
	if math.IsInf(now+by, 0) {
		return nil, refusal.New(refusal.InvalidDataType, "the sum of %g and %g cannot be represented in JSON", now, by)
	}
	return now + by, nil
}

// priorityOf returns the priority in an object, nil if there is none.
func priorityOf(object map[string]any) (any, *fault.Error) {
	switch priority := object[".priority"].(type) {
	case nil, float64, string:
		return priority, nil
	default:
		return nil, refusal.New(refusal.InvalidDataType, "a priority is a number, a string or null, not %s", refusal.KindOf(priority))
	}
}
