package crash_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/internal/failpoint"
)

// kind is a kind of fault.
type kind string

const (
	killNode     kind = "kill node"
	killWorker   kind = "kill worker"
	killBoth     kind = "kill both"
	killRecovery kind = "kill node in recovery"
	zombie       kind = "stop worker beyond its lease"
	zombieNode   kind = "stop worker, kill node"
	zombieLong   kind = "stop worker beyond the time limits of its calls"
	drainWorker  kind = "terminate worker under load"
	drainNode    kind = "terminate node under load"
	// The failpoints exist only in builds with the tag of that name.
	failNode     kind = "failpoint of node"
	failWorker   kind = "failpoint of worker"
	failRecovery kind = "failpoint in recovery"
	failStop     kind = "failpoint while node stops"
	// Those of a network of agents, and of a cluster of NATS servers.
	killAgent  kind = "kill agent"
	stopAgent  kind = "stop agent beyond its leases"
	drainAgent kind = "terminate agent under load"
	cutDoor    kind = "cut the connections of agents"
	killBroker kind = "kill NATS server"
	stopBroker kind = "stop NATS server"
)

// ofNode reports whether the node is away meanwhile, or cannot be reached by all.
func (k kind) ofNode() bool {
	switch k {
	case killNode, killBoth, killRecovery, zombieNode, drainNode, failNode, failRecovery, failStop, cutDoor:
		return true
	default:
		return false
	}
}

func kinds() []kind {
	list := []kind{killNode, killWorker, killBoth, killRecovery, zombie, zombieNode, drainWorker, drainNode}
	if failpoint.Enabled {
		list = append(list, failNode, failNode, failNode, failWorker, failWorker, failRecovery, failStop)
	}
	return list
}

// kinds are the faults of a cluster.
func (o options) kinds() []kind {
	if o.standby {
		return standbyKinds()
	}
	if o.zombies {
		return []kind{zombie, zombie, zombieLong, zombieNode}
	}
	list := kinds()
	if o.network {
		list = append(list, killAgent, killAgent, stopAgent, drainAgent, cutDoor)
	}
	if o.cluster {
		list = append(list, killBroker, killBroker, stopBroker)
	}
	return list
}

// strike is one fault of a round.
type strike struct {
	kind kind
	// after is how long the load runs before it.
	after time.Duration
	// worker is the one that is hit.
	worker int
	// broker is the NATS server that is hit.
	broker int
	// away is how long the processes that were hit stay away, or stopped.
	away time.Duration
	// again are the times after which a recovering node is killed again.
	again []time.Duration
	// trap is the failpoint at which the process dies.
	trap trap
}

// trap is the pass of a failpoint at which a process dies.
type trap struct {
	point failpoint.Point
	pass  int
}

// strikesPerRound is the number of faults of a round; the deck of all kinds is dealt from round to round.
const strikesPerRound = 2

// schedule returns the faults of every round. It depends only on its arguments, and a shorter schedule is a prefix of a
// longer one.
func schedule(seed uint64, rounds int) [][]strike { return scheduleOf(kinds(), seed, rounds) }

// scheduleOf is schedule with faults of one's own.
func scheduleOf(kinds []kind, seed uint64, rounds int) [][]strike {
	rng := rand.New(rand.NewPCG(seed, 0))
	var deck []kind
	nodeTraps, workerTraps := dealer(rng, nodePoints()), dealer(rng, workerPoints())
	recoveryTraps, stopTraps := dealer(rng, recoveryPoints()), dealer(rng, stopPoints())
	plan := make([][]strike, rounds)
	for i := range plan {
		for range strikesPerRound {
			if len(deck) == 0 {
				deck = slices.Clone(kinds)
				rng.Shuffle(len(deck), func(a, b int) { deck[a], deck[b] = deck[b], deck[a] })
			}
			s := newStrike(rng, deck[0])
			switch deck[0] {
			case failNode:
				s.trap = nodeTraps()
			case failWorker:
				s.trap = workerTraps()
			case failRecovery:
				s.trap = recoveryTraps()
			case failStop:
				s.trap = stopTraps()
			default: // killed from outside
			}
			plan[i] = append(plan[i], s)
			deck = deck[1:]
		}
	}
	return plan
}

