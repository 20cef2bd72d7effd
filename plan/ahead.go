package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// This file finds ahead what a run would stumble over: items that are known before it, more than there may be.

// checkItems reports a list of items that is too long as it is written. What follows from the inputs is looked at with their defaults,
// and only for who hears warnings: it costs an evaluation.
func (k *linker) checkItems(n *Node, at location) {
	place := at.at("for_each")
	if list, ok := n.ForEach.([]any); ok && len(list) > MaxItems {
		place.report(fmt.Sprintf("for_each has %d items, more than %d", len(list), MaxItems), hintChunks)
		return
	}
	if n.items == nil || place.doc.warn == nil || place.doc.full() {
		return
	}
	if n.Matrix != nil {
		place = at.at("matrix")
	}
	names := slices.Collect(maps.Keys(n.items.uses))
	switch {
	case len(names) == 0 && len(n.items.steps) == 0:
		if _, err := n.Items(Scope{}); err != nil {
			place.report(n.said(err), hintChunks)
		}
	case len(names) == 1 && names[0] == rootInputs && len(n.items.steps) == 0:
		if defaults, ok := k.defaults(); ok {
			if _, err := n.Items(Scope{Inputs: defaults}); err != nil {
				place.warnIn(n.items.source(), "with the default inputs: "+n.said(err), hintChunks)
			}
		}
	}
}

// said is what a step says of itself.
func (n *Node) said(err error) string {
	return strings.TrimPrefix(fault.From(err).Message, fmt.Sprintf("step %q: ", n.ID))
}

// hintChunks says what to do about too many items.
const hintChunks = "run several tasks, or let one call do many items"

// defaults are the inputs that nobody gives; false when some have to be given.
func (k *linker) defaults() (json.RawMessage, bool) {
	inputs, err := (&Program{inputs: k.inputs}).CheckInputs(nil)
	return inputs, err == nil
}
