// Package follow reads what is new in a log, from a position that is remembered. It misses nothing, also if histories are archived
// meanwhile; what happens while it reads may come twice.
package follow

import (
	"context"
	"iter"

	"github.com/orch-dev/orch/events"
)

// Log is the log of the tasks. *bus.Store implements it.
type Log interface {
	Read(ctx context.Context, task events.TaskID, from uint64) iter.Seq2[events.Stored, error]
	Scan(ctx context.Context, from uint64) iter.Seq2[events.Stored, error]
	// ArchivedHeadsAfter yields the heads of the histories that were archived after a position of the archive, in their order.
	ArchivedHeadsAfter(ctx context.Context, position uint64) iter.Seq2[events.ArchivedHead, error]
	// Positions returns the newest positions of the archive and of the live log, read in this order.
	Positions(ctx context.Context) (past, live uint64, err error)
}

// Cursor is how far the log was read.
type Cursor struct {
	// Seq is the last position of the live log, Past that of the archive.
	Seq  uint64 `json:"seq"`
	Past uint64 `json:"past,omitempty"`
	// Floor is what Seq was when Past was read: a history that was archived since may have unread commits after it.
	Floor uint64 `json:"floor,omitempty"`
}

// Newest returns the cursor behind which nothing is yet.
func Newest(ctx context.Context, log Log) (Cursor, error) {
	past, live, err := log.Positions(ctx)
	return Cursor{Seq: live, Past: past, Floor: live}, err
}

// maxRead is the number of commits that one look at the log reads.
const maxRead = 5000

// Look is one look at the log. All fields are required.
type Look struct {
	Log Log
	// Commit gets each commit. An error ends the look.
	Commit func(ctx context.Context, stored events.Stored) error
	// Full reports whether the look is to end.
	Full func() bool
	// Missing reports whether an error of an archived history is one that does not go away, so that the history is left out.
	Missing func(ctx context.Context, err error) bool
}

// From passes the commits after a cursor to Commit, at most some thousands, and returns the cursor of the next look. Histories that were
// archived since the last look come first: the live log no longer has them.
func (l Look) From(ctx context.Context, from Cursor) (Cursor, error) {
	past, live, err := l.Log.Positions(ctx)
	if err != nil || past == from.Past && live <= from.Seq && from.Floor == from.Seq {
		return from, err
	}
	switch stopped, err := l.archived(ctx, from); {
	case err != nil:
		return from, err
	case stopped > 0:
		return Cursor{Seq: from.Seq, Past: stopped, Floor: from.Floor}, nil
	}
	to, n := Cursor{Seq: max(live, from.Seq), Past: past, Floor: from.Seq}, 0
	for stored, err := range l.Log.Scan(ctx, from.Seq+1) {
		if err != nil {
			return from, err
		}
		if err := l.Commit(ctx, stored); err != nil {
			return from, err
		}
		to.Seq = max(to.Seq, stored.Seq)
		if n++; n >= maxRead || l.Full() {
			to.Seq = stored.Seq
			break
		}
	}
	if again, _, err := l.Log.Positions(ctx); err == nil && again == past {
		to.Floor = to.Seq // nothing was archived meanwhile, so that everything up to there was seen
	}
	return to, nil
}

// archived reads the histories that were archived after the last look, as far as they have unread commits. If it stops before their end,
// because the look is full or there are many, it returns the position of the last one that it has read.
func (l Look) archived(ctx context.Context, from Cursor) (stopped uint64, err error) {
	n, last := 0, uint64(0)
	for head, err := range l.Log.ArchivedHeadsAfter(ctx, from.Past) {
		if err != nil {
			return 0, err
		}
		if last > 0 && (l.Full() || n >= maxRead) {
			return last, nil
		}
		if last = head.Position; head.Imported || head.Seq <= from.Floor {
			continue
		}
		read, err := l.history(ctx, head.Task, from.Floor)
		if err != nil {
			return 0, err
		}
		n += read
	}
	return 0, nil
}

// history passes the commits of an archived history after a position of the live log to Commit, and returns their number.
func (l Look) history(ctx context.Context, task events.TaskID, floor uint64) (n int, err error) {
	for stored, err := range l.Log.Read(ctx, task, 1) {
		if err != nil && l.Missing(ctx, err) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		if stored.Seq <= floor {
			continue
		}
		n++
		if err := l.Commit(ctx, stored); err != nil {
			return n, err
		}
	}
	return n, nil
}
