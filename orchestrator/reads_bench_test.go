package orchestrator_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/index"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
)

// BenchmarkReads measures reads of lists and of the queue, and how long each holds the lock of the owner, with open tasks whose
// calls are queued, beside finished tasks in the index.
func BenchmarkReads(b *testing.B) {
	finished, opens := 1_000_000, []int{10_000, 100_000}
	if testing.Short() {
		finished, opens = 10_000, []int{1000}
	}
	for _, open := range opens {
		x := index.New("", "")
		last := putFinished(x, finished)
		n := start(b, memlog.New(memlog.Config{}), func(c *orchestrator.Config) {
			c.Lists, c.Paused, c.Limits.MaxOpen, c.Limits.MaxOpenEach = x, true, open+1, open+1
		})
		for range open / 1000 {
			fillQueue(b, n, 1000)
		}
		require.Eventually(b, x.Complete, time.Minute, time.Millisecond)
		for name, read := range reads(n, last) {
			b.Run(fmt.Sprintf("%s/%d", name, open), func(b *testing.B) { measureRead(b, n, read) })
		}
		n.stop()
	}
}

// putFinished puts finished tasks into an index and returns the id of the last one.
func putFinished(x *index.Index, tasks int) (last events.TaskID) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range tasks {
		at = at.Add(time.Millisecond)
		last = events.NewTaskID(at)
		line := api.Summary{
			ID: last, Name: fmt.Sprintf("nightly-%d", i%100), State: statemachine.Done, Priority: "normal", Via: "submit",
			Labels: map[string]string{"type": fmt.Sprint("t", i%20)}, Requestor: fmt.Sprint("user:", i%10), CreatedAt: at, UpdatedAt: at,
		}
		x.Put(line, 0)
	}
	x.Finished() // applies what is pending
	return last
}

func reads(n *node, last events.TaskID) map[string]func(context.Context) error {
	list := func(r api.ListRequest) func(context.Context) error {
		return func(ctx context.Context) error { _, err := n.List(ctx, r); return err }
	}
	find := func(r api.FindRequest) func(context.Context) error {
		return func(ctx context.Context) error { _, err := n.Find(ctx, r); return err }
	}
	queue := func(r api.QueueRequest) func(context.Context) error {
		return func(ctx context.Context) error { _, err := n.Queue(ctx, r); return err }
	}
	return map[string]func(context.Context) error{
		"list":        list(api.ListRequest{}),
		"list filter": list(api.ListRequest{Labels: map[string]string{"type": "t3"}, Requestor: "user:3"}),
		"find":        find(api.FindRequest{Text: string(last[:len(last)-1])}),
		"last":        find(api.FindRequest{Text: "@last", Actor: "user:7"}),
		"queue":       queue(api.QueueRequest{}),
		"queue 100":   queue(api.QueueRequest{Limit: 100, IncludeAssigned: true}),
		"queue none":  queue(api.QueueRequest{Type: "none"}),
		"queue agent": queue(api.QueueRequest{Agent: "ada", Status: api.QueueBlocked}),
		"status":      func(ctx context.Context) error { _, err := n.Status(ctx, api.StatusRequest{}); return err },
	}
}

// measureRead reports the median and the 99th percentile of the time of a read, and of the time under the lock.
func measureRead(b *testing.B, n *node, read func(context.Context) error) {
	b.Helper()
	var times, locks []time.Duration
	var held time.Duration
	n.MeasureLock(func(d time.Duration) { held += d })
	for b.Loop() {
		held = 0
		began := time.Now()
		require.NoError(b, read(context.Background()))
		times, locks = append(times, time.Since(began)), append(locks, held)
	}
	n.MeasureLock(nil)
	report := func(unit string, all []time.Duration) {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Nanoseconds())/1000, "p50-"+unit)
		b.ReportMetric(float64(all[len(all)*99/100].Nanoseconds())/1000, "p99-"+unit)
	}
	report("µs", times)
	report("lock-µs", locks)
}
