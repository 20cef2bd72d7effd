package bus_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events/eventstest"
)

// Readers share inboxes. None gets the messages of another, also when readers give up in the middle of a page.
func TestReadersShareInboxes(t *testing.T) {
	t.Parallel()
	s, _, _ := remoteStore(t, bus.Relaxed)
	const readers, histories = 40, 50
	before := s.Subscriptions()
	chains := make([]*eventstest.Chain, readers)
	for i := range chains {
		chains[i] = eventstest.NewChain()
		chains[i].Grow(t, s, i+1)
	}
	failed := make([]error, readers)
	var ended sync.WaitGroup
	for i, c := range chains {
		ended.Go(func() {
			for n := range histories {
				for stored, err := range s.Read(t.Context(), c.Task, 1) {
					if failed[i] = err; err != nil || !assert.Contains(t, string(stored.Data), string(c.Task)) {
						return
					}
					if n%2 == 0 {
						break
					}
				}
			}
		})
	}
	ended.Wait()
	require.NoError(t, errors.Join(failed...))
	for i, c := range chains {
		assert.Len(t, eventstest.History(t, s, c.Task, 1), i+1)
	}
	assert.LessOrEqual(t, s.Subscriptions(), before+bus.MaxIdleInboxes)
}
