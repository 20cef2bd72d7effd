package bus_test

import (
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/eventstest"
)

// pageCommits is the number of commits in a page of BenchmarkPage.
const pageCommits = 500

// BenchmarkPage measures a page of a long history, alone in the log or among the commits of other tasks. The pages "first",
// "middle" and "last" are read by somebody who has read nothing before, "next" goes on where the previous page ended.
func BenchmarkPage(b *testing.B) {
	commits := 100_000
	if testing.Short() {
		commits /= 10
	}
	for _, others := range []int{0, 10} {
		n := bustest.NewNode(b, bus.ServerConfig{Durability: bus.Relaxed})
		task := growAmong(b, n, commits, others)
		b.Run("among="+strconv.Itoa(others*commits), func(b *testing.B) { measurePages(b, n, task, commits) })
		require.NoError(b, n.Archive(b.Context(), task))
		b.Run("archived/among="+strconv.Itoa(others*commits), func(b *testing.B) { measurePages(b, n, task, commits) })
	}
}

func measurePages(b *testing.B, log events.Log, task events.TaskID, commits int) {
	b.Helper()
	last := commits - pageCommits
	for _, page := range []struct {
		name         string
		start, moves int
	}{{"first", 0, 0}, {"middle", commits / 2, pageCommits / 7}, {"last", last, 0}, {"next", 0, pageCommits}} {
		b.Run(page.name, func(b *testing.B) {
			before, pages := cpuTime(b), 0
			for from := page.start; b.Loop(); from = (from + page.moves) % last {
				pages++
				require.Len(b, eventstest.Page(b, log, task, uint64(from)+1, pageCommits), pageCommits)
			}
			b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(pages), "cpu-µs/op")
		})
	}
}

// cpuTime returns the time that this process has used, which other programs on the machine do not distort.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// growAmong appends a history of so many commits. Each of them is among others commits of other tasks, ten a task.
func growAmong(b *testing.B, log events.Log, commits, others int) events.TaskID {
	b.Helper()
	var answered sync.WaitGroup
	slots, seq := make(chan struct{}, 4000), uint64(0)
	grow := func(c *eventstest.Chain) {
		r := c.Next(b, "node")
		seq++ // nobody else appends
		c.Accept(r, seq)
		slots <- struct{}{}
		answered.Add(1)
		log.Append(r, func(_ uint64, err error) {
			if err != nil {
				b.Error(err)
			}
			<-slots
			answered.Done()
		})
	}
	long, other := eventstest.NewChain(), eventstest.NewChain()
	for range commits {
		grow(long)
		for range others {
			if grow(other); other.Rev == 10 {
				other = eventstest.NewChain()
			}
		}
	}
	answered.Wait()
	return long.Task
}
