package decide

import (
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// ActorNode is who acts in what the node decides by itself.
const ActorNode = "node"

// IsUser reports whether an actor is a person with the operator's credential; workers, agents and tasks
// are not.
func IsUser(actor string) bool { return strings.HasPrefix(actor, "user:") }

// IsAgent reports whether the name of a worker is that of a registered agent, which is an actor by that name.
func IsAgent(worker string) bool { return strings.HasPrefix(worker, events.AgentPrefix) }

// IsSession reports whether a task is a session.
func IsSession(t *statemachine.Task) bool { return t.Submitted.Session == t.ID }

// ContextOf is the session in whose context the calls of a task work, "" for none.
func ContextOf(t *statemachine.Task) events.TaskID {
	if t.Submitted.Shares {
		return t.Submitted.Session
	}
	return ""
}

// StandingID is the task that keeps the grants of a person.
func StandingID(of string) events.TaskID { return events.KeyedTaskID(of, api.GrantsName) }

// IsStanding reports whether a task keeps the grants of a person.
func IsStanding(t *statemachine.Task) bool {
	return IsSession(t) && t.Submitted.Name == api.GrantsName && t.ID == StandingID(t.Requestor)
}

// MayCall reports whether a tool is among those that a task may call.
func MayCall(allowed []string, tool string) bool {
	return len(allowed) == 0 || slices.Contains(allowed, tool)
}

// createdAt is when a task was submitted.
func createdAt(t *statemachine.Task) time.Time {
	if t.Submitted.Created != nil {
		return *t.Submitted.Created
	}
	return t.CreatedAt
}

// GrantOf returns the grant that a step may be called with, "" when it has none that is good.
func GrantOf(t *statemachine.Task, s *statemachine.Step, now time.Time) string {
	if s.Approval == "" {
		return ""
	}
	for _, a := range t.Approvals {
		if (a.ID == s.Approval || a.Follows == s.Approval) && a.UsableFor(s.Key, now) {
			return a.ID
		}
	}
	return ""
}

const (
	// PurposeCall is the purpose of a single call beside the plan, purposeVerify that of a call that asks about one in doubt.
	PurposeCall   = "call"
	purposeVerify = "verify_call"
	// verifySuffix is what the key of such a call has beyond that of its step.
	verifySuffix = "!verify"
)

// Inquires reports whether a step waits for answers.
func Inquires(s *statemachine.Step) bool {
	return s.State == statemachine.StepParked && len(s.Questions) > 0
}

// notes reports whether an outcome is that of a call which goes on elsewhere.
func notes(r work.Outcome) bool {
	return len(r.Note) > 0 && r.Error == nil && r.ApprovalRequest == nil && r.Spawn == nil && len(r.Output) == 0
}

// goesOn reports whether a step waits for a worker to look after what its call has begun elsewhere.
func goesOn(s *statemachine.Step) bool {
	return s.Noted() && (s.State == statemachine.StepReady || s.State == statemachine.StepPending)
}

// suspectFrom is the number of lost workers from which on a call is a suspect: no worker gets two
// suspects at the same time. A call that only stood beside a poisonous one is then not lost with it again.
const suspectFrom = 2

// Suspect reports whether the call of a step has taken so many workers with it that it is kept apart.
func Suspect(s *statemachine.Step) bool { return s.Lost >= suspectFrom }

// interrupted reports whether a call of the class may have ended before its effect, or after it.
func interrupted(class string) bool {
	return class == fault.ClassWorkerLost || class == fault.ClassShutdown
}

// mayHaveHappened reports whether the effect of the call must not be repeated blindly.
func mayHaveHappened(s *statemachine.Step) bool {
	return (s.State == statemachine.StepRunning || s.Noted()) && HasEffects(s)
}

// HasEffects reports whether the call of a step is one that must happen at most once.
func HasEffects(s *statemachine.Step) bool {
	return tools.Effect(s.Effect).AtMostOnce()
}

// gravity orders effects by how much they do; -1 for what is none.
func gravity(effect string) int {
	return slices.Index([]tools.Effect{tools.Read, tools.Idempotent, tools.Write, tools.Destructive}, tools.Effect(effect))
}

// fatal reports whether the end of a step ends the task.
func fatal(n *plan.Node, s *statemachine.Step) bool {
	return s.State == statemachine.StepFailed && (n.OnError == "" || n.OnError == plan.OnErrorFail)
}

// stepFault is the error of a task that a step has failed. The field is one of the step: it goes into the words, which
// stand alone in reasons and notifications.
func stepFault(s *statemachine.Step) *fault.Error {
	f := *fault.From(s.Error)
	f.Message, f.Field = "step "+s.Key+": "+f.Sentence(), ""
	return &f
}
