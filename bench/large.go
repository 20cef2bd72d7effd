package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
)

// The large store resembles the store of a busy node: it contains many finished tasks, open tasks that sleep or wait for a
// worker, and two long histories spread over the whole log. A node creates the open tasks and the histories. The finished
// tasks are copies of a task that a node has run, each with a separate id and hash chain. They are appended directly to the
// store.

const (
	largeFinished = 1_000_000
	largeOpen     = 10_000
	// leastOpen is the number of open tasks in a quick run.
	leastOpen = 500
)

// largeStore is the data directory of a stopped node.
type largeStore struct {
	dir            string
	finished, open int
	histories      []history
	bare           bool // the messages of as many tasks of the bare message pattern are in the directory
}

// history is a recorded history of a task.
type history struct {
	id      events.TaskID
	records []events.Record // in order, without After
	events  int
}

// largeStoreOf returns the large store. The first call builds it.
func (l *benchRun) largeStoreOf(ctx context.Context) (*largeStore, error) {
	if l.large != nil {
		return l.large, nil
	}
	dir, _, err := l.fresh("large") // removed at the end of the run
	if err != nil {
		return nil, err
	}
	l.large = &largeStore{dir: dir, finished: l.scaled(largeFinished), open: max(l.scaled(largeOpen), leastOpen)}
	return l.large, l.build(ctx, l.large)
}

func (l *benchRun) removeLarge() {
	if l.large != nil {
		_ = os.RemoveAll(l.large.dir) // leftovers are temporary files
	}
}

func (l *benchRun) build(ctx context.Context, s *largeStore) error {
	began := time.Now()
	for _, n := range []int{1_000, l.scaled(100_000)} {
		h, err := l.historyOf(ctx, n)
		if err != nil {
			return err
		}
		s.histories = append(s.histories, h)
	}
	model, err := l.runOpen(ctx, s)
	if err != nil {
		return err
	}
	if err := l.fill(ctx, s, model); err != nil {
		return err
	}
	l.logf("  the large store is built: %.0f s", time.Since(began).Seconds())
	return nil
}

// historyOf runs a task with about n events on a node, and returns its history.
func (l *benchRun) historyOf(ctx context.Context, n int) (history, error) {
	dir, remove, err := l.fresh("history")
	if err != nil {
		return history{}, err
	}
	defer remove()
	started, err := node.Start(ctx, nodeConfig(dir, "relaxed"))
	if err != nil {
		return history{}, err
	}
	defer func() { _ = started.Stop(context.WithoutCancel(ctx)) }()
	id, err := l.runLong(ctx, started.API(), n)
	if err != nil {
		return history{}, err
	}
	return read(ctx, started.Store(), id)
}

// runLong runs a task of about n events. The task makes calls in loops; each call has the events ready, called and succeeded.
func (l *benchRun) runLong(ctx context.Context, owner api.API, n int) (events.TaskID, error) {
	const perCall, perLoop = 3, 1_000 // a longer loop would be divided among tasks
	var text strings.Builder
	text.WriteString("limits: {max_steps: 1000000}\nsteps:\n")
	for i, left := 0, n/perCall; left > 0; i, left = i+1, left-perLoop {
		fmt.Fprintf(&text, "  - id: loop%d\n    for_each: 1..%d\n    max_parallel: 16\n    do: [{id: call, tool: BENCH_NOOP}]\n", i, min(left, perLoop))
		if i > 0 {
			fmt.Fprintf(&text, "    needs: [loop%d]\n", i-1)
		}
	}
	l.logf("  a task of %d events", n)
	p, err := planOf(text.String())
	if err != nil {
		return "", err
	}
	task, err := owner.Submit(ctx, api.SubmitRequest{Plan: p})
	if err != nil {
		return "", err
	}
	return task.ID, await(ctx, owner, task)
}

// read returns a history from a store.
func read(ctx context.Context, log events.Log, id events.TaskID) (history, error) {
	h := history{id: id}
	task := &statemachine.Task{}
	for stored, err := range log.Read(ctx, id, 1) {
		if err != nil {
			return h, err
		}
		c, err := events.Decode(stored.Data)
		if err == nil {
			err = task.Fold(c, stored.Data)
		}
		if err != nil {
			return h, err
		}
		h.events += len(c.Events)
		h.records = append(h.records, events.Record{Head: headOf(task), Data: stored.Data})
	}
	return h, nil
}

func headOf(t *statemachine.Task) events.Head {
	return events.Head{
		Task: t.ID, Rev: t.Rev, State: string(t.State), At: t.UpdatedAt, Name: t.Submitted.Name, Created: t.CreatedAt,
	}
}

