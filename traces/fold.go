package traces

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

// Fold derives the spans of one task from its history. It keeps only those that have not ended.
type Fold struct {
	task      events.TaskID
	trace     TraceID
	state     string
	root      *Span
	steps     map[string]*step
	approvals map[string]*Span
	ended     []Span
}

// step contains the open spans of a step.
type step struct {
	span, attempt, turn *Span
	// ready is the newest step.ready; nil before there is one. started is the newest agent.started.
	ready   *events.Ready
	started *events.Agent
}

// NewFold returns the fold of a task whose history begins with the next commit.
func NewFold(task events.TaskID) *Fold {
	return &Fold{task: task, steps: map[string]*step{}, approvals: map[string]*Span{}}
}

// Add applies the events of the next commit and returns the spans that have ended with it. at and actor are those of the commit. What
// happens after the end of the task changes no span, such as a decision about a step in doubt.
func (f *Fold) Add(at time.Time, actor string, list []events.Event) []Span {
	f.ended = nil
	for _, e := range list {
		if _, first := e.Data.(*events.Submitted); f.root == nil && !first {
			continue
		}
		switch d := e.Data.(type) {
		case *events.Submitted:
			f.submitted(at, actor, d)
		case *events.Moved:
			f.moved(at, e.Kind, d)
		case *events.Approval:
			f.requested(at, d)
		case *events.Decision:
			f.decided(at, e.Kind, d)
		case *events.Elapsed:
			f.endApproval(at, d.ID, "expired", "")
		default:
			if key := events.StepOf(e.Data); key != "" {
				f.step(at, key, e)
			} else {
				f.noted(at, e)
			}
		}
	}
	return f.ended
}

// Trace returns the trace of the task: that of the submission, once it was added.
func (f *Fold) Trace() TraceID { return f.trace }

// Open returns the number of spans that have not ended.
func (f *Fold) Open() int {
	n := len(f.approvals)
	if f.root != nil {
		n++
	}
	for _, s := range f.steps {
		for _, span := range []*Span{s.span, s.attempt, s.turn} {
			if span != nil {
				n++
			}
		}
	}
	return n
}

// submitted begins the span of the task. That of a child is below the step that started it.
func (f *Fold) submitted(at time.Time, actor string, d *events.Submitted) {
	s := &Span{ID: idOf(f.task, ofTask, "", 0), Name: cmp.Or(d.Name, "task"), Kind: Internal, Start: at}
	if p := d.Parent; p != nil {
		s.Parent = idOf(p.Task, ofStep, p.Step, 0)
		if p.Delegated() {
			s.Parent = idOf(p.Task, ofAttempt, p.Step, p.Attempt)
		}
	} else if caller, ok := ParseContext(d.TraceParent); ok {
		s.Parent = caller.Span
	}
	f.trace, _ = OfTask(f.task, d) // recorded tasks have valid ids
	f.state = StateBelow(d)
	s.set("orch.task.id", string(f.task))
	s.set("orch.task.requester", actor)
	s.set("orch.task.queue", d.Queue)
	s.set("orch.task.priority", d.Priority)
	s.set("orch.task.plan_sha256", d.PlanSHA256)
	s.set("orch.task.retry_of", string(d.RetryOf))
	s.set("orch.task.fork_of", string(d.ForkOf))
	s.set("orch.task.session", string(d.Session))
	for _, label := range slices.Sorted(maps.Keys(d.Labels)) {
		s.set("orch.label."+label, d.Labels[label])
	}
	f.root = s
}

// moved notes a change of the state of the task, and ends the task with everything that is open if the state is final.
func (f *Fold) moved(at time.Time, kind events.Kind, d *events.Moved) {
	f.root.note(at, string(kind), reason(d.Reason)...)
	state, ok := finalState(kind)
	if !ok {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(f.steps)) {
		f.endStep(at, key, "unfinished")
	}
	for _, id := range slices.Sorted(maps.Keys(f.approvals)) {
		f.endApproval(at, id, "void", "")
	}
	f.root.set("orch.task.state", string(state))
	if state == statemachine.Failed {
		f.root.fail(d.Error)
		f.root.Message = cmp.Or(f.root.Message, d.Reason)
	}
	f.end(at, &f.root)
}

