package scheduler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/scheduler"
	"github.com/orch-dev/orch/schedules"
)

func TestFirings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.start()
	s.Turn(t.Context())
	assert.False(t, w.journal.Exists, "without schedules there is no journal")
	view := w.put(s, "tick", minutely(schedules.Skip))
	assert.Equal(t, w.now.Add(time.Minute), view.Due)
	text, err := json.Marshal(view)
	require.NoError(t, err)
	assert.NotContains(t, string(text), "null", "lists are never null")
	w.pass(s, 150*time.Second)
	assert.Equal(t, []string{"12:01:00"}, w.started("tick"))
	w.end(s, "tick")
	w.pass(s, time.Minute)
	assert.Equal(t, []string{"12:01:00", "12:03:00"}, w.started("tick"))
	view = w.view(s, "tick")
	assert.Len(t, view.Running, 1)
	assert.Len(t, view.Next, 3)
	assert.Equal(t, map[schedules.Result]int{schedules.Started: 2, schedules.Skipped: 1}, view.Counts)
	assert.Contains(t, view.Outcomes[1].Reason, "was still running")
	assert.Equal(t, scheduler.Figures{Active: 1, Firings: view.Counts}, s.Figures())
	for _, one := range w.tasks {
		assert.Equal(t, map[string]string{"schedule": "tick"}, one.request.Labels)
		assert.Equal(t, "user:ada", one.request.Actor)
		assert.Equal(t, "forever", one.request.IdempotencyScope)
	}
}

// A scheduler that starts again knows everything, from the entries and from a snapshot, and notices what has ended meanwhile.
func TestRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.start()
	w.put(s, "tick", minutely(schedules.BufferAll))
	w.pass(s, 3*time.Minute)
	before := w.view(s, "tick")
	s = w.start()
	assert.Equal(t, before, w.view(s, "tick"))
	for _, one := range w.tasks {
		one.over = true // nobody hears of it
	}
	s = w.start()
	s.Turn(t.Context())
	assert.Equal(t, []string{"12:01:00", "12:02:00"}, w.started("tick"))
	for range 5000 {
		w.end(s, "tick")
		w.now = w.now.Add(time.Minute)
		s.Turn(t.Context())
	}
	assert.NotNil(t, w.journal.Saved)
	assert.Less(t, len(w.journal.Entries), 5000)
	before = w.view(s, "tick")
	assert.Equal(t, before, w.view(w.start(), "tick"))
}

func TestSteering(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.start()
	w.put(s, "tick", minutely(schedules.Skip))
	steer := func(r api.SteerScheduleRequest) (api.SteerScheduleReply, error) {
		r.Name, r.Actor = "tick", "user:bob"
		return s.SteerSchedule(t.Context(), r)
	}
	reply, err := steer(api.SteerScheduleRequest{Act: api.ActPause, Note: "the disk is full"})
	require.NoError(t, err)
	assert.Equal(t, &schedules.Pause{By: "user:bob", At: w.now, Note: "the disk is full"}, reply.Schedule.Paused)
	w.pass(s, 3*time.Minute)
	assert.Empty(t, w.started("tick"))

	reply, err = steer(api.SteerScheduleRequest{Act: api.ActTrigger})
	require.NoError(t, err)
	require.NotNil(t, w.tasks[reply.Task], "a paused schedule can be triggered")
	_, err = steer(api.SteerScheduleRequest{Act: api.ActTrigger})
	assert.True(t, fault.Has(err, fault.Conflict))
	require.ErrorContains(t, err, string(reply.Task))
	second, err := steer(api.SteerScheduleRequest{Act: api.ActTrigger, Overlap: schedules.AllowAll})
	require.NoError(t, err)
	assert.NotEqual(t, reply.Task, second.Task, "two triggers at one time are two tasks")

	_, err = steer(api.SteerScheduleRequest{Act: api.ActResume})
	require.NoError(t, err)
	w.end(s, "tick")
	w.pass(s, time.Minute)
	assert.Equal(t, []string{"12:03:00", "12:03:00", "12:04:00"}, w.started("tick"), "what was due during the pause does not start")

	_, err = steer(api.SteerScheduleRequest{Act: api.ActDelete})
	require.NoError(t, err)
	w.pass(s, 5*time.Minute)
	assert.Len(t, w.started("tick"), 3)
	_, err = steer(api.SteerScheduleRequest{Act: api.ActResume})
	assert.True(t, fault.Has(err, fault.NotFound))
	old := w.put(s, "tick", minutely(schedules.Skip))
	assert.Empty(t, old.Outcomes, "a schedule of the same name begins anew")
}

