package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
)

// workload is a kind of tasks, and the number of them that run at the same time.
type workload struct {
	id, name string
	steps    int
	// each makes the steps the items of a for_each; otherwise they are a chain.
	each     bool
	inFlight int
	// batch is the number of tasks to submit at once, to a queue that no worker serves; 0 means to submit one task and
	// wait for its end. With keys, each task of a batch has an idempotency key of its own, else an id, as from orch submit.
	batch int
	keys  bool
}

// idleQueue is a queue without workers. It serves to measure only the submission of tasks.
const idleQueue = "idle"

func workloads() []workload {
	return []workload{
		{id: "1-step", name: "1-step tasks, 4,000 in flight", steps: 1, inFlight: 4000},
		{id: "10-step", name: "10-step workflows, 1,000 in flight", steps: 10, inFlight: 1000},
		{id: "latency", name: "1-step task, one at a time", steps: 1, inFlight: 1},
		{id: "64", name: "1-step tasks, 64 in flight", steps: 1, inFlight: 64},
		{id: "submit", name: "submit, 16 clients, nobody executes", steps: 1, inFlight: 16, batch: 1},
		{id: "batch", name: "submit, batches of 500, 4 clients, nobody executes", steps: 1, inFlight: 4, batch: 500},
		{id: "keyed", name: "submit with keys, batches of 500, 4 clients, nobody executes", steps: 1, inFlight: 4, batch: 500, keys: true},
	}
}

// system is a system under test: orch, or the bare message pattern that orch is compared with (see bare.go).
type system struct {
	// once runs one task, or submits one batch, of a workload, and returns the number of tasks.
	once func(ctx context.Context, w workload) (int, error)
	// children are the processes of the system, besides this one.
	children []*child
	stop     func()
}

// sample is the measurement of one run of a workload, see drive.
type sample struct {
	rate     float64
	p50, p99 float64 // ms
	cpu      map[string]float64
}

// drive runs a workload for length, with w.inFlight concurrent calls of once.
func (s *system) drive(ctx context.Context, w workload, length time.Duration) (sample, error) {
	ctx, stop := context.WithTimeout(ctx, length+5*time.Minute)
	defer stop()
	var group sync.WaitGroup
	var count atomic.Int64
	var failure atomic.Pointer[error]
	times := make([][]time.Duration, w.inFlight)
	before := s.cpu()
	began := time.Now()
	end := began.Add(length)
	for i := range w.inFlight {
		group.Go(func() {
			for time.Now().Before(end) && failure.Load() == nil {
				at := time.Now()
				n, err := s.once(ctx, w)
				if err != nil {
					failure.CompareAndSwap(nil, &err)
					return
				}
				times[i] = append(times[i], time.Since(at))
				count.Add(int64(n))
			}
		})
	}
	group.Wait()
	took := time.Since(began)
	if err := failure.Load(); err != nil {
		return sample{}, *err
	}
	return summarize(count.Load(), took, slices.Concat(times...), before, s.cpu()), nil
}

func summarize(count int64, took time.Duration, times []time.Duration, before, after map[string]time.Duration) sample {
	slices.Sort(times)
	s := sample{rate: float64(count) / took.Seconds(), cpu: map[string]float64{}}
	if len(times) > 0 {
		s.p50, s.p99 = millis(times[len(times)/2]), millis(times[len(times)*99/100])
	}
	for name, t := range after {
		s.cpu[name] = float64((t - before[name]).Microseconds()) / float64(max(count, 1))
	}
	return s
}

// cpu returns the CPU time of each process. The process "driver" is this one; if the system has no children, it is also the node.
func (s *system) cpu() map[string]time.Duration {
	used := map[string]time.Duration{"driver": ownCPU()}
	for _, p := range s.children {
		used[p.name] += cpuOf(p.pid())
	}
	return used
}

// newAPISystem returns a system that submits tasks to a node.
func newAPISystem(owner api.API, children []*child, stop func()) *system {
	plans := planCache{plans: map[planKey]json.RawMessage{}}
	once := func(ctx context.Context, w workload) (int, error) {
		text, err := plans.of(w)
		if err != nil {
			return 0, err
		}
		if w.batch > 1 {
			return w.batch, submitBatch(ctx, owner, text, w)
		}
		if w.batch == 1 {
			_, err := owner.Submit(ctx, api.SubmitRequest{Plan: text, Queue: idleQueue})
			return 1, err
		}
		id, err := owner.Submit(ctx, api.SubmitRequest{Plan: text})
		if err != nil {
			return 0, err
		}
		return 1, await(ctx, owner, id)
	}
	return &system{once: once, children: children, stop: stop}
}

// planCache holds the plans of workloads.
type planCache struct {
	mu    sync.Mutex
	plans map[planKey]json.RawMessage
}

type planKey struct {
	steps int
	each  bool
}

// of returns the plan of a workload.
func (p *planCache) of(w workload) (json.RawMessage, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := planKey{w.steps, w.each}
	if text, ok := p.plans[key]; ok {
		return text, nil
	}
	build := chainOf
	if w.each {
		build = loopOf
	}
	text, err := build(w.steps)
	if err == nil {
		p.plans[key] = text
	}
	return text, err
}

// submitBatch submits a batch of tasks at once.
func submitBatch(ctx context.Context, owner api.API, text json.RawMessage, w workload) error {
	r := api.SubmitBatchRequest{Tasks: make([]api.SubmitRequest, w.batch)}
	for i := range r.Tasks {
		id := events.NewTaskID(time.Now())
		r.Tasks[i] = api.SubmitRequest{Plan: text, Queue: idleQueue}
		if w.keys {
			r.Tasks[i].IdempotencyKey = string(id)
		} else {
			r.Tasks[i].ID = id
		}
	}
	reply, err := owner.SubmitBatch(ctx, r)
	if err != nil {
		return err
	}
	for _, item := range reply.Tasks {
		if item.Error != nil {
			return item.Error
		}
	}
	return nil
}

// await waits until a task is done.
func await(ctx context.Context, owner api.API, task api.SubmitReply) error {
	for {
		r, err := owner.Result(ctx, api.ResultRequest{ID: task.ID, Wait: 30 * time.Second})
		switch {
		case err != nil:
			return err
		case !r.Ended:
		case r.Error != nil:
			return r.Error
		case r.State != "DONE":
			return fault.New(fault.Internal, "a benchmark task ended %s", r.State)
		default:
			return nil
		}
	}
}

// chainOf returns a plan of n sequential calls.
func chainOf(n int) (json.RawMessage, error) {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  - {id: s%d, tool: BENCH_NOOP", i)
		if i > 0 {
			fmt.Fprintf(&b, ", needs: [s%d]", i-1)
		}
		b.WriteString("}\n")
	}
	return planOf("steps:\n" + b.String())
}

// loopOf returns a plan with a for_each of n calls.
func loopOf(n int) (json.RawMessage, error) {
	return planOf(fmt.Sprintf("limits: {max_steps: 1000000}\nsteps:\n  - {id: loop, for_each: 1..%d, max_parallel: 16, do: [{id: call, tool: BENCH_NOOP}]}\n", n))
}

// planOf parses a plan that consists of the header of the benchmark and text, and returns its normal form.
func planOf(text string) (json.RawMessage, error) {
	p, err := plan.Parse("bench", []byte("orch: v1\nname: bench\n"+text), plan.Options{})
	if err != nil {
		return nil, err
	}
	return p.JSON(), nil
}