// Ends reports whether events of a kind end a task.
func Ends(kind events.Kind) bool {
	_, ok := finalState(kind)
	return ok
}

// finalState returns the final state that events of a kind lead to.
func finalState(kind events.Kind) (statemachine.State, bool) {
	for _, t := range statemachine.Table() {
		if t.Kind == kind {
			return t.To, t.To.Terminal()
		}
	}
	return "", false
}

// noted makes an event of the task of what is about no step. The lines that calls log are not among them.
func (f *Fold) noted(at time.Time, e events.Event) {
	switch d := e.Data.(type) {
	case *events.Paused:
		f.root.note(at, string(e.Kind), reason(d.Reason)...)
	case *events.CancelRequested:
		f.root.note(at, string(e.Kind), reason(d.Reason)...)
	case *events.Signal:
		f.root.note(at, string(e.Kind), Attribute{"orch.signal", d.Name})
	case *events.Checkpointed:
		if !d.Automatic() { // the span of the call says as much
			f.root.note(at, string(e.Kind))
		}
	case *events.Restored:
		f.root.note(at, string(e.Kind))
	default: // reads and changes of files, charges, questions and uses of grants
	}
}

// reason returns the attributes of an event with a reason.
func reason(text string) []Attribute {
	if text == "" {
		return nil
	}
	return []Attribute{{"orch.reason", text}}
}

// requested begins the span of an approval, which is below the step that waits for it.
func (f *Fold) requested(at time.Time, d *events.Approval) {
	parent := idOf(f.task, ofTask, "", 0)
	if d.Step != "" {
		parent = idOf(f.task, ofStep, d.Step, 0)
	}
	s := &Span{ID: idOf(f.task, ofApproval, d.ID, 0), Parent: parent, Name: "approval", Kind: Internal, Start: at}
	s.set("orch.approval.id", d.ID)
	s.set("orch.approval.type", d.Type)
	s.set("orch.approval.priority", d.Priority)
	s.set("orch.tool", d.Tool)
	f.approvals[d.ID] = s
}

// decided ends the span of an approval, or notes a vote.
func (f *Fold) decided(at time.Time, kind events.Kind, d *events.Decision) {
	switch kind {
	case events.ApprovalVoted:
		if s := f.approvals[d.ID]; s != nil {
			s.note(at, string(kind), Attribute{"orch.approver", d.Approver})
		}
	case events.ApprovalGranted:
		f.endApproval(at, d.ID, "granted", d.Approver)
	case events.ApprovalRejected:
		f.endApproval(at, d.ID, cmp.Or(d.Disposition, "rejected"), d.Approver)
	default: // a grant was revoked: its span has ended
	}
}

func (f *Fold) endApproval(at time.Time, id, decision, approver string) {
	s := f.approvals[id]
	if s == nil {
		return
	}
	s.set("orch.approval.decision", decision)
	s.set("orch.approver", approver)
	f.end(at, &s)
	delete(f.approvals, id)
}

// end adds a span to those that have ended, and sets it to nil. The clocks of workers and of the node may differ: no span ends before it
// starts.
func (f *Fold) end(at time.Time, s **Span) {
	if *s == nil {
		return
	}
	(*s).Trace, (*s).State = f.trace, f.state
	if (*s).End = at; at.Before((*s).Start) {
		(*s).End = (*s).Start
	}
	f.ended = append(f.ended, **s)
	*s = nil
}

// parentOf returns the span above that of a step: that of the agent or the for_each that it belongs to, or that of the task. A request to
// a model is below its turn.
func (f *Fold) parentOf(key string) SpanID {
	agent, call := statemachine.SplitCall(key)
	if turn, ok := strings.CutSuffix(call, ".m"); ok {
		if _, n := statemachine.SplitTurn(agent + "." + turn); n > 0 {
			return idOf(f.task, ofTurn, agent, n)
		}
	}
	if call != "" {
		return idOf(f.task, ofStep, agent, 0)
	}
	if each := strings.IndexByte(key, '['); each > 0 {
		return idOf(f.task, ofStep, key[:each], 0)
	}
	return idOf(f.task, ofTask, "", 0)
}
