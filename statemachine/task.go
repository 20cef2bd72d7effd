package statemachine

import (
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// Task is the fold of a task's events.
type Task struct {
	ID events.TaskID `json:"id"`
	// Rev is the number of folded commits, Head the hash of the newest one.
	Rev   uint64 `json:"rev"`
	Head  string `json:"head"`
	State State  `json:"state"`
	// Since is when the task entered its state.
	Since time.Time `json:"since"`
	// Reason explains the state. Block is the kind of the block of a blocked task.
	Reason string `json:"reason,omitempty"`
	Block  string `json:"block,omitempty"`
	// Requestor is the actor of the first commit, who submitted the task.
	Requestor string `json:"requestor,omitempty"`
	// Submitted is the submission.
	Submitted *events.Submitted `json:"submitted"`
	CreatedAt time.Time         `json:"created_at"`
	UpdatedAt time.Time         `json:"updated_at"`
	// Part is set if the task runs a part of a for_each of its parent.
	Part *events.Part `json:"part,omitempty"`
	// Steps maps keys to the step instances that have had an event. Order lists the keys in the order of their first
	// events.
	Steps map[string]*Step `json:"steps,omitempty"`
	Order []string         `json:"order,omitempty"`
	// Calls counts the calls that became ready, for limits.max_steps. A call that continues with answers to its
	// questions, or with its note, counts once.
	Calls int `json:"calls,omitempty"`
	// Spawned counts the children that calls requested.
	Spawned int32 `json:"spawned,omitempty"`

	Paused bool `json:"paused,omitempty"`
	// Cancelling is true while the task runs only its `always` steps before it is cancelled.
	Cancelling bool `json:"cancelling,omitempty"`
	// Ending is true while the task runs only its `always` steps before it ends.
	Ending bool `json:"ending,omitempty"`
	// PauseReason is set with Paused, CancelReason with Cancelling.
	PauseReason  string `json:"pause_reason,omitempty"`
	CancelReason string `json:"cancel_reason,omitempty"`

	// Children maps the child tasks whose costs Charged may not contain to the steps that they were started for. Charged is what the
	// models have cost that the other children have asked.
	Children map[events.TaskID]string `json:"children,omitempty"`
	Charged  events.Spent             `json:"charged,omitzero"`

	// Signals are the received signals that no step has consumed yet.
	Signals []events.Signal `json:"signals,omitempty"`
	// SignalKeys are the keys of the last signals with one, at most MaxSignalKeys.
	SignalKeys []string `json:"signal_keys,omitempty"`
	// Unmet lists the dependencies that are not done.
	Unmet []events.TaskID `json:"unmet,omitempty"`
	// Reads maps the paths that the task has read to the SHA-256 of their content. A task is one execution:
	// `orch retry` submits a new task. The digests show which reads are stale.
	Reads map[string]string `json:"reads,omitempty"`
	// Checkpoints are in the order of their creation.
	Checkpoints []events.Checkpointed `json:"checkpoints,omitempty"`
	// Resumed is the checkpoint with which the task was last resumed.
	Resumed *events.Restored `json:"resumed,omitempty"`
	// Approvals are in the order in which they were requested.
	Approvals []*Approval `json:"approvals,omitempty"`
	// Questions are in the order in which they were asked.
	Questions []*Question  `json:"questions,omitempty"`
	Output    events.Value `json:"output,omitzero"`
	Error     *fault.Error `json:"error,omitempty"`

	live *liveSteps
}

// Fold applies the events of a commit. It returns DATA_LOSS if c does not follow the newest folded commit. encoded is
// the wire form of c. After an error the task must not be used.
func (t *Task) Fold(c *events.Commit, encoded []byte) error {
	if err := c.CheckLink(t.Rev, t.Head); err != nil {
		return err
	}
	if t.ID != "" && t.ID != c.Task {
		return fault.New(fault.DataLoss, "the history of %s holds a commit of %s", t.ID, c.Task)
	}
	if t.Rev == 0 {
		t.Requestor = c.Actor
	}
	t.ID = c.Task
	for _, e := range c.Events {
		if err := t.Apply(c.At, e); err != nil {
			return err
		}
	}
	t.AdvanceHead(c.At, encoded)
	return nil
}

// AdvanceHead completes a commit after its events were applied: it advances the revision and the hash.
func (t *Task) AdvanceHead(at time.Time, encoded []byte) {
	t.Rev++
	t.Head = events.Hash(encoded)
	t.UpdatedAt = at
}

// Apply folds one event that happened at the time at. It never panics. An event that the tables do not allow returns
// STATE_NOT_ALLOWED and changes nothing.
func (t *Task) Apply(at time.Time, e events.Event) error {
	if !e.Valid() {
		return fault.New(fault.StateNotAllowed, "the data of an event %q is %T", e.Kind, e.Data)
	}
	if d, ok := e.Data.(*events.Submitted); ok {
		return t.submit(at, d)
	}
	if t.Submitted == nil {
		return fault.New(fault.StateNotAllowed, "the first event of a task is %s, not %s", events.TaskSubmitted, e.Kind)
	}
	if d, ok := e.Data.(*events.Moved); ok {
		return t.move(at, e.Kind, d)
	}
	if done, err := t.applyApproval(at, e); done {
		return err
	}
	if done, err := t.applyQuestion(at, e); done {
		return err
	}
	if isTurnEvent(e.Kind) {
		return t.turn(e)
	}
	if !isStepEvent(e.Kind) {
		t.applyOther(e)
		return nil
	}
	key := events.StepOf(e.Data)
	if key == "" {
		return fault.New(fault.StateNotAllowed, "an event %s names no step", e.Kind)
	}
	return t.step(at, key, e)
}

func (t *Task) submit(at time.Time, d *events.Submitted) error {
	if t.Submitted != nil {
		return fault.New(fault.StateNotAllowed, "the task was submitted before")
	}
	t.Submitted, t.State, t.Since = d, NeedsAction, at
	t.CreatedAt, t.UpdatedAt = at, at
	t.Unmet = append(t.Unmet, d.DependsOn...)
	t.Steps = map[string]*Step{}
	return nil
}

func (t *Task) move(at time.Time, kind events.Kind, d *events.Moved) error {
	if err := Check(t.State, kind); err != nil {
		return err
	}
	to, _ := Next(t.State, kind)
	t.State, t.Since, t.Reason, t.Block = to, at, d.Reason, d.Block
	switch kind {
	case events.TaskFinished, events.TaskFinalized:
		t.Output = d.Output
	case events.TaskFailed, events.TaskRejected:
		t.Error = d.Error
	default: // the other kinds have neither output nor error
	}
	return nil
}

func (t *Task) step(at time.Time, key string, e events.Event) error {
	live := t.indexed()
	s := t.Steps[key]
	from := StepPending
	if s != nil {
		from = s.State
	}
	to, err := checkStep(from, e)
	if err != nil {
		return err
	}
	if s == nil {
		if t.Steps == nil { // a snapshot from before the first step
			t.Steps = map[string]*Step{}
		}
		s = &Step{Key: key, position: len(t.Order)}
		t.Steps[key] = s
		t.Order = append(t.Order, key)
	}
	live.remove(s, from)
	s.State, s.Since = to, at
	live.add(s)
	resumes := len(s.Questions) > 0 || s.RunsElsewhere()
	s.apply(at, e.Data)
	switch e.Kind {
	case events.StepReady:
		if !resumes {
			t.Calls++
		}
	case events.StepCalled:
		t.useGrant(s)
	case events.StepParked:
		if len(s.Questions) > 0 {
			t.reserveGrant(s)
		}
	case events.StepSucceeded:
		t.Calls += callsOf(e.Data)
		t.consume(s)
		delete(t.Children, s.Child)
	case events.StepFailed:
		t.Calls += callsOf(e.Data)
		delete(t.Children, s.Child)
	case events.StepRetrying:
		delete(t.Children, s.Child)
	case events.StepSpawned:
		t.adopt(s)
	default: // the other kinds change nothing outside of the step
	}
	if s.State == StepPending && (s.RunsElsewhere() || keepsGrant(e)) {
		t.reserveGrant(s)
	}
	return nil
}

// adopt records that a child task of a step starts.
func (t *Task) adopt(s *Step) {
	if s.Spawned != nil {
		t.Spawned++
	}
	if t.Children == nil {
		t.Children = map[events.TaskID]string{}
	}
	t.Children[s.Child] = s.Key
}

// charge records what a child task has cost. If the call of an agent has started the child, it counts against the budget of the agent.
func (t *Task) charge(d *events.Charged) {
	delete(t.Children, d.Child)
	t.Charged = t.Charged.Plus(d.Cost)
	if s := t.Steps[AgentOf(d.Step)]; s != nil && s.Agent != nil {
		s.Agent.charge(d.Cost)
	}
}

// callsOf returns how many calls the part of a for_each that has ended with an event has made.
func callsOf(p events.Payload) int {
	switch d := p.(type) {
	case *events.Succeeded:
		return d.Calls
	case *events.StepError:
		return d.Calls
	default:
		return 0
	}
}

// MaxSignalKeys bounds the keys of signals that a task remembers.
const MaxSignalKeys = 1000

func (t *Task) addSignalKey(key string) {
	if key == "" {
		return
	}
	t.SignalKeys = append(t.SignalKeys, key)
	if excess := len(t.SignalKeys) - MaxSignalKeys; excess > 0 {
		t.SignalKeys = append(t.SignalKeys[:0:0], t.SignalKeys[excess:]...)
	}
}

// consume removes the signal that a wait step was waiting for.
func (t *Task) consume(s *Step) {
	if s.Signal == "" {
		return
	}
	for i, sig := range t.Signals {
		if sig.Name == s.Signal {
			t.Signals = append(t.Signals[:i:i], t.Signals[i+1:]...)
			return
		}
	}
}

// applyOther folds the events that change neither state machine.
func (t *Task) applyOther(e events.Event) {
	switch d := e.Data.(type) {
	case *events.Paused:
		t.Paused = e.Kind == events.TaskPaused
		t.PauseReason = ""
		if t.Paused {
			t.PauseReason = d.Reason
		}
	case *events.CancelRequested:
		t.Cancelling, t.CancelReason = true, d.Reason
	case *events.Part:
		t.Part = d
	case *events.Charged:
		t.charge(d)
	case *events.Ending:
		t.Ending, t.Error = true, d.Error
	case *events.Signal:
		t.Signals = append(t.Signals, *d)
		t.addSignalKey(d.Key)
	case *events.Met:
		t.Unmet = without(t.Unmet, d.Task)
	case *events.Read:
		if t.Reads == nil {
			t.Reads = map[string]string{}
		}
		t.Reads[d.Path] = d.SHA256
		if s := t.Steps[d.Step]; s != nil {
			s.Reads = append(s.Reads, *d)
		}
	case *events.Checkpointed:
		t.Checkpoints = append(t.Checkpoints, *d)
	case *events.Restored:
		if d.Resumed {
			t.Resumed = d
		}
	case *events.Refused:
		t.applyRefused(d)
	}
}

// applyRefused records that a call in doubt no longer runs: its worker has reported its end, too late.
func (t *Task) applyRefused(d *events.Refused) {
	if s := t.Steps[d.Step]; s != nil && s.ExpectsOutcome(d.Attempt, d.Worker) {
		s.Due = time.Time{}
	}
}

func without(ids []events.TaskID, removed events.TaskID) []events.TaskID {
	var rest []events.TaskID
	for _, id := range ids {
		if id != removed {
			rest = append(rest, id)
		}
	}
	return rest
}

// StepState returns the state of a step instance; it is pending before its first event.
func (t *Task) StepState(key string) StepState {
	if s := t.Steps[key]; s != nil {
		return s.State
	}
	return StepPending
}