// A backfill starts what has no task, one after the other, and nothing twice.
func TestBackfill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.start()
	w.put(s, "tick", minutely(schedules.Skip))
	w.pass(s, time.Minute)
	w.end(s, "tick")
	from, to := w.now.Add(-3*time.Minute), w.now
	fill := api.SteerScheduleRequest{Name: "tick", Act: api.ActBackfill, From: &from, To: &to, Actor: "user:bob"}
	reply, err := s.SteerSchedule(t.Context(), fill)
	require.NoError(t, err)
	assert.Equal(t, 3, reply.Firings, "11:58, 11:59 and 12:00; 12:01 has a task")
	again, err := s.SteerSchedule(t.Context(), fill)
	require.NoError(t, err)
	assert.Zero(t, again.Firings)
	for range 5 {
		s.Turn(t.Context())
		w.end(s, "tick")
	}
	assert.Equal(t, []string{"11:58:00", "11:59:00", "12:00:00", "12:01:00"}, w.started("tick"))
}

func TestCancelOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.start()
	w.put(s, "tick", minutely(schedules.CancelOther))
	w.pass(s, 2*time.Minute)
	require.Len(t, w.tasks, 1)
	for _, one := range w.tasks {
		assert.True(t, one.cancelled)
	}
	w.end(s, "tick")
	s.Turn(t.Context())
	assert.Equal(t, []string{"12:01:00", "12:02:00"}, w.started("tick"))
	assert.Zero(t, w.view(s, "tick").Failures, "the schedule itself has ended it")
}

func TestDefinitions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.start()
	put := func(name string, d schedules.Definition, replace bool) (api.ScheduleView, error) {
		return s.PutSchedule(t.Context(), api.PutScheduleRequest{Name: name, Definition: d, Replace: replace, Actor: "user:ada"})
	}
	first := w.put(s, "tick", minutely(schedules.Skip))
	again := w.put(s, "tick", minutely(schedules.Skip))
	assert.Equal(t, first, again, "the same definition again changes nothing")
	_, err := put("tick", minutely(schedules.AllowAll), false)
	assert.True(t, fault.Has(err, fault.Conflict))
	w.pass(s, 90*time.Second)
	replaced, err := put("tick", minutely(schedules.BufferOne), true)
	require.NoError(t, err)
	assert.Equal(t, first.ID, replaced.ID)
	assert.Len(t, replaced.Running, 1, "its tasks stay")
	for _, tc := range []struct {
		name, field string
		change      func(*schedules.Definition)
	}{
		{"", "name", nil},
		{"Nightly", "name", nil},
		{"x", "plan", func(d *schedules.Definition) { d.Plan = nil }},
		{"x", "plan", func(d *schedules.Definition) { d.Plan = json.RawMessage(`"wrong"`) }},
		{"x", "cron", func(d *schedules.Definition) { d.Cron = nil }},
		{"x", "cron.0", func(d *schedules.Definition) { d.Cron = []string{"61 * * * *"} }},
		{"x", "overlap", func(d *schedules.Definition) { d.Overlap = "never" }},
		{"x", "note", func(d *schedules.Definition) { d.Note = strings.Repeat("n", 2000) }},
	} {
		d := minutely(schedules.Skip)
		if tc.change != nil {
			tc.change(&d)
		}
		_, err := put(tc.name, d, false)
		require.Error(t, err, tc)
		assert.Equal(t, tc.field, fault.From(err).Field, "%v: %v", tc.name, err)
	}
	reply, err := s.Schedules(t.Context(), api.SchedulesRequest{})
	require.NoError(t, err)
	assert.Len(t, reply.Schedules, 1)
}

