package decide

import (
	"cmp"
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

// Reading is the input of decisions and of views for clients: a task, its plan, and everything else that they depend on.
type Reading struct {
	Task  *statemachine.Task
	Plan  *Plan
	Rules *Rules
	Facts Facts
	// Now is the time of the decision.
	Now time.Time
	// Values holds the large values that were fetched, by reference. Missing lists the values that must be fetched next.
	Values  map[string]Fetched
	Missing []events.Value

	// needed is the size of the values in Missing, in bytes.
	needed int64
	// lost is the error of the first requested large value that is permanently lost.
	lost *fault.Error
}

// CheckOpen returns STATE_NOT_ALLOWED if the task has ended, so that the command is not possible.
func (t *Reading) CheckOpen(command string) error {
	if !t.Task.State.Terminal() {
		return nil
	}
	return fault.New(fault.StateNotAllowed, "%s is not possible: task %s is %s", command, t.Task.ID, t.Task.State)
}

func (t *Reading) overdue() bool {
	d := t.Task.Submitted.Deadline
	return d != nil && !t.Now.Before(*d)
}

// Elapsed returns how long the call of a step has been running.
func (t *Reading) Elapsed(step string) time.Duration { return t.Now.Sub(t.Task.Steps[step].CalledAt) }

// CheckNotStanding returns CONFLICT for a task that stores the permanent grants of a person: such a task must not be cancelled.
func (t *Reading) CheckNotStanding() error {
	if !IsStanding(t.Task) {
		return nil
	}
	return fault.New(fault.Conflict, "%s keeps what is granted to all sessions of %s", t.Task.ID, t.Task.Requestor).
		WithHint("orch grants lists it, orch revoke ID takes one back")
}

// nodeOf returns the plan node that an id refers to inside an item: a sibling first, then a step of the plan. in may be nil.
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

// NodeByKey returns the plan node of a step instance, or nil for a call that is not in the plan.
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

// queueOf returns the queue of a call of a tool for a step.
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

// limitOf returns the time limit of the call of a step.
func (t *Reading) limitOf(s *statemachine.Step) time.Duration {
	if s.Timeout > 0 {
		return s.Timeout
	}
	if tool, ok := t.Rules.Catalogue.Get(s.Tool); ok && tool.Spec().Timeout > 0 {
		return tool.Spec().Timeout
	}
	return work.DefaultTimeout
}

// effect returns the effect that the plan declares for a step, or else the effect of its tool, or else write.
func (t *Reading) effect(n *plan.Node) tools.Effect {
	if n.Effect != "" {
		return tools.Effect(n.Effect)
	}
	return t.Rules.effectOf(n.Tool)
}

// Declared reports whether the plan declares the effect of a step's call. The effect of a verify call counts as declared,
// because it changes nothing.
func (t *Reading) Declared(s *statemachine.Step) bool {
	if s.Purpose == purposeVerify {
		return true
	}
	n := t.NodeByKey(s.Key)
	return n != nil && n.Effect != ""
}

// resolvedEffect returns the effect that a worker reports for this call. It returns "" if the effect of the step counts,
// because both are the same or the plan declares it. A tool that does not determine the effect per call may have changed since
// the step was made ready; then only a more severe effect is accepted.
func (t *Reading) resolvedEffect(s *statemachine.Step, effect string) string {
	difference := severity(effect) - severity(s.Effect)
	if difference == 0 || severity(effect) < 0 || t.Declared(s) {
		return ""
	}
	if tool, ok := t.Rules.Catalogue.Get(s.Tool); ok {
		if _, perCall := tool.(tools.Intender); perCall {
			return effect
		}
	}
	if difference < 0 {
		return ""
	}
	return effect
}

// SecretsOf returns the secrets of the call of a step. Single calls and verify calls have none.
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

// agentsFor returns the selection of agents that may take a call; nil for a call that workers execute. If an earlier attempt
// was handed to other agents, that selection remains.
func (t *Reading) agentsFor(step, tool string, args events.Value) *events.Agents {
	known, ok := t.Rules.Catalogue.Get(tool)
	if !ok || !known.Spec().ForAgents {
		return nil
	}
	if s := t.Task.Steps[step]; s != nil && s.For != nil {
		return s.For
	}
	raw := t.Fetch(args)
	var selection events.Agents
	if _, err := known.Check(raw); err != nil || json.Unmarshal(raw, &selection) != nil {
		return &events.Agents{} // the call will fail because of its arguments
	}
	slices.Sort(selection.Requires)
	selection.Requires = slices.Compact(selection.Requires)
	return &selection
}

// isAlways reports whether a step instance, or the step of a verify call, belongs to the `always` steps.
func (t *Reading) isAlways(key string) bool {
	key, _, _ = strings.Cut(key, verifySuffix)
	key = statemachine.AgentOf(key)
	n := t.Plan.Program.Node(cmp.Or(ItemOf(key), key))
	always := t.Plan.Program.Always()
	return n != nil && n.Position < len(always) && always[n.Position] == n
}

// callActive reports whether a worker holds the call of the step, or the call continues elsewhere.
func (t *Reading) callActive(s *statemachine.Step) bool {
	_, held := t.Facts.Holder(s.Key)
	return s.Executing() || waitsElsewhere(s) || (s.State == statemachine.StepReady && held)
}

// Holds reports whether a worker may act for an attempt: the attempt is current, its call has not ended, and no other worker
// holds it. A worker may also act for a ready call that nobody holds, because it keeps its calls over a restart of the node. An
// agent may not, because the log records its calls before the agent receives them.
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

// runsOnlyAwaiting reports whether a tool runs only while its task awaits an approval.
func (t *Reading) runsOnlyAwaiting(tool string) bool {
	found, ok := t.Rules.Catalogue.Get(tool)
	return ok && found.Spec().Gate == tools.AwaitingApproval
}
