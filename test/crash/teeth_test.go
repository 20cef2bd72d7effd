package crash_test

import (
	"math/rand/v2"
	"slices"
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
	// teethSettle is short: a task that an injected fault has stopped never continues.
	teethSettle = 4 * time.Second
)

// needFailpoints skips a test in a build without failpoints; `make crash` has them.
func needFailpoints(t *testing.T) {
	t.Helper()
	if !failpoint.Enabled {
		t.Skip("needs a build with failpoints: make crash")
	}
}

// tooth is an injected fault and the invariants that must detect it.
type tooth struct {
	fault failpoint.Fault
	// invariants are those that it breaks; which one shows first is chance.
	invariants []string
	// zombies has the tasks of that option.
	zombies bool
	// kind and point select the strikes of the short run that reveal the fault. Without a kind all strikes do.
	kind  kind
	point failpoint.Point
}

func teeth() []tooth {
	return []tooth{
		// A submission, a start or outcome of a call, or a cancellation was lost.
		{fault: failpoint.AckEarly, invariants: []string{"I1", "I6", "I10"}, kind: failNode, point: failpoint.BeforeAppend},
		{fault: failpoint.SkipFence, invariants: []string{"I7"}, kind: zombie},
		{fault: failpoint.AskEarly, invariants: []string{"I6"}, kind: zombie, zombies: true},
		{fault: failpoint.SkipDedup, invariants: []string{"I1"}},
		{fault: failpoint.SkipOne, invariants: []string{"I8"}},
		{fault: failpoint.DoubleEnd, invariants: []string{"I2"}},
		{fault: failpoint.SkipSaid, invariants: []string{"I19"}},
		{fault: failpoint.SkipLedger, invariants: []string{"I20"}},
	}
}

// TestTeeth injects one fault at a time. Some rounds must detect it and report the violated invariant. One more fault,
// a skipped fsync, is only visible after a power loss: a test of package bus that simulates power loss covers it.
func TestTeeth(t *testing.T) {
	t.Parallel()
	needFailpoints(t)
	seed := fromEnv(t, envSeed, uint64(time.Now().UnixNano()))
	t.Logf("%s=%d", envSeed, seed)
	for _, tooth := range teeth() {
		t.Run(string(tooth.fault), func(t *testing.T) {
			t.Parallel()
			found := false
			for n := 0; n < teethRuns && !found; n++ {
				t.Run(strconv.Itoa(n+1), func(t *testing.T) {
					found = tooth.bites(t, seed+uint64(n))
				})
			}
			assert.True(t, found, "%s was not found", tooth.fault)
		})
	}
}

// bites reports whether some rounds with the injected fault violate one of its invariants.
func (o *tooth) bites(t *testing.T, seed uint64) bool {
	t.Helper()
	r := startRun(t, options{planted: o.fault, zombies: o.zombies})
	for i, strikes := range o.schedule(seed) {
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
	return slices.ContainsFunc(o.invariants, report.Has)
}

func (o *tooth) schedule(seed uint64) [][]strike {
	plan := schedule(seed, teethRounds)
	if o.kind == "" {
		return plan
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, strikes := range plan {
		for i := range strikes {
			strikes[i] = newStrike(rng, o.kind)
			strikes[i].trap = trap{o.point, 1 + rng.IntN(50)}
		}
	}
	return plan
}
