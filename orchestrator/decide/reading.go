package decide

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// Reading is a task as decisions and views read it.
type Reading struct {
	Task  *statemachine.Task
	Plan  *Plan
	Rules *Rules
	Facts Facts
	// Now is the time of the decision.
	Now time.Time
	// Given are the large values that were found for it, by reference; Wanted are those that the rest waits for.
	Given  map[string]Fetched
	Wanted []events.Value

	// needed is the bytes of those.
	needed int64
	// lost is the error of the first large value that was asked for and is lost for good.
	lost *fault.Error
}

// Over returns STATE_NOT_ALLOWED for a command on a task that has ended.
func (t *Reading) Over(command string) error {
	if !t.Task.State.Terminal() {
		return nil
	}
	return fault.New(fault.StateNotAllowed, "%s is not possible: task %s is %s", command, t.Task.ID, t.Task.State)
}

func (t *Reading) overdue() bool {
	d := t.Task.Submitted.Deadline
	return d != nil && !t.Now.Before(*d)
}

// Took is how long the call of a step has taken until now.
func (t *Reading) Took(step string) time.Duration { return t.Now.Sub(t.Task.Steps[step].CalledAt) }

// KeptOpen refuses to end the task that keeps the grants of a person.
func (t *Reading) KeptOpen() error {
	if !IsStanding(t.Task) {
		return nil
	}
	return fault.New(fault.Conflict, "%s keeps what is granted to all sessions of %s", t.Task.ID, t.Task.Requestor).
		WithHint("orch grants lists it, orch revoke ID takes one back")
}

func (t *Reading) nodeOf(id string, in *Item) *plan.Node {
	if in != nil {
		for _, child := range in.Node.Children {
			if child.ID == id {
				return child
			}
		}
	}
	return t.Plan.Program.Node(id)
}

// NodeByKey returns the node of a step instance, nil for calls that are not of the plan.
func (t *Reading) NodeByKey(key string) *plan.Node {
	outer := ItemOf(key)
	if outer == "" {
		return t.Plan.Program.Node(key)
	}
	each := t.Plan.Program.Node(outer)
	if each == nil {
		return nil
	}
	_, id, _ := strings.Cut(key, "].")
	return t.nodeOf(id, &Item{Node: each})
}

func (t *Reading) defaults() plan.Defaults {
	if p := t.Plan.Program.Plan(); p != nil && p.Defaults != nil {
		return *p.Defaults
	}
	return plan.Defaults{}
}

// queueOf is the queue of a call of a tool for a step.
func (t *Reading) queueOf(n *plan.Node, tool string) string {
	if known, ok := t.Rules.Catalogue.Get(tool); ok && known.Spec().AtNode {
		return work.NodeQueue
	}
	if n.Queue != "" {
		return n.Queue
	}
	if t.Task.Submitted.Queue != "" {
		return t.Task.Submitted.Queue
	}
	return t.defaults().Queue
}

func (t *Reading) timeoutOf(n *plan.Node) time.Duration {
	if n.Timeout > 0 {
		return time.Duration(n.Timeout)
	}
	return time.Duration(t.defaults().Timeout)
}

func (t *Reading) retryOf(n *plan.Node) *plan.Retry {
	if n.Retry != nil {
		return n.Retry
	}
	return t.defaults().Retry
}

// limitOf is the time limit of the call of a step.
func (t *Reading) limitOf(s *statemachine.Step) time.Duration {
	if s.Timeout > 0 {
		return s.Timeout
	}
	if tool, ok := t.Rules.Catalogue.Get(s.Tool); ok && tool.Spec().Timeout > 0 {
		return tool.Spec().Timeout
	}
	return work.DefaultTimeout
}

// effect is that of the step, else that of its tool, else write.
func (t *Reading) effect(n *plan.Node) tools.Effect {
	if n.Effect != "" {
		return tools.Effect(n.Effect)
	}
	return t.Rules.effectOf(n.Tool)
}

