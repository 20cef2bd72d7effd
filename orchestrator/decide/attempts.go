package decide

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/failpoint"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// CheckpointBefore creates the checkpoint that precedes every destructive call (S0-171, A-44).
func (t Attempts) CheckpointBefore(s *statemachine.Step) {
	t.Emit(events.CheckpointCreated, &events.Checkpointed{
		ID: events.CheckpointIDFrom(t.Task.ID, t.Rules.Entropy), Name: events.BeforeCall(s.Key, s.Tool),
		State: events.Inline(json.RawMessage("{}")), At: t.Now,
	})
}

// Start records that a worker starts the call, with the effect and the time limit that the worker reports. A call of the plan
// moves the task to IN_PROGRESS. A call for agents does so only when the agent confirms it.
func (t Attempts) Start(s *statemachine.Step, as work.Started, at time.Time) {
	t.local = true
	if s.Purpose != PurposeCall && (s.For == nil || t.Task.State != statemachine.Assigned) {
		t.activate()
	}
	if at.IsZero() || at.After(t.Now) {
		at = t.Now // the clock of the worker is wrong
	}
	called := &events.Called{Step: s.Key, Attempt: s.Attempt, Worker: as.Worker, At: events.Time(at), Effect: t.resolvedEffect(s, as.Effect)}
	if effect := tools.Effect(cmp.Or(called.Effect, s.Effect)); effect.AtMostOnce() && as.Timeout > 0 && as.Timeout != s.Timeout {
		called.Timeout = as.Timeout
	}
	t.Emit(events.StepCalled, called)
}

// Received holds the normalized parts of an outcome.
type Received struct {
	Output  events.Value
	Spawned *events.Spawned
	// Lent is the grant of the session that allows the call, nil for none.
	Lent *statemachine.Approval
}

// Report records an outcome. It returns true if the outcome came too late. It accepts a repetition of a recorded outcome.
func (t Attempts) Report(r *work.Outcome, in Received) (late bool) {
	t.local = true
	s := t.Task.Steps[r.Step]
	switch {
	case t.Holds(r.Ref, r.Worker), failpoint.On(failpoint.SkipFence) && s != nil && s.State == statemachine.StepRunning:
		if in.Output.Ref() != "" {
			t.Facts.CacheValue(in.Output.Ref(), r.Output)
		}
		t.recordOutcome(s, r, in)
	case s != nil && isRepeat(s, r) && (!IsAgent(r.Worker) || sameOutcome(s, r, in)):
	default:
		t.recordRefused(s, r)
		return true
	}
	return false
}

// isRepeat reports whether an outcome repeats one that was recorded before.
func isRepeat(s *statemachine.Step, r *work.Outcome) bool {
	// The workers of a note are not compared: a different worker in the same attempt would report a different note.
	if continues(r) && s.NotedIn == r.Attempt {
		return bytes.Equal(s.Note, r.Note)
	}
	if s.Attempt != r.Attempt || s.Worker != r.Worker {
		return false
	}
	if r.Spawn != nil {
		return s.Spawned != nil || s.Class == fault.ClassBudget
	}
	switch s.State {
	case statemachine.StepSucceeded:
		return r.Error == nil && r.ApprovalRequest == nil && len(r.Questions) == 0 && !continues(r)
	case statemachine.StepParked:
		return r.ApprovalRequest != nil || len(r.Questions) > 0
	case statemachine.StepFailed, statemachine.StepPending:
		// The worker reported success, but the result did not satisfy the plan, or the call is to be repeated.
		resultRejected := s.Class == fault.ClassUnexpected || s.Class == fault.ClassExpression || s.Class == "" && s.Repeats > 0
		return r.Error != nil && r.Class == s.Class || r.Error == nil && resultRejected
	case statemachine.StepInDoubt:
		return r.Error != nil && r.Class == fault.ClassShutdown && IsAgent(r.Worker)
	default:
		return false
	}
}

// sameOutcome reports whether a repeated outcome has the recorded content. Agents are programs of third parties: the second of
// two different outcomes of a call is refused.
func sameOutcome(s *statemachine.Step, r *work.Outcome, in Received) bool {
	switch {
	case s.State == statemachine.StepSucceeded:
		return s.Output.Ref() == in.Output.Ref() && bytes.Equal(s.Output.Raw, in.Output.Raw)
	case s.State == statemachine.StepInDoubt:
		return r.Error.Message == s.Reason
	case r.Error == nil || s.Error == nil || interrupted(r.Class):
		return true
	default:
		return r.Error.Message == s.Error.Message
	}
}

