package statemachine

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// StepState is the state of one step instance.
type StepState string

// The step states. A step without any event is pending.
const (
	StepPending   StepState = "pending"
	StepReady     StepState = "ready"
	StepRunning   StepState = "running"
	StepSucceeded StepState = "succeeded"
	StepFailed    StepState = "failed"
	StepSkipped   StepState = "skipped"
	// StepParked waits for an approval, or for answers to the questions of its call. It occupies no worker.
	StepParked    StepState = "parked"
	StepInDoubt   StepState = "in_doubt"
	StepCancelled StepState = "cancelled"
)

// Terminal reports whether the step has ended.
func (s StepState) Terminal() bool {
	return s == StepSucceeded || s == StepFailed || s == StepSkipped || s == StepCancelled
}

// StepTransition is one row of the step table.
type StepTransition struct {
	Kind    events.Kind
	From    []StepState
	To      StepState
	Trigger string
}

// StepTable returns the transitions of a step. step.resolved leads to succeeded, failed or pending, depending on its
// data.
func StepTable() []StepTransition {
	return []StepTransition{
		{events.StepReady, []StepState{StepPending, StepParked}, StepReady, "needs are met and arguments are fixed; or its approval is granted, or its questions are answered"},
		{events.StepCalled, []StepState{StepReady}, StepRunning, "a worker starts the call"},
		{events.StepExpanded, []StepState{StepPending}, StepRunning, "the items of a for_each are fixed"},
		{events.StepDivided, []StepState{StepPending}, StepRunning, "the items of a for_each are fixed, and divided into parts, each a child task"},
		{events.AgentStarted, []StepState{StepPending}, StepRunning, "a model starts to work on the step"},
		{events.StepWaiting, []StepState{StepPending}, StepRunning, "a timer or a wait for a signal starts"},
		{events.StepSpawned, []StepState{StepPending, StepRunning}, StepRunning, "a child task starts, for a sub-plan or instead of the result of a call"},
		{events.StepNoted, []StepState{StepRunning}, StepPending, "the call has started an operation elsewhere; the step is ready again in the same commit, unless the call also asks questions"},
		{events.StepParked, []StepState{StepPending, StepReady, StepRunning}, StepParked, "the step waits for an approval, or its call asks questions"},
		{events.StepSucceeded, []StepState{StepPending, StepReady, StepRunning, StepParked}, StepSucceeded, "the result is known"},
		{events.StepReused, []StepState{StepPending}, StepSucceeded, "the recorded result of another task is used"},
		{events.StepFailed, []StepState{StepPending, StepReady, StepRunning, StepParked}, StepFailed, "error, no attempt left"},
		{events.StepRetrying, []StepState{StepReady, StepRunning}, StepPending, "error, or a result that does not yet satisfy the plan; another attempt follows"},
		{events.StepInDoubt, []StepState{StepReady, StepRunning}, StepInDoubt, "the worker was lost during a call with effects, or too many workers were lost during a call with a note"},
		{events.StepResolved, []StepState{StepInDoubt, StepParked}, StepSucceeded, "the verify tool or a person decided"},
		{events.StepSkipped, []StepState{StepPending, StepParked}, StepSkipped, "its condition is false, a need was not met, or nobody approved it in time and the plan continues"},
		{events.StepCancelled, []StepState{StepPending, StepReady, StepRunning, StepInDoubt, StepParked}, StepCancelled, "the task ends before the step"},
	}
}

// reusedFrom is the beginning of Step.Reason of a step whose result is that of another task, whose id follows.
const reusedFrom = "reused from "

// Reused reports whether the result of the step is that of another task, so that the step has no call of its own.
func (s *Step) Reused() bool { return s.Attempt == 0 && strings.HasPrefix(s.Reason, reusedFrom) }

// ReusedFrom returns the task whose result the step has; "" if it has a call of its own.
func (s *Step) ReusedFrom() events.TaskID {
	if !s.Reused() {
		return ""
	}
	return events.TaskID(strings.TrimPrefix(s.Reason, reusedFrom))
}

