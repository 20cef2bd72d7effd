package worker_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
	"github.com/orch-dev/orch/worker"
)

// noop is a tool that does nothing, so that only the worker is measured.
type noop struct{ spec tools.Spec }

func (n noop) Spec() tools.Spec           { return n.spec }
func (noop) InputSchema() json.RawMessage { return json.RawMessage(`{"type":"object"}`) }

func (noop) OutputSchema() json.RawMessage                       { return json.RawMessage(`{"type":"object"}`) }
func (noop) Check(args json.RawMessage) (json.RawMessage, error) { return args, nil }
func (noop) Call(context.Context, *tools.Env, json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(`{}`), nil
}

// fastOwner dispatches b.N calls as fast as they are requested.
type fastOwner struct {
	left  int
	next  int
	ended chan struct{}
}

func (o *fastOwner) Poll(ctx context.Context, p work.Poll) (work.Batch, error) {
	if o.left == 0 || p.Free == 0 {
		<-ctx.Done()
		return work.Batch{}, ctx.Err()
	}
	calls := make([]*work.Call, min(p.Free, o.left))
	for i := range calls {
		c := call("NOOP", "{}")
		c.Step = strconv.Itoa(o.next)
		calls[i] = &c
		o.next++
	}
	o.left -= len(calls)
	return work.Batch{Calls: calls}, nil
}

func (o *fastOwner) Start(context.Context, work.Started) error { return nil }

func (o *fastOwner) Heartbeat(context.Context, work.Heartbeat) (work.HeartbeatReply, error) {
	return work.HeartbeatReply{}, nil
}

func (o *fastOwner) Report(context.Context, work.Outcome) error {
	o.ended <- struct{}{}
	return nil
}

// BenchmarkRun measures what the worker adds to a call: polling, the whole chain, reporting.
func BenchmarkRun(b *testing.B) {
	for _, concurrency := range []int{4, 64, 1024} {
		b.Run(strconv.Itoa(concurrency), func(b *testing.B) {
			o := &fastOwner{left: b.N, ended: make(chan struct{}, 1024)}
			kit := newBench(b, worker.Config{})
			catalogue, err := tools.New(noop{spec("NOOP", tools.Read)})
			require.NoError(b, err)
			w, err := worker.New(o, catalogue, newPolicy(b, kit.root), worker.Config{
				Root: kit.root, Concurrency: concurrency, Logger: slog.New(slog.DiscardHandler),
			})
			require.NoError(b, err)
			ctx, cancel := context.WithCancel(b.Context())
			done := make(chan error)
			b.ReportAllocs()
			b.ResetTimer()
			go func() { done <- w.Run(ctx) }()
			for range b.N {
				<-o.ended
			}
			b.StopTimer()
			cancel()
			require.NoError(b, <-done)
		})
	}
}

// BenchmarkExecute measures one call at a time, with and without a workspace.
func BenchmarkExecute(b *testing.B) {
	for name, without := range map[string]bool{"workspace": false, "plain": true} {
		b.Run(name, func(b *testing.B) {
			s := spec("NOOP", tools.Read)
			s.NoWorkspace = without
			kit := newBench(b, worker.Config{Logger: slog.New(slog.DiscardHandler)}, noop{s})
			c := call("NOOP", "{}")
			b.ReportAllocs()
			for b.Loop() {
				if out := kit.Execute(b.Context(), c); out.Error != nil {
					b.Fatal(out.Error)
				}
			}
		})
	}
}