// recordRefused records the refusal of an outcome whose attempt is no longer current (I7).
func (t Attempts) recordRefused(s *statemachine.Step, r *work.Outcome) {
	if s == nil || r.Unleased || endedFromOutside(s, r) && !s.ExpectsOutcome(r.Attempt, r.Worker) {
		return
	}
	t.Emit(events.ResultRefused, &events.Refused{
		Step: r.Step, Attempt: r.Attempt, Tool: s.Tool, Worker: r.Worker,
		Reason: "the step is " + string(s.State) + " in attempt " + strconv.Itoa(s.Attempt),
	})
}

// endedFromOutside reports whether a late outcome only means that something outside the call ended it: the stop of the worker,
// or the cancellation of the step.
func endedFromOutside(s *statemachine.Step, r *work.Outcome) bool {
	return r.Class == fault.ClassCancelled || r.Class == fault.ClassShutdown ||
		r.Class == fault.ClassWorkerLost && s.State == statemachine.StepCancelled
}

// recordOutcome records the outcome of a current attempt.
func (t Attempts) recordOutcome(s *statemachine.Step, r *work.Outcome, in Received) {
	if r.ApprovalRequest != nil {
		t.Approvals().park(s, r.ApprovalRequest, in.Lent)
		return
	}
	if s.State == statemachine.StepReady {
		if r.RetryAfter > 0 && OfPlan(s.Purpose) {
			t.Emit(events.StepRetrying, &events.Retrying{Step: s.Key, Attempt: s.Attempt, Error: r.Error, Class: r.Class, At: events.Time(t.Now.Add(r.RetryAfter))})
			return
		}
		if r.Class == fault.ClassShutdown {
			t.Failed(s, r.Error, r.Class, r.Duration)
			return
		}
		t.Start(s, work.Started{Worker: r.Worker, Effect: r.Effect}, r.StartedAt)
	}
	if r.HandTo == nil && r.Class != fault.ClassShutdown {
		t.Confirm()
	}
	switch {
	case len(r.Questions) > 0:
		t.Questions().ask(s, r)
		return
	case continues(r):
		t.continueElsewhere(s, r)
		return
	case r.HandTo != nil:
		t.handOff(s, r)
		return
	}
	for _, f := range r.Facts {
		t.record(readBy(s.Key, f))
	}
	switch {
	case r.Error != nil:
		t.requestedRetry = r.Retry
		t.Failed(s, r.Error, r.Class, r.Duration)
	case in.Spawned != nil:
		t.spawnChild(s, in.Spawned, r.Duration)
	default:
		t.Succeeded(s, in.Output, r.Output, r.Duration)
	}
}

// Succeeded ends an attempt with the result of its tool. The attempt fails if the plan does not expect this result. It is
// followed by another one if the `until` condition of the step is not met.
func (t Attempts) Succeeded(s *statemachine.Step, output events.Value, raw json.RawMessage, took time.Duration) {
	if n := t.NodeByKey(s.Key); n != nil && s.Purpose == "" {
		if err := n.Expected(raw); err != nil {
			t.unexpected = &unexpectedResult{raw, output}
			t.Failed(s, fault.From(t.Rules.redacted(err)), classOfResult(err), took)
			return
		}
		if t.nextRound(n, s, output, raw, took) {
			return
		}
	}
	if t.unheard(s) {
		t.emitLost(s)
	}
	t.Emit(events.StepSucceeded, &events.Succeeded{Step: s.Key, Attempt: s.Attempt, Output: output, Duration: took})
}

// classOfResult returns the error class of a result that does not satisfy the plan.
func classOfResult(err error) string {
	if plan.Unexpected(err) {
		return fault.ClassUnexpected
	}
	return fault.ClassExpression
}

// nextRound repeats a call if its result does not meet the `until` condition of its step, or fails the step after the last
// round. A round is one call for this condition; Step.Rounds counts something else. It returns false if the result is final.
func (t Attempts) nextRound(n *plan.Node, s *statemachine.Step, output events.Value, raw json.RawMessage, took time.Duration) bool {
	round := s.Repeats + 1
	settled, err := n.UntilMet(raw, round)
	switch {
	case settled:
		return false
	case err != nil:
		failure := fault.From(t.Rules.redacted(err))
		t.Emit(events.StepFailed, &events.StepError{Step: s.Key, Attempt: s.Attempt, Error: failure, Class: classOfResult(err), Duration: took, Output: output})
	default:
		t.Emit(events.StepRetrying, &events.Retrying{
			Step: s.Key, Attempt: s.Attempt, Round: round, Output: output, Duration: took,
			At: events.Time(t.Now.Add(n.Delay.Std())), KeepsGrant: t.keepsGrant(s, ""),
		})
	}
	return true
}

