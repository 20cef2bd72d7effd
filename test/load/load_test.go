package load_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/statemachine"
)

// scale is the amount of work in a run of the load test.
type scale struct {
	// tasks are submitted at once, half of them in batches, half by clients one by one.
	tasks, clients, batch int
	// waiters is the number of clients that wait for a result, pollers the number of clients that read a task every
	// five seconds.
	waiters, pollers int
	// memory bounds the memory of the node after the load, peak during the load, in MiB.
	memory, peak int
}

// envFull selects the full scale.
const envFull = "ORCH_LOAD_FULL"

func scaleOf(t *testing.T) scale {
	t.Helper()
	s := scale{tasks: 4_000, clients: 64, batch: 500, waiters: 200, pollers: 500, memory: 150, peak: 300}
	if testing.Short() {
		s.tasks, s.waiters, s.pollers = 1_000, 100, 200
	}
	if os.Getenv(envFull) != "" {
		s = scale{tasks: 100_000, clients: 64, batch: 500, waiters: 1_000, pollers: 10_000, memory: 150, peak: 600}
	}
	return s
}

const (
	// endsWithin bounds the time from the last submission to the end of every task, per 10,000 tasks.
	endsWithin = 30 * time.Second
	// onePlan is the task of the load.
	onePlan = "orch: v1\nname: load\nsteps:\n  - {id: a, tool: LOAD_NOOP}\n"
	// watchedPlan has more commits than a slow watcher can read while the load lasts.
	watchedPlan = "orch: v1\nname: watched\nsteps:\n  - id: each\n    for_each: \"1..200\"\n    max_parallel: 1\n    do:\n      - {id: a, tool: LOAD_NOOP}\n"
)

// flood is a run of the load test.
type flood struct {
	t     *testing.T
	scale scale
	dir   string
	node  *process
	apis  []api.API

	mu  sync.Mutex
	ids []events.TaskID
}

// TestLoad submits far more tasks at once than two workers can execute, while others wait for results,
// poll, watch slowly and want an urgent task done.
func TestLoad(t *testing.T) { //nolint:paralleltest // it measures
	f := &flood{t: t, scale: scaleOf(t), dir: t.TempDir()}
	f.node = spawn(t, roleNode, f.dir)
	workers := []*process{spawn(t, roleWorker, f.dir), spawn(t, roleWorker, f.dir)}
	for range 16 {
		f.apis = append(f.apis, dial(t, f.dir))
	}
	f.submit(200) // what the first use makes is no growth
	f.drain()
	before := []usage{f.node.usage(), workers[0].usage(), workers[1].usage()}
	idle, _ := f.node.memory()
	f.ids = nil

	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	watch := f.watchSlowly(ctx, &clients)
	urgent := f.wantUrgently(ctx, &clients)
	polls := f.pollOften(ctx, &clients)
	curve := f.sample(ctx, &clients)
	began := time.Now()
	results := f.submit(f.scale.tasks)
	submitted := time.Since(began)
	f.drain()
	drained := time.Since(began)
	results.Wait()
	stop()
	clients.Wait()
	f.checkEnds()
	watch()

	times := urgent()
	highest, n := curve()
	t.Logf("%d tasks submitted in %s (%.0f/s), all over %s later (%.0f/s whole)", f.scale.tasks, submitted.Round(time.Millisecond),
		float64(f.scale.tasks)/submitted.Seconds(), (drained - submitted).Round(time.Millisecond), float64(f.scale.tasks)/drained.Seconds())
	t.Logf("%d waiters heard of the end of their task; %d looks of %d pollers, slowest %s", f.scale.waiters, polls.count.Load(), f.scale.pollers, time.Duration(polls.slowest.Load()).Round(time.Millisecond))
	t.Logf("%d urgent tasks: median %s, longest %s", len(times), times[len(times)/2].Round(time.Millisecond), times[len(times)-1].Round(time.Millisecond))
	assert.Less(t, times[len(times)/2], 2*detector*time.Second, "an urgent task overtakes the others")
	assert.Less(t, drained-submitted, detector*endsWithin, "every task is over soon after the load")

	f.checkUsage(before, append([]*process{f.node}, workers...))
	after := f.settled()
	_, peak := f.node.memory()
	t.Logf("memory of the node: %d MiB idle, highest of %d samples %d MiB, peak with files %d MiB, %d MiB after", idle, n, highest, peak, after)
	assert.LessOrEqual(t, after, f.scale.memory*detector)
	assert.LessOrEqual(t, highest, f.scale.peak*detector)
	t.Logf("the node stops in %s", f.node.terminate(20*time.Second).Round(time.Millisecond))
}

