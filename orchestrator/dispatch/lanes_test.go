package dispatch_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/orchestrator/dispatch"
	"github.com/orch-dev/orch/work"
)

// endAll removes the queued calls of the task T and ends its leases, and checks that nothing is left.
func (y *yard) endAll(t *testing.T) {
	t.Helper()
	c := y.calls("T")
	y.RemoveAll(c)
	for l := range c.Leases.All() {
		y.EndLease(c, l.Step)
	}
	require.Zero(t, c.Queued.Len()+c.Leases.Len())
	for what, n := range y.Leftovers() {
		require.Zero(t, n, what)
	}
}

// A lane that becomes empty while a call of it runs still counts that call when it fills again, also after other lanes of its family
// have come and gone.
func TestLaneFillsAgain(t *testing.T) {
	t.Parallel()
	y := newYard(dispatch.Limit{Tool: "X", Running: 2, By: dispatch.ByKey})
	ready := func(step, key string) {
		y.ready(step, "normal", y.WithKey(dispatch.Lane{Tool: "X", Share: "ada", Provider: "local"}, key))
	}
	one := work.Poll{Worker: "w", Free: 1}
	for held, key := range []string{"k", ""} {
		ready(key+"1", key)
		require.Equal(t, []string{key + "1"}, y.poll(one))
		assert.Len(t, y.Lengths(), held)
		assert.Len(t, y.Waits(), held)
		ready("other", "z")
		y.Remove(y.calls("T"), "other")
		ready(key+"2", key)
		require.Equal(t, []string{key + "2"}, y.poll(one))
		ready(key+"3", key)
		require.Empty(t, y.poll(one), "two run")
	}
	running, waiting := y.Asked("local")
	assert.Equal(t, [2]int{4, 2}, [2]int{running, waiting})

	_, parked := y.Poll(work.Poll{Worker: "w", Free: 2, Wait: time.Hour})
	require.NotNil(t, parked)
	y.EndLease(y.calls("T"), "k2")
	y.Dispatch()
	assert.Equal(t, []string{"k3"}, stepsOf(<-parked.Out))
	y.endAll(t)
}

// Calls that a limit holds leave nothing behind when they are removed, although the limit stays reached.
func TestHeldCallsAreRemoved(t *testing.T) {
	t.Parallel()
	y := newYard(
		dispatch.Limit{Tool: "RUN", Running: 1, By: dispatch.ByKey},
		dispatch.Limit{Tool: "START", Starts: 1, Window: 24 * time.Hour, By: dispatch.ByKey},
	)
	for _, tool := range []string{"RUN", "START"} {
		// Other identities share the limit, but their calls are other lanes.
		lane := func(who string) dispatch.Lane { return y.WithKey(dispatch.Lane{Tool: tool, Requester: who}, "k") }
		y.ready(tool, "normal", lane("ada"))
		require.Equal(t, []string{tool}, y.poll(work.Poll{Worker: "w", Free: 1}))
		for range 3 {
			y.ready("held", "normal", lane("bob"))
			require.Empty(t, y.poll(work.Poll{Worker: "w", Free: 1}))
			assert.Equal(t, 1, y.Leftovers()["limited"])
			y.Remove(y.calls("T"), "held")
			assert.Zero(t, y.Leftovers()["limited"])
		}
		y.ready("next", "normal", lane("bob"))
		require.Empty(t, y.poll(work.Poll{Worker: "w", Free: 1}))
		y.EndLease(y.calls("T"), tool)
		y.now = y.now.Add(24 * time.Hour)
		require.Equal(t, []string{"next"}, y.poll(work.Poll{Worker: "w", Free: 1}))
		y.EndLease(y.calls("T"), "next")
	}
	y.endAll(t)
}

// A critical call waits for the end of the other calls of its share, also if it was withdrawn and queued again meanwhile. Requests to
// models are no calls of the same share.
func TestUrgentCallsOfAShare(t *testing.T) {
	t.Parallel()
	y := newYard()
	read := dispatch.Lane{Tool: "READ", Share: "ada"}
	y.ready("model", "normal", dispatch.Lane{Queue: work.ModelsQueue, Share: "ada"})
	require.Len(t, y.poll(work.Poll{Worker: "m", Free: 1, Queues: []string{work.ModelsQueue}}), 1)
	y.ready("hang", "normal", dispatch.Lane{Tool: "HANG", Share: "ada"})
	require.Len(t, y.poll(work.Poll{Worker: "v", Free: 1}), 1)
	for i := range 2 {
		y.ready(fmt.Sprint("bob", i), "normal", dispatch.Lane{Share: "bob"})
	}
	require.Len(t, y.poll(work.Poll{Worker: "w", Free: 4, Slots: 4}), 2)

	_, parked := y.Poll(work.Poll{Worker: "w", Free: 2, Slots: 4, Wait: time.Hour})
	require.NotNil(t, parked)
	for range 2 {
		y.ready("urgent", "critical", read)
		y.Dispatch()
		require.Empty(t, parked.Out)
		assert.Equal(t, "w", y.ReservedBy(y.calls("T").Queued.Get("urgent")))
		y.Remove(y.calls("T"), "urgent")
	}
	y.ready("urgent", "critical", read)
	y.Dispatch()
	require.Empty(t, parked.Out)
	y.EndLease(y.calls("T"), "hang")
	y.Dispatch()
	assert.Equal(t, []string{"urgent"}, stepsOf(<-parked.Out))
	for _, worker := range []string{"m", "v", "w"} {
		y.Forget(worker)
	}
	y.endAll(t)
}

// The calls of a task are those of a plain map, whatever is queued, leased and removed.
func TestCallsOfATask(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	y, want := newYard(), map[string]int{}
	c := y.calls("T")
	for i := range 5000 {
		step := strconv.Itoa(r.IntN(1 + i%5))
		switch r.IntN(3) {
		case 0, 1:
			y.Enqueue(c, step, i, dispatch.Lane{Tool: step}, "normal", noon())
			want[step] = i
		case 2:
			y.Remove(c, step)
			delete(want, step)
		}
		require.Equal(t, slices.Sorted(maps.Keys(want)), c.Queued.Steps())
		require.Equal(t, len(want), c.Queued.Len())
		for q := range c.Queued.All() {
			require.Equal(t, want[q.Step], q.Attempt)
			require.Same(t, q, c.Queued.Get(q.Step))
			require.Equal(t, dispatch.Lane{Tool: q.Step}, q.Lane())
		}
	}
	y.endAll(t)
	assert.Equal(t, dispatch.Calls{Task: "T"}, *c, "no map stays")
}

// A queued call is one small object. A busy node has a hundred thousand of them.
func TestSizeOfACall(t *testing.T) { //nolint:paralleltest // it counts allocations
	assert.LessOrEqual(t, reflect.TypeFor[dispatch.Queued]().Size(), uintptr(128))
	assert.LessOrEqual(t, reflect.TypeFor[dispatch.Lease]().Size(), uintptr(160))
	y := newYard()
	y.waiting(1)
	var c dispatch.Calls
	queued := testing.AllocsPerRun(100, func() {
		y.Enqueue(&c, "a", 1, benchLane(), "normal", noon())
		y.Remove(&c, "a")
	})
	assert.InDelta(t, 1, queued, 0)
}
