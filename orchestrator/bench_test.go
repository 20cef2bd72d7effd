package orchestrator_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// BenchmarkTask is the whole life of a one-step task without a disk: what the owner itself costs.
func BenchmarkTask(b *testing.B) {
	log := memlog.New(memlog.Config{})
	cat, err := tools.New(echo("READ", tools.Read, tools.AnyState))
	require.NoError(b, err)
	o, err := orchestrator.New(orchestrator.Config{Log: log, Blobs: log, Checkpoints: log, Catalogue: cat, KeepListed: 100, KeepOpen: 100})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	<-o.Ready()
	p, err := plan.Parse("bench", []byte("orch: v1\nsteps:\n  - {id: a, tool: READ}\n"), plan.Options{})
	require.NoError(b, err)
	text := p.JSON()
	b.ReportAllocs()
	for b.Loop() {
		_, err := o.Submit(ctx, orchestrator.SubmitRequest{Plan: text})
		if err != nil {
			b.Fatal(err)
		}
		batch, err := o.Poll(ctx, work.Poll{Worker: "w", Free: 1, Wait: time.Second})
		if err != nil || len(batch.Calls) != 1 {
			b.Fatal(err, batch)
		}
		err = o.Report(ctx, work.Outcome{Ref: batch.Calls[0].Ref, Worker: "w", Output: json.RawMessage(`{}`), StartedAt: time.Now()})
		if err != nil {
			b.Fatal(err)
		}
	}
	cancel()
	<-ended
}