// submit submits n tasks, half of them in batches, and returns when all are acknowledged. For some of them a waiter
// waits for the result.
func (f *flood) submit(n int) (results *sync.WaitGroup) {
	f.t.Helper()
	results = &sync.WaitGroup{}
	var clients sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(n / 2))
	for i := range f.scale.clients {
		clients.Go(func() {
			for left.Add(-1) >= 0 {
				reply, err := f.apis[i%len(f.apis)].Submit(f.t.Context(), request("normal"))
				if assert.NoError(f.t, err) {
					f.follow(results, i, reply.ID)
				}
			}
		})
	}
	var batched atomic.Int64
	batched.Store(int64(n - n/2))
	for i := range 4 {
		clients.Go(func() {
			for {
				left := int(batched.Add(int64(-f.scale.batch))) + f.scale.batch
				if left <= 0 {
					return
				}
				f.submitBatch(results, i, min(left, f.scale.batch))
			}
		})
	}
	clients.Wait()
	return results
}

func (f *flood) submitBatch(results *sync.WaitGroup, client, n int) {
	r := api.SubmitBatchRequest{Tasks: slices.Repeat([]api.SubmitRequest{request("normal")}, n)}
	reply, err := f.apis[client].SubmitBatch(f.t.Context(), r)
	if err != nil {
		f.t.Errorf("a batch was refused: %v", err)
		return
	}
	for _, item := range reply.Tasks {
		if assert.Nil(f.t, item.Error) {
			f.follow(results, client, item.ID)
		}
	}
}

// follow records a task; the first ones get a waiter each.
func (f *flood) follow(results *sync.WaitGroup, client int, id events.TaskID) {
	f.mu.Lock()
	f.ids = append(f.ids, id)
	n := len(f.ids)
	f.mu.Unlock()
	if n > f.scale.waiters {
		return
	}
	results.Go(func() { _, _ = f.result(f.t.Context(), f.apis[client%len(f.apis)], id) })
}

// result waits for the end of a task.
func (f *flood) result(ctx context.Context, owner api.API, id events.TaskID) (api.ResultReply, bool) {
	for {
		reply, err := owner.Result(ctx, api.ResultRequest{ID: id, Wait: 30 * time.Second})
		switch {
		case ctx.Err() != nil:
			return reply, false
		case err != nil && passing(err):
		case err != nil:
			f.t.Errorf("a result was refused: %v", err)
			return reply, false
		case reply.Ended:
			return reply, assert.Equal(f.t, statemachine.Done, reply.State)
		}
	}
}

func request(priority string) api.SubmitRequest {
	return api.SubmitRequest{Plan: text(onePlan), Priority: priority}
}

func text(plan string) json.RawMessage {
	raw, _ := json.Marshal(plan) // a string can always be encoded
	return raw
}

// drain waits until no task is open.
func (f *flood) drain() {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		s, err := f.apis[0].Status(f.t.Context(), api.StatusRequest{})
		return err == nil && s.Open <= 1+urgentAtOnce && s.Queued["default"] == 0
	}, 10*time.Minute, 50*time.Millisecond)
}

// checkEnds checks that every acknowledged task is DONE.
func (f *flood) checkEnds() {
	f.t.Helper()
	var group sync.WaitGroup
	for part := range slices.Chunk(f.ids, len(f.ids)/len(f.apis)+1) {
		owner := f.apis[rand.IntN(len(f.apis))]
		group.Go(func() {
			for _, id := range part {
				reply, err := owner.Result(f.t.Context(), api.ResultRequest{ID: id, Wait: time.Second})
				if err != nil || reply.State != statemachine.Done {
					f.t.Errorf("%s is %s: %v", id, reply.State, err)
					return
				}
			}
		})
	}
	group.Wait()
	assert.Len(f.t, f.ids, f.scale.tasks)
}

// watchSlowly reads one commit per second of a task with many commits, and the rest after the load: no commit is lost
// or repeated.
func (f *flood) watchSlowly(ctx context.Context, group *sync.WaitGroup) (finish func()) {
	f.t.Helper()
	reply, err := f.apis[1].Submit(ctx, api.SubmitRequest{Plan: text(watchedPlan), Priority: "low"})
	require.NoError(f.t, err)
	var last uint64
	read := func(ctx context.Context, limit int) (over bool) {
		w, err := f.apis[1].Watch(ctx, api.WatchRequest{ID: reply.ID, After: last, Limit: limit, Wait: time.Second})
		if err != nil {
			return ctx.Err() != nil
		}
		for _, c := range w.Commits {
			assert.Equal(f.t, last+1, c.Rev, "a watcher sees every commit once, in order")
			last = c.Rev
		}
		return w.Ended
	}
	group.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for ctx.Err() == nil {
			read(ctx, 1)
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	})
	return func() {
		slow := last
		for !read(f.t.Context(), 500) {
		}
		f.t.Logf("the slow watcher had seen %d commits of %d", slow, last)
		assert.Greater(f.t, last, uint64(200))
	}
}

