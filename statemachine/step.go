package statemachine

import (
	"cmp"
	"encoding/json"
	"slices"
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
	// StepParked waits for an approval, or for the answers to questions of its call; no worker has it.
	StepParked    StepState = "parked"
	StepInDoubt   StepState = "in_doubt"
	StepCancelled StepState = "cancelled"
)

// Over reports whether the step has come to its end.
func (s StepState) Over() bool {
	return s == StepSucceeded || s == StepFailed || s == StepSkipped || s == StepCancelled
}

// StepTransition is one row of the step table.
type StepTransition struct {
	Kind    events.Kind
	From    []StepState
	To      StepState
	Trigger string
}

// StepTable returns the transitions of a step. step.resolved leads to succeeded, failed or pending,
// as it says itself.
func StepTable() []StepTransition {
	return []StepTransition{
		{events.StepReady, []StepState{StepPending, StepParked}, StepReady, "needs are met, arguments are fixed; or its approval is granted, its questions are answered"},
		{events.StepCalled, []StepState{StepReady}, StepRunning, "a worker begins the call"},
		{events.StepExpanded, []StepState{StepPending}, StepRunning, "the items of a for_each are fixed"},
		{events.StepWaiting, []StepState{StepPending}, StepRunning, "a timer or a wait for a signal begins"},
		{events.StepSpawned, []StepState{StepPending, StepRunning}, StepRunning, "a child task begins, for a sub-plan or instead of the result of a call"},
		{events.StepNoted, []StepState{StepRunning}, StepPending, "the call has begun something elsewhere, and is ready again in the same commit unless it asks questions as well"},
		{events.StepParked, []StepState{StepPending, StepReady, StepRunning}, StepParked, "it waits for an approval, or its call asks questions"},
		{events.StepSucceeded, []StepState{StepPending, StepReady, StepRunning, StepParked}, StepSucceeded, "the result is there"},
		{events.StepReused, []StepState{StepPending}, StepSucceeded, "the recorded result of another task stands for it"},
		{events.StepFailed, []StepState{StepPending, StepReady, StepRunning, StepParked}, StepFailed, "error, no attempt left"},
		{events.StepRetrying, []StepState{StepReady, StepRunning}, StepPending, "error, or a result that is not yet what the plan waits for; another attempt follows"},
		{events.StepInDoubt, []StepState{StepReady, StepRunning}, StepInDoubt, "the worker was lost during a call with effects; or, of one with a note, too many workers were"},
		{events.StepResolved, []StepState{StepInDoubt, StepParked}, StepSucceeded, "the verify tool or a person decided"},
		{events.StepSkipped, []StepState{StepPending, StepParked}, StepSkipped, "its condition is false, a need was not met, or nobody allowed it in time and its plan goes on"},
		{events.StepCancelled, []StepState{StepPending, StepReady, StepRunning, StepInDoubt, StepParked}, StepCancelled, "the task ends before it"},
	}
}

// Step is the fold of the events of one step instance.
type Step struct {
	Key   string    `json:"key"`
	State StepState `json:"state"`
	// Attempt is the number of the newest attempt, the fencing token of its call.
	Attempt int `json:"attempt,omitempty"`
	// Failures counts the attempts that the retry limit counts.
	Failures int `json:"failures,omitempty"`
	// Repeats counts the results that were not yet what the plan waits for.
	Repeats int `json:"repeats,omitempty"`
	// Lost counts the attempts that lost their worker, Stopped those whose worker was asked to end.
	Lost    int    `json:"lost,omitempty"`
	Stopped int    `json:"stopped,omitempty"`
	Tool    string `json:"tool,omitempty"`
	Effect  string `json:"effect,omitempty"`
	Queue   string `json:"queue,omitempty"`
	Purpose string `json:"purpose,omitempty"`
	By      string `json:"by,omitempty"` // who made a single call inside the task
	// For are the agents that may take the call; nil for one that workers execute.
	For     *events.Agents `json:"for,omitempty"`
	Timeout time.Duration  `json:"timeout,omitempty"`
	Args    events.Value   `json:"args,omitzero"`
	Worker  string         `json:"worker,omitempty"`
	Output  events.Value   `json:"output,omitzero"`
	Error   *fault.Error   `json:"error,omitempty"`
	Class   string         `json:"class,omitempty"`
	Reason  string         `json:"reason,omitempty"`
	Signal  string         `json:"signal,omitempty"`
	Default events.Value   `json:"default,omitzero"`
	Child   events.TaskID  `json:"child,omitempty"`
	// Spawned says what child the call of the newest attempt has asked for; nil for a sub-plan.
	Spawned *events.Spawned `json:"spawned,omitempty"`
	// Approval is the approval that the step waits for, or that let its newest attempt through.
	Approval string `json:"approval,omitempty"`
	// Handover says which agent has handed the call on last, and why; Handed is what it has handed over, or one before it.
	Handover string       `json:"handover,omitempty"`
	Handed   events.Value `json:"handed,omitzero"`
	// Questions are those that the step waits for; Rounds counts how often its call has asked or left a note.
	Questions []string `json:"questions,omitempty"`
	Rounds    int      `json:"rounds,omitempty"`
	// Note is the newest note of the call; NotedIn is the attempt that has
	// left it. A failed attempt takes it away, and so does every end of the step but a cancellation.
	Note    json.RawMessage `json:"note,omitempty"`
	NotedIn int             `json:"noted_in,omitempty"`
	// Anew is true when a person lets a call in doubt be made again, until it asks something.
	Anew bool `json:"anew,omitempty"`
	// Away is true when what the note is about goes on elsewhere.
	Away     bool           `json:"away,omitempty"`
	Items    []events.Value `json:"items,omitempty"`
	Since    time.Time      `json:"since,omitzero"`
	CalledAt time.Time      `json:"called_at,omitzero"`
	// Due is when a retry, a timer or the timeout of a signal fires, or until when a call in doubt may still run; zero when
	// nothing is timed.
	Due      time.Time     `json:"due,omitzero"`
	Duration time.Duration `json:"duration,omitempty"`
}

