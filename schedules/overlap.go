package schedules

import (
	"slices"

	"github.com/orch-dev/orch/fault"
)

// Action is what happens to a firing that is due.
type Action string

// The actions.
const (
	// Start starts the task now.
	Start Action = "start"
	// Buffer starts the task when the open one has ended.
	Buffer Action = "buffer"
	// Replace cancels the open tasks, drops what is buffered, and buffers the firing.
	Replace Action = "replace"
	// Drop starts no task.
	Drop Action = "drop"
)

// CheckOverlap returns VALIDATION_ERROR for an overlap policy that does not exist. An empty one is valid.
func CheckOverlap(o Overlap) error {
	if err := o.check(); err != nil {
		return err
	}
	return nil
}

func (o Overlap) check() *fault.Error {
	if o == "" || slices.Contains(Overlaps(), o) {
		return nil
	}
	return fault.New(fault.ValidationError, "%q is not an overlap policy", clip(string(o))).WithField("overlap").
		WithHint("use skip, buffer_one, buffer_all, cancel_other or allow_all")
}

// MaxBuffered bounds the firings that a schedule buffers.
const MaxBuffered = 1000

// Decide returns what happens to a firing that is due while tasks of the schedule are open and firings are buffered.
func (o Overlap) Decide(open, buffered int) Action {
	switch {
	case o == AllowAll, open == 0 && buffered == 0:
		return Start
	case o == BufferOne && buffered == 0, o == BufferAll && buffered < MaxBuffered:
		return Buffer
	case o == CancelOther:
		return Replace
	default:
		return Drop
	}
}
