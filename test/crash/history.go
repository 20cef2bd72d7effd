package crash

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// history checks the commits of one task. It uses the transition tables of package statemachine as data. It shares no
// code with the fold, so that an error in the fold does not hide itself.
type history struct {
	*checker

	task   events.TaskID
	state  statemachine.State
	reason string
	ends   int
	// failure is the failure of the last failed step.
	failure string
	// excused is true if the last failed step may fail the task: a subscription lost its session with its node, a
	// message call lost its worker, or a call of ToolVerified timed out.
	excused bool
	// note is true for a task to which the node logs its own events. Such a task never ends.
	note bool
	// part is true for a task that does a part of the work of another one. since is when the task was submitted.
	part  bool
	since time.Time
	steps map[string]*stepHistory
	// origin is for whom the task works, and what costs of models count for.
	origin origin
	// seq and at are the position and the time of the current commit.
	seq uint64
	at  time.Time
	// granted are the approvals that were granted and that no agent has used to extend its budget.
	granted map[string]bool
}

// stepHistory is the history of one step in the log.
type stepHistory struct {
	state statemachine.StepState
	tool  string
	// effect is the effect of the call, such as "write".
	effect string
	// attempt is the newest attempt, worker its worker, and child the child task that completes the call.
	attempt int
	worker  string
	child   events.TaskID
	// calls maps attempts to the times of their Called events. retries counts the decisions to retry a call in doubt.
	calls   map[int]time.Time
	retries int
	// agent is the history of its turns; nil if the step is no agent that runs a model.
	agent *agentHistory
}

func newHistory(c *checker, task events.TaskID) *history {
	return &history{checker: c, task: task, steps: map[string]*stepHistory{}, granted: map[string]bool{}}
}

// violate adds a violation by this task to the report.
func (h *history) violate(invariant, format string, args ...any) {
	h.checker.violate(invariant, h.task, format, args...)
}

func (h *history) commit(c placed) {
	h.seq, h.at = c.seq, c.At
	for _, e := range c.Events {
		h.event(c.Commit, e)
		h.endedAt(c, e.Kind)
	}
}

func (h *history) event(c *events.Commit, e events.Event) {
	switch d := e.Data.(type) {
	case *events.Submitted:
		if h.state != "" {
			h.violate("I3", "it was submitted twice")
		}
		h.state = statemachine.NeedsAction
		h.since, h.part = c.At, slices.ContainsFunc(c.Events, func(e events.Event) bool { return e.Kind == events.TaskPart })
		h.submitted(d)
		h.origin = originOf(c, d)
	case *events.Moved:
		h.move(e.Kind, d)
	case *events.Refused:
		h.report.Refused++
	case *events.Turn, *events.Answered, *events.LostTurn, *events.RefusedTurn, *events.Extended, *events.Told:
		h.turn(events.StepOf(d), e)
	case *events.Charged:
		if s := h.steps[statemachine.AgentOf(d.Step)]; s != nil && s.agent != nil {
			s.agent.tokens += d.Cost.Tokens
		}
	case *events.Decision:
		h.granted[d.ID] = h.granted[d.ID] || e.Kind == events.ApprovalGranted
	case *events.Checkpointed:
		h.report.Checkpoints[h.task] = append(h.report.Checkpoints[h.task], d.ID)
	default:
		if key := events.StepOf(e.Data); key != "" {
			h.step(c, key, e)
		}
	}
}

// submitted checks that no other task was created for the same idempotency key (I1).
func (h *history) submitted(d *events.Submitted) {
	h.note = strings.HasPrefix(d.Name, api.OwnPrefix)
	h.fired(d)
	h.delivered(d)
	if d.IdempotencyKey == "" {
		return
	}
	if other, taken := h.keys[d.IdempotencyKey]; taken {
		h.violate("I1", "the idempotency key %q had made %s before", d.IdempotencyKey, other)
	}
	h.keys[d.IdempotencyKey] = h.task
}

// move checks a state transition of the task (I2, I3).
func (h *history) move(kind events.Kind, d *events.Moved) {
	if h.state.Terminal() {
		h.violate("I2", "%s follows the end of the task in %s", kind, h.state)
	}
	at := slices.IndexFunc(statemachine.Table(), func(t statemachine.Transition) bool { return t.Kind == kind })
	if at < 0 {
		h.violate("I3", "%s is in no row of the table", kind)
		return
	}
	row := statemachine.Table()[at]
	if !slices.Contains(row.From, h.state) {
		h.violate("I3", "%s is not possible in %s", kind, h.state)
	}
	h.state, h.reason = row.To, d.Reason
	if row.To.Terminal() {
		h.ends++
	}
}

