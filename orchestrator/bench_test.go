package orchestrator_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/work"
)

// BenchmarkTask is the whole life of a task of one step over the log in memory: submit, poll, report.
func BenchmarkTask(b *testing.B) {
	n := start(b, memlog.New(memlog.Config{}))
	plan, err := json.Marshal(onePlan)
	require.NoError(b, err)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := n.Submit(ctx, orchestrator.SubmitRequest{Plan: plan}); err != nil {
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
}
