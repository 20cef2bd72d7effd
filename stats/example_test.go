package stats_test

import (
	"fmt"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/stats"
)

// A table counts how calls have ended, by tool and by worker.
func ExampleTable() {
	var table stats.Table
	at := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	table.Add(stats.Call{Tool: "GIT_STATUS", Worker: "w1", At: at, Took: 20 * time.Millisecond})
	table.Add(stats.Call{Tool: "GIT_STATUS", Worker: "w2", At: at, Took: 40 * time.Millisecond, Code: fault.Timeout})
	git := table.Tools["GIT_STATUS"]
	rate, known := git.Rate()
	fmt.Println(git.Count, git.Mean(), rate, known)
	fmt.Println(git.Errors[fault.Timeout], table.Workers["w1"].Successes)
	// Output:
	// 2 30ms 0.5 true
	// 1 1
}
