package events

import (
	"context"
	"iter"
)

// Index is what an owner of tasks knew about all of them at a position of the log, so that after a
// restart it reads the heads of later commits alone. It is derived data: without it every head is read.
type Index struct {
	// Seq is the position up to which every commit is taken into account; later ones may be.
	Seq uint64
	// Heads are those of all open tasks and of the newest finished ones. Only Task, State, At, Name,
	// Parent and Created are set; an empty State is that of an open task about which no more is known.
	Heads []Head
	// Partial is set when there are finished tasks that are not among Heads.
	Partial bool
	// Asleep are those of the open tasks among Heads that need not be read before somebody asks for them or a timer is due.
	Asleep []Sleeper
}

// Sleeper is an open task that waits, at Index.Seq, for nothing but a time or people.
type Sleeper struct {
	Task TaskID
	// Note is what the owner has to know of the task meanwhile, as one line of JSON.
	Note []byte
}

// Indexes keeps the newest index beside the log.
type Indexes interface {
	// SaveIndex replaces the index.
	SaveIndex(ctx context.Context, index Index) error
	// LoadIndex returns the index, or NOT_FOUND when there is none that fits the log as it is.
	LoadIndex(ctx context.Context) (Index, error)
	// HeadsAfter yields the heads that commits after a position have made, in the order of the log:
	// those of a task may come one after the other, the last one counts.
	HeadsAfter(ctx context.Context, seq uint64) iter.Seq2[Head, error]
}
