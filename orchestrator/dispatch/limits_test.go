package dispatch_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/orchestrator/dispatch"
	"github.com/orch-dev/orch/work"
)

// No window of the limit has more starts than it allows, and a worker that waits gets the next call when its time comes.
func TestStartsInAWindow(t *testing.T) {
	t.Parallel()
	y := newYard(dispatch.Limit{Tool: "HTTP_*", Starts: 3, Window: time.Minute})
	for i := range 5 {
		y.ready(fmt.Sprint("get", i), "normal", dispatch.Lane{Tool: "HTTP_REQUEST"})
	}
	y.ready("read", "low", dispatch.Lane{Tool: "FILE_READ"})
	assert.Equal(t, []string{"get0"}, y.poll(work.Poll{Worker: "w", Free: 1}))
	y.now = y.now.Add(40 * time.Second)
	assert.Equal(t, []string{"get1", "get2", "read"}, y.poll(work.Poll{Worker: "w", Free: 10}))
	limit, at, ok := y.LimitOf(y.calls("T").Queued.Get("get3"))
	assert.True(t, ok)
	assert.Equal(t, "tool HTTP_*, at most 3 within 1m", limit.String())
	assert.Equal(t, noon().Add(time.Minute), at)

	_, parked := y.Poll(work.Poll{Worker: "w", Free: 10, Wait: time.Hour})
	require.NotNil(t, parked)
	assert.Equal(t, []time.Time{noon().Add(time.Minute)}, y.wakes, "one request for each time")
	y.EndLease(y.calls("T"), "get1") // an end gives no start back
	y.Dispatch()
	assert.Empty(t, parked.Out)
	y.now = noon().Add(time.Minute)
	y.Wake()
	assert.Equal(t, []string{"get3"}, stepsOf(<-parked.Out))
	assert.Empty(t, y.poll(work.Poll{Worker: "w", Free: 10}))
	assert.Equal(t, noon().Add(100*time.Second), y.wakes[len(y.wakes)-1], "when the first of the newest three leaves the window")
	y.now = noon().Add(100 * time.Second)
	y.Wake()
	assert.Equal(t, []string{"get4"}, y.poll(work.Poll{Worker: "w", Free: 10}))
	_, _, ok = y.LimitOf(nil)
	assert.False(t, ok)
}

// A clock that was ahead keeps nothing back for longer than a window.
func TestClockIsSetBack(t *testing.T) {
	t.Parallel()
	y := newYard(dispatch.Limit{Starts: 1, Window: time.Minute})
	y.now = y.now.Add(365 * 24 * time.Hour)
	y.ready("a", "normal", dispatch.Lane{Tool: "A"})
	y.ready("b", "normal", dispatch.Lane{Tool: "B"})
	assert.Len(t, y.poll(work.Poll{Worker: "w", Free: 1}), 1)
	y.now = noon()
	assert.Empty(t, y.poll(work.Poll{Worker: "w", Free: 1}))
	y.now = noon().Add(time.Minute)
	assert.Len(t, y.poll(work.Poll{Worker: "w", Free: 1}), 1)
}

// A call that waits for another one to end is offered when it has ended, also to a worker that waits.
func TestRunningAtTheSameTime(t *testing.T) {
	t.Parallel()
	y := newYard(dispatch.Limit{Queue: "deploy", Running: 1})
	y.ready("a", "normal", dispatch.Lane{Queue: "deploy", Tool: "A"})
	y.ready("b", "normal", dispatch.Lane{Queue: "deploy", Tool: "B"})
	p := work.Poll{Worker: "w", Free: 10, Queues: []string{"deploy"}}
	assert.Equal(t, []string{"a"}, y.poll(p))
	limit, at, ok := y.LimitOf(y.calls("T").Queued.Get("b"))
	assert.True(t, ok)
	assert.Zero(t, at)
	assert.Equal(t, "queue deploy, at most 1 at the same time", limit.String())
	p.Wait = time.Minute
	_, parked := y.Poll(p)
	require.NotNil(t, parked)
	y.EndLease(y.calls("T"), "a")
	y.Dispatch()
	assert.Equal(t, []string{"b"}, stepsOf(<-parked.Out))
	assert.Empty(t, y.wakes)
}

