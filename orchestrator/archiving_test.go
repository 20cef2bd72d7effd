package orchestrator_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/eventstest"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
)

// slowArchive is a log that takes a second to archive a task.
type slowArchive struct {
	*memlog.Log

	refuse atomic.Bool
	mu     sync.Mutex
	// running is how many calls of Archive run, most how many have run at a time.
	running, most int
}

// runs counts calls of Archive that have begun or ended.
func (s *slowArchive) runs(more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running += more
	s.most = max(s.most, s.running)
}

func (s *slowArchive) Archive(ctx context.Context, id events.TaskID) error {
	s.runs(1)
	defer s.runs(-1)
	select {
	case <-ctx.Done():
		return fault.From(ctx.Err())
	case <-time.After(time.Second):
	}
	if s.refuse.Load() {
		return fault.New(fault.Unavailable, "not now")
	}
	return s.Log.Archive(ctx, id)
}

// archiving starts a run, or requests the status.
func (n *node) archiving(r api.ArchiveRequest) api.ArchiveReply {
	n.t.Helper()
	reply, err := n.Archive(context.Background(), r)
	require.NoError(n.t, err)
	return reply
}

func startSlow(t *testing.T, log *slowArchive) *node {
	t.Helper()
	return start(t, log.Log, func(c *orchestrator.Config) { c.Log = log })
}

// However many tasks there are, the request returns at once, and the run continues in the background, also after a restart.
func TestArchiveGoesOnInTheBackground(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &slowArchive{Log: memlog.New(memlog.Config{})}
		n := startSlow(t, log)
		const tasks = 2000
		for range tasks {
			n.submit(setPlan)
		}
		<-time.After(time.Second)
		began := time.Now()
		r := n.archiving(api.ArchiveRequest{})
		assert.True(t, r.Running)
		assert.Zero(t, time.Since(began))
		<-time.After(10 * time.Second)
		r = n.archiving(api.ArchiveRequest{StatusOnly: true})
		assert.True(t, r.Running)
		assert.Positive(t, r.Archived)
		assert.Less(t, r.Archived, tasks)
		late := n.submit(setPlan)
		n.stop()
		left := len(eventstest.HeadsOf(t, log))
		require.Greater(t, left, 1, "the run was cut short")

		n = startSlow(t, log)
		synctest.Wait()
		r = n.archiving(api.ArchiveRequest{StatusOnly: true, Wait: 30 * time.Second})
		assert.True(t, r.Running, "the wait of a request is bounded")
		for r.Running {
			r = n.archiving(api.ArchiveRequest{StatusOnly: true, Wait: 30 * time.Second})
		}
		live := eventstest.HeadsOf(t, log)
		assert.Len(t, live, 1, "what ended after the request stays")
		assert.Contains(t, live, late)
		n.stop()

		startSlow(t, log)
		<-time.After(time.Minute)
		assert.Len(t, eventstest.HeadsOf(t, log), 1, "a run that is over does not go on")
	})
}

// A run that the log refuses reports that, and continues when the log accepts it.
func TestArchiveStandsStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &slowArchive{Log: memlog.New(memlog.Config{})}
		log.refuse.Store(true)
		n := startSlow(t, log)
		n.submit(setPlan)
		<-time.After(time.Second)
		r := n.archiving(api.ArchiveRequest{Wait: 5 * time.Second})
		assert.True(t, r.Running)
		require.NotNil(t, r.Error)
		assert.Equal(t, fault.Unavailable, r.Error.Code)
		log.refuse.Store(false)
		r = n.archiving(api.ArchiveRequest{StatusOnly: true, Wait: 30 * time.Second})
		assert.False(t, r.Running)
		assert.Nil(t, r.Error)
		assert.Equal(t, 1, r.Archived)
	})
}

// A stopping node completes the move of a task that has started, and shelves its folder.
func TestStopEndsTheMoveThatHasBegun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &slowArchive{Log: memlog.New(memlog.Config{})}
		var away []events.TaskID
		n := start(t, log.Log, func(c *orchestrator.Config) {
			c.Log, c.Hooks.Archived = log, func(id events.TaskID, _ bool) { away = append(away, id) }
		})
		id := n.submit(setPlan)
		<-time.After(time.Second)
		n.archiving(api.ArchiveRequest{})
		<-time.After(500 * time.Millisecond)
		n.stop()
		assert.Equal(t, []events.TaskID{id}, away)
	})
}

// A second request extends the run. A request for less changes nothing.
func TestArchiveIsOneRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &slowArchive{Log: memlog.New(memlog.Config{})}
		n := startSlow(t, log)
		n.submit(setPlan)
		<-time.After(2 * time.Minute)
		n.submit(setPlan)
		<-time.After(time.Second)
		r := n.archiving(api.ArchiveRequest{Age: time.Minute})
		require.True(t, r.Running)
		before := n.archiving(api.ArchiveRequest{}).Before
		assert.True(t, before.After(r.Before))
		assert.Equal(t, before, n.archiving(api.ArchiveRequest{Age: time.Hour}).Before)
		r = n.archiving(api.ArchiveRequest{StatusOnly: true, Wait: 30 * time.Second})
		assert.Equal(t, 2, r.Archived)
		assert.False(t, r.Running)
	})
}