// record adds a fact of a call to the history. The fact may be a request for approval, which makes the task wait (S0-162).
func (t Attempts) record(f events.Event) {
	a, ok := f.Data.(*events.Approval)
	if !ok {
		t.Emit(f.Kind, f.Data)
		return
	}
	if owner, err := events.TaskOfApproval(a.ID); err != nil || owner != t.Task.ID || t.Task.Approval(a.ID) != nil {
		return // the id does not lead to this approval, so nobody could decide about it
	}
	details := events.Inline(dropDuplicateKeys(a.Details.Raw))
	tool, digest := t.callIn(details.Raw)
	t.Approvals().request(&events.Approval{
		ID: a.ID, Type: a.Type, Description: a.Description, Rationale: a.Rationale, Details: details, Priority: a.Priority,
		Tool: tool, ArgsSHA256: digest, ExpiresAt: a.ExpiresAt, OnReject: onRejectFail, OnExpiry: onExpiryBlock,
	})
}

// readBy returns a fact; that a file was read, with the step that has read it, whatever the worker says.
func readBy(step string, f events.Event) events.Event {
	if d, ok := f.Data.(*events.Read); ok {
		again := *d
		again.Step = step
		f.Data = &again
	}
	return f
}

// RecordOnce records a fact of a call of another task unless the history contains it already.
func (t Attempts) RecordOnce(f events.Event) {
	switch d := f.Data.(type) {
	case *events.Read:
		if t.Task.Reads[d.Path] == d.SHA256 {
			return
		}
	case *events.Checkpointed:
		if slices.ContainsFunc(t.Task.Checkpoints, func(c events.Checkpointed) bool { return c.ID == d.ID }) {
			return
		}
	}
	t.record(readBy("", f))
}

// callIn returns the tool and the digest of the call that the details of a request contain as `tool` and `arguments`. The
// approval is bound to this call. It returns "" if they do not contain a valid call.
func (t Attempts) callIn(details json.RawMessage) (tool, digest string) {
	var named map[string]json.RawMessage // a struct would accept Arguments for arguments
	if json.Unmarshal(details, &named) != nil || json.Unmarshal(named["tool"], &tool) != nil {
		return "", ""
	}
	found, ok := t.Rules.Catalogue.Get(tool)
	if !ok {
		return "", ""
	}
	args, err := found.Check(named["arguments"])
	if err == nil {
		digest, err = policy.Digest(tool, args)
	}
	if err != nil {
		return "", ""
	}
	return tool, digest
}

// spawnChild continues a call as a child task, within the limit of child tasks.
func (t Attempts) spawnChild(s *statemachine.Step, requested *events.Spawned, took time.Duration) {
	err := t.steps().checkDepth()
	if limit := t.Rules.MaxSpawned; err == nil && int(t.Task.Spawned) >= limit {
		err = fault.New(fault.QuotaExceeded, "the calls of a task start at most %d child tasks", limit).
			WithHint("let a child start some of them, or give several prompts to one")
	}
	if err != nil {
		t.Failed(s, fault.From(err), fault.ClassBudget, took)
		return
	}
	child := *requested
	child.Step, child.Child = s.Key, events.TaskIDFrom(t.Now, t.Rules.Entropy)
	t.Emit(events.StepSpawned, &child)
}

// continueElsewhere records the note of a call. A call can end its attempt with a note and continue in work outside the worker,
// that is, elsewhere; the note identifies that work. The call is then made ready again (retryCalls). The call fails if it has
// already asked questions or stored notes tools.MaxRounds times (Step.Rounds).
func (t Attempts) continueElsewhere(s *statemachine.Step, r *work.Outcome) {
	spent := s.Rounds >= tools.MaxRounds
	t.recordNote(s, r.Note, true)
	if spent {
		t.failInvalid(s, tooManyRounds("note"), r.Duration)
	}
}

// recordNote records a note. A note is recorded even if the call may not use another round, because the note is the only
// reference to the work outside the worker.
func (t Attempts) recordNote(s *statemachine.Step, note json.RawMessage, elsewhere bool) {
	t.Emit(events.StepNoted, &events.Noted{Step: s.Key, Attempt: s.Attempt, Note: note, Elsewhere: elsewhere})
}

// failInvalid fails a call whose questions or notes are not allowed.
func (t Attempts) failInvalid(s *statemachine.Step, err *fault.Error, took time.Duration) {
	t.Emit(events.StepFailed, &events.StepError{Step: s.Key, Attempt: s.Attempt, Error: err, Class: fault.ClassInvalidArgs, Duration: took})
}

// tooManyRounds returns the error of a call that has asked questions or stored notes too often.
func tooManyRounds(field string) *fault.Error {
	return fault.New(fault.ValidationError, "the call has asked or left a note %d times, the limit", tools.MaxRounds).WithField(field)
}
