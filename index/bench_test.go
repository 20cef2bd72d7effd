package index_test

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/index"
	"github.com/orch-dev/orch/statemachine"
)

// filledIndex returns an index of finished tasks: one in a thousand has failed, names and labels repeat, one name in a hundred is
// unique.
func filledIndex(b *testing.B, path string, tasks int) (*index.Index, events.TaskID) {
	b.Helper()
	x := index.New(path, "log")
	b.Cleanup(x.Close)
	x.Load(0, 0)
	x.SetComplete()
	var last events.TaskID
	for i := range tasks {
		at := began.Add(time.Duration(i) * time.Millisecond)
		line := api.Summary{
			ID: events.NewTaskID(at), Name: fmt.Sprintf("nightly-%d", i%100), State: statemachine.Done, Priority: "normal", Via: "submit",
			Labels: map[string]string{"type": fmt.Sprint("t", i%20)}, Requestor: fmt.Sprint("user:", i%10), CreatedAt: at, UpdatedAt: at.Add(time.Second),
		}
		switch {
		case i%1000 == 0:
			line.State, line.Reason = statemachine.Failed, "step a: it broke"
		case i%100 == 0:
			line.Name = fmt.Sprintf("unique-%d", i)
		}
		x.Put(line, uint64(i)+1)
		last = line.ID
	}
	x.Finished() // applies what is queued
	return x, last
}

// BenchmarkReads measures the reads of lists by the number of finished tasks.
func BenchmarkReads(b *testing.B) {
	for _, tasks := range []int{10_000, 100_000, 1_000_000} {
		if testing.Short() && tasks > 100_000 {
			continue
		}
		x, last := filledIndex(b, "", tasks)
		list := func(r api.ListRequest) func() {
			r.Limit = 50
			return func() { x.List(r, nil, func(api.Summary, func(events.TaskID) bool) bool { return true }) }
		}
		for _, read := range []struct {
			name string
			do   func()
		}{
			{"newest", list(api.ListRequest{})},
			{"failed", list(api.ListRequest{States: []statemachine.State{statemachine.Failed}})},
			{"open, none", list(api.ListRequest{States: []statemachine.State{statemachine.InProgress}})},
			{"dead", list(api.ListRequest{Dead: true})},
			{"pattern, none", list(api.ListRequest{Name: "*none*"})},
			{"name, none", list(api.ListRequest{Name: "nightly-0", States: []statemachine.State{statemachine.Cancelled}})},
			{"labels, none", list(api.ListRequest{Labels: map[string]string{"type": "t3"}, Requestor: "user:1", Name: "nightly-2"})},
			{"requestor, none", list(api.ListRequest{Requestor: "user:1", Name: "nightly-2"})},
			{"parent, none", list(api.ListRequest{Parent: last})},
			{"until", list(api.ListRequest{Until: began.Add(time.Second)})},
			{"tree", func() { x.Tree(last, 50, 100) }},
			{"find", func() { x.Find(string(last[:20])) }},
			{"last", func() { x.Last("user:eve") }},
			{"count", func() { x.Finished() }},
		} {
			b.Run(fmt.Sprintf("%s/%d", read.name, tasks), func(b *testing.B) { measure(b, read.do) })
		}
	}
}

// measure reports the median and the 99th percentile of the time, and the mean processor time, which other programs disturb less.
func measure(b *testing.B, do func()) {
	b.Helper()
	var times []time.Duration
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := processorTime(b)
	for b.Loop() {
		start := time.Now()
		do()
		times = append(times, time.Since(start))
	}
	b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(len(times)), "cpu-µs")
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
}

// processorTime returns the processor time of this thread.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	const thisThread = 1 // RUSAGE_THREAD
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(thisThread, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkQueueViews measures the views of the queue by the number of open tasks, beside 1,000,000 finished ones.
func BenchmarkQueueViews(b *testing.B) {
	finished := 1_000_000
	if testing.Short() {
		finished = 10_000
	}
	for _, open := range []int{10_000, 100_000} {
		x, _ := filledIndex(b, "", finished)
		for i := range open {
			at := began.Add(time.Duration(i) * time.Second)
			x.Put(api.Summary{
				ID: events.NewTaskID(at), Name: "n", State: statemachine.NeedsAction, Priority: []string{"low", "normal", "high"}[i%3], CreatedAt: at, UpdatedAt: at,
			}, uint64(finished+i))
		}
		for name, r := range map[string]api.QueueRequest{"first": {}, "none": {Status: api.QueueBlocked}, "type": {Type: "none"}} {
			b.Run(fmt.Sprintf("%s/%d", name, open), func(b *testing.B) { measure(b, func() { x.Queue(r, nil, 100, began) }) })
		}
	}
}

// BenchmarkPut measures what the owner of tasks pays for each commit.
func BenchmarkPut(b *testing.B) {
	x, _ := filledIndex(b, "", 100_000)
	seq := uint64(0)
	for b.Loop() {
		seq++
		at := began.Add(time.Hour + time.Duration(seq)*time.Millisecond)
		x.Put(api.Summary{ID: events.NewTaskID(at), Name: "n", State: statemachine.Done, CreatedAt: at, UpdatedAt: at}, seq)
	}
}

// BenchmarkApply measures what a commit costs the index, beside the owner.
func BenchmarkApply(b *testing.B) {
	x, _ := filledIndex(b, "", 100_000)
	seq := uint64(0)
	for b.Loop() {
		for range 100 {
			seq++
			at := began.Add(time.Hour + time.Duration(seq)*time.Millisecond)
			x.Put(api.Summary{ID: events.NewTaskID(at), Name: "n", State: statemachine.Done, CreatedAt: at, UpdatedAt: at}, seq)
		}
		x.Finished()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(seq), "ns/commit")
}

// BenchmarkTasks measures what tasks of two commits cost the index in all, by the number of those that run at the same time.
func BenchmarkTasks(b *testing.B) {
	for _, inFlight := range []int{64, 4000} {
		b.Run(strconv.Itoa(inFlight), func(b *testing.B) {
			x, _ := filledIndex(b, b.TempDir()+"/lists.idx", 100_000)
			var running []api.Summary
			seq, before := uint64(0), processTime(b)
			for b.Loop() {
				seq++
				at := began.Add(time.Hour + time.Duration(seq)*time.Millisecond)
				line := api.Summary{ID: events.NewTaskID(at), Name: "n", State: statemachine.NeedsAction, Priority: "normal", CreatedAt: at, UpdatedAt: at}
				x.Put(line, seq)
				running = append(running, line)
				if len(running) > inFlight {
					line, running = running[0], running[1:]
					line.State = statemachine.Done
					x.Put(line, seq)
				}
				if seq%500 == 0 {
					x.Finished() // applies what is pending
				}
			}
			x.Finished()
			b.ReportMetric(float64((processTime(b)-before).Nanoseconds())/float64(seq), "cpu-ns/task")
		})
	}
}

// processTime returns the processor time of this process.
func processTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkLoad measures the reading of the file.
func BenchmarkLoad(b *testing.B) {
	path := b.TempDir() + "/lists.idx"
	const tasks = 100_000
	x, _ := filledIndex(b, path, tasks)
	require.NoError(b, x.Save(1, tasks))
	x.Close()
	for b.Loop() {
		x := index.New(path, "log")
		_, live := x.Load(1, tasks)
		require.Equal(b, uint64(tasks), live)
		x.Close()
	}
}
