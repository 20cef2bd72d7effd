package sim_test

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/orch-dev/orch/schedules"
)

// scheduled draws schedules for one script in four, and puts acts on them between the others. It draws last, so that the scripts
// without schedules stay what they were.
func scheduled(t *rapid.T, s *script) {
	if rapid.Uint64Range(0, 1<<32).Draw(t, "scheduled")%4 != 3 {
		return
	}
	s.Schedules = rapid.SliceOfN(rapid.Custom(randomSchedule), 1, 3).Draw(t, "schedules")
	verbs := append(strings.Fields("put put trigger pause_one resume_one nap nap nap sleep"),
		rapid.SliceOfN(rapid.SampledFrom(strings.Fields("backfill backfill replace delete clock clock sleep sleep pause_one nap")), 0, 8).Draw(t, "steering")...)
	number := rapid.IntRange(0, 1<<12)
	more := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) act {
		return act{rapid.SampledFrom(verbs).Draw(t, "do"), number.Draw(t, "a"), number.Draw(t, "b")}
	}), 6, 20).Draw(t, "steps")
	for i, a := range append([]act{{Do: "put"}}, more...) {
		at := min(1+i*len(s.Acts)/len(more), len(s.Acts))
		s.Acts = slices.Insert(s.Acts, at, a)
	}
}

// randomSchedule draws a definition. Its instants are in whole seconds.
func randomSchedule(t *rapid.T) schedules.Definition {
	var d schedules.Definition
	switch rapid.IntRange(0, 3).Draw(t, "rule") {
	case 0:
		d.Cron = []string{"* * * * *"}
	case 1:
		d.Cron = []string{"*/2 * * * *", "5 * * * *"}
	case 2:
		d.Interval = []schedules.Interval{{Every: seconds(11)}}
	default:
		d.Cron = []string{"*/3 * * * *"}
		d.Interval = []schedules.Interval{{Every: seconds(40), Offset: seconds(20)}}
	}
	d.Overlap = rapid.SampledFrom(append(schedules.Overlaps(), "")).Draw(t, "overlap")
	if late := rapid.SampledFrom([]int{0, 20, 60, 300}).Draw(t, "catch up"); late > 0 {
		d.CatchUp = new(seconds(late))
	}
	d.Jitter = seconds(rapid.SampledFrom([]int{0, 0, 5, 40}).Draw(t, "jitter"))
	d.Plan = planOf(rapid.SampledFrom([]string{
		`{"id":"s0","set":{"n":1}}`, `{"id":"s0","tool":"READ"}`, `{"id":"s0","wait":{"for":"8s"}}`, `{"id":"s0","wait":{"for":"25s"}}`,
		`{"id":"s0","tool":"WRITE"},{"id":"s1","needs":["s0"],"wait":{"for":"3s"}}`, `{"id":"s0","wait":{"for":"1s"}},{"id":"s1","tool":"IDEM"}`,
	}).Draw(t, "steps"))
	if rapid.IntRange(0, 7).Draw(t, "key") == 7 {
		d.Plan = json.RawMessage(strings.Replace(string(d.Plan), `"steps"`, `"concurrency":{"key":"k","on_conflict":"reject"},"steps"`, 1))
	}
	return d
}

func planOf(steps string) json.RawMessage {
	return json.RawMessage(`{"orch":"v1","steps":[` + steps + "]}")
}

func seconds(n int) schedules.Duration { return schedules.Duration(time.Duration(n) * time.Second) }
