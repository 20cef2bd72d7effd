// Package decide says what follows for one task: from its history, its plan, what somebody asks or reports, and what its owner
// knows beside, it makes the events of the next commit. It computes and nothing else: it has no lock, starts no goroutine, reads
// no clock and does no I/O. What needs a large value that is not in memory says so (Reading.Wanted) and is decided again.
package decide

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// Rules are what decisions go by beside the history and the plan of a task. They are the same for all tasks.
type Rules struct {
	// Catalogue has the tools.
	Catalogue interface {
		Get(name string) (tools.Tool, bool)
	}
	// Entropy gives the random bits of new ids, Random a number in [0,1) for the jitter of retries.
	Entropy io.Reader
	Random  func() float64
	// MaxDeliveries bounds how often a call is handed out again after it has ended with its worker, MaxSpawned the child tasks that
	// the calls of one task start.
	MaxDeliveries, MaxSpawned int
	// Overrun is for how long after its time limit the call of a lost worker may still run.
	Overrun time.Duration
	// Gone names workers that have ended for certain.
	Gone []string
	// FourEyes keeps people from deciding about what their own tasks ask.
	FourEyes bool
	// Workspace returns the path of a task's workspace, Root the root that tools are confined to.
	Workspace func(id events.TaskID) string
	Root      string
	// Redact removes secrets from a text, FindSecret names the rule by which data holds one.
	Redact     func(data []byte) (clean []byte, changed bool)
	FindSecret func(data []byte) (rule string, found bool)
	// HandOn returns why an agent must not leave its call to others.
	HandOn func(HandOn) error
	// Counted is set when the calls that a decision ends are counted.
	Counted bool
}

// CleanText redacts and shortens a text that a person or client gave.
func (r *Rules) CleanText(s string) string {
	const longest = 1000 // bytes
	clean, _ := r.Redact([]byte(s))
	if len(clean) > longest { // after the redaction: half a secret is one, too
		return strings.ToValidUTF8(string(clean[:longest]), "") + "…"
	}
	return string(clean)
}

// redacted takes the secrets out of what an error says.
func (r *Rules) redacted(err error) error {
	said := fault.From(err)
	message, found := r.Redact([]byte(said.Message))
	if !found {
		return err
	}
	clean := *said
	clean.Message = string(message)
	return &clean
}

func (r *Rules) effectOf(tool string) tools.Effect {
	if found, ok := r.Catalogue.Get(tool); ok {
		return found.Spec().Effect
	}
	return tools.Write
}

// Barred reports whether a ready call has to stay because its task awaits an approval (S0-163). One with a note goes on
// like any that runs.
func (r *Rules) Barred(t *statemachine.Task, s *statemachine.Step) bool {
	if t.State != statemachine.AwaitingApproval || s.Noted() {
		return false
	}
	tool, ok := r.Catalogue.Get(s.Tool)
	return ok && !slices.Contains(tool.Spec().Gate.States(), t.State)
}

// ClassOf is the class by which the calls of a tool are limited, "" for an unknown tool.
func (r *Rules) ClassOf(tool string) tools.Rate {
	if found, ok := r.Catalogue.Get(tool); ok {
		return found.Spec().RateClass()
	}
	return ""
}

// Lasting are those offers of an approval that may be opened for all sessions of whoever submitted its task: not the root as a whole,
// and nothing for agents or where several people have to agree.
func (r *Rules) Lasting(t *statemachine.Task, a *statemachine.Approval) []string {
	if ContextOf(t) == "" || !IsUser(t.Requestor) || r.FourEyes || a.Quorum > 1 || len(a.From) > 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(a.Offers), r.OpensRoot)
}

// OpensRoot reports whether a scope opens all of the root.
func (r *Rules) OpensRoot(scope string) bool {
	place, ok := strings.CutPrefix(scope, "path ")
	return ok && r.Root != "" && strings.HasPrefix(r.Root+"/", strings.TrimSuffix(place, "/")+"/")
}

// HandOn is a call that the agent which has it leaves to others.
type HandOn struct {
	// Tool is its tool, Requester who it was made for, "" when that is not known, and By the agent, such as agent:ada.
	Tool, Requester, By string
	// From are the agents that it is for, To those that it shall be for.
	From, To events.Agents
}

// Facts are what the owner of a task knows of it beside its history: who has its calls, what waits, and what it was asked to
// keep in mind.
type Facts interface {
	// Wake lets the task be decided about again at a time.
	Wake(at time.Time)
	// Acquire reports whether the task holds its concurrency key, taking it if there is room.
	Acquire() bool
	// Requester is who the task acts for: whoever submitted it, or the first of its parents; "" when that is not known.
	Requester() string
	// Holder is the worker that has the call of a step; false when none has it.
	Holder(step string) (worker string, held bool)
	// Untaken is how long nobody has taken the ready call of a step, once that is as long as its plan allows; 0 before.
	Untaken(step string, now time.Time) time.Duration
	// Recall returns a large value that is in memory, Remember keeps one there for a while.
	Recall(ref string) (json.RawMessage, bool)
	Remember(ref string, raw json.RawMessage)
	// Tired reports whether the decision has taken so long that the rest of it comes later, so that others are decided about.
	Tired() bool
}
