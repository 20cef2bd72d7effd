// Package decide computes the events of the next commit of one task from its history, its plan, a command or report, and facts
// of the owner. It has no lock, starts no goroutine, reads no clock and does no I/O. A decision that needs a large value that
// is not in memory adds it to Reading.Missing, and is repeated with the value.
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

// Rules are the settings that decisions depend on. They are the same for all tasks.
type Rules struct {
	// Catalogue contains the tools.
	Catalogue interface {
		Get(name string) (tools.Tool, bool)
	}
	// Entropy provides the random bits of new ids. Random returns a number in [0,1) for the jitter of retries.
	Entropy io.Reader
	Random  func() float64
	// MaxDeliveries limits how often a call is dispatched again after the loss of its worker. MaxSpawned limits the child tasks
	// that the calls of one task start.
	MaxDeliveries, MaxSpawned int
	// Overrun is how long after its time limit the call of a lost worker may still run.
	Overrun time.Duration
	// Gone names workers that have ended for certain.
	Gone []string
	// FourEyes keeps people from deciding about approvals of their own tasks.
	FourEyes bool
	// Workspace returns the path of a task's workspace. Root is the root that tools are confined to.
	Workspace func(id events.TaskID) string
	Root      string
	// Redact removes secrets from a text. FindSecret returns the rule by which data contains a secret.
	Redact     func(data []byte) (clean []byte, changed bool)
	FindSecret func(data []byte) (rule string, found bool)
	// HandOn returns an error if an agent must not hand its call to others.
	HandOn func(HandOn) error
	// Counted is set if the calls that a decision ends are counted.
	Counted bool
}

// CleanText redacts and truncates a text from a person or client.
func (r *Rules) CleanText(s string) string {
	const longest = 1000 // bytes
	clean, _ := r.Redact([]byte(s))
	if len(clean) > longest { // truncated after redaction: half a secret is not recognised
		return strings.ToValidUTF8(string(clean[:longest]), "") + "…"
	}
	return string(clean)
}

// redacted removes secrets from the message of an error.
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

// Barred reports whether a ready call must wait because its task awaits an approval (S0-163). A call with a note counts as
// running and may continue.
func (r *Rules) Barred(t *statemachine.Task, s *statemachine.Step) bool {
	if t.State != statemachine.AwaitingApproval || s.RunsElsewhere() {
		return false
	}
	tool, ok := r.Catalogue.Get(s.Tool)
	return ok && !slices.Contains(tool.Spec().Gate.States(), t.State)
}

// ClassOf returns the rate class of a tool, "" for an unknown tool.
func (r *Rules) ClassOf(tool string) tools.Rate {
	if found, ok := r.Catalogue.Get(tool); ok {
		return found.Spec().RateClass()
	}
	return ""
}

// Lasting returns the offers of an approval that may be opened for all sessions of whoever submitted its task. It excludes the
// root as a whole. There are none for agents, or where several people have to agree.
func (r *Rules) Lasting(t *statemachine.Task, a *statemachine.Approval) []string {
	if ContextOf(t) == "" || !IsUser(t.Requestor) || r.FourEyes || a.Quorum > 1 || len(a.From) > 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(a.Offers), r.OpensRoot)
}

// OpensRoot reports whether a scope opens the whole root.
func (r *Rules) OpensRoot(scope string) bool {
	place, ok := strings.CutPrefix(scope, "path ")
	return ok && r.Root != "" && strings.HasPrefix(r.Root+"/", strings.TrimSuffix(place, "/")+"/")
}

// HandOn describes a call that the agent holding it hands to others.
type HandOn struct {
	// Tool is the tool of the call. Requester is who it was made for, "" if that is not known. By is the agent, such as
	// agent:ada.
	Tool, Requester, By string
	// From selects the agents that the call is for, To those that it will be for.
	From, To events.Agents
}

// Facts are what the owner of a task knows beside its history: who holds its calls, which keys it holds, and which values are
// cached.
type Facts interface {
	// Wake sets a timer that lets the task be decided about again.
	Wake(at time.Time)
	// Acquire reports whether the task holds its concurrency key. It acquires the key if there is room.
	Acquire() bool
	// Requester returns who the task acts for: whoever submitted it or its topmost parent; "" if that is not known.
	Requester() string
	// Holder returns the worker that holds the call of a step; false if none does.
	Holder(step string) (worker string, held bool)
	// Overdue returns how long the ready call of a step has been queued, once its start deadline has passed; 0 before.
	Overdue(step string, now time.Time) time.Duration
	// CachedValue returns a large value from the cache. CacheValue adds one to it.
	CachedValue(ref string) (json.RawMessage, bool)
	CacheValue(ref string, raw json.RawMessage)
	// TimeUp reports whether the decision has taken so long that its rest must come later, so that other tasks can be decided
	// about.
	TimeUp() bool
}