// Step is the fold of one step instance's events.
type Step struct {
	Key   string    `json:"key"`
	State StepState `json:"state"`
	// Attempt is the number of the newest attempt. It is the fencing token of the call.
	Attempt int `json:"attempt,omitempty"`
	// Failures counts the failed attempts that count against the retry limit.
	Failures int `json:"failures,omitempty"`
	// Repeats counts the results that did not yet satisfy the plan.
	Repeats int `json:"repeats,omitempty"`
	// Lost counts the attempts that lost their worker, Stopped those whose worker was shut down.
	Lost    int    `json:"lost,omitempty"`
	Stopped int    `json:"stopped,omitempty"`
	Tool    string `json:"tool,omitempty"`
	Effect  string `json:"effect,omitempty"`
	Queue   string `json:"queue,omitempty"`
	Purpose string `json:"purpose,omitempty"`
	By      string `json:"by,omitempty"` // who made a single call inside the task
	// For selects the agents that may claim the call; nil for a call that workers execute.
	For     *events.Agents `json:"for,omitempty"`
	Timeout time.Duration  `json:"timeout,omitempty"`
	Args    events.Value   `json:"args,omitzero"`
	Worker  string         `json:"worker,omitempty"`
	Output  events.Value   `json:"output,omitzero"`
	// Refused is the result of the newest attempt that the plan did not expect; nil for none. Expressions do not see it.
	Refused *events.Value `json:"refused,omitempty"`
	// Reads are the files that the step has read, in order.
	Reads   []events.Read `json:"reads,omitempty"`
	Error   *fault.Error  `json:"error,omitempty"`
	Class   string        `json:"class,omitempty"`
	Reason  string        `json:"reason,omitempty"`
	Signal  string        `json:"signal,omitempty"`
	Default events.Value  `json:"default,omitzero"`
	Child   events.TaskID `json:"child,omitempty"`
	// Spawned is the child that the call of the newest attempt requested; nil for a sub-plan.
	Spawned *events.Spawned `json:"spawned,omitempty"`
	// Approval is the approval that the step waits for, or that permitted its newest attempt.
	Approval string `json:"approval,omitempty"`
	// Handover names the agent that last handed the call over, and its reason. Handed is the newest data that an agent
	// handed over with it; nil for none.
	Handover string        `json:"handover,omitempty"`
	Handed   *events.Value `json:"handed,omitempty"`
	// Questions are the questions that the step waits for. Rounds counts how often its call asked questions or stored a
	// note.
	Questions []string `json:"questions,omitempty"`
	Rounds    int      `json:"rounds,omitempty"`
	// Note is the newest note of the call, NotedIn the attempt that stored it. A failed attempt and every end of the
	// step except a cancellation drop it.
	Note    json.RawMessage `json:"note,omitempty"`
	NotedIn int             `json:"noted_in,omitempty"`
	// Rerun is true when a person decided to repeat a call in doubt. It is reset when the call asks a question.
	Rerun bool `json:"anew,omitempty"`
	// Elsewhere is true when the note is about an operation that continues outside of the worker.
	Elsewhere bool           `json:"away,omitempty"`
	Items     []events.Value `json:"items,omitempty"`
	// Divided are the items of a for_each that is divided into parts. Parallel is how many items of this part may be under
	// way at a time.
	Divided  *events.Divided `json:"divided,omitempty"`
	Parallel int             `json:"parallel,omitempty"`
	// Agent is the loop of a model; nil for other steps.
	Agent    *Agent    `json:"agent,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	CalledAt time.Time `json:"called_at,omitzero"`
	// Due is when a retry, a timer or the timeout of a signal fires, or up to when a call in doubt may still be
	// running. It is zero when nothing is timed.
	Due      time.Time     `json:"due,omitzero"`
	Duration time.Duration `json:"duration,omitempty"`

	// position is the index of the step in Task.Order, from 0.
	position int
}

// isStepEvent reports whether events of the kind change the state of a step.
func isStepEvent(kind events.Kind) bool { return stepRows()[kind] != nil }

// checkStep returns the state to which the event leads the step, or STATE_NOT_ALLOWED.
func checkStep(from StepState, e events.Event) (StepState, error) {
	if t := stepRows()[e.Kind]; t != nil && slices.Contains(t.From, from) {
		return resolvedState(e, t.To), nil
	}
	return "", fault.New(fault.StateNotAllowed, "step %s is %s: %s is not possible", events.StepOf(e.Data), from, e.Kind)
}

var stepRows = sync.OnceValue(func() map[events.Kind]*StepTransition {
	rows := map[events.Kind]*StepTransition{}
	for _, t := range StepTable() {
		rows[t.Kind] = &t
	}
	return rows
})

// resolvedState returns the state after the event: to, or the state that a step.resolved decided.
func resolvedState(e events.Event, to StepState) StepState {
	d, ok := e.Data.(*events.Resolved)
	if !ok {
		return to
	}
	switch d.As {
	case "failed":
		return StepFailed
	case "retry":
		return StepPending
	default:
		return StepSucceeded
	}
}

// apply copies the data of an event into the step.
func (s *Step) apply(at time.Time, p events.Payload) {
	switch d := p.(type) {
	case *events.Ready:
		s.Attempt, s.Tool, s.Effect, s.Queue = d.Attempt, d.Tool, d.Effect, d.Queue
		s.Args, s.Timeout, s.Purpose, s.Due = d.Args, d.Timeout, d.Purpose, time.Time{}
		s.Worker, s.CalledAt, s.Approval, s.Questions = "", time.Time{}, d.Approval, nil
		s.By, s.For = d.By, d.For
		s.Child, s.Spawned = "", nil
	case *events.Parked:
		s.park(d)
	case *events.Noted:
		s.Note, s.NotedIn, s.Elsewhere = d.Note, s.Attempt, s.Elsewhere || d.Elsewhere
		s.Rounds++
	case *events.Called:
		s.Worker, s.CalledAt = d.Worker, d.At
		s.Effect, s.Timeout = cmp.Or(d.Effect, s.Effect), cmp.Or(d.Timeout, s.Timeout)
	case *events.Succeeded:
		s.finish(d.Output, nil, "", d.Duration)
	case *events.Reused:
		s.finish(d.Output, nil, "", 0)
		s.Reason = reusedFrom + string(d.From)
	case *events.StepError:
		if d.Tool != "" {
			s.Tool, s.Args, s.Purpose = d.Tool, d.Args, d.Purpose
		}
		s.finish(events.Value{}, d.Error, d.Class, d.Duration)
		s.Refused = unlessZero(d.Output)
		s.countLost(d.Class)
	case *events.Retrying:
		s.Error, s.Class, s.Due, s.Duration = d.Error, d.Class, d.At, d.Duration
		s.For = cmp.Or(d.For, s.For)
		s.handOver(d)
		s.Refused = nil
		if d.Round == 0 {
			s.Refused = unlessZero(d.Output)
		}
		if d.Round > 0 {
			s.Repeats, s.Failures = d.Round, 0
			s.dropNote()
		}
		if d.Counts {
			s.Failures++
			s.dropNote()
		}
		s.countLost(d.Class)
	case *events.Skipped:
		s.Reason, s.Due = d.Reason, time.Time{}
	case *events.InDoubt:
		s.Reason, s.Due = d.Reason, d.Until
		s.Lost++
		if d.DropsNote {
			s.dropNote()
		}
	case *events.Resolved:
		s.resolve(at, d)
	case *events.Expanded:
		s.Items = d.Items
	case *events.Divided:
		s.Divided = d
	case *events.Agent:
		s.Agent = &Agent{Spec: d, Phase: AgentIdle, Spent: d.Carried, Lost: d.Lost}
	case *events.Waiting:
		s.Signal, s.Default = d.Signal, d.Default
		if d.Until != nil {
			s.Due = *d.Until
		}
	case *events.Spawned:
		s.spawn(d)
	}
}

// park records the approval or the questions that the step waits for. A call that asks questions keeps the approval
// that permitted it.
func (s *Step) park(d *events.Parked) {
	if s.Questions = d.Questions; len(d.Questions) > 0 {
		s.Rerun = false
		if len(s.Note) == 0 || s.NotedIn != s.Attempt { // a note of the same round has counted already
			s.Rounds++
		}
		return
	}
	s.Approval = d.Approval
}

// spawn records the child of the step. If a call requested the child, the step keeps the arguments of the call.
func (s *Step) spawn(d *events.Spawned) {
	s.Child, s.Parallel = d.Child, d.Parallel
	if d.Agent != "" {
		s.Spawned = d
		return
	}
	s.Args = d.Inputs
}

// Executing reports whether a worker executes the call of the step. A call that waits for its child task occupies no
// worker.
func (s *Step) Executing() bool { return s.State == StepRunning && s.Tool != "" && s.Child == "" }

// RunsElsewhere reports whether the operation of the call continues outside of the worker: the next attempt only
// monitors the operation.
func (s *Step) RunsElsewhere() bool { return s.Elsewhere }

// dropNote drops the note: the outside operation ended with the call.
func (s *Step) dropNote() { s.Note, s.NotedIn, s.Elsewhere = nil, 0, false }

// countLost counts an attempt that ended because its worker was lost or shut down.
func (s *Step) countLost(class string) {
	switch class {
	case fault.ClassWorkerLost:
		s.Lost++
	case fault.ClassShutdown:
		s.Stopped++
	}
}

func (s *Step) finish(output events.Value, err *fault.Error, class string, took time.Duration) {
	s.Output, s.Error, s.Class, s.Duration, s.Due = output, err, class, took, time.Time{}
	s.Handover, s.Handed, s.Refused = "", nil, nil
	s.dropNote()
}

// handOver stores the message and the data that an agent passes to the next one, until the step ends or another agent
// hands the call over.
func (s *Step) handOver(d *events.Retrying) {
	if d.Class != fault.ClassHandoff || d.Error == nil {
		return
	}
	s.Handover = d.Error.Message
	if data := unlessZero(d.Handed); data != nil {
		s.Handed = data
	}
}

// unlessZero returns a pointer to a value, or nil if there is none.
func unlessZero(v events.Value) *events.Value {
	if v.IsZero() {
		return nil
	}
	return &v
}

func (s *Step) resolve(at time.Time, d *events.Resolved) {
	s.Reason, s.Due = "decided by "+d.By, time.Time{}
	if d.As != "retry" {
		s.dropNote()
	}
	switch d.As {
	case "failed":
		s.Error = fault.New(fault.InDoubt, "the call did not happen, says %s", d.By)
	case "retry":
		s.Due, s.Rerun = at, true
	default:
		s.Output = d.Output
	}
}