func newStrike(rng *rand.Rand, k kind) strike {
	millis := func(from, to int) time.Duration { return time.Duration(from+rng.IntN(to-from)) * time.Millisecond }
	s := strike{kind: k, after: millis(100, 350), worker: rng.IntN(workerCount), away: millis(0, 200)}
	if k == zombie || k == zombieNode { // when slow calls are at work
		s.after += lease / 4
		s.away = lease + lease/2 + millis(0, 500)
	}
	if k == zombieLong {
		s.after += lease / 4
		s.away = toilLimit + overrun + lease + millis(0, 2000)
	}
	if k == stopAgent {
		s.away = agentLease + lease + millis(0, 500)
	}
	if k == killBroker || k == stopBroker {
		s.broker = rng.IntN(brokerCount)
		s.away += millis(200, 2500)
	}
	if k == stopActive || k == partActive { // shorter than a lease, and longer
		s.away = millis(300, 5000)
	}
	if k == killRecovery {
		for range 1 + rng.IntN(3) {
			s.again = append(s.again, millis(0, 200))
		}
	}
	return s
}

// dealer returns a function that returns all traps before it repeats one. The pass is random, up to that of the trap.
func dealer(rng *rand.Rand, all []trap) func() trap {
	var deck []trap
	return func() trap {
		if len(deck) == 0 {
			deck = append(deck, all...)
			rng.Shuffle(len(deck), func(a, b int) { deck[a], deck[b] = deck[b], deck[a] })
		}
		next := deck[0]
		deck = deck[1:]
		next.pass = 1 + rng.IntN(next.pass)
		return next
	}
}

// nodePoints are the failpoints of a node, with the most passes to wait for: as many as there are in a
// moment of work.
func nodePoints() []trap {
	return []trap{
		{failpoint.BeforeAppend, 50},
		{failpoint.Written, 50},
		{failpoint.Appended, 50},
		{failpoint.BlobStored, 2},
		{failpoint.BeforeAnswer, 60},
		{failpoint.Answered, 60},
		{failpoint.Reported, 20},
		{failpoint.BeforeMark, 2},
		{failpoint.MarkStored, 2},
		{failpoint.BeforeCheckpoint, 2},
		{failpoint.CheckpointSaved, 2},
		{failpoint.ArchivePart, 10},
		{failpoint.Archived, 10},
	}
}

func workerPoints() []trap {
	return []trap{{failpoint.Taken, 15}, {failpoint.BeforeEffect, 15}, {failpoint.AfterEffect, 15}, {failpoint.Delivered, 15}}
}

// recoveryPoints returns the points that a node passes while it recovers from a kill.
func recoveryPoints() []trap {
	return []trap{{failpoint.Restoring, 1}, {failpoint.BeforeMark, 1}, {failpoint.BeforeAppend, 5}, {failpoint.Appended, 5}, {failpoint.Answered, 5}}
}

// stopPoints returns the points that a node passes during a clean stop.
func stopPoints() []trap {
	return []trap{{failpoint.BeforeMark, 1}, {failpoint.MarkStored, 1}, {failpoint.BeforeIndex, 1}, {failpoint.IndexSaved, 1}, {failpoint.BeforeAppend, 3}, {failpoint.Appended, 3}, {failpoint.BeforeAnswer, 20}}
}

func TestScheduleRepeats(t *testing.T) {
	t.Parallel()
	first, again := schedule(7, 20), schedule(7, 20)
	assert.Equal(t, first, again)
	assert.Equal(t, first[:5], schedule(7, 5), "a round does not depend on how many follow")
	assert.NotEqual(t, first, schedule(8, 20))
	seen := map[kind]int{}
	for _, round := range first {
		for _, s := range round {
			seen[s.kind]++
		}
	}
	for _, k := range kinds() {
		assert.Positive(t, seen[k], "%s is among twenty rounds", k)
	}
}