// Archiving old tasks leaves the lines of newer ones in memory.
func TestArchivingForgetsNoNewerTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &scans{Log: memlog.New(memlog.Config{})}
		n := start(t, log.Log, func(c *orchestrator.Config) { c.Log, c.Limits.KeepListed, c.Limits.KeepOpen = log, 3, 3 })
		for range 20 {
			n.submit(setPlan)
			<-time.After(time.Second)
		}
		require.Equal(t, 17, n.archiving(api.ArchiveRequest{Age: 3500 * time.Millisecond, Wait: 30 * time.Second}).Archived)
		before := log.n.Load()
		r, err := n.List(context.Background(), api.ListRequest{Limit: 2, States: []statemachine.State{statemachine.Done}})
		require.NoError(t, err)
		assert.Len(t, r.Tasks, 2)
		assert.Equal(t, before, log.n.Load(), "the newest are at hand")
	})
}

// slowNotes is a store that takes a while to load the recorded run.
type slowNotes struct{ *memlog.Log }

func (s slowNotes) Load(ctx context.Context, task events.TaskID, id string) ([]byte, error) {
	if id == "archive" {
		<-time.After(5 * time.Second)
	}
	return s.Log.Load(ctx, task, id)
}

// A request right after the start is not overwritten by the run that was recorded before.
func TestAnOlderRunTakesNothingFromANewerOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &slowArchive{Log: memlog.New(memlog.Config{})}
		n := startSlow(t, log)
		n.submit(setPlan)
		<-time.After(2 * time.Minute)
		n.submit(setPlan)
		<-time.After(time.Second)
		older := n.archiving(api.ArchiveRequest{Age: time.Minute})
		require.True(t, older.Running)
		n.stop()

		n = start(t, log.Log, func(c *orchestrator.Config) { c.Log, c.Checkpoints = log, slowNotes{log.Log} })
		assert.Equal(t, older.Before.UTC(), n.archiving(api.ArchiveRequest{StatusOnly: true}).Before.UTC(), "it goes on from the beginning")
		newer := n.archiving(api.ArchiveRequest{}).Before
		require.True(t, newer.After(older.Before))
		r := n.archiving(api.ArchiveRequest{StatusOnly: true, Wait: 30 * time.Second})
		assert.Equal(t, newer, r.Before)
		assert.Equal(t, 1, r.Archived, "the move of the other one had begun, and ended with the first node")
	})
}

// If many finished tasks are in the live log, the oldest are archived before their time, but not at once.
func TestTooManyFinishedTasksAreArchivedEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(memlog.Config{})
		n := start(t, log, func(c *orchestrator.Config) { c.Limits.KeepUnarchived = 4 })
		var ids []events.TaskID
		for range 10 {
			ids = append(ids, n.submit(setPlan))
			<-time.After(time.Second)
		}
		<-time.After(4 * time.Minute)
		assert.Len(t, eventstest.HeadsOf(t, log), 10)
		<-time.After(3 * time.Minute)
		live := eventstest.HeadsOf(t, log)
		assert.Len(t, live, 4)
		for _, id := range ids[6:] {
			assert.Contains(t, live, id)
		}
		<-time.After(time.Hour)
		assert.Empty(t, eventstest.HeadsOf(t, log))
	})
}

// If archiving falls behind, it archives more tasks at a time.
func TestMoreAreArchivedTogetherIfTooManyWait(t *testing.T) {
	t.Parallel()
	for keep, together := range map[int]int{30: 8, 19: 32} {
		synctest.Test(t, func(t *testing.T) {
			log := &slowArchive{Log: memlog.New(memlog.Config{})}
			n := start(t, log.Log, func(c *orchestrator.Config) { c.Log, c.Limits.KeepUnarchived = log, keep })
			<-time.After(time.Second) // until the lists are complete
			for range 60 {
				n.submit(setPlan)
			}
			<-time.After(10 * time.Minute)
			log.mu.Lock()
			defer log.mu.Unlock()
			assert.Equal(t, together, log.most, keep)
		})
	}
}

// Who asks for a task that is being archived and is not in memory gets it afterwards, whether the archiving succeeds or fails.
func TestTaskIsReadWhileItIsArchived(t *testing.T) {
	t.Parallel()
	for _, refuse := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			log := &slowArchive{Log: memlog.New(memlog.Config{})}
			log.refuse.Store(refuse)
			n := start(t, log.Log, func(c *orchestrator.Config) { c.Log, c.Limits.KeepOpen = log, 1 })
			<-time.After(time.Second) // until the lists are complete
			id := n.submit(setPlan)
			<-time.After(time.Second)
			n.submit(setPlan)
			<-time.After(time.Second)
			require.Equal(t, 1, n.Held())
			n.archiving(api.ArchiveRequest{Age: 1500 * time.Millisecond})
			<-time.After(500 * time.Millisecond)
			require.Equal(t, 2, n.Held())
			view := n.get(id)
			assert.Equal(t, statemachine.Done, view.State)
			assert.Equal(t, !refuse, view.Archived)
		})
	}
}
