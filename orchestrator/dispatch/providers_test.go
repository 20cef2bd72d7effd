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

// Calls that wait for a full provider hold no slot, and leave those to calls for other providers. When one of them ends, the next one is
// offered, also to a worker that waits.
func TestSlotsOfProviders(t *testing.T) {
	t.Parallel()
	y := newYard()
	y.slots = map[string]int{"local": 2}
	for i := range 4 {
		y.ready(fmt.Sprint("local", i), "normal", dispatch.Lane{Provider: "local"})
		y.ready(fmt.Sprint("far", i), "low", dispatch.Lane{Provider: "far"})
	}
	assert.Equal(t, []string{"local0", "local1", "far0", "far1", "far2", "far3"}, y.poll(work.Poll{Worker: "w", Free: 10}))
	assert.True(t, y.Full("local"))
	assert.False(t, y.Full("far"))
	running, waiting := y.Asked("local")
	assert.Equal(t, [2]int{2, 2}, [2]int{running, waiting})

	_, parked := y.Poll(work.Poll{Worker: "w", Free: 10, Wait: time.Minute})
	require.NotNil(t, parked)
	y.EndLease(y.calls("T"), "far0")
	y.Dispatch()
	assert.Empty(t, parked.Out)
	y.EndLease(y.calls("T"), "local0")
	y.Dispatch()
	assert.Equal(t, []string{"local2"}, stepsOf(<-parked.Out))

	y.Remove(y.calls("T"), "local3")
	for _, step := range []string{"local1", "local2", "far1", "far2", "far3"} {
		y.EndLease(y.calls("T"), step)
	}
	assert.False(t, y.Full("local"))
	assert.Zero(t, y.Leftovers()["asked"])
}