// ofStep reports whether events of the kind move the state machine of a step.
func ofStep(kind events.Kind) bool { return stepRows()[kind] != nil }

// checkStep returns the state that the event leads the step to, or STATE_NOT_ALLOWED.
func checkStep(from StepState, e events.Event) (StepState, error) {
	if t := stepRows()[e.Kind]; t != nil && slices.Contains(t.From, from) {
		return resolvedTo(e, t.To), nil
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

func resolvedTo(e events.Event, to StepState) StepState {
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

// fill takes over what the event says about the step.
func (s *Step) fill(at time.Time, p events.Payload) {
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
		s.Note, s.NotedIn, s.Away = d.Note, s.Attempt, s.Away || d.Elsewhere
		s.Rounds++
	case *events.Called:
		s.Worker, s.CalledAt = d.Worker, d.At
		s.Effect, s.Timeout = cmp.Or(d.Effect, s.Effect), cmp.Or(d.Timeout, s.Timeout)
	case *events.Succeeded:
		s.end(d.Output, nil, "", d.Duration)
	case *events.Reused:
		s.end(d.Output, nil, "", 0)
		s.Reason = "reused from " + string(d.From)
	case *events.StepError:
		if d.Tool != "" {
			s.Tool, s.Args, s.Purpose = d.Tool, d.Args, d.Purpose
		}
		s.end(events.Value{}, d.Error, d.Class, d.Duration)
		s.lose(d.Class)
	case *events.Retrying:
		s.Error, s.Class, s.Due, s.Duration = d.Error, d.Class, d.At, d.Duration
		s.For = cmp.Or(d.For, s.For)
		s.handOver(d)
		if d.Round > 0 {
			s.Repeats, s.Failures = d.Round, 0
			s.forget()
		}
		if d.Counts {
			s.Failures++
			s.forget()
		}
		s.lose(d.Class)
	case *events.Skipped:
		s.Reason, s.Due = d.Reason, time.Time{}
	case *events.InDoubt:
		s.Reason, s.Due = d.Reason, d.Until
		s.Lost++
		if d.Gone {
			s.forget()
		}
	case *events.Resolved:
		s.resolve(at, d)
	case *events.Expanded:
		s.Items = d.Items
	case *events.Waiting:
		s.Signal, s.Default = d.Signal, d.Default
		if d.Until != nil {
			s.Due = *d.Until
		}
	case *events.Spawned:
		s.spawn(d)
	}
}

// park notes what the step waits for. A call that asks questions keeps the approval that let it through.
func (s *Step) park(d *events.Parked) {
	if s.Questions = d.Questions; len(d.Questions) > 0 {
		s.Anew = false
		if len(s.Note) == 0 || s.NotedIn != s.Attempt { // the note of the same round has counted
			s.Rounds++
		}
		return
	}
	s.Approval = d.Approval
}

// spawn notes the child of the step. The arguments of a call stay what they are.
func (s *Step) spawn(d *events.Spawned) {
	s.Child = d.Child
	if d.Agent != "" {
		s.Spawned = d
		return
	}
	s.Args = d.Inputs
}

// Executing reports whether a worker executes the call of the step: one that waits for the child that it has
// asked for holds none.
func (s *Step) Executing() bool { return s.State == StepRunning && s.Tool != "" && s.Child == "" }

// Noted reports whether the call of the step goes on elsewhere: one that is made again only looks after that.
func (s *Step) Noted() bool { return s.Away }

// forget drops the note: what went on elsewhere has ended with the call.
func (s *Step) forget() { s.Note, s.NotedIn, s.Away = nil, 0, false }

// lose counts an attempt that ended with its worker.
func (s *Step) lose(class string) {
	switch class {
	case fault.ClassWorkerLost:
		s.Lost++
	case fault.ClassShutdown:
		s.Stopped++
	}
}

func (s *Step) end(output events.Value, err *fault.Error, class string, took time.Duration) {
	s.Output, s.Error, s.Class, s.Duration, s.Due = output, err, class, took, time.Time{}
	s.Handover, s.Handed = "", events.Value{}
	s.forget()
}

// handOver keeps what an agent says and gives to the next one, until the step is over or another one hands the call on.
func (s *Step) handOver(d *events.Retrying) {
	if d.Class != fault.ClassHandoff || d.Error == nil {
		return
	}
	s.Handover = d.Error.Message
	if !d.Handed.IsZero() {
		s.Handed = d.Handed
	}
}

func (s *Step) resolve(at time.Time, d *events.Resolved) {
	s.Reason, s.Due = "decided by "+d.By, time.Time{}
	if d.As != "retry" {
		s.forget()
	}
	switch d.As {
	case "failed":
		s.Error = fault.New(fault.InDoubt, "the call did not happen, says %s", d.By)
	case "retry":
		s.Due, s.Anew = at, true
	default:
		s.Output = d.Output
	}
}
