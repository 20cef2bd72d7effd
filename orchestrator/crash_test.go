package orchestrator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// crash is a log that dies after a number of appends: it refuses all later ones, or it accepts one more and loses its answer.
// revive repairs it.
type crash struct {
	*memlog.Log

	mu      sync.Mutex
	left    int
	lose    bool
	once    bool // fail a single time, then work again
	dead    chan struct{}
	written int
}

func newCrash(left int, lose bool) *crash {
	c := &crash{left: left, lose: lose, dead: make(chan struct{})}
	c.Log = memlog.New(memlog.Config{Fail: c.refuse, LoseAnswer: c.loseAnswer})
	return c
}

func gone() error { return fault.New(fault.Unavailable, "the log is gone") }

func (c *crash) refuse(*events.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left < 0 || (c.left == 0 && !c.lose) {
		return c.fail()
	}
	c.left--
	c.written++
	return nil
}

func (c *crash) loseAnswer(*events.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left < 0 {
		return c.fail()
	}
	return nil
}

func (c *crash) fail() error {
	if c.once {
		c.left, c.lose = 1<<30, false
		return gone()
	}
	select {
	case <-c.dead:
	default:
		close(c.dead)
	}
	return gone()
}

func (c *crash) revive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left, c.lose = 1<<30, false
}

// ledger counts the effects of calls, as a file with fsync would.
type ledger struct {
	mu      sync.Mutex
	effects map[string]int
}

func (l *ledger) add(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.effects[key]++
}

// undo removes an effect that has failed in the end.
func (l *ledger) undo(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.effects[key]--; l.effects[key] == 0 {
		delete(l.effects, key)
	}
}

func (l *ledger) count(key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.effects[key]
}

// runWorker runs a worker until ctx ends. A worker that survives the node keeps the outcomes that it could not report, and
// reports them again.
func runWorker(ctx context.Context, n *node, l *ledger, unsent *[]work.Outcome) {
	report := func(o work.Outcome) error {
		err := n.Report(ctx, o)
		if fault.Has(err, fault.Unavailable) {
			err = n.Report(ctx, o)
		}
		return err
	}
	for _, o := range *unsent {
		_ = n.Report(ctx, o)
	}
	*unsent = nil
	for ctx.Err() == nil {
		b, err := n.Poll(ctx, work.Poll{Worker: "crew", Free: 3, Wait: time.Second})
		if err != nil {
			return
		}
		for _, c := range b.Calls {
			if ctx.Err() != nil {
				return
			}
			if c.Effect == "write" && n.Start(ctx, work.Started{Ref: c.Ref, Worker: "crew"}) != nil {
				continue
			}
			o := perform(*c, l)
			if report(o) != nil {
				*unsent = append(*unsent, o)
			}
		}
	}
}

func perform(c work.Call, l *ledger) work.Outcome {
	o := work.Outcome{Ref: c.Ref, Worker: "crew", StartedAt: time.Now(), Duration: time.Millisecond}
	var in echoIn
	_ = json.Unmarshal(c.Args, &in)
	if in.Text == "flaky" && c.Attempt == 1 {
		o.Error, o.Class = fault.New(fault.ExecFailed, "not yet"), "tool_error"
		return o
	}
	l.add(c.Key())
	o.Output = c.Args
	return o
}

// person resolves calls in doubt by the ledger.
func person(n *node, l *ledger, id events.TaskID) {
	view, err := n.Get(context.Background(), api.GetRequest{ID: id})
	if err != nil {
		return
	}
	for _, s := range view.Steps {
		if s.Child != "" {
			person(n, l, s.Child)
		}
		if s.State != statemachine.StepInDoubt {
			continue
		}
		key := string(id) + "/" + s.Key
		r := api.ResolveRequest{ID: id, Step: s.Key, As: "retry"}
		if l.count(key) > 0 {
			r.As, r.Output = "succeeded", json.RawMessage(`{"n":1}`)
		}
		_, _ = n.Resolve(context.Background(), r)
	}
}

type crashPlan struct {
	plan   string
	output string
	signal bool
	// before is submitted first, with the same rules.
	before string
}

