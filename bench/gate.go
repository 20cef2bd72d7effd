package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/builtin"
	"github.com/orch-dev/orch/work"
	"github.com/orch-dev/orch/worker"
)

// gatedCall is a call whose checks are measured.
type gatedCall struct{ id, name, tool, args string }

// gates measures how much time the checks of a worker add to a read-only call: the median time of the call in the worker,
// minus the median time of the tool alone, measured alternately in the same process.
func gates(ctx context.Context, l *benchRun, _ string) ([]Row, error) {
	b, done, err := newGateBench(l.Config)
	if err != nil {
		return nil, err
	}
	defer done()
	var rows []Row
	for _, g := range []gatedCall{
		{"gate-noop", "what the gates add to a call that does nothing, median", "NOOP", `{}`},
		{"gate-read", "what the gates add to FILE_READ of 1 KiB, median", "FILE_READ", `{"file_path":"` + b.file + `"}`},
	} {
		var overhead, bare []float64
		for range l.Runs {
			with, without, err := b.measure(ctx, g, l.scaled(10_000))
			if err != nil {
				return rows, err
			}
			overhead, bare = append(overhead, with-without), append(bare, without)
		}
		row := figure(g.id, g.name, "µs", overhead)
		row.Bare = median(bare)
		rows = append(rows, row)
	}
	return rows, nil
}

// gateBench is a worker without a node, in this process, and its tools.
type gateBench struct {
	worker    *worker.Worker
	catalogue *tools.Catalogue
	root      *pathguard.Root
	file      string
}

func newGateBench(c Config) (*gateBench, func(), error) {
	dir, remove, err := c.fresh("gate")
	if err != nil {
		return nil, nil, err
	}
	b := &gateBench{file: filepath.Join(dir, "small.txt")}
	if err = os.WriteFile(b.file, bytes.Repeat([]byte("a line of thirty-two characters.\n"), 31), 0o600); err != nil {
		err = fault.Wrap(fault.ExecFailed, err, "the file of the benchmark cannot be written")
	} else if b.root, err = pathguard.Open(dir); err == nil {
		err = b.start()
	}
	if err != nil {
		remove()
		return nil, nil, err
	}
	return b, func() { _ = b.root.Close(); remove() }, nil
}

func (b *gateBench) start() error {
	type nothing struct{}
	noop := tools.Define(tools.Spec{Name: "NOOP", Purpose: "benchmark", Effect: tools.Read, Gate: tools.AnyState, Approval: tools.NoApproval},
		func(context.Context, *tools.Env, nothing) (nothing, error) { return nothing{}, nil })
	rules, err := policy.New(policy.Config{Root: b.root.Name()})
	if err != nil {
		return err
	}
	if b.catalogue, err = tools.New(append(builtin.All(builtin.Config{}), noop)...); err != nil {
		return err
	}
	b.worker, err = worker.New(noOwner{}, b.catalogue, rules, worker.Config{Root: b.root, Logger: slog.New(slog.DiscardHandler)})
	return err
}

// measure makes a call n times in the worker, with all checks, and n times without them, alternately. It returns the medians
// in microseconds.
func (b *gateBench) measure(ctx context.Context, g gatedCall, n int) (checked, bare float64, err error) {
	tool, _ := b.catalogue.Get(g.tool)
	call := work.Call{
		Ref: work.Ref{Task: events.NewTaskID(time.Now()), Step: "a", Attempt: 1}, Tool: g.tool, Args: json.RawMessage(g.args),
		Effect: "read", State: string(statemachine.InProgress), Lease: time.Minute, Name: "benchmark",
	}
	env := &tools.Env{
		Task: call.Task, State: statemachine.InProgress, Root: b.root, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Progress: func(float64, float64, string) {}, Record: func(events.Kind, events.Payload) {},
	}
	args, err := tool.Check(call.Args) // with the defaults, which the worker fills in
	if err != nil {
		return 0, 0, err
	}
	with, without := make([]float64, n), make([]float64, n)
	for i := range n {
		began := time.Now()
		if out := b.worker.Execute(ctx, call); out.Error != nil {
			return 0, 0, out.Error
		}
		between := time.Now()
		if _, err := tool.Call(ctx, env, args); err != nil {
			return 0, 0, err
		}
		with[i], without[i] = micros(between.Sub(began)), micros(time.Since(between))
	}
	slices.Sort(with)
	slices.Sort(without)
	return median(with), median(without), nil
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// noOwner is a work.Owner that discards everything.
type noOwner struct{}

// Poll implements work.Owner.
func (noOwner) Poll(context.Context, work.Poll) (work.Batch, error) { return work.Batch{}, nil }

// Start implements work.Owner.
func (noOwner) Start(context.Context, work.Started) error { return nil }

// Heartbeat implements work.Owner.
func (noOwner) Heartbeat(context.Context, work.Heartbeat) (work.HeartbeatReply, error) {
	return work.HeartbeatReply{}, nil
}

// Report implements work.Owner.
func (noOwner) Report(context.Context, work.Outcome) error { return nil }
