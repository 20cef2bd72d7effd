package export

import (
	"errors"
	"maps"
	"slices"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// histories folds the commits of a file and checks the rules that hold for every file: whole histories one after the other, and each
// large value in front of the first commit that refers to it.
type histories struct {
	// tasks are the tasks before the current one.
	tasks []Task
	known map[events.TaskID]bool
	// folded is the current task, nil before the first commit.
	folded *statemachine.Task
	entry  Task
	bytes  int64
	events int
	// values are the digests so far, entered those of the current task, unused those that the next commit must refer to.
	values, entered, unused map[string]bool
}

func newHistories() *histories {
	return &histories{known: map[events.TaskID]bool{}, values: map[string]bool{}, entered: map[string]bool{}, unused: map[string]bool{}}
}

// addValue adds the digest of a value. It is an error if the file has it already.
func (h *histories) addValue(digest string) error {
	if h.values[digest] {
		return fault.New(fault.DataLoss, "the value %s is there twice", digest)
	}
	h.values[digest], h.unused[digest] = true, true
	return nil
}

// missing returns the large values of a commit that the file does not have yet.
func (h *histories) missing(c *events.Commit) []string {
	var refs []string
	for ref := range c.Refs() {
		if !h.values[ref] && !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// addCommit folds a commit. data is its encoded form.
func (h *histories) addCommit(c *events.Commit, data []byte) error {
	if h.folded == nil || h.folded.ID != c.Task {
		if err := h.begin(c); err != nil {
			return err
		}
	}
	if h.bytes += int64(len(data)); h.bytes > MaxHistory {
		return tooLarge("the history of "+string(c.Task), MaxHistory)
	}
	if missing := h.missing(c); len(missing) > 0 {
		return fault.New(fault.DataLoss, "the value %s is not in the file", missing[0])
	}
	if err := h.folded.Fold(c, data); err != nil {
		if fault.Has(err, fault.StateNotAllowed) {
			return fault.Wrap(fault.DataLoss, err, "the history holds an event that the tables do not allow: "+fault.From(err).Message)
		}
		return err
	}
	h.events += len(c.Events)
	return h.record(c)
}

// begin ends the current task and begins that of a commit.
func (h *histories) begin(c *events.Commit) error {
	h.end()
	switch {
	case h.known[c.Task]:
		return fault.New(fault.DataLoss, "the history of %s is there twice", c.Task)
	case len(h.tasks) == MaxTasks:
		return fault.New(fault.ValidationError, "a file holds at most %d tasks", MaxTasks).WithReason("LIMIT_EXCEEDED")
	}
	h.known[c.Task] = true
	h.folded, h.bytes, h.entered = &statemachine.Task{}, 0, map[string]bool{}
	h.entry = Task{ID: c.Task, Values: []string{}}
	return nil
}

// record adds a folded commit to the entry of its task.
func (h *histories) record(c *events.Commit) error {
	for ref := range c.Refs() {
		delete(h.unused, ref)
		if !h.entered[ref] {
			h.entered[ref] = true
			h.entry.Values = append(h.entry.Values, ref)
		}
	}
	if len(h.unused) > 0 {
		return fault.New(fault.DataLoss, "no commit refers to the value %s", slices.Min(slices.Collect(maps.Keys(h.unused))))
	}
	if h.entry.Commits++; h.entry.Commits == 1 {
		h.entry.First = h.folded.Head
	}
	h.entry.Last, h.entry.State = h.folded.Head, h.folded.State
	if h.folded.Submitted != nil {
		h.entry.Name = h.folded.Submitted.Name
	}
	return nil
}

// end completes the current task.
func (h *histories) end() {
	if h.folded != nil {
		h.tasks = append(h.tasks, h.entry)
		h.folded = nil
	}
}

// finish returns the entries of all tasks: an error if there is none, or if values are left over.
func (h *histories) finish() ([]Task, error) {
	h.end()
	if len(h.tasks) == 0 {
		return nil, fault.New(fault.DataLoss, "the file holds no task")
	}
	if len(h.unused) > 0 {
		return nil, fault.New(fault.DataLoss, "no commit refers to the last value")
	}
	return h.tasks, nil
}

func tooLarge(what string, limit int64) *fault.Error {
	return fault.New(fault.ValidationError, "%s has more than %d bytes", what, limit).WithReason("SIZE_LIMIT_EXCEEDED")
}

// asFault returns err as a fault.
func asFault(err error) *fault.Error {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	return fault.Wrap(fault.Internal, err, "the file cannot be written")
}
