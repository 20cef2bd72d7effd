package bus

import (
	"context"
	"math"
	"slices"
	"sync"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// grouped returns the message with the history of a task in a group; nil if no group has it. If no group seems to have it, but a message
// of one cannot be read, it returns a groupHoleError.
func (ar *archive) grouped(ctx context.Context, task events.TaskID) (*entry, error) {
	subjects := groupSubjects(task)
	for _, subject := range subjects {
		if e, err := ar.inKnownGroup(ctx, subject, task); e != nil || err != nil {
			return e, err
		}
	}
	var hole error
	for _, subject := range subjects {
		e, err := ar.inGroup(ctx, subject, task)
		if fault.Has(err, fault.DataLoss) { // or a message was removed while the group was read
			e, err = ar.inGroup(ctx, subject, task)
		}
		switch {
		case fault.Has(err, fault.DataLoss):
			hole = groupHoleError{err}
		case e != nil || err != nil:
			return e, err
		}
	}
	return nil, hole
}

// groupHoleError is the error for a task that may be in a group: a message of the group cannot be read.
type groupHoleError struct{ error }

func (h groupHoleError) Unwrap() error { return h.error }

// inKnownGroup returns the message with the history of a task in a group if the message is where a reader has found it before; else nil.
func (ar *archive) inKnownGroup(ctx context.Context, subject string, task events.TaskID) (*entry, error) {
	for seq := ar.known.position(subject, task); seq > 0; seq = ar.known.position(subject, task) {
		e, err := ar.conn.next(ctx, archiveStream, subject, seq)
		if err != nil {
			return nil, err
		}
		if e != nil && e.Seq == seq && archivedTask(subject, e.header) == task {
			return e, nil
		}
		ar.known.removed(subject, seq)
	}
	return nil, nil //nolint:nilnil // nil means that the message is not there
}

// inGroup returns the message with the history of a task in a group; nil if the group does not have it. It reads the whole group, for the
// readers of other tasks, unless somebody has read it when it was full, and did not find the history.
func (ar *archive) inGroup(ctx context.Context, subject string, task events.TaskID) (*entry, error) {
	if ar.known.isFull(subject) && ar.known.position(subject, task) == 0 {
		return nil, nil //nolint:nilnil // nil means that the group does not have the history
	}
	var found *entry
	var members []groupMember
	for e, err := range ar.conn.walk(ctx, archiveStream, subject, 1, math.MaxUint64) {
		if err != nil && found != nil {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		member := groupMember{archivedTask(subject, e.header), e.Seq}
		if members = append(members, member); found == nil && member.task == task {
			found = &e
		}
	}
	ar.known.learn(subject, members)
	return found, nil
}

// knownGroups are the groups that this process has read last. Readers often ask for the tasks of a group one after the other.
type knownGroups struct {
	mu        sync.Mutex
	bySubject map[string]*knownGroup
}

// knownGroup is what is known about a group. A full one takes no more histories, unless all of them are removed: publishGrouped forgets
// the groups to which it adds.
type knownGroup struct {
	members []groupMember
	full    bool
}

// groupMember is the place of a history in a group.
type groupMember struct {
	task events.TaskID
	seq  uint64
}

// maxKnownGroups limits the groups of a knownGroups, to about 0.5 MiB.
const maxKnownGroups = 256

// position returns where the history of a task may be in a group; 0 if that is not known.
func (k *knownGroups) position(subject string, task events.TaskID) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if g := k.bySubject[subject]; g != nil {
		for _, m := range g.members {
			if m.task == task {
				return m.seq
			}
		}
	}
	return 0
}

// isFull reports whether a group is known and full.
func (k *knownGroups) isFull(subject string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	g := k.bySubject[subject]
	return g != nil && g.full
}

// learn records the histories of a group.
func (k *knownGroups) learn(subject string, members []groupMember) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.bySubject == nil || len(k.bySubject) >= maxKnownGroups {
		k.bySubject = map[string]*knownGroup{}
	}
	k.bySubject[subject] = &knownGroup{members: members, full: len(members) >= groupSize}
}

// removed records that the history at a position was removed.
func (k *knownGroups) removed(subject string, seq uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if g := k.bySubject[subject]; g != nil {
		g.members = slices.DeleteFunc(g.members, func(m groupMember) bool { return m.seq == seq })
	}
}

// forget makes the next reader read a group.
func (k *knownGroups) forget(subject string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.bySubject, subject)
}