// A journal that could not be created is created later.
func TestNoJournalYet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.start()
	w.unopened = fault.New(fault.DiskFull, "the disk is full")
	_, err := s.PutSchedule(t.Context(), api.PutScheduleRequest{Name: "tick", Definition: minutely(schedules.Skip), Actor: "user:ada"})
	require.True(t, fault.Has(err, fault.DiskFull))
	w.unopened = nil
	w.put(s, "tick", minutely(schedules.Skip))
	w.pass(s, time.Minute)
	assert.Len(t, w.tasks, 1)
}

// While nothing can be written or submitted, nothing is lost, and afterwards it starts.
func TestOutage(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"append", "submit"} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, lost), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				s := w.start()
				w.put(s, "tick", minutely(schedules.BufferAll))
				w.failing = func(k string) (error, bool) {
					if k == kind {
						return fault.New(fault.Unavailable, "not now"), lost
					}
					return nil, false
				}
				w.pass(s, 2*time.Minute)
				w.failing = nil
				for range 5 {
					w.pass(s, 10*time.Second)
					w.end(s, "tick")
				}
				assert.Equal(t, []string{"12:01:00", "12:02:00"}, w.started("tick"))
				assert.Equal(t, 2, w.view(s, "tick").Counts[schedules.Started])
			})
		}
	}
}

// While the end of a task cannot be recorded, turns that look at the task again do not follow one another at once.
func TestAFullDiskIsNotBusy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.start()
		w.put(s, "tick", minutely(schedules.Skip))
		w.pass(s, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		appends := 0
		w.failing = func(string) (error, bool) {
			if appends++; appends == 1000 {
				cancel()
			}
			return fault.New(fault.DiskFull, "full"), false
		}
		w.end(s, "tick")
		var ran sync.WaitGroup
		ran.Go(func() { s.Run(ctx) })
		<-time.After(time.Minute)
		cancel()
		ran.Wait()
		assert.LessOrEqual(t, appends, 65)
		assert.Greater(t, appends, 50)
	})
}

// With crashes and failures at any moment, each instant of each schedule starts exactly one task, whatever its policy is, as long
// as its policy drops none.
func TestEachInstantOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(t)
			w.failing = func(string) (error, bool) {
				switch rng.IntN(12) {
				case 0:
					return fault.New(fault.Unavailable, "not now"), false
				case 1:
					return fault.New(fault.Unavailable, "the answer is lost"), true
				default:
					return nil, false
				}
			}
			s := w.start()
			day := schedules.Duration(24 * time.Hour)
			for name, overlap := range map[string]schedules.Overlap{"all": schedules.AllowAll, "queue": schedules.BufferAll} {
				d := minutely(overlap)
				if d.CatchUp = &day; overlap == schedules.BufferAll {
					d.Cron = []string{"*/10 * * * *"} // less than can be buffered
				}
				require.Eventually(t, func() bool {
					_, err := s.PutSchedule(t.Context(), api.PutScheduleRequest{Name: name, Definition: d, Actor: "user:ada"})
					return err == nil
				}, 10*time.Second, time.Microsecond)
			}
			for range 300 {
				w.now = w.now.Add(time.Duration(rng.IntN(90)) * time.Second)
				switch rng.IntN(10) {
				case 0: // the node is down for a while
					w.now = w.now.Add(time.Duration(rng.IntN(60)) * time.Minute)
					s = w.start()
				case 1: // somebody sets the clock back, and forward again
					now := w.now
					w.now = w.now.Add(-time.Duration(rng.IntN(90)) * time.Minute)
					s.Turn(t.Context())
					w.now = now
				case 2, 3, 4:
					w.end(s, "queue")
				}
				s.Turn(t.Context())
			}
			w.failing = nil
			for range 500 {
				s.Turn(t.Context())
				w.end(s, "queue")
			}
			minutes := int(w.now.Sub(time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)) / time.Minute)
			assert.Len(t, w.started("all"), minutes)
			assert.Len(t, w.started("queue"), minutes/10)
			assert.Equal(t, minutes+minutes/10, w.submitted)
		})
	}
}

