package dispatch_test

import (
	"strconv"
	"testing"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/orchestrator/dispatch"
	"github.com/orch-dev/orch/work"
)

// benchLane is the lane of a usual call.
func benchLane() dispatch.Lane {
	return dispatch.Lane{
		Queue: work.DefaultQueue, Tool: "FILE_READ", Requester: "user:ada", Share: "user:ada", Operator: true, Root: "/home/ada/projects/reports",
	}
}

// waiting queues the calls of tasks of one step.
func (y *yard) waiting(tasks int) {
	for i := range tasks {
		y.Enqueue(y.calls(events.TaskID("TASK_"+strconv.Itoa(i))), "a", 1, benchLane(), "low", noon())
	}
}

// BenchmarkCall is the whole life of a call beside others that wait in the same lane: it is queued, leased and ended.
func BenchmarkCall(b *testing.B) {
	for _, waiting := range []int{0, 9_999} {
		b.Run(strconv.Itoa(waiting+1), func(b *testing.B) {
			y := newYard()
			y.waiting(waiting)
			c := y.calls("T")
			b.ReportAllocs()
			for b.Loop() {
				y.Enqueue(c, "a", 1, benchLane(), "normal", noon())
				y.Dispatch()
				if d, _ := y.Poll(work.Poll{Worker: "w", Free: 1}); len(d.Offers) != 1 {
					b.Fatal(len(d.Offers))
				}
				y.EndLease(c, "a")
				y.Dispatch()
			}
		})
	}
}

// BenchmarkWaiting is one task with one queued call, which waits.
func BenchmarkWaiting(b *testing.B) {
	y := newYard()
	all := make([]dispatch.Calls, 0, 1_000_000)
	b.ReportAllocs()
	for b.Loop() {
		all = append(all, dispatch.Calls{Task: "T"})
		y.Enqueue(&all[len(all)-1], "a", 1, benchLane(), "normal", noon())
	}
}
