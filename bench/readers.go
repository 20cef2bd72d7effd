package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/index"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
)

const (
	// readerClients is the number of clients that read, each with a connection.
	readerClients = 16
	// readerTasks is the number of tasks that run beside them.
	readerTasks = 64
	// indexedTasks is the number of finished tasks in the index of lists, queuedTasks that of calls in a queue without workers.
	indexedTasks = 1_000_000
	queuedTasks  = 10_000
)

// readerRead is one kind of read.
type readerRead struct {
	id, name string
	do       func(ctx context.Context, owner api.API) error
}

// readerReads returns the reads. last is the id of a finished task. The last read does nothing: the owner refuses it before it
// looks at anything, so it shows what every request costs on this machine.
func readerReads(last events.TaskID) []readerRead {
	list := func(r api.ListRequest) func(context.Context, api.API) error {
		return func(ctx context.Context, owner api.API) error { _, err := owner.List(ctx, r); return err }
	}
	find := func(r api.FindRequest) func(context.Context, api.API) error {
		return func(ctx context.Context, owner api.API) error { _, err := owner.Find(ctx, r); return err }
	}
	return []readerRead{
		{"reads-list", "list of the 50 newest", list(api.ListRequest{Limit: 50})},
		{"reads-filter", "list of 50 by label and submitter", list(api.ListRequest{Limit: 50, Labels: map[string]string{"type": "t3"}, Requestor: "user:3"})},
		{"reads-find", "task by a prefix of its id", find(api.FindRequest{Text: string(last[:len(last)-1])})},
		{"reads-last", "@last of a submitter", find(api.FindRequest{Text: "@last", Actor: "user:7"})},
		{"reads-queue", "first 20 tasks of the queue", func(ctx context.Context, owner api.API) error {
			_, err := owner.Queue(ctx, api.QueueRequest{})
			return err
		}},
		{"reads-counts", "counts", func(ctx context.Context, owner api.API) error {
			_, err := owner.Status(ctx, api.StatusRequest{})
			return err
		}},
		{"reads-floor", "a request that is refused at once", func(ctx context.Context, owner api.API) error {
			if _, err := owner.Queue(ctx, api.QueueRequest{Limit: -1}); !fault.Has(err, fault.ValidationError) {
				return fault.New(fault.Internal, "a wrong limit was not refused")
			}
			return nil
		}},
	}
}

// readerIDs lists the ids of the rows of readers.
func readerIDs() []string {
	var ids []string
	for _, read := range readerReads("_") {
		ids = append(ids, read.id)
	}
	return ids
}

// readers measures reads of 16 clients beside running tasks, with many finished tasks in the index of lists, in three processes.
// They are compared with the read that does nothing.
func readers(ctx context.Context, l *benchRun, durability string) ([]Row, error) {
	finished := l.scaled(indexedTasks)
	runs, err := repeat(l.Config, func() ([]sample, error) { return l.readersOnce(ctx, durability, finished) })
	if err != nil {
		return nil, err
	}
	var rows []Row
	for i, read := range readerReads("_") {
		rows = append(rows, readerRow(read, i, runs, finished))
	}
	floor := rows[len(rows)-1].Value
	for i := range rows[:len(rows)-1] {
		rows[i].Bare, rows[i].Ratio = floor, floor/rows[i].Value
	}
	return rows, nil
}

// readerRow returns the row of one kind of read.
func readerRow(read readerRead, kind int, runs [][]sample, finished int) Row {
	var p50, p99 []float64
	for _, run := range runs {
		p50, p99 = append(p50, run[kind].p50), append(p99, run[kind].p99)
	}
	name := fmt.Sprintf("%s, 99 of 100, 16 clients beside %d tasks in flight, %d finished", read.name, readerTasks, finished)
	row := figure(read.id, name, "ms", p99)
	row.P50Millis, row.P99Millis = median(p50), row.Value
	return row
}

// readersOnce returns the latencies of each read.
func (l *benchRun) readersOnce(ctx context.Context, durability string, finished int) ([]sample, error) {
	dir, remove, err := l.fresh("readers")
	if err != nil {
		return nil, err
	}
	defer remove()
	last, err := fillLists(ctx, dir, durability, finished)
	if err != nil {
		return nil, err
	}
	s, err := orchProcesses(ctx, l.Config, dir, durability)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	owners, hangUp, err := dialAll(ctx, dir, readerClients)
	if err != nil {
		return nil, err
	}
	defer hangUp()
	if err := l.prepareReaders(ctx, owners[0], finished); err != nil {
		return nil, err
	}
	r := readerLoad{owners: owners, reads: readerReads(last), times: make([][][]time.Duration, len(owners))}
	return r.run(ctx, s, l.Duration)
}