// Declared reports whether the plan itself says what effect the call of a step has. It always says so of the call
// that looks at one in doubt: looking changes nothing.
func (t *Reading) Declared(s *statemachine.Step) bool {
	if s.Purpose == purposeVerify {
		return true
	}
	n := t.NodeByKey(s.Key)
	return n != nil && n.Effect != ""
}

// resolved returns the effect that a worker has found for this very call, "" where that of the step counts: it is
// the same, or the plan declares it. A tool that cannot tell its calls apart may have become another one since the step
// was made ready, but only one that does more is believed.
func (t *Reading) resolved(s *statemachine.Step, effect string) string {
	graver := gravity(effect) - gravity(s.Effect)
	if graver == 0 || gravity(effect) < 0 || t.Declared(s) {
		return ""
	}
	if tool, ok := t.Rules.Catalogue.Get(s.Tool); ok {
		if _, tells := tool.(tools.Intender); tells {
			return effect
		}
	}
	if graver < 0 {
		return ""
	}
	return effect
}

// SecretsOf are the secrets of the call of a step. The question whether a call in doubt has happened has none.
func (t *Reading) SecretsOf(s *statemachine.Step) []work.Secret {
	n := t.NodeByKey(s.Key)
	if n == nil || s.Purpose != "" {
		return nil
	}
	var all []work.Secret
	for _, use := range n.Secrets {
		all = append(all, work.Secret{Field: use.Field, Key: use.Key, Name: use.Name, Source: use.Source, Prefix: use.Prefix, Text: use.Text()})
	}
	return all
}

// agentsFor returns which agents may take a call; nil for one that workers execute. What an earlier attempt was handed
// to stays.
func (t *Reading) agentsFor(step, tool string, args events.Value) *events.Agents {
	known, ok := t.Rules.Catalogue.Get(tool)
	if !ok || !known.Spec().ForAgents {
		return nil
	}
	if s := t.Task.Steps[step]; s != nil && s.For != nil {
		return s.For
	}
	given := t.Fetch(args)
	var said events.Agents
	if _, err := known.Check(given); err != nil || json.Unmarshal(given, &said) != nil {
		return &events.Agents{} // its arguments are refused by whoever is to make the call
	}
	slices.Sort(said.Requires)
	said.Requires = slices.Compact(said.Requires)
	return &said
}

// isAlways reports whether a step instance, or the call that verifies it, belongs to the `always` steps.
func (t *Reading) isAlways(key string) bool {
	key, _, _ = strings.Cut(key, verifySuffix)
	return slices.ContainsFunc(t.Plan.Program.Always(), func(n *plan.Node) bool {
		return key == n.ID || ItemOf(key) == n.ID
	})
}

// calling reports whether a worker has the call of the step, or the call goes on elsewhere.
func (t *Reading) calling(s *statemachine.Step) bool {
	_, held := t.Facts.Holder(s.Key)
	return s.Executing() || goesOn(s) || (s.State == statemachine.StepReady && held)
}

// Holds reports whether a worker may act for an attempt: it is the current one, its call is not over,
// and no other worker has it. A worker is trusted when it names a call that nobody has, which is how it finds its
// calls again after a restart of the node. An agent is not: its calls are in the log before it hears of them.
func (t *Reading) Holds(r work.Ref, worker string) bool {
	s := t.Task.Steps[r.Step]
	if s == nil || s.Tool == "" || s.Attempt != r.Attempt {
		return false
	}
	switch s.State {
	case statemachine.StepReady:
		holder, held := t.Facts.Holder(r.Step)
		return !held && !IsAgent(worker) || held && holder == worker
	case statemachine.StepRunning:
		return s.Executing() && s.Worker == worker
	default:
		return false
	}
}

// runsWaiting reports whether a tool runs only while its task awaits an approval.
func (t *Reading) runsWaiting(tool string) bool {
	found, ok := t.Rules.Catalogue.Get(tool)
	return ok && found.Spec().Gate == tools.AwaitingApproval
}
