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

// ActorNode is the actor of decisions that the node makes by itself.
const ActorNode = "node"

// IsUser reports whether an actor is a person with the operator's credential. Workers, agents and tasks are not.
func IsUser(actor string) bool { return strings.HasPrefix(actor, "user:") }

// IsAgent reports whether a worker is a registered agent. Its worker name is also its actor name.
func IsAgent(worker string) bool { return strings.HasPrefix(worker, events.AgentPrefix) }

// IsSession reports whether a task is a session.
func IsSession(t *statemachine.Task) bool { return t.Submitted.Session == t.ID }

// ContextOf returns the session that provides the context of the calls of a task, or "" for none.
func ContextOf(t *statemachine.Task) events.TaskID {
	if t.Submitted.Shares {
		return t.Submitted.Session
	}
	return ""
}

// HomeOf returns the task whose workspace the calls of a task use outside of sessions: the task itself, or the parent of a part
// of a for_each. Expressions see it as the task.
func HomeOf(t *statemachine.Task) events.TaskID {
	if t.Part != nil {
		return t.Submitted.Parent.Task
	}
	return t.ID
}

// NameOf returns the name of a task for expressions and for people; for a part of a for_each, that of its parent.
func NameOf(t *statemachine.Task) string {
	if t.Part != nil {
		return strings.TrimPrefix(t.Submitted.Name, api.PartName)
	}
	return t.Submitted.Name
}

// StandingID returns the id of the task that stores the permanent grants of a person.
func StandingID(person string) events.TaskID { return events.KeyedTaskID(person, api.GrantsName) }

// IsStanding reports whether a task stores the permanent grants of a person.
func IsStanding(t *statemachine.Task) bool {
	return IsSession(t) && t.Submitted.Name == api.GrantsName && t.ID == StandingID(t.Requestor)
}

// MayCall reports whether a list of allowed tools contains a tool. An empty list allows every tool.
func MayCall(allowed []string, tool string) bool {
	return len(allowed) == 0 || slices.Contains(allowed, tool)
}

// submittedAt returns when a task was submitted, as expressions of its plan see it.
func submittedAt(t *statemachine.Task) time.Time {
	if t.Submitted.Created != nil {
		return *t.Submitted.Created
	}
	return t.CreatedAt
}

// GrantOf returns the id of a valid grant for the call of a step, or "" if there is none.
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
	// PurposeCall is the purpose of a single call, which is not part of the plan. purposeVerify is the purpose of a verify call.
	PurposeCall   = "call"
	purposeVerify = "verify_call"
	// verifySuffix is the suffix of the step key of a verify call.
	verifySuffix = "!verify"
)

// OfPlan reports whether a call with a purpose belongs to a step of the plan: it is the call of the step, or one of an agent.
func OfPlan(purpose string) bool { return purpose != PurposeCall && purpose != purposeVerify }

// WaitsForAnswers reports whether a step waits for answers.
func WaitsForAnswers(s *statemachine.Step) bool {
	return s.State == statemachine.StepParked && len(s.Questions) > 0
}

// continues reports whether an outcome means that the call continues elsewhere.
func continues(r *work.Outcome) bool {
	return len(r.Note) > 0 && r.Error == nil && r.ApprovalRequest == nil && r.Spawn == nil && len(r.Output) == 0
}

// waitsElsewhere reports whether the call of a step continues elsewhere and waits for a worker.
func waitsElsewhere(s *statemachine.Step) bool {
	return s.RunsElsewhere() && (s.State == statemachine.StepReady || s.State == statemachine.StepPending)
}

// suspectFrom is the number of lost workers after which a call is a suspect: it may be the call that kills its workers. No
// worker gets two suspects at the same time, so that a harmless call is not lost again together with a harmful one.
const suspectFrom = 2

// Suspect reports whether the call of a step has lost so many workers that it must be isolated.
func Suspect(s *statemachine.Step) bool { return s.Lost >= suspectFrom }

// interrupted reports whether an error class means that the end of the worker interrupted the call, before or after its effect.
func interrupted(class string) bool {
	return class == fault.ClassWorkerLost || class == fault.ClassShutdown
}

// mayHaveHappened reports whether the call may have had its effect, so that it must not be repeated blindly.
func mayHaveHappened(s *statemachine.Step) bool {
	return (s.State == statemachine.StepRunning || s.RunsElsewhere()) && HasEffects(s)
}

// HasEffects reports whether the call of a step must happen at most once.
func HasEffects(s *statemachine.Step) bool {
	return tools.Effect(s.Effect).AtMostOnce()
}

// severity returns the rank of an effect by the harm it can do; -1 for an unknown effect.
func severity(effect string) int {
	return slices.Index([]tools.Effect{tools.Read, tools.Idempotent, tools.Write, tools.Destructive}, tools.Effect(effect))
}

// fatal reports whether the failure of a step ends the task.
func fatal(n *plan.Node, s *statemachine.Step) bool {
	return s.State == statemachine.StepFailed && (n.OnError == "" || n.OnError == plan.OnErrorFail)
}

// stepFault returns the error of a task that failed because of a step. The field of the step's error becomes part of the
// message, because reasons and notifications show only the message.
func stepFault(s *statemachine.Step) *fault.Error {
	f := *fault.From(s.Error)
	f.Message, f.Field = "step "+s.Key+": "+f.Sentence(), ""
	return &f
}
