package events

import (
	"context"
	"iter"
	"time"

	"github.com/orch-dev/orch/fault"
)

// Head is the newest commit of a task without its events, as the log's index keeps it.
type Head struct {
	Task TaskID
	// Seq is the position in the log of the newest commit; it is what an append expects.
	Seq uint64
	// Rev is the number of commits of the task.
	Rev uint64
	// State is the canonical state after the commit, At the time of the commit.
	State string
	At    time.Time
	// Name, Parent and Created are those of the task.
	Name    string
	Parent  TaskID
	Created time.Time
}

// Record is one encoded commit on its way into the log.
type Record struct {
	Head
	// After is the Seq of the task's previous commit, 0 for the first one. The append succeeds only
	// if that is still the newest one.
	After uint64
	// Data is the encoded commit.
	Data []byte
}

// Stored is one commit as it lies in the log.
type Stored struct {
	// Seq is the position in the log.
	Seq uint64
	// Data is the encoded commit.
	Data []byte
	// Archived says that the history lies in the archive.
	Archived bool
}

// Log is the append-only log of commits, one history per task. All methods are safe for concurrent
// use. Errors: CONFLICT from an append whose After is no longer true, DISK_FULL, DATA_LOSS (the log
// refuses to append after a detected loss), UNAVAILABLE.
type Log interface {
	// Append adds a record and calls done exactly once, from any goroutine, with its position when it
	// is as durable as the log promises. Append itself never blocks on the disk; it may block while
	// too many appends are in flight. done must not block.
	Append(r Record, done func(seq uint64, err error))
	// Read yields the commits of a task in order, beginning with revision from (1 is the first).
	// A task without commits yields nothing.
	Read(ctx context.Context, task TaskID, from uint64) iter.Seq2[Stored, error]
	// Heads yields the head of every task, in no particular order.
	Heads(ctx context.Context) iter.Seq2[Head, error]
	// Past yields the head of every archived task, in no particular order. Seq is the position that the
	// commit had in the live log. A task whose archiving was cut short may also be among Heads.
	Past(ctx context.Context) iter.Seq2[Head, error]
	// HasPast reports whether anything was archived, without looking at what it is: it costs the same
	// however much there is. An archiving that was cut short may count.
	HasPast(ctx context.Context) (bool, error)
	// Archive moves the whole history of a finished task out of the live log. Read and Past find it;
	// Heads and Scan no longer yield it. CONFLICT when the history grows meanwhile.
	Archive(ctx context.Context, task TaskID) error
	// Remove removes archived histories for good; Read then yields GONE for them, and an append is refused. Tasks without an
	// archived history are left as they are. A removal that was cut short is finished by the next call.
	Remove(ctx context.Context, tasks []TaskID) error
	// Scan yields all live commits in the order of their positions, beginning with position from.
	// It ends at the position that was the newest when it began.
	Scan(ctx context.Context, from uint64) iter.Seq2[Stored, error]
}

// RemovedTask is the error about a task that retention has removed.
func RemovedTask(task TaskID, at time.Time) *fault.Error {
	return fault.New(fault.Gone, "the task %s was removed by retention on %s", task, at.UTC().Format(time.DateOnly)).
		WithField("id").WithHint("a backup from before may hold it; how long tasks are kept is set by retain_tasks and retain_failed_tasks")
}

// Blobs keeps large values outside the log, by content.
type Blobs interface {
	// Put stores data durably under its digest and returns "sha256-<hex>".
	Put(ctx context.Context, data []byte) (ref string, err error)
	// Get returns what Put stored, or NOT_FOUND, or DATA_LOSS when the content does not fit the digest.
	Get(ctx context.Context, ref string) ([]byte, error)
}

// Checkpoints is the store of named checkpoints. It holds derived data: every entry can be
// made again from the log.
type Checkpoints interface {
	// Save writes a checkpoint and returns its location, such as "KV/ORCH_CHECKPOINTS/TASK_….id".
	Save(ctx context.Context, task TaskID, id string, data []byte) (location string, err error)
	// Load reads a checkpoint, or NOT_FOUND.
	Load(ctx context.Context, task TaskID, id string) ([]byte, error)
}
