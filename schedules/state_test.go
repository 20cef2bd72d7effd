package schedules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/schedules"
)

var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func minutely(t *testing.T, overlap schedules.Overlap, catchUp schedules.Duration) *schedules.Timetable {
	t.Helper()
	table, err := schedules.Compile(schedules.Spec{Cron: []string{"* * * * *"}, Overlap: overlap, CatchUp: &catchUp})
	require.NoError(t, err)
	return table
}

// begin gives every firing that is to start a task, which is named by its instant.
func begin(t *schedules.Timetable, s *schedules.State) {
	for len(s.Starting) > 0 {
		s.Begun(t, 0, s.Starting[0].At.Format("15:04"), false)
	}
}

func minutesOf(firings []schedules.Firing) []string {
	list := []string{}
	for _, f := range firings {
		list = append(list, f.At.Format("15:04"))
	}
	return list
}

// Four firings come, one minute after the other, while the task of the first one runs; then it ends.
func TestOverlaps(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		overlap               schedules.Overlap
		open, buffered, after []string
		skipped, cancelled    int
	}{
		{schedules.Skip, []string{"12:01"}, []string{}, []string{}, 3, 0},
		{schedules.BufferOne, []string{"12:01"}, []string{"12:02"}, []string{"12:02"}, 2, 0},
		{schedules.BufferAll, []string{"12:01"}, []string{"12:02", "12:03", "12:04"}, []string{"12:02"}, 0, 0},
		{schedules.CancelOther, []string{"12:01"}, []string{"12:04"}, []string{"12:04"}, 2, 1},
		{schedules.AllowAll, []string{"12:01", "12:02", "12:03", "12:04"}, []string{}, []string{}, 0, 0},
	} {
		t.Run(string(tc.overlap), func(t *testing.T) {
			t.Parallel()
			table, s := minutely(t, tc.overlap, schedules.Duration(time.Hour)), &schedules.State{Through: noon}
			for i := range 4 {
				now := noon.Add(time.Duration(i+1) * time.Minute)
				next, found := s.Advance(table, "x", now)
				assert.True(t, found)
				assert.Equal(t, now.Add(time.Minute), next)
				begin(table, s)
			}
			assert.Equal(t, tc.open, minutesOf(s.Open))
			assert.Equal(t, tc.buffered, minutesOf(s.Buffered))
			assert.Equal(t, tc.skipped, s.Counts[schedules.Skipped])
			cancelled := 0
			for _, f := range s.Open {
				if f.Cancel {
					cancelled++
				}
			}
			assert.Equal(t, tc.cancelled, cancelled)
			s.Ended(schedules.End{Task: "12:01", State: "DONE"}, "DONE")
			assert.Equal(t, tc.after, minutesOf(s.Starting))
		})
	}
}

// After a time without a node, firings within the catch-up window start, and earlier ones are missed.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	table, s := minutely(t, schedules.AllowAll, schedules.Duration(10*time.Minute)), &schedules.State{Through: noon}
	next, found := s.Advance(table, "x", noon.Add(time.Hour+30*time.Second))
	assert.True(t, found)
	assert.Equal(t, noon.Add(61*time.Minute), next)
	assert.Equal(t, []string{"12:51", "12:52", "12:53", "12:54", "12:55", "12:56", "12:57", "12:58", "12:59", "13:00"}, minutesOf(s.Starting))
	assert.Equal(t, 50, s.Counts[schedules.Missed])
	require.Len(t, s.Outcomes, 1)
	assert.Equal(t, 50, s.Outcomes[0].Count)
	assert.Equal(t, "12:50", s.Outcomes[0].At.Format("15:04"))
}

// A firing that is exactly as old as the catch-up window starts, also one of now without a window.
func TestEdgeOfCatchUp(t *testing.T) {
	t.Parallel()
	for window, want := range map[time.Duration][]string{
		0:               {"13:00"},
		2 * time.Minute: {"12:58", "12:59", "13:00"},
	} {
		table, s := minutely(t, schedules.AllowAll, schedules.Duration(window)), &schedules.State{Through: noon}
		s.Advance(table, "x", noon.Add(time.Hour))
		assert.Equal(t, want, minutesOf(s.Starting))
		assert.Equal(t, 60-len(want), s.Counts[schedules.Missed])
	}
}

// A firing that its jitter delays by more than the catch-up window is not missed.
func TestJitterIsNoDelay(t *testing.T) {
	t.Parallel()
	none := schedules.Duration(0)
	table, err := schedules.Compile(schedules.Spec{Cron: []string{"0 * * * *"}, Jitter: schedules.Duration(50 * time.Minute), CatchUp: &none})
	require.NoError(t, err)
	s := &schedules.State{Through: noon}
	for range 100 {
		next, found := s.Advance(table, "x", s.Through)
		require.True(t, found)
		s.Advance(table, "x", next)
		require.Len(t, s.Starting, 1)
		s.Begun(table, 0, "x", true)
	}
	assert.Equal(t, map[schedules.Result]int{schedules.Started: 100}, s.Counts)
}

