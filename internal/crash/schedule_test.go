package crash_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// kind is what is done to the processes.
type kind string

const (
	killNode     kind = "kill node"
	killWorker   kind = "kill worker"
	killBoth     kind = "kill both"
	killRecovery kind = "kill node in recovery"
	zombie       kind = "stop worker beyond its lease"
	zombieNode   kind = "stop worker, kill node"
	drain        kind = "terminate worker under load"
)

func kinds() []kind {
	return []kind{killNode, killWorker, killBoth, killRecovery, zombie, zombieNode, drain}
}

// strike is one fault of a round.
type strike struct {
	kind kind
	// after is how long the load runs before it.
	after time.Duration
	// worker is the one that is hit.
	worker int
	// away is how long the processes that were hit stay away, or stopped.
	away time.Duration
	// again holds the times after which a recovering node is killed again.
	again []time.Duration
}

// strikesPerRound makes two rounds cover every kind.
const strikesPerRound = 4

// schedule returns the faults of every round. It depends on its arguments alone.
func schedule(seed uint64, rounds int) [][]strike {
	rng := rand.New(rand.NewPCG(seed, 0))
	var deck []kind
	plan := make([][]strike, rounds)
	for i := range plan {
		for range strikesPerRound {
			if len(deck) == 0 {
				deck = kinds()
				rng.Shuffle(len(deck), func(a, b int) { deck[a], deck[b] = deck[b], deck[a] })
			}
			plan[i] = append(plan[i], newStrike(rng, deck[0]))
			deck = deck[1:]
		}
	}
	return plan
}

func newStrike(rng *rand.Rand, k kind) strike {
	millis := func(from, to int) time.Duration { return time.Duration(from+rng.IntN(to-from)) * time.Millisecond }
	s := strike{kind: k, after: millis(100, 350), worker: rng.IntN(workerCount), away: millis(0, 200)}
	if k == zombie || k == zombieNode {
		s.away = lease + lease/2 + millis(0, 500)
	}
	if k == killRecovery {
		for range 1 + rng.IntN(3) {
			s.again = append(s.again, millis(0, 200))
		}
	}
	return s
}

func TestScheduleRepeats(t *testing.T) {
	t.Parallel()
	first, again := schedule(7, 20), schedule(7, 20)
	assert.Equal(t, first, again)
	assert.NotEqual(t, first, schedule(8, 20))
	seen := map[kind]int{}
	for _, round := range schedule(7, 2) {
		for _, s := range round {
			seen[s.kind]++
		}
	}
	assert.Len(t, seen, len(kinds()), "two rounds cover every kind")
}
