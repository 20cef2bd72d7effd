package orchestrator

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

const (
	purposeVerify = "verify_call"
	purposeCall   = "call"
	verifySuffix  = "!verify"
)

func (t *reading) defaults() plan.Defaults {
	if p := t.plan.program.Plan(); p != nil && p.Defaults != nil {
		return *p.Defaults
	}
	return plan.Defaults{}
}

// queueOf is the queue of a call of a tool for a step.
func (t *reading) queueOf(n *plan.Node, tool string) string {
	if known, ok := t.rules.catalogue.Get(tool); ok && known.Spec().AtNode {
		return work.NodeQueue
	}
	if n.Queue != "" {
		return n.Queue
	}
	if t.task.Submitted.Queue != "" {
		return t.task.Submitted.Queue
	}
	return t.defaults().Queue
}

func (t *reading) timeoutOf(n *plan.Node) time.Duration {
	if n.Timeout > 0 {
		return time.Duration(n.Timeout)
	}
	return time.Duration(t.defaults().Timeout)
}

func (t *reading) retryOf(n *plan.Node) *plan.Retry {
	if n.Retry != nil {
		return n.Retry
	}
	return t.defaults().Retry
}

// startWithin is how long a call that is queued now may wait to be taken; 0 for ever. One that has begun something elsewhere
// is never given up by that, and one from before the restart not before its worker had time to speak of it.
func (o *Orchestrator) startWithin(e *entry, s *statemachine.Step) time.Duration {
	n := o.read(e).nodeByKey(s.Key)
	switch {
	case n == nil || n.StartWithin <= 0 || s.Noted():
		return 0
	case !s.Since.After(o.started):
		return max(time.Duration(n.StartWithin), o.leaseOf(e, s.Key))
	default:
		return time.Duration(n.StartWithin)
	}
}

// startBy is until when somebody has to take a queued call; zero for ever, and while nobody may take it.
func (o *Orchestrator) startBy(q *queuedCall) time.Time {
	if q == nil || q.within == 0 || o.held(holdNode, "") || o.lanePaused(q.lane) {
		return time.Time{}
	}
	return q.since.Add(q.within)
}

// checkStart fails a call that could be taken for as long as its plan says, and was not. After a pause its time begins anew.
func (t *turn) checkStart(s *statemachine.Step) {
	within := t.facts.untaken(s.Key, t.now)
	if within == 0 {
		return
	}
	who, hint := "a worker of queue "+queueName(s.Queue), "start one: orch worker --queue "+queueName(s.Queue)
	if s.For != nil {
		who, hint = wantedAgents(s.For), "see who is there: orch agents"
	}
	err := fault.New(fault.Timeout, "nobody has taken the call within %s; it waited for %s", within, who).WithHint("%s", hint)
	t.failed(s, err, fault.ClassExpired, 0)
}

// startWait begins a wait for a duration, a time or a signal.
func (t *turn) startWait(n *plan.Node, key string, sc plan.Scope) {
	w, err := n.Wait(sc)
	if err = t.outcomeOf(err, w.Default, []byte(w.Signal)); err != nil {
		t.failStep(key, err)
		return
	}
	data := &events.Waiting{Step: key, Signal: w.Signal, Default: t.keep(w.Default)}
	switch {
	case w.Kind == "for":
		data.Until = new(events.Time(t.now.Add(w.For)))
	case w.Kind == "until":
		data.Until = new(events.Time(w.Until))
	case w.Timeout > 0:
		data.Until = new(events.Time(t.now.Add(w.Timeout)))
	}
	t.activate()
	t.emit(events.StepWaiting, data)
}

// checkWait ends a wait whose signal has come or whose time is over.
func (t *turn) checkWait(s *statemachine.Step) {
	for _, sig := range t.task.Signals {
		if s.Signal != "" && sig.Name == s.Signal {
			t.emit(events.StepSucceeded, &events.Succeeded{Step: s.Key, Output: sig.Data})
			return
		}
	}
	switch {
	case s.Due.IsZero() || t.early(s.Due):
	case s.Signal == "" || !s.Default.IsZero():
		t.emit(events.StepSucceeded, &events.Succeeded{Step: s.Key, Output: s.Default})
	default:
		t.emit(events.StepFailed, &events.StepError{
			Step: s.Key, Class: fault.ClassExpired,
			Error: fault.New(fault.Timeout, "the signal %q did not come in time", s.Signal),
		})
	}
}

// startEach fixes the items of a for_each.
func (t *turn) startEach(n *plan.Node, key string, sc plan.Scope) {
	items, err := n.Items(sc)
	if err = t.outcomeOf(err, items...); err != nil {
		t.failStep(key, err)
		return
	}
	values := make([]events.Value, len(items))
	for i, raw := range items {
		values[i] = t.keep(raw)
	}
	t.activate()
	t.emit(events.StepExpanded, &events.Expanded{Step: key, Items: values})
}

const defaultParallel = 16

