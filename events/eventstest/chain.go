// Package eventstest provides conformance tests for implementations of the interfaces of package events, and builders
// of valid commits for tests.
package eventstest

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
)

// Chain builds the successive commits of one task, each with the hash of the previous one.
type Chain struct {
	// Task is the id of the task.
	Task events.TaskID
	// Rev and After describe the newest accepted commit.
	Rev   uint64
	After uint64
	prev  string
}

// NewChain returns the chain of a new task.
func NewChain() *Chain { return &Chain{Task: events.NewTaskID(time.Now())} }

// Next returns the next commit of the task as a record. by is its actor, so that rival commits differ. The chain does
// not change until Accept.
func (c *Chain) Next(tb testing.TB, by string) events.Record {
	tb.Helper()
	at := events.Time(time.Now())
	commit := &events.Commit{
		Task: c.Task, Rev: c.Rev + 1, At: at, Actor: by, Prev: c.prev,
		Events: []events.Event{{Kind: events.LogWritten, Data: &events.Logged{
			Level: "INFO", Message: "revision " + strconv.FormatUint(c.Rev+1, 10), At: at,
		}}},
	}
	data, err := events.Encode(commit)
	require.NoError(tb, err)
	head := events.Head{Task: c.Task, Rev: commit.Rev, State: "IN_PROGRESS", Name: "a name: ü\n%", At: at}
	return events.Record{Head: head, After: c.After, Data: data}
}

// Accept records that r was appended at seq.
func (c *Chain) Accept(r events.Record, seq uint64) {
	c.Rev, c.After, c.prev = r.Rev, seq, events.Hash(r.Data)
}

// Grow appends n commits and returns the values that a read must yield.
func (c *Chain) Grow(tb testing.TB, log events.Log, n int) []events.Stored {
	tb.Helper()
	var all []events.Stored
	for range n {
		r := c.Next(tb, "node")
		seq, err := Append(log, r)
		require.NoError(tb, err)
		c.Accept(r, seq)
		all = append(all, events.Stored{Seq: seq, Data: r.Data})
	}
	return all
}

// Append appends a record and waits for the answer.
func Append(log events.Log, r events.Record) (seq uint64, err error) {
	done := make(chan struct{})
	log.Append(r, func(s uint64, e error) {
		seq, err = s, e
		close(done)
	})
	<-done
	return seq, err
}

// History returns the commits of a task, beginning with revision from.
func History(tb testing.TB, log events.Log, task events.TaskID, from uint64) []events.Stored {
	tb.Helper()
	var all []events.Stored
	for c, err := range log.Read(tb.Context(), task, from) {
		require.NoError(tb, err)
		all = append(all, c)
	}
	return all
}

// Page returns up to count commits of a task, beginning with revision from. It stops the reader at the last one.
func Page(tb testing.TB, log events.Log, task events.TaskID, from uint64, count int) []events.Stored {
	tb.Helper()
	var page []events.Stored
	for c, err := range log.Read(tb.Context(), task, from) {
		require.NoError(tb, err)
		if page = append(page, c); len(page) == count {
			break
		}
	}
	return page
}

// HeadsOf returns the heads of all live tasks by id.
func HeadsOf(tb testing.TB, log events.Log) map[events.TaskID]events.Head {
	tb.Helper()
	return byTask(tb, log.Heads(tb.Context()))
}

// ArchivedHeadsOf returns the heads of all archived tasks by id.
func ArchivedHeadsOf(tb testing.TB, log events.Log) map[events.TaskID]events.Head {
	tb.Helper()
	return byTask(tb, log.ArchivedHeads(tb.Context()))
}

func byTask(tb testing.TB, heads iter.Seq2[events.Head, error]) map[events.TaskID]events.Head {
	tb.Helper()
	all := map[events.TaskID]events.Head{}
	for h, err := range heads {
		require.NoError(tb, err)
		_, twice := all[h.Task]
		require.False(tb, twice, "every task has one head")
		all[h.Task] = h
	}
	return all
}

// archived returns commits as a read must yield them from the archive.
func archived(commits []events.Stored) []events.Stored {
	all := slices.Clone(commits)
	for i := range all {
		all[i].Archived = true
	}
	return all
}

func scanFrom(ctx context.Context, tb testing.TB, log events.Log, from uint64) []events.Stored {
	tb.Helper()
	var all []events.Stored
	for c, err := range log.Scan(ctx, from) {
		require.NoError(tb, err)
		all = append(all, c)
	}
	return all
}