// Very many firings that are due are decided in portions.
func TestPortions(t *testing.T) {
	t.Parallel()
	table, s := minutely(t, schedules.AllowAll, schedules.Duration(1000*time.Hour)), &schedules.State{Through: noon}
	now := noon.Add(2500 * time.Minute)
	for _, want := range []int{1000, 2000} {
		next, found := s.Advance(table, "x", now)
		assert.True(t, found)
		assert.Equal(t, now, next)
		assert.Len(t, s.Starting, want)
	}
	next, _ := s.Advance(table, "x", now)
	assert.Equal(t, now.Add(time.Minute), next)
	assert.Len(t, s.Starting, 2500)
}

func TestClockSetBack(t *testing.T) {
	t.Parallel()
	table, s := minutely(t, schedules.Skip, schedules.Duration(time.Hour)), &schedules.State{Through: noon}
	next, _ := s.Advance(table, "x", noon.Add(-23*time.Hour))
	assert.Equal(t, noon, s.Through, "by less than a day: nothing is decided twice")
	assert.Equal(t, noon.Add(time.Minute), next)
	next, _ = s.Advance(table, "x", noon.Add(-25*time.Hour))
	assert.Equal(t, noon.Add(-25*time.Hour+time.Minute), next, "by more: the schedule does not stand still until then")
}

func TestPause(t *testing.T) {
	t.Parallel()
	table, s := minutely(t, schedules.BufferAll, schedules.Duration(time.Hour)), &schedules.State{Through: noon}
	s.Advance(table, "x", noon.Add(2*time.Minute))
	begin(table, s)
	s.Paused = &schedules.Pause{By: "user:ada", At: noon}
	_, found := s.Advance(table, "x", noon.Add(10*time.Minute))
	assert.False(t, found)
	s.Ended(schedules.End{Task: "12:01", State: "DONE"}, "DONE")
	assert.Empty(t, s.Starting, "what is buffered waits for the end of the pause")
	s.Resume(noon.Add(10 * time.Minute))
	assert.Equal(t, []string{"12:02"}, minutesOf(s.Starting))
	s.Advance(table, "x", noon.Add(11*time.Minute))
	assert.Equal(t, []string{"12:11"}, minutesOf(s.Buffered), "firings of the pause are left out")
}

func TestTrigger(t *testing.T) {
	t.Parallel()
	table, s := minutely(t, schedules.Skip, schedules.Duration(time.Hour)), &schedules.State{Through: noon}
	assert.Equal(t, schedules.Start, s.Fire(table, schedules.Firing{At: noon, Origin: schedules.Trigger, By: "user:ada"}))
	begin(table, s)
	assert.Equal(t, schedules.Drop, s.Fire(table, schedules.Firing{At: noon.Add(1), Origin: schedules.Trigger}))
	assert.Equal(t, schedules.Start, s.Fire(table, schedules.Firing{At: noon.Add(1), Origin: schedules.Trigger, Overlap: schedules.AllowAll}))
	s.Refused(0, "the plan needs an input")
	assert.Equal(t, map[schedules.Result]int{schedules.Started: 1, schedules.Failed: 1}, s.Counts)
}

// Outcomes are bounded, and the same reason again takes no further room.
func TestOutcomesAreBounded(t *testing.T) {
	t.Parallel()
	table, s := minutely(t, schedules.Skip, schedules.Duration(time.Hour)), &schedules.State{Through: noon}
	s.Advance(table, "x", noon.Add(time.Minute))
	begin(table, s)
	for i := range 100 {
		s.Advance(table, "x", noon.Add(time.Duration(i+2)*time.Minute))
	}
	require.Len(t, s.Outcomes, 2)
	assert.Equal(t, 100, s.Outcomes[1].Count)
	assert.Equal(t, 100, s.Counts[schedules.Skipped])
	for i := range 100 {
		s.Fire(table, schedules.Firing{At: noon.Add(time.Duration(i)), Overlap: schedules.AllowAll})
		begin(table, s)
	}
	assert.Len(t, s.Outcomes, 20)
	c := s.Clone()
	c.Counts[schedules.Started]++
	assert.NotEqual(t, s.Counts, c.Counts)
}

// The state follows from what was recorded of it.
func TestChanges(t *testing.T) {
	t.Parallel()
	table, s := minutely(t, schedules.BufferOne, schedules.Duration(time.Hour)), &schedules.State{Through: noon}
	folded := s.Clone()
	for i := range 50 {
		s.Advance(table, "x", noon.Add(time.Duration(3*i+1)*time.Minute))
		if i%7 == 0 && len(s.Open) > 0 {
			s.Ended(schedules.End{Task: s.Open[0].Task, State: []string{"DONE", "FAILED"}[i%2]}, "DONE")
		}
		begin(table, s)
		folded.Apply(s.Change())
		require.Equal(t, s, folded)
	}
	assert.Positive(t, s.Counts[schedules.Started])
	assert.Positive(t, s.Counts[schedules.Skipped])
}
