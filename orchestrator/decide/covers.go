package decide

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/statemachine"
)

const (
	// maxCovered limits the calls that one approval covers, maxCoveredBytes their arguments.
	maxCovered      = 1000
	maxCoveredBytes = 4 << 20
	// coverLife is how long a grant is valid for the calls that it covers.
	coverLife = 24 * time.Hour
)

// lifeOf returns how long the grant of an approval is valid.
func lifeOf(a *statemachine.Approval) time.Duration {
	if len(a.Covers) > 0 {
		return coverLife
	}
	return grantLife
}

// covered holds the future calls that an approval covers.
type covered struct {
	// covers are the digests that bind the approval to the calls.
	covers []events.Cover
	// calls are the calls as approvers see them, shown the same as JSON.
	calls []coveredCall
	shown json.RawMessage
	// size is the size of their arguments in bytes.
	size int
}

// coveredCall is a covered call as approvers see it.
type coveredCall struct {
	Step string          `json:"step"`
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
}

// coveredCalls evaluates the calls that an approve step covers.
func (t Approvals) coveredCalls(n *plan.Node) (covered, error) {
	var all covered
	for _, c := range n.Covers {
		if s := t.Task.Steps[TopOf(c)]; s != nil && s.State.Terminal() {
			continue // its result is reused from another task
		}
		if err := t.coverEach(&all, c); err != nil {
			return covered{}, err
		}
	}
	if len(all.calls) > 0 {
		all.shown = MustJSON(all.calls)
	}
	return all, nil
}

// coverEach adds the call of a step, or of each item if the step is in a for_each.
func (t Approvals) coverEach(all *covered, c plan.Cover) error {
	if c.Each == nil {
		return t.coverCall(all, c.Call, c.Call.ID, t.scope(nil))
	}
	items, err := c.Each.Items(t.scope(nil))
	if err != nil {
		return err
	}
	for i, raw := range items {
		it := &Item{Node: c.Each, Index: i, value: events.Inline(raw)}
		if err := t.coverCall(all, c.Call, it.Key(c.Call.ID), t.scope(it)); err != nil {
			return err
		}
	}
	return nil
}

// coverCall adds one call, with the arguments that its worker will receive.
func (t Approvals) coverCall(all *covered, n *plan.Node, key string, sc plan.Scope) error {
	if len(all.calls) == maxCovered {
		return fault.New(fault.ValidationError, "covers has more than %d calls", maxCovered).WithField("covers").WithReason("LIMIT_EXCEEDED").
			WithHint("ask for parts of the list, each with an approve step of its own")
	}
	args, err := n.Args(sc)
	if err != nil {
		return err
	}
	tool, ok := t.Rules.Catalogue.Get(n.Tool)
	if !ok {
		return fault.New(fault.NotFound, "there is no tool %q here, so nobody can say what step %s would do", n.Tool, key).WithField("covers")
	}
	if args, err = tool.Check(args); err != nil {
		f := *fault.From(err)
		f.Message = fmt.Sprintf("step %s, which it covers: %s", key, f.Message)
		return &f
	}
	if all.size += len(args); all.size > maxCoveredBytes {
		return fault.New(fault.ValidationError, "the covered calls have more than %d MiB of arguments", maxCoveredBytes>>20).WithField("covers").WithReason("SIZE_LIMIT_EXCEEDED")
	}
	name := tool.Spec().Name
	digest, err := policy.Digest(name, args)
	if err != nil {
		return err
	}
	all.covers = append(all.covers, events.Cover{Step: key, Tool: name, ArgsSHA256: digest})
	all.calls = append(all.calls, coveredCall{Step: key, Tool: name, Args: args})
	return nil
}

// coverOf returns the id of the grant that covers the call of a step, or "" if there is none. Grants by the node itself
// (ActorNode) cover no calls.
func (t Approvals) coverOf(key string) string {
	for _, a := range t.Task.Approvals {
		if len(a.Covers) > 0 && a.UsableFor(key, t.Now) && a.Decision.Approver != ActorNode {
			return a.ID
		}
	}
	return ""
}

// coverDiffers returns a note for approvers if an approval covers the step of a call, but with different arguments; else "".
func (t Approvals) coverDiffers(s *statemachine.Step) string {
	if a := t.Task.Approval(s.Approval); a != nil && a.Cover(s.Key) != nil {
		return fmt.Sprintf("; approval %s covers this step, but not this call: its arguments or what it asks for differ", a.ID)
	}
	return ""
}
