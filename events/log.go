package events

import (
	"context"
	"iter"
	"time"

	"github.com/orch-dev/orch/fault"
)

// Head describes the newest commit of a task without its events.
type Head struct {
	Task TaskID
	// Seq is the position of the newest commit in the log. The next append must set it as After.
	Seq uint64
	// Rev is the number of commits of the task.
	Rev uint64
	// State is the canonical state after the commit. At is the time of the commit.
	State string
	At    time.Time
	// Name, Parent and Created describe the task.
	Name    string
	Parent  TaskID
	Created time.Time
	// Imported is set for a history that was imported. Seq is then 0.
	Imported bool
}

// ArchivedHead is the head of an archived history.
type ArchivedHead struct {
	Head
	// Position is the position of the history in the archive.
	Position uint64
}

// Record is one encoded commit to append.
type Record struct {
	Head
	// After is the Seq of the task's previous commit, 0 for the first commit. The append succeeds only if After is
	// still the newest position of the task.
	After uint64
	// Data is the encoded commit.
	Data []byte
}

// Stored is one commit read from the log.
type Stored struct {
	// Seq is the position in the log.
	Seq uint64
	// Data is the encoded commit.
	Data []byte
	// Archived is true when the history is in the archive.
	Archived bool
	// Import is the note with which the history was imported; nil for a history of this log. Seq is then 0.
	Import []byte
}

// Log is the append-only log of commits, one history per task. All methods are safe for concurrent use. Errors:
// CONFLICT from an append whose After is stale, DISK_FULL, DATA_LOSS (the log refuses to append after it has detected a
// loss), UNAVAILABLE.
type Log interface {
	// Append adds a record. It calls done exactly once, from any goroutine, with the position of the record when it is
	// as durable as the log promises. Append itself never blocks on the disk, but it may block while too many appends
	// are in flight. done must not block.
	Append(r Record, done func(seq uint64, err error))
	// Read yields the commits of a task in order, beginning with revision from (1 is the first).
	// A task without commits yields nothing.
	Read(ctx context.Context, task TaskID, from uint64) iter.Seq2[Stored, error]
	// Heads yields the head of every task, in no particular order.
	Heads(ctx context.Context) iter.Seq2[Head, error]
	// ArchivedHeads yields the head of every archived task, in no particular order. Seq is the position that the commit
	// had in the live log. A task whose archiving was interrupted may also be among Heads.
	ArchivedHeads(ctx context.Context) iter.Seq2[Head, error]
	// HasArchived reports whether the archive contains anything, at a cost that does not depend on its size. It may
	// return true for an archiving that was interrupted.
	HasArchived(ctx context.Context) (bool, error)
	// Archive moves the whole history of a finished task out of the live log. Read and ArchivedHeads still yield it;
	// Heads and Scan no longer do. It returns CONFLICT when the history grows meanwhile.
	Archive(ctx context.Context, task TaskID) error
	// Remove deletes archived histories permanently. Read then yields GONE for them, and an append is refused. Tasks
	// without an archived history do not change. The next call finishes a removal that was interrupted.
	Remove(ctx context.Context, tasks []TaskID) error
	// Scan yields all live commits in the order of their positions, beginning with position from. It ends at the
	// position that was the newest when it started.
	Scan(ctx context.Context, from uint64) iter.Seq2[Stored, error]
}

// Importer is implemented by logs that accept whole histories of other logs, for reading only.
type Importer interface {
	// Import begins to store the history of a task in the archive. head describes its newest commit; note, at most 1 KiB, is stored
	// with it. The history is visible as a whole after Close, and not at all before. restore permits the history of a task that was
	// removed. Errors: CONFLICT if the log has a history of the task, GONE if it had one, DISK_FULL, UNAVAILABLE.
	Import(ctx context.Context, head Head, note []byte, restore bool) (Importing, error)
}

// Importing is a history that is being imported. Add adds the next commit in its encoded form. Close makes the history durable and
// visible. Abandon ends an import that was not closed; the next one of the same task starts again.
type Importing interface {
	Add(data []byte) error
	Close() error
	Abandon()
}

// RemovedTaskError returns the GONE error for a task that retention has removed.
func RemovedTaskError(task TaskID, at time.Time) *fault.Error {
	return fault.New(fault.Gone, "the task %s was removed by retention on %s", task, at.UTC().Format(time.DateOnly)).
		WithField("id").WithHint("an archive outside (orch archive restore) or a backup from before may have it; how long tasks are kept is set by retain_tasks and retain_failed_tasks")
}

// Blobs is a content-addressed store of large values outside the log.
type Blobs interface {
	// Put stores data durably under its digest and returns "sha256-<hex>".
	Put(ctx context.Context, data []byte) (ref string, err error)
	// Get returns the data stored under ref. It returns NOT_FOUND for an unknown ref, and DATA_LOSS when the content
	// does not match the digest.
	Get(ctx context.Context, ref string) ([]byte, error)
}

// Checkpoints is the store of named checkpoints. It contains derived data: every entry can be rebuilt from the
// log.
type Checkpoints interface {
	// Save writes a checkpoint and returns its location, such as "KV/ORCH_CHECKPOINTS/TASK_….id".
	Save(ctx context.Context, task TaskID, id string, data []byte) (location string, err error)
	// Load returns the data of a checkpoint, or NOT_FOUND.
	Load(ctx context.Context, task TaskID, id string) ([]byte, error)
}