// Each identity has its own limit; all limits that match a call hold.
func TestLimitsOfIdentities(t *testing.T) {
	t.Parallel()
	y := newYard(
		dispatch.Limit{Tool: "X", Running: 1, By: dispatch.ByIdentity},
		dispatch.Limit{Identity: "agent:*", Starts: 2, Window: time.Hour},
		dispatch.Limit{Provider: "local", Running: 1},
	)
	for _, who := range []string{"agent:a", "agent:b", "agent:c", "user:ada"} {
		for i := range 2 {
			y.ready(fmt.Sprint(who, i), "normal", dispatch.Lane{Tool: "X", Requester: who, Share: who})
		}
	}
	got := y.poll(work.Poll{Worker: "w", Free: 10})
	assert.Len(t, got, 3)
	assert.Contains(t, got, "user:ada0")
	limit, at, ok := y.LimitOf(y.calls("T").Queued.Get("user:ada1"))
	assert.True(t, ok)
	assert.Zero(t, at)
	assert.Equal(t, "tool X, at most 1 at the same time for each identity", limit.String())
	y.EndLease(y.calls("T"), "user:ada0")
	assert.Equal(t, []string{"user:ada1"}, y.poll(work.Poll{Worker: "w", Free: 10}))
	y.now = y.now.Add(time.Hour)
	y.Wake()
	assert.Len(t, y.poll(work.Poll{Worker: "w", Free: 10}), 1, "the third agent; the others still run")
}

// Nothing stays of what has ended, however many identities there were, and a call that could not be leased does not count.
func TestLimitsForget(t *testing.T) {
	t.Parallel()
	y := newYard(dispatch.Limit{Tool: "X", Starts: 1, Window: time.Second, By: dispatch.ByIdentity})
	for i := range 5000 {
		step := fmt.Sprint("s", i)
		y.ready(step, "normal", dispatch.Lane{Tool: "X", Requester: step})
		require.Equal(t, []string{step}, y.poll(work.Poll{Worker: "w", Free: 1}))
		y.EndLease(y.calls("T"), step)
		y.now = y.now.Add(time.Second)
	}
	assert.Less(t, y.Counts(), 2000)
	y.overtaken["gone"] = true
	y.ready("gone", "normal", dispatch.Lane{Tool: "X", Requester: "ada"})
	y.ready("next", "normal", dispatch.Lane{Tool: "X", Requester: "ada"})
	assert.Equal(t, []string{"next"}, y.poll(work.Poll{Worker: "w", Free: 1}))
	assert.Zero(t, y.Leftovers()["limited"])
}

// Each key has its own limit, and the calls without a key have theirs together. Calls of a lane that no limit asks for its key are not
// divided by keys.
func TestLimitsOfKeys(t *testing.T) {
	t.Parallel()
	y := newYard(
		dispatch.Limit{Tool: "X", Running: 1, By: dispatch.ByKey},
		dispatch.Limit{Tool: "X", Key: "free-*", Starts: 2, Window: time.Hour},
	)
	for _, key := range []string{"free-a", "free-b", "free-c", "paid/a", ""} {
		for i := range 2 {
			y.ready(fmt.Sprint(key, i), "normal", y.WithKey(dispatch.Lane{Tool: "X"}, key))
		}
	}
	got := y.poll(work.Poll{Worker: "w", Free: 10})
	assert.Len(t, got, 4, "one of each key, and two of the three free ones")
	assert.Subset(t, got, []string{"paid/a0", "0"})
	limit, at, ok := y.LimitOf(y.calls("T").Queued.Get("1"))
	assert.True(t, ok)
	assert.Zero(t, at)
	assert.Equal(t, "tool X, at most 1 at the same time for each key", limit.String())
	y.EndLease(y.calls("T"), "paid/a0")
	assert.Equal(t, []string{"paid/a1"}, y.poll(work.Poll{Worker: "w", Free: 10}))
	for _, step := range y.calls("T").Leases.Steps() {
		y.EndLease(y.calls("T"), step)
	}
	assert.Equal(t, []string{"1"}, y.poll(work.Poll{Worker: "w", Free: 10}))
	for _, step := range y.calls("T").Queued.Steps() {
		limit, _, _ = y.LimitOf(y.calls("T").Queued.Get(step))
		assert.Equal(t, "tool X, key free-*, at most 2 within 1h", limit.String())
	}
	other := dispatch.Lane{Tool: "Y"}
	assert.Equal(t, other, y.WithKey(other, "free-a"), "no limit asks")
	unlimited := newYard(dispatch.Limit{Tool: "X", Running: 1})
	assert.Equal(t, dispatch.Lane{Tool: "X"}, unlimited.WithKey(dispatch.Lane{Tool: "X"}, "free-a"))
}
