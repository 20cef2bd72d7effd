package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// The floor is what remains of a node without orchestration: the same server, log, requests, worker and driver, and for each
// task as many commits of the same size. There are no plans, no states, no history in memory, no leases and no limits. No
// orchestrator on this log and these requests can be faster.

const (
	// The sizes of the commits of a task of the benchmark, in bytes: the first one without and for each step, and one for the end of a
	// step.
	floorFirst, floorEach, floorNext = 460, 70, 470
	// floorLease is the lease of its calls.
	floorLease = 30 * time.Second
)

// floorRates measures the workloads whose targets may be out of reach of the floor, beside the bare message pattern.
func floorRates() []measurement {
	l := layout{"floor-", "three processes, no orchestration", floorProcesses, bareProcesses}
	var list []measurement
	for _, w := range workloads() {
		if w.inFlight == 1 || w.id == "64" || w.keys {
			continue
		}
		ids := []string{l.prefix + w.id}
		list = append(list, measurement{ids, func(ctx context.Context, run *benchRun, durability string) ([]Row, error) {
			return l.measure(ctx, run.Config, w, ids, durability)
		}})
	}
	return list
}

// floorProcesses starts a floor and a worker. This process is the driver.
func floorProcesses(ctx context.Context, c Config, dir, durability string) (*system, error) {
	return c.processes(ctx, dir, durability, RoleFloor)
}

// runFloor runs the node of the floor until ctx ends.
func runFloor(ctx context.Context, dir, durability string, ready func(string)) error {
	server, err := bus.StartServer(ctx, bus.ServerConfig{DataDir: filepath.Join(dir, "data"), Durability: bus.Durability(durability)})
	if err != nil {
		return err
	}
	defer func() { _ = server.Close(context.WithoutCancel(ctx)) }()
	requests, err := server.Connect(ctx)
	if err != nil {
		return err
	}
	defer requests.Close()
	conn, err := server.Connect(ctx)
	if err != nil {
		return err
	}
	store, err := conn.OpenStore(ctx, bus.StoreConfig{Durability: bus.Durability(durability)})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close(context.WithoutCancel(ctx)) }()
	f := &floor{store: store, calls: make(chan *work.Call, 1<<20), tasks: map[events.TaskID]*floorTask{}}
	if _, err := rpc.ServeAPI(requests, f, store, rpc.EndpointConfig{}); err != nil {
		return err
	}
	if _, err := rpc.ServeOwner(requests, f, rpc.EndpointConfig{}); err != nil {
		return err
	}
	ready("floor")
	<-ctx.Done()
	return nil
}

// anyData is the content of commits of the floor: nobody reads it.
var anyData = bytes.Repeat([]byte("x"), 64<<10)

// dataOf returns the content of a commit of n bytes, at most all of anyData.
func dataOf(n int) []byte { return anyData[:min(n, len(anyData))] }

// floor answers the requests of the driver and of the worker. It implements as much of api.API as the driver needs.
type floor struct {
	api.API

	store *bus.Store
	calls chan *work.Call

	mu    sync.Mutex
	tasks map[events.TaskID]*floorTask
}

// floorTask is a task of the floor.
type floorTask struct {
	steps int
	rev   uint64
	seq   uint64
	ended chan struct{}
}

// Status implements api.API.
func (*floor) Status(context.Context, api.StatusRequest) (api.StatusReply, error) {
	return api.StatusReply{}, nil
}

// Submit implements api.API.
func (f *floor) Submit(ctx context.Context, r api.SubmitRequest) (api.SubmitReply, error) {
	reply, err := f.SubmitBatch(ctx, api.SubmitBatchRequest{Tasks: []api.SubmitRequest{r}})
	if err != nil {
		return api.SubmitReply{}, err
	}
	if reply.Tasks[0].Error != nil {
		return api.SubmitReply{}, reply.Tasks[0].Error
	}
	return reply.Tasks[0].SubmitReply, nil
}