// fillLists makes a data directory whose index of lists has finished tasks, and returns the id of one of them. The log does not
// have them, because lists do not read it.
func fillLists(ctx context.Context, dir, durability string, tasks int) (events.TaskID, error) {
	n, err := node.Start(ctx, nodeConfig(dir, durability))
	if err != nil {
		return "", err
	}
	path, log := n.Store().ListsFile()
	if err := n.Stop(ctx); err != nil {
		return "", err
	}
	x := index.New(path, log)
	defer x.Close()
	past, live := x.Load(math.MaxUint64, math.MaxUint64)
	at := time.Now().Add(-time.Duration(tasks) * time.Millisecond)
	var last events.TaskID
	for i := range tasks {
		at = at.Add(time.Millisecond)
		last = events.NewTaskID(at)
		x.Put(api.Summary{
			ID: last, Name: fmt.Sprintf("nightly-%d", i%100), State: statemachine.Done, Priority: "normal", Via: "submit",
			Labels: map[string]string{"type": fmt.Sprint("t", i%20)}, Requestor: fmt.Sprint("user:", i%10), CreatedAt: at, UpdatedAt: at,
		}, 0)
	}
	x.SetComplete()
	return last, x.Save(past, live)
}

// dialAll connects some clients.
func dialAll(ctx context.Context, dir string, clients int) ([]api.API, func(), error) {
	var owners []api.API
	var ends []func()
	hangUp := func() {
		for _, end := range ends {
			end()
		}
	}
	for range clients {
		owner, end, err := dial(ctx, dir)
		if err != nil {
			hangUp()
			return nil, nil, err
		}
		owners, ends = append(owners, owner), append(ends, end)
	}
	return owners, hangUp, nil
}

// prepareReaders waits until the index of lists is complete, and fills a queue.
func (l *benchRun) prepareReaders(ctx context.Context, owner api.API, finished int) error {
	one, err := chainOf(1)
	if err != nil {
		return err
	}
	const at = 1000
	for left := l.scaled(queuedTasks); left > 0; left -= at {
		if err := submitBatch(ctx, owner, one, workload{batch: min(left, at)}); err != nil {
			return err
		}
	}
	for {
		s, err := owner.Status(ctx, api.StatusRequest{})
		if err != nil || s.Finished >= finished {
			return err
		}
		if err := pause.For(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// readerLoad is the clients that read.
type readerLoad struct {
	owners []api.API
	reads  []readerRead
	// times holds the times of the reads, by client and kind.
	times [][][]time.Duration
}

// run lets the clients read for some time while tasks run, and returns the latencies of each read.
func (r *readerLoad) run(ctx context.Context, s *system, length time.Duration) ([]sample, error) {
	var group sync.WaitGroup
	var failure atomic.Pointer[error]
	var tasks error
	group.Go(func() { _, tasks = s.drive(ctx, workload{steps: 1, inFlight: readerTasks}, length) })
	end := time.Now().Add(length)
	for client := range r.owners {
		group.Go(func() {
			if err := r.client(ctx, client, end); err != nil {
				failure.CompareAndSwap(nil, &err)
			}
		})
	}
	group.Wait()
	if err := failure.Load(); err != nil {
		return nil, *err
	}
	return r.samples(), tasks
}

// client sends the reads in turn.
func (r *readerLoad) client(ctx context.Context, client int, end time.Time) error {
	times := make([][]time.Duration, len(r.reads))
	for n := client; time.Now().Before(end); n++ {
		kind := n % len(r.reads)
		began := time.Now()
		if err := r.reads[kind].do(ctx, r.owners[client]); err != nil {
			return err
		}
		times[kind] = append(times[kind], time.Since(began))
	}
	r.times[client] = times
	return nil
}

func (r *readerLoad) samples() []sample {
	samples := make([]sample, len(r.reads))
	for kind := range r.reads {
		var all []time.Duration
		for _, times := range r.times {
			all = append(all, times[kind]...)
		}
		slices.Sort(all)
		if len(all) > 0 {
			samples[kind] = sample{p50: millis(all[len(all)/2]), p99: millis(all[len(all)*99/100])}
		}
	}
	return samples
}
