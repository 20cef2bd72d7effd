package orchestrator_test

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
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
	batch, err := n.Poll(ctx, work.Poll{Worker: "w", Free: 1})
	if err != nil || len(batch.Calls) != 1 {
		b.Fatal(err)
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
