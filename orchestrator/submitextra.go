package orchestrator

import (
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/orchestrator/decide"
)

// submitExtra holds properties of a new task that only the node itself can set.
type submitExtra struct {
	parent *events.Parent
	// origin is the task that a retry continues, reuse the results of origin that the task reuses. keyOf is work.Call.KeyOf.
	origin events.TaskID
	reuse  []events.Reused
	// reads are the files that the reused results have read.
	reads []events.Read
	// fork is the task that a fork stands on; nil for other tasks. The results in reuse are then those of fork.
	fork *forkOrigin
	// agents are the agent steps that go on where they stood in origin or in fork.
	agents []*decide.Continued
	// loops are the for_each steps whose agents go on where they stood in origin.
	loops []*decide.ContinuedEach
	// divided are the divided items of each for_each that the task continues.
	divided []*events.Divided
	keyOf   events.TaskID
	// tools, within and deadline are the bounds that the parent task imposes (events.Submitted).
	tools    []string
	within   []events.Allow
	deadline *time.Time
	// created is the submission time for the expressions of the plan; nil means the current time.
	created *time.Time
	// schedule is the firing that submitted the task or the task that it continues.
	schedule *events.Firing
	// share is the share of the parent task (events.Submitted).
	share string
	// limited is set if the parent task is limited.
	limited bool
	// limitKey is the limit key of the parent, of origin or of fork; the plan of the task cannot change it.
	limitKey string
	// programs are the pinned programs of the parent or of origin.
	programs []events.Program
	// root is the root of the parent or of origin.
	root string
	// part is set for the task of a part of a for_each.
	part *events.Part
	// maxSteps is the upper bound for limits.max_steps of the plan; 0 means none.
	maxSteps int
}

// unbounded is the submitExtra of tasks for which there is nothing to say. It must not be changed.
var unbounded = &submitExtra{}

// trusted reports whether the node has checked the plan before, for an earlier task or for a call.
func (x *submitExtra) trusted() bool {
	return x.continues() || (x.parent != nil && x.parent.Agent != "")
}

// continues reports whether the task reuses results of another one.
func (x *submitExtra) continues() bool { return x.origin != "" || x.fork != nil }

// reused returns how many results of other tasks the task has.
func (x *submitExtra) reused() int {
	n := len(x.reuse)
	for _, c := range x.loops {
		n += c.Results()
	}
	return n
}