// urgentAtOnce is the number of urgent tasks under way at any time.
const urgentAtOnce = 1

// wantUrgently submits a task of high priority again and again, each when the one before is done.
func (f *flood) wantUrgently(ctx context.Context, group *sync.WaitGroup) (times func() []time.Duration) {
	var took []time.Duration
	owner := dialAs(f.t, f.dir, "impatient")
	group.Go(func() {
		for ctx.Err() == nil {
			began := time.Now()
			reply, err := owner.Submit(ctx, request("high"))
			if err != nil {
				continue
			}
			if _, ok := f.result(ctx, owner, reply.ID); ok {
				took = append(took, time.Since(began))
			}
			_ = pause.For(ctx, 100*time.Millisecond)
		}
	})
	return func() []time.Duration {
		require.NotEmpty(f.t, took)
		slices.Sort(took)
		return took
	}
}

// looks counts the reads of pollers.
type looks struct{ count, slowest atomic.Int64 }

// pollOften makes many sessions read their task every few seconds until it ends, and then another one.
func (f *flood) pollOften(ctx context.Context, group *sync.WaitGroup) *looks {
	l := &looks{}
	for i := range f.scale.pollers {
		group.Go(func() {
			var mine events.TaskID
			for pause.For(ctx, rand.N(2*pollEvery)) == nil {
				if mine == "" {
					mine = f.newest()
					continue
				}
				began := time.Now()
				view, err := f.apis[i%len(f.apis)].Get(ctx, api.GetRequest{ID: mine})
				if err != nil {
					assert.True(f.t, ctx.Err() != nil || passing(err), "%v", err)
					continue
				}
				l.add(time.Since(began))
				if view.State.Terminal() {
					mine = f.newest()
				}
			}
		})
	}
	return l
}

// pollEvery is the mean pause of a session between two reads.
const pollEvery = 5 * time.Second

func (l *looks) add(took time.Duration) {
	l.count.Add(1)
	for old := l.slowest.Load(); int64(took) > old && !l.slowest.CompareAndSwap(old, int64(took)); old = l.slowest.Load() {
	}
}

// newest returns the last submitted task, or "".
func (f *flood) newest() events.TaskID {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.ids) == 0 {
		return ""
	}
	return f.ids[len(f.ids)-1]
}

// sample records the memory of the node.
func (f *flood) sample(ctx context.Context, group *sync.WaitGroup) (highest func() (mib, samples int)) {
	most, n := 0, 0
	var line strings.Builder
	group.Go(func() {
		for pause.For(ctx, 250*time.Millisecond) == nil {
			now, _ := f.node.memory()
			most = max(most, now)
			if n%8 == 0 {
				line.WriteString(strconv.Itoa(now) + " ")
			}
			n++
		}
	})
	return func() (int, int) {
		f.t.Logf("memory of the node every 2 s in MiB: %s", line.String())
		return most, n
	}
}

// settled waits until the node has released memory and returns its memory in MiB.
func (f *flood) settled() (after int) {
	f.t.Helper()
	end := time.Now().Add(100 * time.Second)
	for after, _ = f.node.memory(); after > f.scale.memory*detector && time.Now().Before(end); after, _ = f.node.memory() {
		_ = pause.For(f.t.Context(), time.Second)
	}
	return after
}

// checkUsage checks that processes use no more resources than before the load. The first is the node, the others are workers.
// A worker may not have worked before, so each one may use as much as any worker did.
func (f *flood) checkUsage(before []usage, processes []*process) {
	f.t.Helper()
	for i := range before {
		if i > 0 {
			before[i] = usage{max(before[1].goroutines, before[len(before)-1].goroutines), max(before[1].files, before[len(before)-1].files)}
		}
	}
	now := make([]usage, len(processes))
	assert.Eventually(f.t, func() bool {
		for i, p := range processes {
			if now[i] = p.usage(); now[i].goroutines > before[i].goroutines+16 || now[i].files > before[i].files+8 {
				return false
			}
		}
		return true
	}, 60*time.Second, 500*time.Millisecond, "before %v, after %v", before, now)
	f.t.Logf("goroutines and files before %v, after %v", before, now)
}
