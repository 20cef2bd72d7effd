package orchestrator

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
)

// batchPart is how many tasks of a batch begin at once. It bounds the time for which mu is held.
const batchPart = 16

// SubmitBatch implements api.Tasks.
func (sm *submitter) SubmitBatch(ctx context.Context, r api.SubmitBatchRequest) (api.SubmitBatchReply, error) {
	if len(r.Tasks) > maxBatch {
		return api.SubmitBatchReply{}, tooMany("tasks", len(r.Tasks), maxBatch)
	}
	if err := sm.serving(); err != nil {
		return api.SubmitBatchReply{}, err
	}
	began := time.Now()
	b := newTaskBatch(len(r.Tasks))
	var part []admitted
	for i, task := range r.Tasks {
		b.tickets[i] = &ticket{since: began}
		c, err := sm.admit(ctx, task, b.tickets[i], b.answer(i))
		if err != nil {
			c.done(api.SubmitReply{}, err)
		} else {
			part = append(part, c)
		}
		if len(part) == batchPart || i == len(r.Tasks)-1 {
			sm.begin(part...)
			part = part[:0]
		}
	}
	select {
	case <-b.done:
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.Canceled) {
			return api.SubmitBatchReply{}, fault.From(ctx.Err())
		}
	case <-sm.stopped:
		return api.SubmitBatchReply{}, stopping()
	}
	return api.SubmitBatchReply{Tasks: b.close(ctx)}, nil
}

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