// runOpen submits the open tasks to a node. It then runs one task to its end, and returns its history as the model of the
// finished tasks.
func (l *benchRun) runOpen(ctx context.Context, s *largeStore) (history, error) {
	n, err := node.Start(ctx, nodeConfig(s.dir, "relaxed"))
	if err != nil {
		return history{}, err
	}
	defer func() { _ = n.Stop(context.WithoutCancel(ctx)) }()
	l.logf("  %d open tasks", s.open)
	if err := submitOpen(ctx, n.API(), s.open); err != nil {
		return history{}, err
	}
	one, err := chainOf(1)
	if err != nil {
		return history{}, err
	}
	task, err := n.API().Submit(ctx, api.SubmitRequest{Plan: one})
	if err == nil {
		err = await(ctx, n.API(), task)
	}
	if err != nil {
		return history{}, err
	}
	return read(ctx, n.Store(), task.ID)
}

// submitOpen submits n tasks that stay open: half of them sleep, half wait in a queue without workers.
func submitOpen(ctx context.Context, owner api.API, n int) error {
	for _, steps := range []string{"{id: nap, wait: {for: 300d}}", "{id: s0, tool: BENCH_NOOP, queue: nobody}"} {
		text, err := planOf("steps: [" + steps + "]\n")
		if err != nil {
			return err
		}
		const at = 1000
		for left := max(n/2, 1); left > 0; left -= at {
			if err := submitBatch(ctx, owner, text, workload{batch: min(left, at)}); err != nil {
				return err
			}
		}
	}
	return nil
}

// fill appends the finished tasks and, interleaved with them, the histories.
func (l *benchRun) fill(ctx context.Context, s *largeStore, model history) error {
	server, err := bus.StartServer(ctx, bus.ServerConfig{DataDir: filepath.Join(s.dir, "data"), Durability: bus.Relaxed})
	if err != nil {
		return err
	}
	defer func() { _ = server.Close(ctx) }()
	conn, err := server.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	store, err := conn.OpenStore(ctx, bus.StoreConfig{Durability: bus.Relaxed})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close(ctx) }()
	f := filler{log: store, ends: make([]uint64, len(s.histories))}
	const wave = 2000
	for done := 0; done < s.finished; done += wave {
		if ctx.Err() != nil {
			return fault.From(ctx.Err())
		}
		if done%(50*wave) == 0 {
			l.logf("  %d of %d finished tasks", done, s.finished)
		}
		if err := f.finished(model, min(wave, s.finished-done)); err != nil {
			return err
		}
		share := min(float64(done+wave)/float64(s.finished), 1)
		for i, h := range s.histories {
			if err := f.history(i, h, share); err != nil {
				return err
			}
		}
	}
	return nil
}

// filler appends records to a log.
type filler struct {
	log   events.Log
	ends  []uint64 // the newest position of each history
	heads []int
}

// appendAll appends records of different tasks and returns their positions when all are acknowledged.
func (f *filler) appendAll(records []events.Record) ([]uint64, error) {
	seqs, errs := make([]uint64, len(records)), make(chan error, len(records))
	for i, r := range records {
		f.log.Append(r, func(seq uint64, err error) {
			seqs[i] = seq
			errs <- err
		})
	}
	for range records {
		if err := <-errs; err != nil {
			return nil, err
		}
	}
	return seqs, nil
}

// finished appends n copies of a model history.
func (f *filler) finished(model history, n int) error {
	at := events.Time(time.Now())
	ids, prev, after := make([]events.TaskID, n), make([]string, n), make([]uint64, n)
	for i := range ids {
		ids[i] = events.NewTaskID(at)
	}
	for _, m := range model.records {
		records := make([]events.Record, n)
		c, err := events.Decode(m.Data)
		if err != nil {
			return err
		}
		for i := range records {
			c.Task, c.At, c.Prev = ids[i], at, prev[i]
			head := m.Head
			head.Task, head.At, head.Created = ids[i], at, at
			records[i] = events.Record{Head: head, After: after[i]}
			if records[i].Data, err = events.Encode(c); err != nil {
				return err
			}
			prev[i] = events.Hash(records[i].Data)
		}
		if after, err = f.appendAll(records); err != nil {
			return err
		}
	}
	return nil
}

// history appends the next commits of history i, until the given share of all its commits is appended.
func (f *filler) history(i int, h history, share float64) error {
	if f.heads == nil {
		f.heads = make([]int, len(f.ends))
	}
	for ; f.heads[i] < int(share*float64(len(h.records))); f.heads[i]++ {
		r := h.records[f.heads[i]]
		r.After = f.ends[i]
		seqs, err := f.appendAll([]events.Record{r})
		if err != nil {
			return err
		}
		f.ends[i] = seqs[0]
	}
	return nil
}

// replayed replays a finished task and checks that the folded history equals the state in the node.
func replayed(ctx context.Context, owner api.API, id events.TaskID) (api.ReplayReply, error) {
	r, err := owner.Replay(ctx, api.ReplayRequest{ID: id})
	if err != nil {
		return r, err
	}
	if r.Live == nil || !*r.Live || r.Task.State != statemachine.Done {
		return r, fault.New(fault.Internal, "the history of %s folds to %s, not to what the node has", id, r.Task.State)
	}
	return r, nil
}