// A firing that is submitted again and again is not given up before its outcome is known: its task may exist.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	for code, want := range map[fault.Code]schedules.Result{fault.Unavailable: schedules.Started, fault.DiskFull: schedules.Started, fault.QuotaExceeded: schedules.Failed} {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := w.start()
			d := minutely(schedules.BufferAll)
			d.CatchUp, d.Cron = new(schedules.Duration(time.Minute)), []string{"0 * * * *"}
			w.put(s, "tick", d)
			w.pass(s, 59*time.Minute)
			w.refused = fault.New(code, "not now")
			w.pass(s, 5*time.Minute)
			w.refused = nil
			w.pass(s, time.Minute)
			assert.Equal(t, map[schedules.Result]int{want: 1}, w.view(s, "tick").Counts)
		})
	}
}

// A firing that waited for long is not given up when it is refused for the first time.
func TestRefusedAfterTheBuffer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.start()
	d := minutely(schedules.BufferAll)
	d.CatchUp, d.Cron = new(schedules.Duration(time.Minute)), []string{"*/2 * * * *"}
	w.put(s, "tick", d)
	w.pass(s, 9*time.Minute)
	require.Len(t, w.view(s, "tick").Buffered, 3)
	w.end(s, "tick")
	w.refused = fault.New(fault.QuotaExceeded, "there are too many")
	w.pass(s, 20*time.Second)
	w.refused = nil
	w.pass(s, 10*time.Second)
	assert.Equal(t, map[schedules.Result]int{schedules.Started: 2}, w.view(s, "tick").Counts)
}

// A firing that a concurrency key refuses has no task.
func TestRefusedByAConcurrencyKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.start()
	w.put(s, "tick", minutely(schedules.Skip))
	w.refused, w.unread = fault.New(fault.Conflict, "the concurrency key is in use").WithField("concurrency.key"), fault.New(fault.Unavailable, "not now")
	w.pass(s, time.Minute)
	assert.Empty(t, w.view(s, "tick").Counts, "whether it has a task is not known")
	w.unread = nil
	s.Turn(t.Context())
	view := w.view(s, "tick")
	assert.Equal(t, map[schedules.Result]int{schedules.Failed: 1}, view.Counts)
	assert.Contains(t, view.Outcomes[0].Reason, "the concurrency key is in use")
	assert.Empty(t, view.Running)
}

// A conflict of another kind does not say that a firing has no task: it may only be unreadable yet.
func TestConflictWithoutATask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.start()
	w.put(s, "tick", minutely(schedules.Skip))
	w.refused = fault.New(fault.Conflict, "another commit was first").WithField("task")
	w.pass(s, time.Minute)
	assert.Empty(t, w.view(s, "tick").Counts)
	w.refused = nil
	s.Turn(t.Context())
	assert.Equal(t, map[schedules.Result]int{schedules.Started: 1}, w.view(s, "tick").Counts)
}

// With a clock that was set back, neither a new definition nor the end of a pause decides again what was decided.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	for _, paused := range []bool{false, true} {
		w := newWorld(t)
		s := w.start()
		w.put(s, "tick", minutely(schedules.AllowAll))
		w.pass(s, 3*time.Minute)
		w.now = w.now.Add(-2 * time.Minute)
		if paused {
			for _, act := range []string{api.ActPause, api.ActResume} {
				_, err := s.SteerSchedule(t.Context(), api.SteerScheduleRequest{Name: "tick", Act: act})
				require.NoError(t, err)
			}
		} else {
			d := minutely(schedules.AllowAll)
			d.Note = "another one"
			_, err := s.PutSchedule(t.Context(), api.PutScheduleRequest{Name: "tick", Definition: d, Replace: true, Actor: "user:ada"})
			require.NoError(t, err)
		}
		w.pass(s, 3*time.Minute)
		assert.Equal(t, map[schedules.Result]int{schedules.Started: 4}, w.view(s, "tick").Counts, "12:01 to 12:04, once each")
	}
}

