// Package decide computes the events of the next commit of one task. A decision depends on the state and the plan of the task,
// on a command or report, and on the Facts that the orchestrator provides. The package has no lock, starts no goroutine, reads
// no clock and does no I/O. If a decision needs a large value that is not in memory, it adds the value to Reading.Missing and
// is repeated when the value has been read.
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
		Names() []string
	}
	// Models are the models that agents can ask; nil for none. Price returns the price of a model, and whether it is known. It
	// returns an error if the node has no such model.
	Models interface {
		Price(model string) (price events.Price, known bool, err error)
	}
	// Entropy provides the random bits of new ids. Random returns a number in [0,1) for the jitter of retries.
	Entropy io.Reader
	Random  func() float64
	// MaxDeliveries limits how often a call is dispatched again after the loss of its worker. MaxSpawned limits the child tasks
	// that the calls of one task start.
	MaxDeliveries, MaxSpawned int
	// PartItems is how many items of a for_each one task runs. A for_each with more is divided into parts. 0 means the default.
	PartItems int
	// Overrun is how long after its time limit the call of a lost worker may still run.
	Overrun time.Duration
	// Gone names workers that have certainly ended.
	Gone []string
	// FourEyes forbids people to decide about approvals of their own tasks.
	FourEyes bool
	// Workspace returns the path of a task's workspace in a root. Root is the root of tasks that have none of their own.
	Workspace func(root string, id events.TaskID) string
	Root      string
	// Redact removes secrets from a text. FindSecret reports whether data contains a secret, and the rule that found it.
	Redact     func(data []byte) (clean []byte, changed bool)
	FindSecret func(data []byte) (rule string, found bool)
	// HandOn returns an error if an agent must not hand its call to other agents.
	HandOn func(HandOn) error
	// Counted is set if Turn.Calls must list the calls that a decision ends, and Turn.Paid what models have cost, for statistics.
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
	original := fault.From(err)
	message, found := r.Redact([]byte(original.Message))
	if !found {
		return err
	}
	clean := *original
	clean.Message = string(message)
	return &clean
}

func (r *Rules) effectOf(tool string) tools.Effect {
	if found, ok := r.Catalogue.Get(tool); ok {
		return found.Spec().Effect
	}
	return tools.Write
}

// Barred reports whether a ready call must wait because its task awaits an approval (S0-163). A call that continues work
// elsewhere counts as running and need not wait.
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

// Lasting returns the offers of an approval that may be opened permanently, for all sessions of the submitter of its task. It
// excludes access to the whole root. It returns none for tasks of agents, and if several people must agree.
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

// HandOn describes the handover of a call from the agent that holds it to other agents.
type HandOn struct {
	// Tool is the tool of the call. Requester is the identity that the call acts for, "" if it is not known. By is the agent that
	// holds the call, such as agent:ada.
	Tool, Requester, By string
	// From selects the agents that the call is for now, To the agents that it will be for.
	From, To events.Agents
}

// Facts gives decisions access to the state of the orchestrator that is not in the history of the task: who holds its calls,
// which keys it holds, and which values are cached.
type Facts interface {
	// Wake sets a timer. When it fires, the task is decided about again.
	Wake(at time.Time)
	// Acquire acquires the concurrency key of the task if its limit allows that, and reports whether the task holds the key.
	Acquire() bool
	// Requester returns the identity that the task acts for: the submitter of the task or of its topmost parent; "" if it is not
	// known.
	Requester() string
	// Holder returns the worker that holds the call of a step; false if no worker holds it.
	Holder(step string) (worker string, held bool)
	// Ledgers returns the budgets of the node that count the task; false while it is not known what was spent of them.
	Ledgers() ([]Ledger, bool)
	// Above returns the budgets of the agents above that count the task: those whose calls have started it, or a task above it. It returns
	// false while it is not known what was spent of them.
	Above() ([]Ledger, bool)
	// Children returns what the child tasks whose costs the history does not contain have cost at most, as far as it is known.
	Children() map[events.TaskID]events.Spent
	// AwaitLedgers lets the task be decided about again when a turn of another one has been answered, or soon.
	AwaitLedgers(now time.Time)
	// Overdue returns how long the ready call of a step may be queued, if it has been queued that long; 0 before. It sets a timer
	// for that time.
	Overdue(step string, now time.Time) time.Duration
	// Limit describes the limit of the node that keeps the ready call of a step from starting; "" if there is none.
	Limit(step string) string
	// CachedValue returns a large value from the cache. CacheValue adds a value to the cache.
	CachedValue(ref string) (json.RawMessage, bool)
	CacheValue(ref string, raw json.RawMessage)
	// TimeUp reports whether the decision has taken so long that its rest is left to the next turn, so that other tasks can make
	// progress.
	TimeUp() bool
}
