package orchestrator

import (
	"encoding/json"
	"io"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// taskPlan is what is known of the plan of a task beside its history.
type taskPlan struct {
	// program is the compiled plan, empty while there is none.
	program *plan.Program
	// unusable is why the plan cannot be read; nil for none.
	unusable *fault.Error
	// over is, by for_each step, the number of leading items that are over.
	over map[string]int
}

// passItems remembers how many leading items of a for_each are over, so that they are not looked at again.
func (p *taskPlan) passItems(step string, n int) {
	if p.over == nil {
		p.over = map[string]int{}
	}
	p.over[step] = n
}

// rules are what decisions go by beside the history and the plan of a task. They are the same for all tasks.
type rules struct {
	// catalogue has the tools.
	catalogue interface {
		Get(name string) (tools.Tool, bool)
	}
	// entropy gives the random bits of new ids, random a number in [0,1) for the jitter of retries.
	entropy io.Reader
	random  func() float64
	// maxDeliveries bounds how often a call is handed out again after it has ended with its worker, maxSpawned the child tasks that
	// the calls of one task start.
	maxDeliveries, maxSpawned int
	// overrun is for how long after its time limit the call of a lost worker may still run.
	overrun time.Duration
	// gone names workers that have ended for certain.
	gone []string
	// fourEyes keeps people from deciding about what their own tasks ask.
	fourEyes bool
	// workspace returns the path of a task's workspace, root the root that tools are confined to.
	workspace func(id events.TaskID) string
	root      string
	// redact removes secrets from a text, findSecret names the rule by which data holds one.
	redact     func(data []byte) (clean []byte, changed bool)
	findSecret func(data []byte) (rule string, found bool)
	// handOn returns why an agent must not leave its call to others.
	handOn func(HandOn) error
	// counted is set when the calls that a decision ends are counted.
	counted bool
}

// facts are what the owner of a task knows of it beside its history: who has its calls, what waits, and what it was asked to
// keep in mind.
type facts interface {
	// wake lets the task be decided about again at a time.
	wake(at time.Time)
	// acquire reports whether the task holds its concurrency key, taking it if there is room.
	acquire() bool
	// requester is who the task acts for: whoever submitted it, or the first of its parents; "" when that is not known.
	requester() string
	// holder is the worker that has the call of a step; false when none has it.
	holder(step string) (worker string, held bool)
	// untaken is how long nobody has taken the ready call of a step, once that is as long as its plan allows; 0 before.
	untaken(step string, now time.Time) time.Duration
	// recall returns a large value that is in memory, remember keeps one there for a while.
	recall(ref string) (json.RawMessage, bool)
	remember(ref string, raw json.RawMessage)
	// tired reports whether the decision has taken so long that the rest of it comes later, so that others are decided about.
	tired() bool
}

// reading is a task as decisions and views read it.
type reading struct {
	task  *statemachine.Task
	plan  *taskPlan
	rules *rules
	facts facts
	now   time.Time
	// lost is the error of the first large value that was asked for and is lost for good.
	lost *fault.Error
	// wanted are the large values that the rest waits for, needed their bytes; given are those that were found for it.
	wanted []events.Value
	needed int64
	given  map[string]fetchedValue
}
