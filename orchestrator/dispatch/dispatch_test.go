package dispatch_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/orchestrator/dispatch"
	"github.com/orch-dev/orch/work"
)

func noon() time.Time { return time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC) }

// yard is a dispatcher with its owner, which leases every call that is not overtaken.
type yard struct {
	*dispatch.Dispatcher

	now       time.Time
	tasks     map[events.TaskID]*dispatch.Calls
	halted    bool
	paused    map[string]bool // queues
	overtaken map[string]bool // steps
	back      []string
	slots     map[string]int // of providers
	wakes     []time.Time    // that were requested
}

func newYard(limits ...dispatch.Limit) *yard {
	y := &yard{now: noon(), tasks: map[events.TaskID]*dispatch.Calls{}, paused: map[string]bool{}, overtaken: map[string]bool{}}
	y.Dispatcher = dispatch.New(dispatch.Config{
		Owner: y, Now: func() time.Time { return y.now }, OfflineAfter: time.Minute, LastBatch: 100, Slots: func(provider string) int { return y.slots[provider] },
		Limits: limits, WakeAt: func(at time.Time) { y.wakes = append(y.wakes, at) },
	})
	return y
}

func (y *yard) Halted() bool { return y.halted }

func (y *yard) Paused(l dispatch.Lane) bool { return y.paused[l.Queue] }

func (y *yard) Lease(q *dispatch.Queued, worker string) *dispatch.Offer {
	if y.overtaken[q.Step] {
		return nil
	}
	y.Take(q, &dispatch.Lease{Ref: q.Ref, Worker: worker, Tool: q.Lane().Tool, TTL: 15 * time.Second})
	return &dispatch.Offer{Call: work.Call{Ref: q.Ref, Tool: q.Lane().Tool}}
}

func (y *yard) Requeue(worker string, call work.Ref) { y.back = append(y.back, worker+" "+call.Step) }

func (y *yard) calls(task events.TaskID) *dispatch.Calls {
	if y.tasks[task] == nil {
		y.tasks[task] = &dispatch.Calls{Task: task}
	}
	return y.tasks[task]
}

// ready queues a call of the task T.
func (y *yard) ready(step, priority string, l dispatch.Lane) {
	if l.Queue == "" {
		l.Queue = work.DefaultQueue
	}
	y.Enqueue(y.calls("T"), step, 1, l, priority, noon())
}

func stepsOf(d dispatch.Delivery) []string {
	steps := []string{}
	for _, of := range d.Offers {
		steps = append(steps, of.Call.Step)
	}
	return steps
}

// poll polls without waiting and returns the steps of the calls.
func (y *yard) poll(p work.Poll) []string {
	d, _ := y.Poll(p)
	return stepsOf(d)
}

// Who gets which of the calls that wait.
func TestWhoGetsWhat(t *testing.T) {
	t.Parallel()
	ada := work.Poll{Worker: "ada", Free: 10}
	for name, test := range map[string]struct {
		before func(*yard)
		poll   work.Poll
		want   []string
	}{
		"the most urgent first": {
			func(y *yard) {
				y.ready("low", "low", dispatch.Lane{})
				y.ready("normal", "normal", dispatch.Lane{})
				y.ready("critical", "critical", dispatch.Lane{})
			},
			ada,
			[]string{"critical", "normal", "low"},
		},
		"no more than it has room for": {
			func(y *yard) { y.ready("a", "normal", dispatch.Lane{}); y.ready("b", "normal", dispatch.Lane{}) },
			work.Poll{Worker: "ada", Free: 1},
			[]string{"a"},
		},
		"only its queues": {
			func(y *yard) {
				y.ready("a", "normal", dispatch.Lane{Queue: "gpu"})
				y.ready("b", "normal", dispatch.Lane{})
			},
			work.Poll{Worker: "ada", Free: 10, Queues: []string{"gpu"}},
			[]string{"a"},
		},
		"only its tools": {
			func(y *yard) {
				y.ready("a", "normal", dispatch.Lane{Tool: "READ"})
				y.ready("b", "normal", dispatch.Lane{Tool: "WRITE"})
			},
			work.Poll{Worker: "ada", Free: 10, Tools: []string{"WRITE"}},
			[]string{"b"},
		},
		"one suspect at a time": {
			func(y *yard) {
				y.ready("a", "normal", dispatch.Lane{Suspect: true})
				y.ready("b", "normal", dispatch.Lane{Suspect: true})
			},
			ada,
			[]string{"a"},
		},
		"nothing that was overtaken": {
			func(y *yard) {
				y.ready("a", "normal", dispatch.Lane{})
				y.ready("b", "normal", dispatch.Lane{})
				y.overtaken["a"] = true
			},
			ada,
			[]string{"b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newYard()
			test.before(y)
			assert.Equal(t, test.want, y.poll(test.poll))
		})
	}
}

