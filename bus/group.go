package bus

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// This file lets short archived histories share subjects. The server holds a hundred bytes in memory for each subject of a
// stream, so with a subject for each task the memory of a node would grow for as long as it keeps tasks. A group is a subject
// with up to groupSize histories, each in one message with groupedHeader. The groups that may have a task follow from its id: they
// are named by the beginning of the id, which is a time, so that a reader looks through few messages of about the same age.
// Histories of several messages, imported ones, and those that no group takes have subjects of their own.

const (
	// groupRoot is the root of the subjects of groups, "orch.ar.group.<beginning of an id>".
	groupRoot = archiveRoot + ".group"
	// groupedHeader is the header of a message in a group with the task whose history it is.
	groupedHeader = "Orch-Task"
	// groupSize is the maximum number of histories in a group, groupBytes the maximum size of each.
	groupSize, groupBytes = 32, 8 << 10
	// groupOpen is how long a group takes histories. So its messages are close together in the stream.
	groupOpen = 10 * time.Minute
	// maxGroups is the number of groups above which those that take nothing more are forgotten.
	maxGroups = 8192
)

// groupLengths are the lengths of the beginnings that name groups, in characters of a ULID. They cover 33 s, 1 s, 32 ms, 1 ms, and a
// 32nd of the tasks of 1 ms, such as those of a batch: a longer beginning takes what does not fit in a shorter one.
var groupLengths = [...]int{7, 8, 9, 10, 11}

// groupSubjects returns the subjects of the groups that may have a task, in the order in which they are filled.
func groupSubjects(task events.TaskID) (subjects [len(groupLengths)]string) {
	id := strings.TrimPrefix(string(task), events.TaskPrefix)
	for i, n := range groupLengths {
		subjects[i] = groupRoot + "." + id[:n]
	}
	return subjects
}

// ulidLength is the number of characters of a ULID.
const ulidLength = 26

// isGroupSubject reports whether a subject is that of a group.
func isGroupSubject(subject string) bool {
	name, ok := strings.CutPrefix(subject, groupRoot+".")
	if !ok || len(name) < groupLengths[0] || len(name) > groupLengths[len(groupLengths)-1] {
		return false
	}
	return isTask(events.TaskID(events.TaskPrefix + name + strings.Repeat("0", ulidLength-len(name))))
}

// archivedTask returns the task of a message in the archive.
func archivedTask(subject string, header nats.Header) events.TaskID {
	if task := header.Get(groupedHeader); task != "" {
		return events.TaskID(task)
	}
	return taskOf(subject)
}

// isGrouped reports whether a message in the archive belongs to a group.
func (e *entry) isGrouped() bool { return isGroupSubject(e.subject) }

// removeGrouped removes the history of a task from its group.
func (ar *archive) removeGrouped(ctx context.Context, task events.TaskID) error {
	for {
		e, err := ar.grouped(ctx, task)
		if e == nil || err != nil {
			return err
		}
		if err := ar.archiveLog.DeleteMsg(ctx, e.Seq); err != nil {
			return fault.Wrap(fault.Unavailable, err, "an archived history cannot be removed").WithHint("try again in a moment")
		}
	}
}

// publishGrouped adds a history to a group; false if none takes it.
func (ar *archive) publishGrouped(ctx context.Context, task events.TaskID, data []byte, head lastHead) (bool, error) {
	header := head.headers(1)
	header.Set(groupedHeader, string(task))
	for _, subject := range groupSubjects(task) {
		ok, err := ar.groups.get(subject, time.Now()).add(func(after uint64) (uint64, error) {
			defer ar.known.forget(subject)
			return ar.publishPart(ctx, subject, data, after, header)
		})
		if ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// archiveGroups are the groups that this process has written to.
type archiveGroups struct {
	mu        sync.Mutex
	bySubject map[string]*archiveGroup
}

// get returns a group. A group that this process has not written to, or that was forgotten, may be in the archive.
func (gs *archiveGroups) get(subject string, now time.Time) *archiveGroup {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if g := gs.bySubject[subject]; g != nil {
		return g
	}
	if len(gs.bySubject) >= maxGroups {
		maps.DeleteFunc(gs.bySubject, func(_ string, g *archiveGroup) bool { return now.After(g.until) })
	}
	if gs.bySubject == nil || len(gs.bySubject) >= maxGroups {
		gs.bySubject = map[string]*archiveGroup{}
	}
	g := &archiveGroup{until: now.Add(groupOpen)}
	gs.bySubject[subject] = g
	return g
}

// archiveGroup is the end of a group in the archive.
type archiveGroup struct {
	until time.Time // when it takes nothing more

	mu   sync.Mutex // held while a history is added
	last uint64     // the position of its newest message; 0 if it has none
	size int
}

// add publishes a history after the newest message of the group; false if the group takes none.
func (g *archiveGroup) add(publish func(after uint64) (uint64, error)) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.size >= groupSize || time.Now().After(g.until) {
		return false, nil
	}
	seq, err := publish(g.last)
	if err != nil {
		g.size = groupSize // another process has written to it, or the message may have arrived although there is no answer
	}
	if fault.Has(err, fault.Conflict) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	g.last = seq
	g.size++
	return true, nil
}
