package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/index"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type echoIn struct {
	Text string `json:"text,omitempty" jsonschema:"what to say"`
	N    int    `json:"n,omitempty" jsonschema:"a number"`
}

type echoOut struct {
	Text string `json:"text"`
	N    int    `json:"n"`
}

// echo returns a tool that returns its arguments. The test's worker decides what a call does.
func echo(name string, effect tools.Effect, gate tools.Gate) tools.Tool {
	return tools.Define(tools.Spec{Name: name, Purpose: "test", Effect: effect, Gate: gate, Approval: tools.NoApproval},
		func(_ context.Context, _ *tools.Env, in echoIn) (echoOut, error) { return echoOut(in), nil })
}

// internal makes a tool internal to the node.
func internal(t tools.Tool) tools.Tool { return inner{t} }

type inner struct{ tools.Tool }

func (h inner) Spec() tools.Spec {
	s := h.Tool.Spec()
	s.Internal = true
	return s
}

// either returns a tool whose calls have different effects.
func either() tools.Tool {
	return tools.DefineIntent(tools.Spec{Name: "EITHER", Purpose: "test", Effect: tools.Write, Gate: tools.InProgress, Approval: tools.ByIntent},
		func(context.Context, *tools.Env, echoIn) (tools.Intent, error) { return tools.Intent{}, nil },
		func(_ context.Context, _ *tools.Env, in echoIn) (echoOut, error) { return echoOut(in), nil })
}

// forAgents returns a tool whose calls are for agents.
func forAgents() tools.Tool {
	type in struct {
		Agent    string   `json:"agent,omitempty" jsonschema:"who"`
		Type     string   `json:"type,omitempty" jsonschema:"role"`
		Requires []string `json:"requires,omitempty" jsonschema:"capabilities" maxItems:"32" maxLength:"64"`
	}
	return tools.Define(tools.Spec{Name: "AGENT", Purpose: "test", Effect: tools.Write, Gate: tools.InProgress, Approval: tools.NoApproval, ForAgents: true},
		func(context.Context, *tools.Env, in) (echoOut, error) { return echoOut{}, nil })
}

// tb is the part of testing.TB and rapid.TB that the harness needs.
type tb interface {
	require.TestingT
	Helper()
	Cleanup(f func())
	Fatalf(format string, args ...any)
}

// node is an orchestrator under test with its dependencies.
type node struct {
	*orchestrator.Orchestrator

	t     tb
	log   *memlog.Log
	stop  func()
	tools *tools.Catalogue
}

type option func(*orchestrator.Config)

func start(t tb, log *memlog.Log, options ...option) *node {
	t.Helper()
	cat, err := tools.New(
		echo("READ", tools.Read, tools.AnyState), echo("READ2", tools.Read, tools.AnyState),
		echo("WRITE", tools.Write, tools.InProgress), echo("IDEM", tools.Idempotent, tools.InProgress),
		either(), echo("IP_ONLY", tools.Read, tools.InProgress), echo("WRITE2", tools.Write, tools.AnyState),
		echo("SPAWN", tools.Idempotent, tools.AnyState), internal(echo("INTERNAL", tools.Write, tools.InProgress)), forAgents())
	require.NoError(t, err)
	cfg := orchestrator.Config{Log: log, Blobs: log, Checkpoints: log, Catalogue: cat, Lists: index.New("", ""), Random: func() float64 { return 0 }}
	for _, set := range options {
		set(&cfg)
	}
	o, err := orchestrator.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	select {
	case <-o.Ready():
	case err := <-ended:
		cancel()
		require.NoError(t, err)
	}
	var once sync.Once
	n := &node{Orchestrator: o, t: t, log: log, tools: cat, stop: func() { once.Do(func() { cancel(); assert.NoError(t, <-ended) }) }}
	t.Cleanup(n.stop)
	return n
}

func (n *node) ctx() context.Context { return context.Background() }

// submit submits a plan and returns its id.
func (n *node) submit(yaml string, change ...func(*api.SubmitRequest)) events.TaskID {
	n.t.Helper()
	reply, err := n.trySubmit(yaml, change...)
	require.NoError(n.t, err, "%v", errors.Unwrap(err))
	return reply.ID
}

