package crash_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/events"
)

// TestLooksAreCheckedInTime checks that the checker processes 700,000 answers within a minute, for many tasks and for
// few.
func TestLooksAreCheckedInTime(t *testing.T) {
	t.Parallel()
	needFailpoints(t)
	const total = 700_000
	for name, tasks := range map[string]int{"many tasks": total / 10, "a hundred tasks": 100} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			looks := make([]look, 0, total)
			each := total / tasks
			for i := range tasks {
				task := events.NewTaskID(start.Add(time.Duration(i)))
				for n := range each {
					k := look{task: task, what: open, asked: start.Add(time.Duration(n) * 10), answered: start.Add(time.Duration(n)*10 + 25)}
					switch {
					case n == 0:
						k.what, k.answered = submitted, k.asked.Add(5)
					case n > each/2+3:
						k.what = "DONE"
					}
					looks = append(looks, k)
				}
			}
			began := time.Now()
			assert.Empty(t, checkLooks(looks))
			took := time.Since(began)
			t.Logf("%d answers about %d tasks checked in %s", len(looks), tasks, took.Round(time.Millisecond))
			assert.Less(t, took, time.Minute)
		})
	}
}
