package statemachine

import (
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// Task is the fold of a task's events.
type Task struct {
	ID events.TaskID `json:"id"`
	// Rev is the number of commits folded, Head the hash of the newest one.
	Rev   uint64 `json:"rev"`
	Head  string `json:"head"`
	State State  `json:"state"`
	// Since is when the task entered its state.
	Since time.Time `json:"since"`
	// Reason and Block say why it is in that state.
	Reason string `json:"reason,omitempty"`
	Block  string `json:"block,omitempty"`
	// Requestor is who asked for the task: the actor of its first commit.
	Requestor string `json:"requestor,omitempty"`
	// Submitted is what was asked for.
	Submitted *events.Submitted `json:"submitted"`
	CreatedAt time.Time         `json:"created_at"`
	UpdatedAt time.Time         `json:"updated_at"`
	// Steps holds every step instance that has had an event, by key; Order their keys by age.
	Steps map[string]*Step `json:"steps,omitempty"`
	Order []string         `json:"order,omitempty"`
	// Calls counts the calls that were made ready, for limits.max_steps. One that goes on with the answers to its
	// questions, or with its note, is the same call.
	Calls int `json:"calls,omitempty"`
	// Spawned counts the children that calls have asked for.
	Spawned int  `json:"spawned,omitempty"`
	Paused  bool `json:"paused,omitempty"`
	// PauseReason is set with Paused.
	PauseReason string `json:"pause_reason,omitempty"`
	// Cancelling is set when the task only runs its `always` steps before it is cancelled.
	Cancelling   bool   `json:"cancelling,omitempty"`
	CancelReason string `json:"cancel_reason,omitempty"`
	// Ending is set when the task only runs its `always` steps before it ends.
	Ending bool `json:"ending,omitempty"`
	// Signals are those that no step has consumed yet.
	Signals []events.Signal `json:"signals,omitempty"`
	// Unmet lists the dependencies that are not done.
	Unmet []events.TaskID `json:"unmet,omitempty"`
	// Reads holds path → SHA-256 of what the task has read. A task is one execution (A-25): `orch
	// retry` makes a new one, and the digest shows what is stale.
	Reads map[string]string `json:"reads,omitempty"`
	// Checkpoints are in the order of their creation.
	Checkpoints []events.Checkpointed `json:"checkpoints,omitempty"`
	// Resumed is the checkpoint that the task was last resumed at.
	Resumed *events.Restored `json:"resumed,omitempty"`
	// Approvals are in the order of their requests.
	Approvals []*Approval `json:"approvals,omitempty"`
	// Questions are in the order of their asking.
	Questions []*Question  `json:"questions,omitempty"`
	Output    events.Value `json:"output,omitzero"`
	Error     *fault.Error `json:"error,omitempty"`
}

// Fold applies one commit: its place in the chain first (DATA_LOSS), then its events. encoded is its
// wire form. On an error the task is no longer usable.
func (t *Task) Fold(c *events.Commit, encoded []byte) error {
	if err := c.Link(t.Rev, t.Head); err != nil {
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
	t.Seal(c.At, encoded)
	return nil
}

// Seal closes a commit whose events were applied: it moves the revision and the hash on.
func (t *Task) Seal(at time.Time, encoded []byte) {
	t.Rev++
	t.Head = events.Hash(encoded)
	t.UpdatedAt = at
}

// Apply folds one event that happened at the time given. It never panics; an event that the tables
// do not allow is STATE_NOT_ALLOWED and changes nothing.
func (t *Task) Apply(at time.Time, e events.Event) error {
	if !e.Fits() {
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
	if done, err := t.approve(at, e); done {
		return err
	}
	if done, err := t.inquire(at, e); done {
		return err
	}
	if !ofStep(e.Kind) {
		t.note(e)
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
	default: // the other moves carry neither
	}
	return nil
}

func (t *Task) step(at time.Time, key string, e events.Event) error {
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
		s = &Step{Key: key}
		t.Steps[key] = s
		t.Order = append(t.Order, key)
	}
	s.State, s.Since = to, at
	goesOn := len(s.Questions) > 0 || s.Noted()
	s.fill(at, e.Data)
	switch e.Kind {
	case events.StepReady:
		if !goesOn {
			t.Calls++
		}
	case events.StepCalled:
		t.spend(s)
	case events.StepParked:
		if len(s.Questions) > 0 {
			t.hold(s)
		}
	case events.StepSucceeded:
		t.consume(s)
	case events.StepSpawned:
		if s.Spawned != nil {
			t.Spawned++
		}
	default: // the others change nothing outside of the step
	}
	if s.State == StepPending && (s.Noted() || keepsGrant(e)) {
		t.hold(s)
	}
	return nil
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

// note folds the events that belong to neither state machine.
func (t *Task) note(e events.Event) {
	switch d := e.Data.(type) {
	case *events.Paused:
		t.Paused = e.Kind == events.TaskPaused
		t.PauseReason = ""
		if t.Paused {
			t.PauseReason = d.Reason
		}
	case *events.CancelRequested:
		t.Cancelling, t.CancelReason = true, d.Reason
	case *events.Ending:
		t.Ending, t.Error = true, d.Error
	case *events.Signal:
		t.Signals = append(t.Signals, *d)
	case *events.Met:
		t.Unmet = without(t.Unmet, d.Task)
	case *events.Read:
		if t.Reads == nil {
			t.Reads = map[string]string{}
		}
		t.Reads[d.Path] = d.SHA256
	case *events.Checkpointed:
		t.Checkpoints = append(t.Checkpoints, *d)
	case *events.Restored:
		if d.Resumed {
			t.Resumed = d
		}
	case *events.Refused:
		t.ended(d)
	}
}

// ended notes that a call in doubt does not run any more: its worker has reported its end, however late.
func (t *Task) ended(d *events.Refused) {
	if s := t.Steps[d.Step]; s != nil && s.Awaited(d.Attempt, d.Worker) {
		s.Due = time.Time{}
	}
}

func without(ids []events.TaskID, gone events.TaskID) []events.TaskID {
	var rest []events.TaskID
	for _, id := range ids {
		if id != gone {
			rest = append(rest, id)
		}
	}
	return rest
}

// StepState returns the state of a step instance; pending when it has had no event.
func (t *Task) StepState(key string) StepState {
	if s := t.Steps[key]; s != nil {
		return s.State
	}
	return StepPending
}
