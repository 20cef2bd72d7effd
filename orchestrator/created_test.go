package orchestrator_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/orchestrator"
)

// setClock is a clock that only advances when the test sets it.
type setClock struct{ at atomic.Pointer[time.Time] }

func clockAt(at time.Time) *setClock {
	c := &setClock{}
	c.at.Store(&at)
	return c
}

func (c *setClock) now() time.Time { return *c.at.Load() }

func (c *setClock) pass(d time.Duration) {
	at := c.now().Add(d)
	c.at.Store(&at)
}

// A nightly plan uses its date in its key and in its steps. A later run has another date.
func TestNightlyPlan(t *testing.T) {
	t.Parallel()
	clock := clockAt(time.Date(2026, 11, 22, 23, 30, 0, 0, time.UTC))
	n := start(t, memlog.New(memlog.Config{}), func(c *orchestrator.Config) { c.Clock = clock.now })
	const nightly = `
orch: v1
idempotency_key: nightly-${{ date(task.created, "2006-01-02", "Europe/Zurich") }}
steps:
  - {id: a, tool: READ, with: {text: '${{ date(task.created, "Jan 2") }} ${{ task.created }}'}}
`
	first, err := n.trySubmit(nightly)
	require.NoError(t, err)
	call := n.poll("w", 1).Calls[0]
	assert.JSONEq(t, `{"text":"Nov 22 2026-11-22T23:30:00Z"}`, string(call.Args))
	again, err := n.trySubmit(nightly)
	require.NoError(t, err)
	assert.Equal(t, first.ID, again.ID, "it is the same night")
	clock.pass(24 * time.Hour)
	next, err := n.trySubmit(nightly)
	require.NoError(t, err)
	assert.NotEqual(t, first.ID, next.ID)
}
