package memlog

import (
	"bytes"
	"context"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

var _ events.Importer = (*Log)(nil)

// Import implements events.Importer.
func (l *Log) Import(_ context.Context, head events.Head, note []byte, restore bool) (events.Importing, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if at, gone := l.removed[head.Task]; gone && !restore {
		return nil, events.RemovedTaskError(head.Task, at)
	}
	if len(l.live[head.Task])+len(l.archived[head.Task]) > 0 {
		return nil, fault.New(fault.Conflict, "the log has a history of the task %s", head.Task).WithField("task")
	}
	head.Seq, head.Imported = 0, true
	return &importing{log: l, head: head, note: note}, nil
}

// importing implements events.Importing.
type importing struct {
	log     *Log
	head    events.Head
	note    []byte
	history []entry
}

// Add implements events.Importing.
func (i *importing) Add(data []byte) error {
	i.history = append(i.history, entry{head: i.head, data: bytes.Clone(data), note: i.note})
	return nil
}

// Close implements events.Importing.
func (i *importing) Close() error {
	i.log.mu.Lock()
	defer i.log.mu.Unlock()
	delete(i.log.removed, i.head.Task)
	i.log.archived[i.head.Task] = i.history
	i.log.archivedHeads = append(i.log.archivedHeads, i.head)
	return nil
}

// Abandon implements events.Importing.
func (*importing) Abandon() {}