func crashPlans() map[string]crashPlan {
	return map[string]crashPlan{
		"chain":             {plan: "orch: v1\nsteps:\n  - {id: a, tool: READ, with: {n: 1}}\n  - {id: b, tool: WRITE, with: {n: \"${{ steps.a.output.n }}\"}}\n  - {id: c, tool: IDEM, with: {n: \"${{ steps.b.output.n + 1 }}\"}}\noutputs: {n: \"${{ steps.c.output.n }}\"}\n", output: `{"n":2}`},
		"parallel":          {plan: "orch: v1\nsteps:\n  - {id: a, tool: WRITE, with: {n: 1}}\n  - {id: b, tool: WRITE, with: {n: 1}}\n  - {id: c, set: {x: \"${{ steps.a.output.n + steps.b.output.n }}\"}}\noutputs: {n: \"${{ steps.c.output.x }}\"}\n", output: `{"n":2}`},
		"for_each":          {plan: "orch: v1\nsteps:\n  - id: e\n    for_each: \"[1, 1, 1]\"\n    max_parallel: 2\n    do:\n      - {id: r, tool: READ, with: {n: \"${{ item }}\"}}\n      - {id: w, tool: WRITE, with: {n: \"${{ steps.r.output.n }}\"}}\noutputs: {l: \"${{ map(steps.e.output, #.w.n) }}\"}\n", output: `{"l":[1,1,1]}`},
		"sub-plan":          {plan: "orch: v1\nsteps:\n  - id: s\n    with: {n: 1}\n    run:\n      orch: v1\n      inputs: {type: object, properties: {n: {type: integer}}}\n      steps:\n        - {id: w, tool: WRITE, with: {n: \"${{ inputs.n }}\"}}\n      outputs: {n: \"${{ steps.w.output.n }}\"}\noutputs: {n: \"${{ steps.s.output.n }}\"}\n", output: `{"n":1}`},
		"set-only child":    {plan: "orch: v1\nsteps:\n  - id: s\n    run:\n      orch: v1\n      steps: [{id: x, set: {n: 5}}]\n      outputs: {n: \"${{ steps.x.output.n }}\"}\noutputs: {n: \"${{ steps.s.output.n }}\"}\n", output: `{"n":5}`},
		"timer and signal":  {plan: "orch: v1\nsteps:\n  - {id: t, wait: {for: 5s}}\n  - {id: g, needs: [t], wait: {signal: go}}\n  - {id: w, tool: WRITE, with: {n: \"${{ steps.g.output.n }}\"}}\noutputs: {n: \"${{ steps.w.output.n }}\"}\n", output: `{"n":1}`, signal: true},
		"retry":             {plan: "orch: v1\nsteps:\n  - {id: a, tool: READ, with: {text: flaky, n: 3}, retry: {max_attempts: 3}}\n  - {id: w, tool: WRITE, needs: [a], with: {n: 1}}\noutputs: {n: \"${{ steps.a.output.n }}\"}\n", output: `{"n":3}`},
		"verify and always": {plan: "orch: v1\nsteps:\n  - {id: a, tool: WRITE, with: {n: 1}}\nverify:\n  - {id: v, tool: READ}\nalways:\n  - {id: z, tool: WRITE2, with: {n: 1}}\noutputs: {n: \"${{ steps.a.output.n }}\"}\n", output: `{"n":1}`},
		"one key": {
			before: "orch: v1\nconcurrency: {key: k}\nsteps:\n  - {id: a, tool: WRITE, with: {n: 1}}\n",
			plan:   "orch: v1\nconcurrency: {key: k}\nsteps:\n  - {id: a, tool: WRITE, with: {n: 1}}\noutputs: {n: \"${{ steps.a.output.n }}\"}\n", output: `{"n":1}`,
		},
	}
}

// TestCrashAtEveryCommit stops the node at every append of every plan: before it, or after it but before
// its answer; the worker dies with it, or lives on. After the restart the task ends as if nothing had
// happened, and no call with effects was repeated unless it was reported as in doubt (X-05, I1–I6).
func TestCrashAtEveryCommit(t *testing.T) {
	t.Parallel()
	for name, p := range crashPlans() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			commits := crashAt(t, p, 1<<20, false, false)
			require.Positive(t, commits)
			for left := range commits + 1 {
				for _, lose := range []bool{false, true} {
					for _, survives := range []bool{false, true} {
						t.Run(fmt.Sprintf("%d lost=%v survives=%v", left, lose, survives), func(t *testing.T) {
							crashAt(t, p, left, lose, survives)
						})
					}
				}
			}
		})
	}
}

