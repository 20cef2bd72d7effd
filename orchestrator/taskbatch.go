package orchestrator

import (
	"context"
	"slices"
	"sync"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
)

// taskBatch collects the answers for the tasks of a batch.
type taskBatch struct {
	tickets []*ticket
	// done is closed when every task has an answer.
	done chan struct{}

	mu       sync.Mutex // guards the fields below
	items    []api.SubmitBatchItem
	answered []bool
	open     int
}

func newTaskBatch(n int) *taskBatch {
	b := &taskBatch{
		tickets: make([]*ticket, n), done: make(chan struct{}), items: make([]api.SubmitBatchItem, n), answered: make([]bool, n), open: n,
	}
	if n == 0 {
		close(b.done)
	}
	return b
}

// answer returns the function that stores the answer for task i.
func (b *taskBatch) answer(i int) func(api.SubmitReply, error) {
	return func(reply api.SubmitReply, err error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.items[i], b.answered[i] = api.SubmitBatchItem{SubmitReply: reply, Error: fault.From(err)}, true
		if b.open--; b.open == 0 {
			close(b.done)
		}
	}
}

// close returns an answer for each task. If ctx has ended, tasks without an answer get that of a caller who gives up.
func (b *taskBatch) close(ctx context.Context) []api.SubmitBatchItem {
	b.mu.Lock()
	defer b.mu.Unlock()
	items := slices.Clone(b.items)
	for i, answered := range b.answered {
		if !answered {
			items[i].Error = b.tickets[i].giveUp(ctx)
		}
	}
	return items
}
