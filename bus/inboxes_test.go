package bus_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/eventstest"
)

// Readers share inboxes. None gets the messages of another, also when readers give up in the middle of a page.
func TestReadersShareInboxes(t *testing.T) {
	t.Parallel()
	s, _, _ := remoteStore(t, bus.Relaxed)
	const readers, histories = 40, 50
	before := s.Subscriptions()
	failed := make([]error, readers)
	var ended sync.WaitGroup
	for i := range readers {
		c := eventstest.NewChain()
		c.Grow(t, s, i+1)
		ended.Go(func() {
			for n := 0; n < histories && failed[i] == nil; n++ {
				failed[i] = readOwn(t, s, c.Task, i+1, n%2 == 0)
			}
		})
	}
	ended.Wait()
	require.NoError(t, errors.Join(failed...))
	assert.LessOrEqual(t, s.Subscriptions(), before+bus.MaxIdleInboxes)
}

// readOwn reads a history of count commits. It returns an error if it gets another one. A reader that gives up may get less.
func readOwn(t *testing.T, s *bus.Store, task events.TaskID, count int, giveUp bool) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if giveUp {
		go cancel()
	}
	rev := 0
	for stored, err := range s.Read(ctx, task, 1) {
		if err != nil {
			return unless(giveUp, err)
		}
		rev++
		if commit, err := events.Decode(stored.Data); err != nil || commit.Task != task || commit.Rev != uint64(rev) {
			return fmt.Errorf("commit %d of %s is %s: %w", rev, task, stored.Data, err)
		}
	}
	if rev != count {
		return unless(giveUp, fmt.Errorf("%s has %d commits of %d", task, rev, count))
	}
	return nil
}

func unless(expected bool, err error) error {
	if expected {
		return nil
	}
	return err
}
