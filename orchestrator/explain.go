package orchestrator

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// Explain implements api.Tasks.
func (rd *reader) Explain(ctx context.Context, r api.GetRequest) (api.ExplainReply, error) {
	reply := api.ExplainReply{ID: r.ID}
	var ended *endedTask
	refusal := rd.refusal()
	var who *roster
	if rd.cfg.Hooks.Agents != nil {
		who = &roster{}
		who.agents, who.removed = rd.cfg.Hooks.Agents(ctx)
	}
	err := rd.engine.inspect(ctx, r.ID, func(e *entry) error {
		reply.State = e.task.State
		ended = endedOf(e.task)
		if e.imported != nil {
			reply.Causes = []api.Cause{importedCause(e)}
			return nil
		}
		if refusal != nil && !e.task.State.Terminal() {
			reply.Causes = append(reply.Causes, refusalCause(refusal))
		}
		reply.Causes = slices.AppendSeq(reply.Causes, (&explanation{Reading: e.read(), rd: rd, e: e, roster: who}).causes())
		return nil
	})
	if err == nil && ended != nil {
		successors{rd}.describe(ctx, ended, &reply)
	}
	return reply, err
}

// refusal returns why the log accepts no appends, or nil if it accepts them.
func (rd *reader) refusal() *api.Refusal {
	var status api.StatusReply
	rd.lock()
	if rd.loss != nil {
		status.SetRefusal(rd.loss, time.Time{})
	}
	rd.unlock()
	rd.cfg.Hooks.Describe(&status)
	return status.Refusing
}

// refusalCause returns the cause for an open task while the log accepts no appends.
func refusalCause(r *api.Refusal) api.Cause {
	since := ""
	if !r.Since.IsZero() {
		since = " since " + decide.Clock(r.Since)
	}
	return api.Cause{
		Kind: "store", Next: r.Hint,
		Sentence: fmt.Sprintf("The log accepts no changes%s, so the task cannot continue: %s (%s).", since, strings.TrimSuffix(r.Message, "."), r.Code),
	}
}

// explanation computes why a task makes no progress. mu must be held.
type explanation struct {
	decide.Reading

	rd *reader
	e  *entry
	// roster holds the registered agents; nil if they are not known.
	roster *roster
}

// causes yields the reasons why the task makes no progress. Causes of the whole task come first. mu must be held.
func (t *explanation) causes() iter.Seq[api.Cause] {
	return func(yield func(api.Cause) bool) {
		if t.Task.State.Terminal() {
			yield(t.endedCause())
			return
		}
		none := true
		for _, cause := range []func() *api.Cause{t.becausePaused, t.becauseDependency, t.becauseDelay, t.becauseConcurrency, t.becauseCancelling, t.becausePlanUnusable, t.becauseApproval} {
			if c := cause(); c != nil {
				if none = false; !yield(*c) {
					return
				}
			}
		}
		for _, key := range t.Task.Order {
			if c := t.becauseStep(t.Task.Steps[key]); c != nil {
				if none = false; !yield(*c) {
					return
				}
			}
		}
		if none && !yield(api.Cause{Kind: "running", Sentence: "Nothing blocks the task; its next step is being decided right now."}) {
			return
		}
		for _, c := range t.limitCauses() {
			if !yield(c) {
				return
			}
		}
	}
}

// waitsFor returns the text that lists show for an open task that waits: its first cause. It returns "" if the first cause is
// not a wait, if the state machine has recorded a reason, or while a decision is being written to the log.
func (rd *reader) waitsFor(e *entry) string {
	if e == nil || e.task == nil || e.busy || e.task.Reason != "" || e.task.State.Terminal() {
		return ""
	}
	for c := range (&explanation{Reading: e.read(), rd: rd, e: e}).causes() {
		switch c.Kind {
		case "concurrency", "limit", "in_doubt", "signal", "question", "no_worker", "tool_paused", "queue_paused", "node_paused", "delay", "timer", "retry", "paused":
			return c.Sentence
		}
		break
	}
	return ""
}