// step checks a state transition of a step (I3) and its consequences for the call.
func (h *history) step(c *events.Commit, key string, e events.Event) {
	s := h.steps[key]
	if s == nil {
		s = &stepHistory{state: statemachine.StepPending, calls: map[int]time.Time{}}
		h.steps[key] = s
	}
	if h.state.Terminal() {
		h.violate("I2", "%s of step %s follows the end of the task", e.Kind, key)
	}
	h.endTurn(key, e)
	at := slices.IndexFunc(statemachine.StepTable(), func(t statemachine.StepTransition) bool { return t.Kind == e.Kind })
	if at < 0 || !slices.Contains(statemachine.StepTable()[at].From, s.state) {
		h.violate("I3", "%s is not possible for step %s, which is %s", e.Kind, key, s.state)
	}
	if at >= 0 {
		s.state = statemachine.StepTable()[at].To
	}
	if d, ok := e.Data.(*events.Agent); ok {
		s.agent = newAgentHistory(d)
	}
	h.call(c, key, s, e.Data)
}

// call tracks the attempts of a step (I6, I7).
func (h *history) call(c *events.Commit, key string, s *stepHistory, data events.Payload) {
	switch d := data.(type) {
	case *events.Ready:
		if d.Attempt != s.attempt+1 {
			h.violate("I7", "attempt %d of step %s follows %d", d.Attempt, key, s.attempt)
		}
		s.attempt, s.tool, s.effect, s.worker, s.child = d.Attempt, d.Tool, d.Effect, "", ""
	case *events.Called:
		h.current(key, s, d.Attempt, "call")
		s.worker, s.calls[d.Attempt] = d.Worker, c.At
		h.askAgain(key)
	case *events.Succeeded:
		h.succeeded(c, key, s, d)
	case *events.StepError:
		h.current(key, s, d.Attempt, "failure")
		h.excused = h.beyondBudget(s, d) || s.tool == "firebase.subscribe" && d.Error.Code == fault.NotFound ||
			strings.HasPrefix(s.tool, "MESSAGE_") && d.Error.Code == fault.WorkerLost ||
			s.tool == ToolVerified && d.Class == fault.ClassTimeout
		h.failure = fmt.Sprintf("step %s, %s attempt %d: %v", key, s.tool, d.Attempt, d.Error)
	case *events.Retrying:
		h.current(key, s, d.Attempt, "failure")
		if d.Class == fault.ClassWorkerLost {
			h.report.Lost++
		}
	case *events.InDoubt:
		h.current(key, s, d.Attempt, "doubt")
		h.inDoubt(c, key, s)
	case *events.Resolved:
		h.resolved(key, s, d)
	case *events.Spawned:
		h.report.Children++
		h.add(d.Child)
		s.child = d.Child
	}
}

// current checks that an event belongs to the newest attempt (I7).
func (h *history) current(key string, s *stepHistory, attempt int, what string) {
	if attempt != 0 && attempt != s.attempt {
		h.violate("I7", "the %s of attempt %d of step %s was accepted when %d was the newest", what, attempt, key, s.attempt)
	}
}

// succeeded checks that a result belongs to the newest attempt, that its worker reported it (I7), and that the effect
// is in the ledger (I6).
func (h *history) succeeded(c *events.Commit, key string, s *stepHistory, d *events.Succeeded) {
	if s.tool == "" {
		return // not a call but a timer, a child or a list
	}
	if d.Attempt != s.attempt {
		h.violate("I7", "the result of attempt %d of step %s was accepted when %d was the newest", d.Attempt, key, s.attempt)
	}
	reporter := "worker:" + s.worker
	switch {
	case s.child != "":
		reporter = "task:" + string(s.child)
	case isAgent(s.worker):
		reporter = s.worker
	}
	if c.Actor != reporter {
		h.violate("I7", "the result of step %s came from %s, but %s had the call", key, c.Actor, reporter)
	}
	done := slices.ContainsFunc(h.effects[h.task], func(e Effect) bool {
		return e.Phase == End && e.Step == key && e.Attempt == d.Attempt && h.by(e, s.worker)
	})
	if !done && s.inLedger() {
		h.violate("I6", "step %s succeeded in attempt %d, but the ledger has no end of it", key, d.Attempt)
	}
}

// toolAgentTask is the tool of all calls that agents execute.
const toolAgentTask = "AGENT_TASK"

// inLedger reports whether the tool of the call writes its effects to the ledger.
func (s *stepHistory) inLedger() bool {
	return strings.HasPrefix(s.tool, "CRASH_") || s.tool == toolAgentTask
}

// once reports whether the call must happen at most once.
func (s *stepHistory) once() bool {
	return s.tool == ToolWrite || s.tool == ToolVerified || s.effect == "write"
}

func isAgent(worker string) bool { return strings.HasPrefix(worker, "agent:") }

// by reports whether an effect was made by the given worker or agent.
func (h *history) by(e Effect, worker string) bool {
	if isAgent(worker) {
		return h.evidence.Agents[e.PID] == worker
	}
	return e.PID == WorkerPID(worker)
}

