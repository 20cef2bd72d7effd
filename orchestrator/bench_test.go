package orchestrator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/work"
)

// BenchmarkTask is the whole life of a task of one step over the log in memory: submit, poll, report.
func BenchmarkTask(b *testing.B) {
	n := start(b, memlog.New(memlog.Config{}))
	plan, err := json.Marshal(onePlan)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		oneTask(b, n, plan)
	}
}

func oneTask(b *testing.B, n *node, plan []byte) {
	b.Helper()
	ctx := context.Background()
	if _, err := n.Submit(ctx, api.SubmitRequest{Plan: plan}); err != nil {
		b.Fatal(err)
	}
	oneCall(b, n)
}

// oneCall takes a call and reports its result.
func oneCall(b *testing.B, n *node) {
	b.Helper()
	ctx := context.Background()
	batch, err := n.Poll(ctx, work.Poll{Worker: "w", Free: 1, Wait: time.Minute})
	if err != nil || len(batch.Calls) != 1 {
		b.Fatal(err, len(batch.Calls))
	}
	if err := n.Report(ctx, work.Outcome{Ref: batch.Calls[0].Ref, Worker: "w", StartedAt: time.Now(), Output: json.RawMessage(`{"n":1}`)}); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkTaskBesidePollers is the same life while many workers wait for calls of another queue.
func BenchmarkTaskBesidePollers(b *testing.B) {
	for _, pollers := range []int{0, 100, 1000, 10_000} {
		b.Run(strconv.Itoa(pollers), func(b *testing.B) {
			n := start(b, memlog.New(memlog.Config{}))
			plan, err := json.Marshal(onePlan)
			require.NoError(b, err)
			ctx, leave := context.WithCancel(context.Background())
			var waiting sync.WaitGroup
			b.Cleanup(func() { leave(); waiting.Wait() })
			for i := range pollers {
				waiting.Go(func() {
					for ctx.Err() == nil {
						_, _ = n.Poll(ctx, work.Poll{Worker: strconv.Itoa(i), Free: 1, Wait: time.Minute, Queues: []string{"other"}})
					}
				})
			}
			require.Eventually(b, func() bool { return n.Pollers() == pollers }, time.Minute, time.Millisecond)
			for b.Loop() {
				oneTask(b, n, plan)
			}
		})
	}
}

// BenchmarkStep is one step of a task over the log in memory, by the number of steps of its plan. Its cost must not depend on
// that number.
func BenchmarkStep(b *testing.B) {
	for _, steps := range []int{10, 100, 1000, 10_000} {
		for name, plan := range map[string]string{
			"chain": chainPlan(steps), "wide": widePlan(steps), "for_each": eachPlan(steps),
		} {
			b.Run(name+"/"+strconv.Itoa(steps), func(b *testing.B) {
				n := start(b, memlog.New(memlog.Config{}))
				raw, err := json.Marshal(plan)
				require.NoError(b, err)
				left := 0
				for b.Loop() {
					if left == 0 {
						b.StopTimer()
						_, err := n.Submit(context.Background(), api.SubmitRequest{Plan: raw})
						require.NoError(b, err)
						left = steps
						b.StartTimer()
					}
					oneCall(b, n)
					left--
				}
			})
		}
	}
}

// BenchmarkItem is one item of a for_each of one call, by the number of its items, with its share of the whole task. Run it with
// -benchtime 100000x: fewer items than the for_each has measure only its beginning.
func BenchmarkItem(b *testing.B) {
	for _, items := range []int{100, 1000, 10_000, 100_000} {
		b.Run(strconv.Itoa(items), func(b *testing.B) {
			n := start(b, memlog.New(memlog.Config{}))
			raw, err := json.Marshal(eachPlan(items))
			require.NoError(b, err)
			began, left := cpuTime(b), 0
			for b.Loop() {
				if left == 0 {
					_, err := n.Submit(context.Background(), api.SubmitRequest{Plan: raw})
					require.NoError(b, err)
					left = items
				}
				oneCall(b, n)
				left--
			}
			b.ReportMetric(float64((cpuTime(b)-began).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpuTime returns the time that this process has used, which other programs on the machine do not distort.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// chainPlan returns a plan in which each step needs the one before it.
func chainPlan(steps int) string {
	var text strings.Builder
	text.WriteString("orch: v1\nname: chain\nsteps:\n  - {id: s0, tool: READ}\n")
	for i := 1; i < steps; i++ {
		fmt.Fprintf(&text, "  - {id: s%d, tool: READ, needs: [s%d]}\n", i, i-1)
	}
	return text.String()
}

// widePlan returns a plan in which no step needs another.
func widePlan(steps int) string {
	var text strings.Builder
	text.WriteString("orch: v1\nname: wide\nsteps:\n")
	for i := range steps {
		fmt.Fprintf(&text, "  - {id: s%d, tool: READ}\n", i)
	}
	return text.String()
}

// eachPlan returns a plan with one for_each.
func eachPlan(items int) string {
	return fmt.Sprintf("orch: v1\nname: each\nlimits: {max_steps: 1000000}\nsteps:\n  - id: each\n    for_each: \"1..%d\"\n    do:\n      - {id: a, tool: READ}\n", items)
}

// BenchmarkList is a list of a page by the number of finished tasks, from the index of lists and without it.
func BenchmarkList(b *testing.B) {
	for _, tasks := range []int{10_000, 100_000} {
		if testing.Short() && tasks > 10_000 {
			continue
		}
		n := start(b, memlog.New(memlog.Config{}))
		plan, err := json.Marshal(setPlan)
		require.NoError(b, err)
		for range tasks {
			_, err := n.Submit(context.Background(), api.SubmitRequest{Plan: plan})
			require.NoError(b, err)
		}
		for name, r := range map[string]api.ListRequest{"newest": {}, "none": {Name: "none*"}} {
			for from, list := range map[string]func(context.Context, api.ListRequest) (api.ListReply, error){"index": n.List, "heads": n.ListHeads} {
				b.Run(fmt.Sprintf("%s/%s/%d", name, from, tasks), func(b *testing.B) {
					for b.Loop() {
						_, err := list(context.Background(), r)
						require.NoError(b, err)
					}
				})
			}
		}
		n.stop()
	}
}
