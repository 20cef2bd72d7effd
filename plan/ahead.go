package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// This file checks a plan for for_each lists that would exceed MaxItems in a run.

// checkItems reports a list of items that is too long. Items that depend on the inputs are evaluated with the defaults,
// and only if the caller wants warnings, because that costs an evaluation.
func (l *linker) checkItems(n *Node, at location) {
	place := at.field("for_each")
	if list, ok := n.ForEach.([]any); ok && len(list) > MaxItems {
		place.report(fmt.Sprintf("for_each has %d items, more than %d", len(list), MaxItems), hintChunks)
		return
	}
	if n.items == nil || n.items.isLiteral() || place.doc.warn == nil || place.doc.full() {
		return
	}
	if n.Matrix != nil {
		place = at.field("matrix")
	}
	names := slices.Collect(maps.Keys(n.items.uses))
	switch {
	case len(names) == 0 && len(n.items.steps) == 0:
		if _, err := n.Items(Scope{}); err != nil {
			place.report(n.errorText(err), hintChunks)
		}
	case len(names) == 1 && names[0] == rootInputs && len(n.items.steps) == 0:
		if defaults, ok := l.defaults(); ok {
			if _, err := n.Items(Scope{Inputs: defaults}); err != nil {
				place.warnIn(n.items.source(), "with the default inputs: "+n.errorText(err), hintChunks)
			}
		}
	}
}

// errorText returns the message of err without the name of the step.
func (n *Node) errorText(err error) string {
	return strings.TrimPrefix(fault.From(err).Message, fmt.Sprintf("step %q: ", n.ID))
}

// hintChunks is the hint for too many items.
const hintChunks = "run several tasks, or let one call do many items"

// defaults returns the inputs of a run that sets no input. It returns false when some input is required.
func (l *linker) defaults() (json.RawMessage, bool) {
	inputs, err := (&Program{inputs: l.inputs}).CheckInputs(nil)
	return inputs, err == nil
}
