package events

import (
	"context"
	"iter"
)

// Index is a snapshot of the tasks at a position of the log, so that after a restart the owner reads only the heads of
// later commits. It is derived data: without an index the owner reads every head.
type Index struct {
	// Seq is the position up to which the index includes every commit. It may include later commits.
	Seq uint64
	// Heads are all open tasks, and then the heads of the newest finished ones, as far as no other index has them. An empty State
	// marks an open task; only its id is set. Of the others, Task, State, At, Name, Parent and Created are set.
	Heads []Head
	// Partial is true when Heads lacks some finished tasks.
	Partial bool
	// Asleep lists the open tasks in Heads that need not be loaded until a request names them or a timer fires.
	Asleep []Sleeper
}

// Sleeper is an open task that at Index.Seq waits only for a timer or for people.
type Sleeper struct {
	Task TaskID
	// Note is the data that the owner needs about the task while the task is not loaded, as one line of JSON.
	Note []byte
}

// Indexes stores the newest index beside the log.
type Indexes interface {
	// SaveIndex replaces the index.
	SaveIndex(ctx context.Context, index Index) error
	// LoadIndex returns the index, or NOT_FOUND when there is none for the current log.
	LoadIndex(ctx context.Context) (Index, error)
	// HeadsAfter yields the heads of the commits after seq, in log order. A task may occur several times; its last head
	// counts.
	HeadsAfter(ctx context.Context, seq uint64) iter.Seq2[Head, error]
}