// inDoubt checks that a call is in doubt only for a reason: an absence of one of the participants, or the loss of its
// worker (I6).
func (h *history) inDoubt(c *events.Commit, key string, s *stepHistory) {
	h.report.InDoubt++
	if !s.once() {
		h.violate("I6", "step %s is in doubt, but %s may be called again", key, s.tool)
	}
	switch _, lost := h.evidence.Lost[WorkerPID(s.worker)]; {
	case h.absent(TheBroker, s.calls[s.attempt], c.At): // no message got through
	case h.absent(Process(WorkerPID(s.worker)), s.calls[s.attempt], c.At), h.absent(TheMachine, s.calls[s.attempt], c.At):
	case isAgent(s.worker):
		h.agentInDoubt(c, key, s)
	case lost:
	case s.inLedger():
		h.violate("I6", "step %s is in doubt, but its worker %s was neither killed nor stopped", key, s.worker)
	case !h.absent(TheNode, s.calls[s.attempt], c.At): // the tool has called the node
		h.violate("I6", "step %s is in doubt, but neither its worker %s nor the node was away", key, s.worker)
	}
}

// absent reports whether a participant was absent at any time between from and to.
func (h *history) absent(who string, from, to time.Time) bool {
	return slices.ContainsFunc(h.evidence.Absences, func(a Absence) bool {
		return a.Who == who && a.From.Before(to) && a.To.After(from)
	})
}

// agentInDoubt checks a call of an agent that is in doubt: the agent was absent meanwhile, or the node was absent and
// the agent never started the call.
func (h *history) agentInDoubt(c *events.Commit, key string, s *stepHistory) {
	begun := slices.ContainsFunc(h.effects[h.task], func(e Effect) bool {
		return e.Phase == Begin && e.Step == key && e.Attempt == s.attempt
	})
	called := s.calls[s.attempt]
	if !h.absent(s.worker, called, c.At) && (begun || !h.absent(TheNode, called, c.At)) {
		h.violate("I6", "step %s is in doubt, but its agent %s was there from %s to %s (begun: %t)", key, s.worker, called.Format(time.TimeOnly), c.At.Format(time.TimeOnly), begun)
	}
}

// resolved records the decision about a call in doubt, and checks that a call resolved as succeeded has an effect (I6).
func (h *history) resolved(key string, s *stepHistory, d *events.Resolved) {
	h.report.Resolved[d.As]++
	switch d.As {
	case "retry":
		s.state = statemachine.StepPending
		s.retries++
	case "failed":
		s.state = statemachine.StepFailed
	}
	happened := h.count(Begin, key)
	if s.tool == ToolVerified {
		happened = h.count(End, key)
	}
	if d.As == "succeeded" && s.inLedger() && happened == 0 {
		h.violate("I6", "step %s was resolved as succeeded without an effect", key)
	}
}

// count returns how often a phase of a step is in the ledger.
func (h *history) count(phase, key string) int {
	n := 0
	for _, e := range h.effects[h.task] {
		if e.Phase == phase && e.Step == key {
			n++
		}
	}
	return n
}

// finish checks the invariants of the whole history.
func (h *history) finish() {
	h.report.Ended[string(h.state)]++
	h.checkBills()
	h.checkHeard()
	switch {
	case h.ends > 1:
		h.violate("I2", "it ended %d times", h.ends)
	case h.ends == 0 && !h.note && (h.state != statemachine.Blocked || h.reason == ""):
		h.violate("I1", "it did not end and is %s without a reason", h.state)
	}
	switch cancelled := h.state == statemachine.Cancelled; {
	case h.cancels[h.task] && !cancelled:
		h.violate("I10", "its cancellation was acknowledged, but it is %s", h.state)
	case !h.cancels[h.task] && cancelled:
		h.violate("I10", "it was cancelled, but nobody had asked for that")
	case h.state == statemachine.Failed && !h.excused:
		h.violate("I1", "it failed, but no tool of the test ever does: %s", h.failure)
	}
	for key, s := range h.steps {
		if s.once() {
			if n := h.count(Begin, key); n > 1+s.retries {
				h.violate("I6", "step %s took effect %d times, with %d decisions to call again", key, n, s.retries)
			}
		}
	}
	h.checkEffects()
	h.checkAttempts()
}

// checkEffects compares the ledger with the calls in the log.
func (h *history) checkEffects() {
	keys := map[string]string{}
	for _, e := range h.effects[h.task] {
		if e.Phase != Begin {
			continue
		}
		h.report.Begins[e.Tool]++
		s := h.steps[e.Step]
		if s == nil || s.tool == "" {
			h.violate("I6", "the ledger has an effect of step %s, which was never ready", e.Step)
			continue
		}
		if first, known := keys[e.Step]; known && first != e.Key {
			h.violate("I6", "step %s was called with the keys %s and %s", e.Step, first, e.Key)
		}
		keys[e.Step] = e.Key
		if e.Key != string(h.task)+"/"+e.Step {
			h.violate("I6", "step %s was called with the key %s", e.Step, e.Key)
		}
		if at, called := s.calls[e.Attempt]; (e.Tool == ToolWrite || e.Tool == ToolVerified || e.Tool == ToolAgentWrite) && (!called || at.After(e.At)) {
			h.violate("I6", "attempt %d of step %s took effect before its start was durable", e.Attempt, e.Step)
		}
	}
}