// eachItem moves the items of a for_each on, at most max_parallel at a time, and ends it.
func (t *turn) eachItem(n *plan.Node, s *statemachine.Step) {
	parallel := n.MaxParallel
	if parallel <= 0 {
		parallel = defaultParallel
	}
	active, failed := 0, ""
	first := t.plan.over[s.Key]
	for i := first; i < len(s.Items) && active < parallel; i++ {
		it := &item{node: n, index: i, value: s.Items[i]}
		over, bad := t.oneItem(it, failed != "")
		switch {
		case !over:
			active++
		case i == first && (bad == "" || n.OnItemError == plan.OnErrorContinue):
			first++
		}
		if bad != "" && n.OnItemError != plan.OnErrorContinue {
			failed = bad
		}
	}
	t.plan.passItems(s.Key, first)
	switch {
	case active > 0:
	case failed != "":
		t.emit(events.StepFailed, &events.StepError{Step: s.Key, Error: stepFault(t.task.Steps[failed]), Class: t.task.Steps[failed].Class})
	default:
		outputs := t.itemOutputs(n, s)
		if err := t.outcomeOf(sizeOfItems(outputs)); err != nil {
			t.failStep(s.Key, err)
			return
		}
		t.emit(events.StepSucceeded, &events.Succeeded{Step: s.Key, Output: t.keep(outputs)})
	}
}

// oneItem moves the steps of one item on. It reports whether the item is over and the key of a step
// that made it fail. When no new item may begin, one that has not begun counts as over.
func (t *turn) oneItem(it *item, noNew bool) (over bool, bad string) {
	begun := false
	for _, child := range it.node.Children {
		begun = begun || t.task.Steps[it.key(child.ID)] != nil
	}
	if noNew && !begun {
		return true, ""
	}
	over = true
	for _, child := range it.node.Children {
		key := it.key(child.ID)
		if bad == "" || t.task.Steps[key] != nil {
			t.move(child, key, it)
		}
		s := t.task.Steps[key]
		switch {
		case s != nil && s.State.Over():
			if fatal(child, s) {
				bad = key
			}
		case s == nil && bad != "":
		default:
			over = false
		}
	}
	return over, bad
}

func (it *item) key(child string) string {
	return fmt.Sprintf("%s[%d].%s", it.node.ID, it.index, child)
}

// itemOf returns the id of the for_each that a step key lies in, "" for any other key.
func itemOf(key string) string {
	if i := strings.IndexByte(key, '['); i > 0 {
		return key[:i]
	}
	return ""
}

// itemOutputs is the output of a for_each: one object per item, with the output of each of its steps
// by id, null where there is none. When one failed, there are also "error" and, by its name, the item.
func (t *reading) itemOutputs(n *plan.Node, s *statemachine.Step) json.RawMessage {
	list := make([]map[string]json.RawMessage, len(s.Items))
	for i := range s.Items {
		it := &item{node: n, index: i}
		list[i] = map[string]json.RawMessage{}
		for _, child := range n.Children {
			step := t.task.Steps[it.key(child.ID)]
			list[i][child.ID] = nil // null: it did not run, failed, or has nothing to say
			switch {
			case step == nil:
			case step.State == statemachine.StepFailed && step.Error != nil:
				list[i]["error"] = mustJSON(step.Error)
			case !step.Output.IsZero():
				list[i][child.ID] = t.fetch(step.Output)
			}
		}
		if _, named := list[i][n.As]; list[i]["error"] != nil && !named {
			list[i][n.As] = t.fetch(s.Items[i])
		}
	}
	return mustJSON(list)
}

// sizeOfItems refuses the output of a for_each that is too large to be worked with.
func sizeOfItems(outputs json.RawMessage) error {
	if len(outputs) <= maxCollected {
		return nil
	}
	return fault.New(fault.ValidationError, "the outputs of all items have %d MiB, the limit is %d", len(outputs)>>20, maxCollected>>20).
		WithReason("SIZE_LIMIT_EXCEEDED").WithHint("let the steps write files, and pass on their paths")
}

// maxCollected bounds the bytes of the output of a for_each.
const maxCollected = 16 << 20

// mustJSON encodes values that cannot fail to encode: maps, strings and raw JSON that was decoded.
func mustJSON(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return data
}

// startChild begins a sub-plan as a child task.
func (t *turn) startChild(n *plan.Node, key string, sc plan.Scope) {
	inputs, err := n.Args(sc)
	if err = t.outcomeOf(err, inputs); err == nil {
		inputs, err = n.Sub.CheckInputs(inputs)
	}
	if err == nil {
		err = t.tooDeep()
	}
	if err != nil {
		t.failStep(key, err)
		return
	}
	t.activate()
	t.emit(events.StepSpawned, &events.Spawned{Step: key, Child: events.TaskIDFrom(t.now, t.rules.entropy), Inputs: t.keep(inputs)})
}

// maxDepth bounds how deep child tasks nest (S0-181).
const maxDepth = 3

// tooDeep returns why the task can have no child.
func (t *reading) tooDeep() error {
	if p := t.task.Submitted.Parent; p != nil && p.Depth >= maxDepth {
		return fault.New(fault.QuotaExceeded, "child tasks nest at most %d deep", maxDepth)
	}
	return nil
}
