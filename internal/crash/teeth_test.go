//go:build failpoint

package crash_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/internal/failpoint"
)

const (
	// teethRuns is how often a planted fault may stay unseen, each time for teethRounds rounds.
	teethRuns   = 4
	teethRounds = 5
	// teethSettle is short: what a planted fault has stopped will not go on.
	teethSettle = 4 * time.Second
)

// TestTeeth plants one fault at a time. The rounds of the short run must find it and name what it breaks.
// The sixth fault, a skipped fsync, shows after a power loss alone: the test of package bus that cuts the
// power has it.
func TestTeeth(t *testing.T) {
	t.Parallel()
	seed := fromEnv(t, envSeed, uint64(time.Now().UnixNano()))
	t.Logf("%s=%d", envSeed, seed)
	for fault, invariant := range map[failpoint.Fault]string{
		failpoint.AckEarly:  "I1",
		failpoint.SkipFence: "I7",
		failpoint.SkipDedup: "I1",
		failpoint.SkipOne:   "I8",
		failpoint.DoubleEnd: "I2",
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			found := false
			for n := 0; n < teethRuns && !found; n++ {
				t.Run(strconv.Itoa(n+1), func(t *testing.T) {
					found = bites(t, fault, invariant, seed+uint64(n))
				})
			}
			assert.True(t, found, "%s was not found", fault)
		})
	}
}

// bites reports whether some rounds with a planted fault break an invariant.
func bites(t *testing.T, fault failpoint.Fault, invariant string, seed uint64) bool {
	t.Helper()
	r := begin(t, fault)
	for i, strikes := range schedule(seed, teethRounds) {
		r.round(seed, i+1, strikes, teethSettle)
		if r.load.violated() {
			break
		}
	}
	r.cluster.killAll()
	report := r.check()
	shown := map[string]bool{}
	for _, v := range report.Violations {
		if !shown[v.Invariant] {
			t.Log(v)
		}
		shown[v.Invariant] = true
	}
	return report.Has(invariant)
}