func (n *node) trySubmit(yaml string, change ...func(*api.SubmitRequest)) (api.SubmitReply, error) {
	text, err := json.Marshal(yaml)
	require.NoError(n.t, err)
	r := api.SubmitRequest{Plan: text, Actor: "user:test"}
	for _, c := range change {
		c(&r)
	}
	return n.Submit(context.Background(), r)
}

// poll polls for up to free calls, waiting at most a second for the first.
func (n *node) poll(worker string, free int, queues ...string) work.Batch {
	n.t.Helper()
	b, err := n.Poll(context.Background(), work.Poll{Worker: worker, Free: free, Queues: queues, Wait: time.Second})
	require.NoError(n.t, err)
	return b
}

// take polls until there is a call, and fails unless it is exactly one.
func (n *node) take(worker string) work.Call {
	n.t.Helper()
	b, err := n.Poll(context.Background(), work.Poll{Worker: worker, Free: 1, Wait: time.Minute})
	require.NoError(n.t, err)
	require.Len(n.t, b.Calls, 1)
	return *b.Calls[0]
}

func (n *node) report(worker string, c work.Call, output string) error {
	return n.Report(context.Background(), work.Outcome{Ref: c.Ref, Worker: worker, Output: json.RawMessage(output), StartedAt: time.Now(), Duration: time.Millisecond})
}

func (n *node) fail(worker string, c work.Call, class string) error {
	return n.Report(context.Background(), work.Outcome{Ref: c.Ref, Worker: worker, Error: fault.New(fault.ExecFailed, "it broke").WithField("args.x"), Class: class, StartedAt: time.Now()})
}

// serve runs a worker that answers every call with do until the test ends.
func (n *node) serve(do func(work.Call) (string, *fault.Error)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			b, err := n.Poll(ctx, work.Poll{Worker: "auto", Free: 64, Wait: time.Second})
			if err != nil {
				return
			}
			for _, c := range b.Calls {
				if c.Effect == "write" {
					if n.Start(ctx, work.Started{Ref: c.Ref, Worker: "auto"}) != nil {
						continue
					}
				}
				out, f := do(*c)
				o := work.Outcome{Ref: c.Ref, Worker: "auto", StartedAt: time.Now(), Error: f, Class: "tool_error"}
				if f == nil {
					o.Output, o.Class = json.RawMessage(out), ""
				}
				_ = n.Report(ctx, o)
			}
		}
	}()
	n.t.Cleanup(func() { cancel(); <-done })
}

func echoArgs(c work.Call) (string, *fault.Error) { return string(c.Args), nil }

// result waits for the end of a task.
func (n *node) result(id events.TaskID) api.ResultReply {
	n.t.Helper()
	r, err := n.Result(context.Background(), api.ResultRequest{ID: id, Wait: time.Minute})
	for more := 4; err == nil && !r.Ended && more > 0; more-- { // a request waits for a minute at most
		r, err = n.Result(context.Background(), api.ResultRequest{ID: id, Wait: time.Minute})
	}
	require.NoError(n.t, err)
	require.True(n.t, r.Ended, "task is %s: %s", r.State, r.Reason)
	n.checkReplay(id)
	return r
}

// checkReplay checks that replay equals the live state (I5) and that the history is sound.
func (n *node) checkReplay(id events.TaskID) {
	n.t.Helper()
	r, err := n.Replay(context.Background(), api.ReplayRequest{ID: id})
	require.NoError(n.t, err)
	require.NotNil(n.t, r.Live)
	require.True(n.t, *r.Live, "the fold of %s differs from the live state", id)
	require.True(n.t, r.Chain)
	checkHistory(n.t, n.log, id)
}

