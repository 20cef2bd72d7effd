package index_test

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/index"
	"github.com/orch-dev/orch/statemachine"
)

// lines returns the summaries of finished tasks, one after the other. If mixed is set, they have five names, 20 sets of labels,
// parents and sessions for half of them, and reasons for one failure in fifty tasks.
func lines(mixed bool) func(i int) api.Summary {
	var session, parent events.TaskID
	return func(i int) api.Summary {
		at := began.Add(time.Duration(i)*time.Millisecond + time.Duration(i%1000)*time.Microsecond)
		line := api.Summary{
			ID: events.NewTaskID(at), Name: "nightly", State: statemachine.Done, Priority: "normal", Via: "submit", Requestor: "user:ada",
			CreatedAt: at, UpdatedAt: at.Add(time.Duration(i%7919) * time.Millisecond),
		}
		if !mixed {
			return line
		}
		line.Name, line.Labels = fmt.Sprint("nightly-", i%5), map[string]string{"type": fmt.Sprint("t", i%20)}
		if i%2 == 1 {
			line.Parent, line.Session = parent, session
		}
		if i%8 == 0 {
			parent = line.ID
		}
		if i%100 == 0 {
			session = line.ID
		}
		if i%50 == 0 {
			line.State, line.Reason = statemachine.Failed, fmt.Sprint("step ", i%7, ": it broke")
		}
		return line
	}
}

// BenchmarkMemory measures the memory of an index by the kind of the tasks and their number. Replaced ones are uniform, but
// retention has removed as many before, some at a time.
func BenchmarkMemory(b *testing.B) {
	for _, tasks := range []int{100, 10_000, 1_000_000} {
		for _, kind := range []string{"uniform", "mixed", "replaced"} {
			if testing.Short() && tasks > 10_000 {
				continue
			}
			b.Run(fmt.Sprintf("%s/%d", kind, tasks), func(b *testing.B) {
				before := resident(b)
				for b.Loop() {
					x := index.New("", "log")
					fill(b, x, lines(kind == "mixed"), tasks, kind == "replaced")
					require.Equal(b, tasks, x.Finished())
					b.ReportMetric(float64(resident(b)-before)/float64(tasks), "bytes/task")
					runtime.KeepAlive(x)
				}
			})
		}
	}
}

// fill adds tasks, and then replaces them by as many if replace is set.
func fill(b *testing.B, x *index.Index, line func(i int) api.Summary, tasks int, replace bool) {
	b.Helper()
	var ids []events.TaskID
	for i := range tasks {
		l := line(i)
		x.Put(l, uint64(i)+1)
		if replace {
			ids = append(ids, l.ID)
		}
	}
	const part = 100
	for i := 0; i < len(ids); i += part {
		require.NoError(b, x.Remove(ids[i:i+part]))
		for n := range part {
			x.Put(line(tasks+i+n), uint64(tasks+i+n)+1)
		}
	}
}

// resident returns the resident memory of this process without garbage.
func resident(b *testing.B) int {
	b.Helper()
	debug.FreeOSMemory()
	data, err := os.ReadFile("/proc/self/statm")
	require.NoError(b, err)
	pages, err := strconv.Atoi(string(bytes.Fields(data)[1]))
	require.NoError(b, err)
	return pages * os.Getpagesize()
}

// BenchmarkRemove measures the removal of the oldest tasks, and adding as many new ones.
func BenchmarkRemove(b *testing.B) {
	const tasks, part = 100_000, 100
	x := index.New("", "log")
	line := lines(false)
	var ids []events.TaskID
	n := 0
	add := func(count int) {
		for range count {
			l := line(n)
			ids = append(ids, l.ID)
			x.Put(l, uint64(n)+1)
			n++
		}
		x.Finished() // applies what is pending
	}
	add(tasks)
	var removing time.Duration
	removed := 0
	for b.Loop() {
		before := processTime(b)
		require.NoError(b, x.Remove(ids[:part]))
		removing += processTime(b) - before
		removed += part
		ids = ids[part:]
		add(part)
	}
	b.ReportMetric(float64(removing.Nanoseconds())/float64(removed), "cpu-ns/removal")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(removed), "ns/task")
}