// SubmitBatch implements api.API.
func (f *floor) SubmitBatch(ctx context.Context, r api.SubmitBatchRequest) (api.SubmitBatchReply, error) {
	reply := api.SubmitBatchReply{Tasks: make([]api.SubmitBatchItem, len(r.Tasks))}
	var open sync.WaitGroup
	open.Add(len(r.Tasks))
	for i, s := range r.Tasks {
		id := events.NewTaskID(time.Now())
		t := &floorTask{steps: bytes.Count(s.Plan, []byte(noopName)), ended: make(chan struct{})}
		reply.Tasks[i].ID, reply.Tasks[i].State = id, statemachine.InProgress
		f.mu.Lock()
		f.tasks[id] = t
		f.mu.Unlock()
		f.append(id, t, dataOf(floorFirst+floorEach*t.steps), func(err error) {
			if err != nil {
				reply.Tasks[i].Error = fault.From(err)
			} else if s.Queue != idleQueue {
				f.offer(id, t)
			}
			open.Done()
		})
	}
	open.Wait()
	return reply, ctx.Err()
}

// append writes the next commit of a task.
func (f *floor) append(id events.TaskID, t *floorTask, data []byte, done func(error)) {
	t.rev++
	f.store.Append(events.Record{Head: events.Head{Task: id, Rev: t.rev, State: string(statemachine.InProgress), Name: "bench"}, After: t.seq, Data: data}, func(seq uint64, err error) {
		t.seq = seq
		done(err)
	})
}

// offer queues the next call of a task.
func (f *floor) offer(id events.TaskID, t *floorTask) {
	f.calls <- &work.Call{
		Ref: work.Ref{Task: id, Step: "s" + strconv.FormatUint(t.rev-1, 10), Attempt: 1}, Tool: noopName, Args: json.RawMessage("{}"),
		Effect: "read", State: string(statemachine.InProgress), Lease: floorLease, Name: "bench",
	}
}

// Result implements api.API.
func (f *floor) Result(ctx context.Context, r api.ResultRequest) (api.ResultReply, error) {
	f.mu.Lock()
	t := f.tasks[r.ID]
	f.mu.Unlock()
	if t == nil {
		return api.ResultReply{ID: r.ID, State: statemachine.Done, Ended: true}, nil
	}
	select {
	case <-t.ended:
		return api.ResultReply{ID: r.ID, State: statemachine.Done, Ended: true}, nil
	case <-ctx.Done():
		return api.ResultReply{}, fault.From(ctx.Err())
	}
}

// Poll implements work.Owner.
func (f *floor) Poll(ctx context.Context, p work.Poll) (work.Batch, error) {
	var b work.Batch
	if p.Free == 0 {
		return b, nil
	}
	timer := time.NewTimer(p.Wait)
	defer timer.Stop()
	select {
	case c := <-f.calls:
		b.Calls = append(b.Calls, c)
	case <-timer.C:
	case <-ctx.Done():
	}
	for len(b.Calls) > 0 && len(b.Calls) < p.Free {
		select {
		case c := <-f.calls:
			b.Calls = append(b.Calls, c)
		default:
			return b, nil
		}
	}
	return b, nil
}

// ReportThen implements rpc.Owner.
func (f *floor) ReportThen(_ context.Context, o *work.Outcome, done func(error)) {
	f.mu.Lock()
	t := f.tasks[o.Task]
	f.mu.Unlock()
	f.append(o.Task, t, dataOf(floorNext), func(err error) {
		if t.steps--; err == nil && t.steps > 0 {
			f.offer(o.Task, t)
		} else {
			close(t.ended)
			f.mu.Lock()
			delete(f.tasks, o.Task)
			f.mu.Unlock()
		}
		done(err)
	})
}

// Report implements work.Owner.
func (f *floor) Report(ctx context.Context, o work.Outcome) error {
	done := make(chan error, 1)
	f.ReportThen(ctx, &o, func(err error) { done <- err })
	return <-done
}

// Start implements work.Owner.
func (*floor) Start(context.Context, work.Started) error { return nil }

// Heartbeat implements work.Owner.
func (*floor) Heartbeat(context.Context, work.Heartbeat) (work.HeartbeatReply, error) {
	return work.HeartbeatReply{}, nil
}

// Undelivered implements work.Source.
func (*floor) Undelivered(uint64) {}