// Two schedulers that do not know each other give two triggers two times.
func TestTriggersAtOneTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.start()
	w.put(first, "tick", minutely(schedules.AllowAll))
	second := w.start()
	fire := api.SteerScheduleRequest{Name: "tick", Act: api.ActTrigger}
	one, err := first.SteerSchedule(t.Context(), fire)
	require.NoError(t, err)
	_, err = second.SteerSchedule(t.Context(), fire)
	require.True(t, fault.Has(err, fault.Conflict), "it did not know of the first: %v", err)
	two, err := second.SteerSchedule(t.Context(), fire)
	require.NoError(t, err)
	assert.NotEqual(t, one.Task, two.Task)
}

// A schedule tells how its tasks have ended, also after a restart.
func TestEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.start()
	w.put(s, "tick", minutely(schedules.AllowAll))
	for i, fails := range []bool{false, true, true} {
		w.pass(s, time.Minute)
		for _, one := range w.tasks {
			one.fails = one.fails || fails && !one.over
		}
		assert.Len(t, w.view(s, "tick").Running, 1)
		w.end(s, "tick")
		s.Turn(t.Context())
		assert.Equal(t, i, w.view(s, "tick").Failures)
	}
	view := w.view(w.start(), "tick")
	assert.Equal(t, w.view(s, "tick"), view)
	assert.Equal(t, []string{"FAILED", "FAILED", "DONE"}, []string{view.Outcomes[0].End, view.Outcomes[1].End, view.Outcomes[2].End})
	assert.Empty(t, view.Running)
}

// With many running tasks a schedule knows the last ones, and its state stays small.
func TestManyRunning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.start()
	w.put(s, "tick", minutely(schedules.AllowAll))
	for range 2 * schedules.MaxOpen {
		w.pass(s, time.Minute)
	}
	assert.Len(t, w.view(s, "tick").Running, schedules.MaxOpen)
	assert.Less(t, len(w.journal.Entries[len(w.journal.Entries)-1]), 32<<10)
	w.end(s, "tick")
	s.Turn(t.Context())
	assert.Empty(t, w.view(s, "tick").Running)
}

// While the node is paused no schedule fires by itself; somebody can fire it. Afterwards it catches up.
func TestPausedNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.start()
	w.put(s, "tick", minutely(schedules.AllowAll))
	w.paused = true
	w.pass(s, 2*time.Minute)
	assert.Empty(t, w.tasks)
	assert.Zero(t, s.Figures().Waiting)
	_, err := s.SteerSchedule(t.Context(), api.SteerScheduleRequest{Name: "tick", Act: api.ActTrigger})
	require.NoError(t, err)
	assert.Len(t, w.tasks, 1)
	w.paused = false
	w.pass(s, 10*time.Second)
	assert.Len(t, w.tasks, 3)
}

func TestSecretsInNotes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.start()
	d := minutely(schedules.Skip)
	d.Note = "it is hunter2"
	assert.Equal(t, "it is [REDACTED]", w.put(s, "tick", d).Note)
	assert.Equal(t, "it is [REDACTED]", w.put(s, "tick", d).Note, "the same definition again")
	_, err := s.SteerSchedule(t.Context(), api.SteerScheduleRequest{Name: "tick", Act: api.ActPause, Note: "still hunter2"})
	require.NoError(t, err)
	assert.Equal(t, "still [REDACTED]", w.view(s, "tick").Paused.Note)
	for _, entry := range w.journal.Entries {
		assert.NotContains(t, string(entry), "hunter2")
	}
	again, err := s.PutSchedule(t.Context(), api.PutScheduleRequest{Name: "tock", Definition: d, Actor: "user:ada"})
	require.NoError(t, err)
	require.Nil(t, again.Paused)
	again, err = s.PutSchedule(t.Context(), api.PutScheduleRequest{Name: "tock", Definition: d, Paused: true, Actor: "user:ada"})
	require.NoError(t, err)
	assert.NotNil(t, again.Paused, "an existing schedule is paused too")
}
