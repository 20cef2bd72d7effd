package memlog_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/eventstest"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	eventstest.TestLog(t, func(*testing.T) events.Log { return memlog.New(memlog.Config{}) })
	eventstest.TestBlobs(t, func(*testing.T) events.Blobs { return memlog.New(memlog.Config{}) })
	eventstest.TestCheckpoints(t, func(*testing.T) events.Checkpoints { return memlog.New(memlog.Config{}) })
}

func TestDelayedAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{Delay: func(*events.Record) time.Duration { return time.Second }})
		began := time.Now()
		_, err := eventstest.Append(log, eventstest.NewChain().Next(t, "node"))
		require.NoError(t, err)
		assert.Equal(t, time.Second, time.Since(began))
	})
}

func TestFailures(t *testing.T) {
	t.Parallel()
	refuse, lose := true, true
	log := memlog.New(memlog.Config{
		Fail: func(*events.Record) error {
			if refuse {
				return fault.New(fault.DiskFull, "full")
			}
			return nil
		},
		LoseAnswer: func(*events.Record) error {
			if lose {
				return fault.New(fault.Unavailable, "gone")
			}
			return nil
		},
	})
	c := eventstest.NewChain()
	r := c.Next(t, "node")
	_, err := eventstest.Append(log, r)
	require.ErrorIs(t, err, &fault.Error{Code: fault.DiskFull})
	assert.Empty(t, eventstest.History(t, log, c.Task, 1), "refused is not written")
	refuse = false
	_, err = eventstest.Append(log, r)
	require.ErrorIs(t, err, &fault.Error{Code: fault.Unavailable})
	assert.Len(t, eventstest.History(t, log, c.Task, 1), 1, "a lost answer is written")
	lose = false
	_, err = eventstest.Append(log, r)
	require.ErrorIs(t, err, &fault.Error{Code: fault.Conflict})
}
