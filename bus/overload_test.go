package bus_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
)

// An append waits for a slot as long as appends end. When none has ended for five seconds, it is refused; the next one at once.
func TestAppendsWaitForASlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		full := bus.NewFullAppender()
		ended := make(chan error, 1)
		go func() { ended <- full.TakeSlot() }()
		synctest.Wait()
		full.Finish()
		require.NoError(t, <-ended)

		began := time.Now()
		require.True(t, fault.IsOverloaded(full.TakeSlot()))
		assert.Equal(t, 5*time.Second, time.Since(began))
		require.True(t, fault.IsOverloaded(full.TakeSlot()))
		assert.Equal(t, 5*time.Second, time.Since(began), "at once")
		full.Finish()
		require.NoError(t, full.TakeSlot())

		go func() { ended <- full.TakeSlot() }()
		synctest.Wait()
		full.Close()
		err := <-ended
		assert.Equal(t, fault.Unavailable, fault.CodeOf(err))
		assert.False(t, fault.IsOverloaded(err))
	})
}

// While acknowledgements arrive, only a message counts as lost after which another one was acknowledged.
func TestSlowAcknowledgementsAreNotLost(t *testing.T) {
	t.Parallel()
	const patience = 2 * time.Second
	sent := []time.Duration{9 * time.Second, 8 * time.Second, 7 * time.Second, time.Second}
	for name, test := range map[string]struct {
		acked     uint64
		at, after time.Duration
		lost      []uint64
	}{
		"none arrives":     {0, 0, patience, []uint64{1, 2, 3}},
		"none any more":    {2, 3 * time.Second, patience, []uint64{1, 3}},
		"they arrive":      {1, time.Second, patience, nil},
		"one was left out": {2, time.Second, patience, []uint64{1}},
		"a new connection": {2, 0, 0, []uint64{1, 3, 4}},
		"the newest alone": {4, time.Second, patience, []uint64{1, 2, 3}},
	} {
		assert.Equal(t, test.lost, bus.Expired(sent, test.acked, test.at, test.after), name)
	}
}