// checkHistory checks the raw log of a task: revisions 1 to n without a gap, growing positions, an unbroken chain (I4, I11), a
// path of table T-1 (I3), and at most one terminal event (I2).
func checkHistory(t tb, log *memlog.Log, id events.TaskID) {
	t.Helper()
	state, prev, rev, seq, ends := statemachine.NeedsAction, "", uint64(0), uint64(0), 0
	for stored, err := range log.Read(context.Background(), id, 1) {
		require.NoError(t, err)
		c, err := events.Decode(stored.Data)
		require.NoError(t, err)
		require.NoError(t, c.CheckLink(rev, prev))
		require.Greater(t, stored.Seq, seq)
		rev, prev, seq = c.Rev, events.Hash(stored.Data), stored.Seq
		for _, e := range c.Events {
			if !statemachine.IsTransition(e.Kind) {
				continue
			}
			next, ok := statemachine.Next(state, e.Kind)
			require.True(t, ok, "%s in state %s", e.Kind, state)
			if state = next; state.Terminal() {
				ends++
			}
		}
	}
	require.LessOrEqual(t, ends, 1, "a task ends once")
}

// checkIdle checks that nothing is queued, leased or open when all tasks have ended.
func (n *node) checkIdle() {
	n.t.Helper()
	s, err := n.Status(context.Background(), api.StatusRequest{})
	require.NoError(n.t, err)
	assert.Empty(n.t, s.Queued)
	assert.Zero(n.t, s.Running)
	assert.Zero(n.t, s.Open)
	for what, left := range n.Leftovers() {
		assert.Zero(n.t, left, what)
	}
	f := n.Figures()
	assert.Zero(n.t, f.Approvals+f.Questions, "tasks that wait for people")
	for _, w := range s.Workers {
		assert.Zero(n.t, w.Running, "leases of %s", w.Name)
	}
}

func (n *node) get(id events.TaskID) api.TaskView {
	n.t.Helper()
	v, err := n.Get(context.Background(), api.GetRequest{ID: id})
	require.NoError(n.t, err)
	return v
}

func (n *node) step(id events.TaskID, key string) api.StepView {
	n.t.Helper()
	for _, s := range n.get(id).Steps {
		if s.Key == key {
			return s
		}
	}
	n.t.Fatalf("no step %s", key)
	return api.StepView{}
}

// failOnWord answers with the arguments, or fails if the text is "fail".
func failOnWord(c work.Call) (string, *fault.Error) {
	var in echoIn
	_ = json.Unmarshal(c.Args, &in)
	if in.Text == "fail" {
		return "", fault.New(fault.ExecFailed, "no")
	}
	return string(c.Args), nil
}

func startedBy(worker string, c work.Call) work.Started {
	return work.Started{Ref: c.Ref, Worker: worker}
}

func splitLines(s string) iter.Seq[string] {
	return strings.SplitSeq(strings.TrimSuffix(s, "\n"), "\n")
}

func (n *node) pause(r api.PauseRequest) {
	n.t.Helper()
	_, err := n.Pause(context.Background(), r)
	require.NoError(n.t, err)
}

func (n *node) resume(r api.PauseRequest) {
	n.t.Helper()
	_, err := n.Resume(context.Background(), r)
	require.NoError(n.t, err)
}

// none checks that there is no call for a worker.
func (n *node) none(worker string, queues ...string) {
	n.t.Helper()
	b, err := n.Poll(context.Background(), work.Poll{Worker: worker, Free: 1, Queues: queues})
	require.NoError(n.t, err)
	require.Empty(n.t, b.Calls)
}

// cause returns the first cause that keeps a task from moving.
func (n *node) cause(id events.TaskID) api.Cause {
	n.t.Helper()
	e, err := n.Explain(context.Background(), api.GetRequest{ID: id})
	require.NoError(n.t, err)
	require.NotEmpty(n.t, e.Causes)
	return e.Causes[0]
}

// pollNow polls once and waits for the given time.
func (n *node) pollNow(worker string, wait time.Duration) work.Batch {
	n.t.Helper()
	for began := time.Now(); ; {
		b, err := n.Poll(context.Background(), work.Poll{Worker: worker, Free: 1, Wait: wait})
		require.NoError(n.t, err)
		if len(b.Calls) > 0 || len(b.Cancel) > 0 || time.Since(began) >= wait {
			return b
		}
	}
}

// polls polls until there is a call or the wait is over.
func (n *node) polls(worker string, wait time.Duration) []work.Call {
	return callsOf(n.pollNow(worker, wait))
}

// callsOf returns copies of the calls of a batch.
func callsOf(b work.Batch) []work.Call {
	calls := make([]work.Call, len(b.Calls))
	for i, c := range b.Calls {
		calls[i] = *c
	}
	return calls
}
