package crash_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/schedules"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/test/crash"
)

const (
	beatName = "beat"
	beatPlan = `{"orch":"v1","name":"beat","steps":[{"id":"a","tool":"` + crash.ToolIdem + `","retry":{"max_attempts":100,"initial":"20ms","max":"100ms"}}]}`
)

// startBeat creates a schedule that starts tasks as long as the run lasts.
func (r *run) startBeat() {
	r.t.Helper()
	day, second := schedules.Duration(24*time.Hour), schedules.Duration(time.Second)
	view, err := r.api.PutSchedule(r.t.Context(), api.PutScheduleRequest{Name: beatName, Definition: schedules.Definition{
		Spec: schedules.Spec{Interval: []schedules.Interval{{Every: second}}, Overlap: schedules.AllowAll, CatchUp: &day}, Plan: json.RawMessage(beatPlan),
	}})
	require.NoError(r.t, err)
	r.beat = crash.Schedule{Name: beatName, Every: second.Std(), Since: view.CreatedAt}
}

// stopBeat pauses the schedule, and waits for the ends of its tasks.
func (r *run) stopBeat() {
	r.t.Helper()
	pause := api.SteerScheduleRequest{Name: beatName, Act: api.ActPause}
	reply, _, err := insist(r.t.Context(), r.api.SteerSchedule, pause)
	require.NoError(r.t, err)
	r.beat.Started = reply.Schedule.Counts[schedules.Started]
	open := slices.DeleteFunc(statemachine.States(), statemachine.State.Terminal)
	runs := func() bool {
		return slices.ContainsFunc(r.list(open), func(s api.Summary) bool { return s.Name == beatName })
	}
	for end := time.Now().Add(settleWithin); runs(); wait(50 * time.Millisecond) {
		if time.Now().After(end) {
			r.load.violate("I1", "", 0, "tasks of the schedule %s do not end", beatName)
			return
		}
	}
}

func TestCheckFirings(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 28, 12, 0, 0, 300, time.UTC)
	for name, tc := range map[string]struct {
		seconds  []int
		started  int
		violated bool
	}{
		"each once":        {[]int{1, 2, 3}, 3, false},
		"one is missing":   {[]int{1, 3}, 2, true},
		"one is twice":     {[]int{1, 2, 2}, 3, true},
		"one is unknown":   {[]int{1, 2, 3}, 2, true},
		"one is forgotten": {[]int{1, 2}, 3, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := fakeLog{}
			for i, s := range tc.seconds {
				id := events.KeyedTaskID("", strconv.Itoa(i))
				fired := &events.Firing{Name: "s", Time: began.Truncate(time.Second).Add(time.Duration(s) * time.Second)}
				data, err := events.Encode(&events.Commit{Task: id, Rev: 1, At: began, Actor: "user:a", Events: []events.Event{
					{Kind: events.TaskSubmitted, Data: &events.Submitted{Name: "x", Priority: "normal", Schedule: fired}},
				}})
				require.NoError(t, err)
				log[id] = []events.Stored{{Seq: uint64(i + 1), Data: data}}
			}
			report, err := crash.Check(t.Context(), log, crash.Evidence{Schedules: []crash.Schedule{{Name: "s", Every: time.Second, Since: began, Started: tc.started}}})
			require.NoError(t, err)
			assert.Equal(t, tc.violated, report.Has("I21"), "%v", report.Violations)
		})
	}
}