// crashAt runs a plan with one crash and returns the number of commits until then.
func crashAt(t *testing.T, p crashPlan, left int, lose, survives bool) (commits int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := newCrash(left, lose)
		l := &ledger{effects: map[string]int{}}
		unsent := &[]work.Outcome{}
		first := start(t, log.Log, short)
		alive, die := context.WithCancel(context.Background())
		workerGone := make(chan struct{})
		go func() { defer close(workerGone); runWorker(alive, first, l, unsent) }()
		id, ok := p.request(first)
		if ok {
			p.finish(first, l, id, log.dead)
		}
		die()
		first.stop()
		<-workerGone
		commits = log.written
		if !survives {
			*unsent = nil
		}
		log.revive()
		second := start(t, log.Log, short)
		second.tend(l, unsent)
		again, submitted := p.request(second)
		require.True(t, submitted)
		require.True(t, id == "" || id == again)
		require.True(t, p.finish(second, l, again, nil))
		p.check(t, second, l, again)
	})
	return commits
}

// TestOneFailedAppend lets each append of each plan fail once, or loses its answer, while node, worker
// and client continue: they repeat their requests, and the task ends as if nothing had happened.
func TestOneFailedAppend(t *testing.T) {
	t.Parallel()
	for name, p := range crashPlans() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for at := range crashAt(t, p, 1<<20, false, false) {
				for _, lose := range []bool{false, true} {
					t.Run(fmt.Sprintf("%d lost=%v", at, lose), func(t *testing.T) { failAt(t, p, at, lose) })
				}
			}
		})
	}
}

func failAt(t *testing.T, p crashPlan, at int, lose bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := newCrash(at, lose)
		log.once = true
		l := &ledger{effects: map[string]int{}}
		n := start(t, log.Log, short)
		n.tend(l, &[]work.Outcome{})
		id, ok := p.request(n)
		if !ok {
			id, ok = p.request(n)
		}
		require.True(t, ok)
		require.True(t, p.finish(n, l, id, nil))
		<-time.After(3 * time.Second) // what the node does later by itself
		p.check(t, n, l, id)
	})
}

func short(c *orchestrator.Config) { c.Limits.Lease, c.Limits.PartItems = time.Second, 2 }

// tend runs a worker until the test ends.
func (n *node) tend(l *ledger, unsent *[]work.Outcome) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); runWorker(ctx, n, l, unsent) }()
	n.t.Cleanup(func() { cancel(); <-done })
}

// request submits the plans under fixed keys.
func (p crashPlan) request(n *node) (events.TaskID, bool) {
	if p.before != "" {
		if _, err := n.trySubmit(p.before, keyed("before")); err != nil {
			return "", false
		}
	}
	reply, err := n.trySubmit(p.plan, keyed("main"))
	return reply.ID, err == nil
}

func keyed(key string) func(*api.SubmitRequest) {
	return func(r *api.SubmitRequest) { r.IdempotencyKey = key }
}

// finish acts as the people for the task until it has ended or the log is dead.
func (p crashPlan) finish(n *node, l *ledger, id events.TaskID, dead <-chan struct{}) bool {
	for range 200 {
		select {
		case <-dead:
			return false
		default:
		}
		if p.signal {
			_, _ = n.Signal(context.Background(), api.SignalRequest{ID: id, Name: "go", Data: json.RawMessage(`{"n":1}`)})
		}
		if p.before != "" {
			person(n, l, events.KeyedTaskID("", "before"))
		}
		person(n, l, id)
		r, err := n.Result(context.Background(), api.ResultRequest{ID: id, Wait: time.Second})
		if err == nil && r.Ended {
			return true
		}
	}
	return false
}

func (p crashPlan) check(t *testing.T, n *node, l *ledger, id events.TaskID) {
	t.Helper()
	r := n.result(id)
	assert.Equal(t, statemachine.Done, r.State, "%v", r.Error)
	assert.JSONEq(t, p.output, string(r.Output))
	if p.before != "" {
		n.result(events.KeyedTaskID("", "before"))
	}
	for key, times := range l.effects {
		task, step := cutKey(key)
		if effect := effectOf(n, task, step); effect == "WRITE" || effect == "WRITE2" {
			assert.Equal(t, 1, times, "effects of %s", key)
		}
	}
	list, err := n.List(context.Background(), api.ListRequest{})
	require.NoError(t, err)
	for _, task := range list.Tasks {
		assert.True(t, task.State.Terminal(), "%s is %s", task.ID, task.State)
		checkHistory(t, n.log, task.ID)
	}
	synctest.Wait()
	n.checkIdle()
}

// cutKey splits the key of a call into its task and its step.
func cutKey(key string) (events.TaskID, string) {
	id, step, _ := strings.Cut(key, "/")
	return events.TaskID(id), step
}

func effectOf(n *node, id events.TaskID, step string) string {
	view, err := n.Get(context.Background(), api.GetRequest{ID: id})
	require.NoError(n.t, err)
	for _, s := range view.Steps {
		if s.Key == step {
			return s.Tool
		}
	}
	return ""
}