func (t *explanation) becausePaused() *api.Cause {
	if !t.Task.Paused {
		return nil
	}
	return &api.Cause{Kind: "paused", Sentence: "The task is paused" + inParentheses(t.Task.PauseReason) + ".", Next: "orch resume " + string(t.Task.ID)}
}

// inParentheses returns the reason in parentheses after a space, or "" without a reason.
func inParentheses(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

func (t *explanation) becauseDependency() *api.Cause {
	if len(t.Task.Unmet) == 0 {
		return nil
	}
	first := t.Task.Unmet[0]
	state := "not known here"
	if d := t.rd.engine.tasks[first]; d != nil && d.task != nil {
		state = string(d.task.State)
	}
	more := ""
	if n := len(t.Task.Unmet) - 1; n > 0 {
		more = fmt.Sprintf(" and for %d more", n)
	}
	return &api.Cause{Kind: "dependency", Sentence: fmt.Sprintf("It waits for task %s, which is %s%s.", first, state, more), Next: "orch explain " + string(first)}
}

func (t *explanation) becauseDelay() *api.Cause {
	at := t.Task.Submitted.NotBefore
	if at == nil || !t.Now.Before(*at) {
		return nil
	}
	return &api.Cause{Kind: "delay", Sentence: fmt.Sprintf("It is to start at %s, in %s.", decide.Clock(*at), at.Sub(t.Now).Round(time.Second))}
}

func (t *explanation) becauseConcurrency() *api.Cause {
	c := t.Task.Submitted.Concurrency
	if c == nil {
		return nil
	}
	s := t.rd.engine.concurrencyKeys.keys[c.Key]
	if n := len(t.rd.engine.concurrencyKeys.unread); n > 0 && s != nil && s.waiting[t.Task.ID] {
		return &api.Cause{Kind: "concurrency", Sentence: fmt.Sprintf("%d tasks cannot be read at the moment; the concurrency key %q may belong to one of them.", n, c.Key), Next: "orch doctor"}
	}
	if s == nil || s.holders[t.Task.ID] || len(s.holders) < c.Limit {
		return nil
	}
	holders := make([]string, 0, len(s.holders))
	for id := range s.holders {
		holders = append(holders, string(id))
	}
	slices.Sort(holders)
	return &api.Cause{Kind: "concurrency", Sentence: fmt.Sprintf("The concurrency key %q is held by %s.", c.Key, strings.Join(holders[:min(3, len(holders))], ", ")), Next: "orch explain " + holders[0]}
}

func (t *explanation) becauseCancelling() *api.Cause {
	if !t.Task.Cancelling {
		return nil
	}
	return &api.Cause{Kind: "cancelling", Sentence: "The task is being cancelled and runs its `always` steps" + inParentheses(t.Task.CancelReason) + "."}
}

func (t *explanation) becausePlanUnusable() *api.Cause {
	if t.Plan.Unusable == nil {
		return nil
	}
	return &api.Cause{
		Kind: "blocked", Sentence: "The plan of the task cannot be read: " + strings.TrimSuffix(t.Plan.Unusable.Message, ".") + ". When it is back: orch redrive " + string(t.Task.ID),
		Next: "orch doctor",
	}
}

// becauseStep returns what a step waits for or does. It returns nil if there is nothing to report, for example because the step
// has ended.
func (t *explanation) becauseStep(s *statemachine.Step) *api.Cause {
	c := &api.Cause{Step: s.Key}
	switch {
	case t.e.waitsForResume(s, t.Now):
		return nil // the pause is the cause
	case s.State == statemachine.StepPending && !s.Due.IsZero() && s.Repeats > 0 && s.Error == nil:
		c.Kind, c.Until = "retry", s.Due
		c.Sentence = fmt.Sprintf("Step %s is called again at %s: its result was not as awaited in round %d.", s.Key, decide.Clock(s.Due), s.Repeats)
	case s.State == statemachine.StepPending && !s.Due.IsZero():
		c.Kind, c.Until = "retry", s.Due
		c.Sentence = fmt.Sprintf("Step %s is tried again at %s%s.", s.Key, decide.Clock(s.Due), inParentheses(errorText(s)))
	case s.State == statemachine.StepInDoubt:
		t.becauseInDoubt(s, c)
	case decide.WaitsForAnswers(s):
		t.becauseQuestions(s, c)
	case s.State == statemachine.StepParked:
		t.becauseParked(s, c)
	case s.State == statemachine.StepReady && t.Rules.Barred(t.Task, s):
		c.Kind, c.Sentence = "approval", fmt.Sprintf("Step %s (%s) waits until the approvals of the task are decided.", s.Key, s.Tool)
	case s.State == statemachine.StepReady:
		t.becauseReady(s, c)
		if at := t.rd.engine.queue.startBy(t.e.calls.Queued.Get(s.Key)); !at.IsZero() {
			c.Until = at
			c.Sentence += fmt.Sprintf(" It is given up at %s when nobody has taken it.", decide.Clock(at))
		}
	case s.State != statemachine.StepRunning || s.Items != nil || s.Divided != nil:
		return nil
	case s.Agent != nil && s.Agent.Waits():
		c.Kind, c.Sentence = "message", agentText(t.Task, s)
		c.Next = fmt.Sprintf("orch agent say %s --step %s TEXT", t.Task.ID, s.Key)
	case s.Agent != nil:
		c.Kind, c.Sentence = "agent", agentText(t.Task, s)
		if wait := t.rd.engine.ledgers.waitText(t.Task.ID, s); wait != "" {
			c.Kind, c.Sentence, c.Next = "budget", c.Sentence+" "+wait, "orch costs"
		}
	case s.Child != "":
		c.Kind, c.Sentence, c.Next = "child", fmt.Sprintf("Step %s waits for its child task %s.", s.Key, s.Child), "orch explain "+string(s.Child)
		c.Task = s.Child
	case s.Signal != "":
		c.Kind, c.Sentence = "signal", fmt.Sprintf("Step %s waits for the signal %q%s.", s.Key, s.Signal, untilText(s.Due))
		c.Next, c.Until = fmt.Sprintf("orch signal %s %s", t.Task.ID, s.Signal), s.Due
	case s.Tool == "":
		c.Kind, c.Until = "timer", s.Due
		c.Sentence = fmt.Sprintf("Step %s waits until %s.", s.Key, decide.Clock(s.Due))
	case t.e.calls.Leases.Get(s.Key).Silent(t.Now):
		t.becauseSilent(s, c)
	default:
		c.Kind, c.Sentence = "running", fmt.Sprintf("Step %s (%s) is running on %s since %s%s%s.", s.Key, s.Tool, named(s.Worker), decide.Clock(s.CalledAt), elsewhereText(s), t.progressText(s.Key))
	}
	return c
}

// resolveCommand names the command that decides about a call in doubt, in a form that no shell and no orch runs as it is.
func resolveCommand(task events.TaskID, step string) string {
	return fmt.Sprintf("orch resolve %s %s --as … (succeeded, failed or retry)", task, step)
}

// becauseInDoubt fills in c for a call in doubt: who can resolve it, and when.
func (t *explanation) becauseInDoubt(s *statemachine.Step, c *api.Cause) {
	c.Kind = "in_doubt"
	c.Sentence = fmt.Sprintf("It is unknown whether step %s (%s) took effect: %s.", s.Key, s.Tool, strings.TrimSuffix(s.Reason, "."))
	c.Next = resolveCommand(t.Task.ID, s.Key)
	if !s.MayStillRun(t.Now) {
		return
	}
	still := fmt.Sprintf("%s may still run attempt %d", named(s.Worker), s.Attempt)
	if t.WaitsToVerify(s) {
		c.Sentence += fmt.Sprintf(" Its verify tool waits until %s, because %s.", decide.Clock(s.Due), still)
		return
	}
	c.Sentence += fmt.Sprintf(" Until %s %s.", decide.Clock(s.Due), still)
}

// becauseParked fills in c for a step that waits for an approval.
func (t *explanation) becauseParked(s *statemachine.Step, c *api.Cause) {
	a := t.Newest(s.Approval)
	if a == nil {
		return
	}
	c.Kind, c.Approval = "approval", a.ID
	if a.Status == statemachine.ApprovalExpired {
		c.Sentence = fmt.Sprintf("Step %s waits for approval %s, about which nobody decided by %s.", s.Key, a.ID, decide.Clock(a.ExpiresAt))
		c.Next = "orch resume " + string(t.Task.ID)
		return
	}
	c.Sentence = fmt.Sprintf("Step %s waits for approval %s until %s: %s%s.", s.Key, a.ID, decide.Clock(a.ExpiresAt), strings.TrimSuffix(a.Description, "."), inParentheses(a.Rationale))
	c.Next, c.Until = "orch approvals "+a.ID, a.ExpiresAt
}

// becauseQuestions fills in c for a step that waits for answers.
func (t *explanation) becauseQuestions(s *statemachine.Step, c *api.Cause) {
	reason := t.WaitsForAnswer(s)
	c.Kind, c.Sentence = "question", "Step "+s.Key+" ("+s.Tool+")"+strings.TrimPrefix(reason, "it")+"."
	if q := t.NextQuestion(s); q != nil {
		c.Next = "orch questions " + q.ID
	}
}

// becauseApproval returns the cause for an approval that the task requested for itself, not for a step.
func (t *explanation) becauseApproval() *api.Cause {
	for _, a := range t.Task.Approvals {
		switch {
		case a.Step != "" || t.Newest(a.ID) != a:
		case a.Status == statemachine.ApprovalPending:
			return &api.Cause{Kind: "approval", Approval: a.ID, Sentence: fmt.Sprintf("It asked for approval %s (%s), pending until %s.", a.ID, strings.TrimSuffix(a.Description, "."), decide.Clock(a.ExpiresAt)), Next: "orch approvals " + a.ID, Until: a.ExpiresAt}
		case a.Status == statemachine.ApprovalExpired && t.Task.Block == decide.BlockExpired:
			return &api.Cause{Kind: "approval", Approval: a.ID, Sentence: fmt.Sprintf("Nobody decided about approval %s by %s.", a.ID, decide.Clock(a.ExpiresAt)), Next: "orch resume " + string(t.Task.ID)}
		}
	}
	return nil
}

func errorText(s *statemachine.Step) string {
	if s.Error == nil {
		return ""
	}
	return s.Error.Message
}

// untilText returns " until " and the time, or "" for the zero time.
func untilText(due time.Time) string {
	if due.IsZero() {
		return ""
	}
	return " until " + decide.Clock(due)
}

func (t *explanation) progressText(key string) string {
	p, ok := t.e.progress[key]
	switch {
	case !ok:
		return ""
	case p.Total > 0:
		return fmt.Sprintf("; its tool reports %.0f of %.0f%s", p.Done, p.Total, inParentheses(p.Message))
	default:
		return fmt.Sprintf("; its tool reports %.0f%s", p.Done, inParentheses(p.Message))
	}
}

// waitsForResume reports whether the pause of the task is the only reason why a step is not dispatched, or why a wait that is
// due does not end.
func (e *entry) waitsForResume(s *statemachine.Step, now time.Time) bool {
	waits := s.State == statemachine.StepReady || s.State == statemachine.StepPending
	waited := s.State == statemachine.StepRunning && s.Tool == "" && !s.Due.IsZero() && !now.Before(s.Due)
	return (waits || waited) && e.paused() && e.calls.Leases.Get(s.Key) == nil
}

// becauseSilent fills in c for a call with a silent worker: when the call will be lost.
func (t *explanation) becauseSilent(s *statemachine.Step, c *api.Cause) {
	l := t.e.calls.Leases.Get(s.Key)
	c.Kind = "running"
	if l.LastHeartbeat.IsZero() {
		c.Sentence = fmt.Sprintf("Step %s (%s) was running on %s before the node restarted; unless %s is heard from by %s, its call is given up.",
			s.Key, s.Tool, named(l.Worker), plainName(l.Worker), decide.Clock(l.Expires))
		return
	}
	silence := "which was last heard of %s ago"
	if w := t.rd.engine.queue.dispatcher.Worker(l.Worker); w != nil && w.Seen.After(l.LastHeartbeat) {
		silence = "which has not reported it for %s"
	}
	c.Sentence = fmt.Sprintf("Step %s (%s) runs on %s, "+silence+"; at %s its call is given up.",
		s.Key, s.Tool, named(l.Worker), t.Now.Sub(l.LastHeartbeat).Round(time.Second), decide.Clock(l.Expires))
}

// becauseReady fills in c for a ready call: why no worker executes it, or which worker holds it.
func (t *explanation) becauseReady(s *statemachine.Step, c *api.Cause) {
	queue := decide.QueueName(s.Queue)
	if decide.AsksModel(s) {
		queue = work.ModelsQueue
	}
	switch {
	case t.e.calls.Leases.Get(s.Key).Silent(t.Now):
		t.becauseSilent(s, c)
	case t.e.calls.Leases.Get(s.Key) != nil:
		c.Kind, c.Sentence = "running", fmt.Sprintf("Step %s (%s) is running on %s%s%s.", s.Key, s.Tool, named(t.e.calls.Leases.Get(s.Key).Worker), elsewhereText(s), t.progressText(s.Key))
	case t.rd.pauses.paused(pauseNode, ""):
		c.Kind, c.Sentence, c.Next = "node_paused", fmt.Sprintf("Step %s is ready, but the node is paused%s.", s.Key, t.pauseText(pauseNode, "")), "orch resume --node"
	case t.rd.pauses.paused(pauseQueue, queue):
		c.Kind, c.Sentence, c.Next = "queue_paused", fmt.Sprintf("Step %s is ready, but queue %s is paused%s.", s.Key, queue, t.pauseText(pauseQueue, queue)), "orch resume --queue "+queue
	case t.rd.pauses.paused(pauseTool, s.Tool):
		c.Kind, c.Sentence, c.Next = "tool_paused", fmt.Sprintf("Step %s is ready, but tool %s is paused%s.", s.Key, s.Tool, t.pauseText(pauseTool, s.Tool)), "orch resume --tool "+s.Tool
	case t.becauseLimit(s, c):
	case s.For != nil:
		t.becauseAgents(s, c)
	case decide.AsksModel(s) && !decide.Suspect(s):
		t.becauseModel(s, c)
	case t.becauseWorkers(s, c):
	case t.rd.engine.queue.dispatcher.ReservedBy(t.e.calls.Queued.Get(s.Key)) != "":
		c.Kind, c.Sentence = "queued", fmt.Sprintf("Step %s is ready and waits for another call to end: the last free slots of worker %s are kept for operators and critical calls.",
			s.Key, t.rd.engine.queue.dispatcher.ReservedBy(t.e.calls.Queued.Get(s.Key)))
	case decide.Suspect(s):
		c.Kind, c.Sentence = "queued", fmt.Sprintf("Step %s has lost %d workers; it waits for a worker of queue %s that has no other such call.", s.Key, s.Lost, queue)
	default:
		c.Kind, c.Sentence = "queued", fmt.Sprintf("Step %s is ready%s and waits for a free worker of queue %s, with %d calls queued there.", s.Key, elsewhereText(s), queue, t.rd.engine.queue.dispatcher.QueuedIn(queue))
	}
}

// elsewhereText returns a clause for a call that only observes the work that it has started outside the worker; "" for any
// other call.
func elsewhereText(s *statemachine.Step) string {
	if !s.RunsElsewhere() {
		return ""
	}
	return " to observe the work that it has started elsewhere"
}

// pauseText returns who paused an object, since when, and why.
func (t *explanation) pauseText(kind, name string) string {
	for _, h := range t.rd.pauses.list {
		if h.Kind == kind && h.Name == name {
			return fmt.Sprintf(" by %s since %s%s", h.By, decide.Clock(h.At), inParentheses(h.Reason))
		}
	}
	return ""
}