// What is kept from a worker, and what is for agents alone.
func TestWhoGetsNothing(t *testing.T) {
	t.Parallel()
	ada := work.Poll{Worker: "ada", Free: 10}
	for name, test := range map[string]struct {
		before func(*yard)
		poll   work.Poll
		want   []string
	}{
		"nothing of a paused queue": {
			func(y *yard) {
				y.ready("a", "normal", dispatch.Lane{Queue: "gpu"})
				y.paused["gpu"] = true
			},
			work.Poll{Worker: "ada", Free: 10, Queues: []string{"gpu"}},
			[]string{},
		},
		"nothing while all is halted": {
			func(y *yard) { y.ready("a", "normal", dispatch.Lane{}); y.halted = true },
			ada,
			[]string{},
		},
		"nothing for agents": {
			func(y *yard) {
				y.ready("a", "normal", dispatch.Lane{Agents: dispatch.Selection(&events.Agents{Agent: "bob"})})
			},
			ada,
			[]string{},
		},
		"an agent gets what is for it": {
			func(y *yard) {
				y.ready("a", "normal", dispatch.Lane{Agents: dispatch.Selection(&events.Agents{Requires: []string{"draw", "go"}})})
				y.ready("b", "normal", dispatch.Lane{Agents: dispatch.Selection(&events.Agents{Agent: "bob"})})
			},
			work.Poll{Worker: "agent:ada", Free: 10, Agent: &work.Agent{Name: "ada", Capabilities: []string{"draw", "go", "sing"}}},
			[]string{"a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newYard()
			test.before(y)
			assert.Equal(t, test.want, y.poll(test.poll))
		})
	}
}

// Of two identities, the one with fewer calls running comes first.
func TestFairShares(t *testing.T) {
	t.Parallel()
	y := newYard()
	for _, step := range []string{"a1", "a2", "a3"} {
		y.ready(step, "normal", dispatch.Lane{Share: "ada"})
	}
	y.ready("b1", "normal", dispatch.Lane{Share: "bob"})
	assert.Equal(t, []string{"a1", "b1", "a2", "a3"}, y.poll(work.Poll{Worker: "w", Free: 10}))
}

// A worker that waits gets what comes, once; a second poll of the same worker ends the first.
func TestWaiting(t *testing.T) {
	t.Parallel()
	y := newYard()
	wait := work.Poll{Worker: "ada", Free: 1, Wait: time.Minute}
	_, first := y.Poll(wait)
	require.NotNil(t, first)
	_, second := y.Poll(wait)
	assert.Empty(t, <-first.Out)
	y.ready("a", "normal", dispatch.Lane{})
	y.Dispatch()
	assert.Equal(t, []string{"a"}, stepsOf(<-second.Out))
	assert.Zero(t, y.Waiting())
	_, third := y.Poll(wait)
	y.Cancel("ada", work.Ref{Task: "T", Step: "a", Attempt: 1})
	y.Dispatch()
	assert.Equal(t, []work.Ref{{Task: "T", Step: "a", Attempt: 1}}, (<-third.Out).Cancel)
	_, fourth := y.Poll(wait)
	assert.Empty(t, y.EndPoll(fourth))
	assert.Zero(t, y.Waiting())
}

// A lost delivery is requeued: when the worker polls again without it, or when nobody received it.
func TestLostDeliveries(t *testing.T) {
	t.Parallel()
	y := newYard()
	y.ready("a", "normal", dispatch.Lane{})
	d, _ := y.Poll(work.Poll{Worker: "ada", Free: 1})
	assert.EqualValues(t, 101, d.Number)
	y.Poll(work.Poll{Worker: "ada", LastBatch: d.Number})
	assert.Empty(t, y.back, "it has come")
	y.Poll(work.Poll{Worker: "ada", LastBatch: 7})
	assert.Equal(t, []string{"ada a"}, y.back)

	y.ready("b", "normal", dispatch.Lane{})
	d, _ = y.Poll(work.Poll{Worker: "ada", Free: 1})
	y.RequeueBatch(d.Number)
	assert.Equal(t, []string{"ada a", "ada b"}, y.back)
	y.RequeueDelivery("ada", dispatch.Delivery{Offers: d.Offers})
	assert.Equal(t, []string{"ada a", "ada b", "ada b"}, y.back)
}

// When every call has ended, nothing is left in the tables.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	y := newYard()
	for _, step := range []string{"a", "b", "c"} {
		y.ready(step, "normal", dispatch.Lane{Share: "ada", Suspect: step == "c"})
	}
	y.poll(work.Poll{Worker: "agent:ada", Free: 2, Agent: &work.Agent{}})
	require.Equal(t, []string{"a", "b"}, y.poll(work.Poll{Worker: "w", Free: 2}))
	assert.Equal(t, 2, y.Running())
	assert.Equal(t, map[string]int{work.DefaultQueue: 1}, y.Lengths())
	y.RemoveAll(y.calls("T"))
	for _, step := range []string{"a", "b", "a"} {
		y.EndLease(y.calls("T"), step)
	}
	y.now = y.now.Add(time.Hour)
	assert.False(t, y.Served(work.DefaultQueue, ""), "its worker is silent")
	y.ForgetIdle(y.now, time.Minute)
	assert.Equal(t, map[string]int{"asked": 0, "lanes": 0, "limited": 0, "loads": 0, "running": 0, "shares": 0}, y.Leftovers())
}
