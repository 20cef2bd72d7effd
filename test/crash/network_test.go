package crash_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/test/crash"
)

const (
	// writers send messages at the same time, tellers count in the database.
	writers = 2
	tellers = 2
	// networkShare is how many rounds with only tasks there are for each round with agents, messages and databases.
	networkShare = 10
)

// TestCrashNetwork is TestCrash with registered agents, messages and databases in addition to tasks. Agent processes
// and their connections are killed, too.
func TestCrashNetwork(t *testing.T) {
	t.Parallel()
	crashRounds(t, options{network: true}, fromEnv(t, envSeed, uint64(time.Now().UnixNano())), networkRounds(t))
}

// networkRounds is the number of rounds of a network.
func networkRounds(t *testing.T) int {
	t.Helper()
	return int(fromEnv(t, envRounds, defaultRounds)+networkShare-1) / networkShare
}

// startNetwork adds agents, messages, databases and subscribers.
func (r *run) startNetwork() {
	r.t.Helper()
	if !r.cluster.network {
		return
	}
	remote := dial(r.t, r.cluster)
	r.cluster.enrol(remote)
	r.messages = openMessageClient(r, remote)
	r.startBell()
	r.load.jobs = slices.Concat(jobs(), agentJobs(), agentJobs())
	if r.cluster.cluster { // runs on a cluster keep no databases
		return
	}
	r.databases = openDatabaseClient(r.load, remote)
	r.load.databases = r.databases
	r.load.jobs = append(r.load.jobs, bankJobs()...)
	r.listener = openListener(r, dial(r.t, r.cluster))
}

// runLoad runs the clients until stop is closed.
func (r *run) runLoad(stop <-chan struct{}, seed uint64, n int) {
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { r.load.run(r.t.Context(), stop, seed, n) })
	if !r.cluster.network {
		return
	}
	for i := range writers {
		rng := rand.New(rand.NewPCG(seed, uint64(n*writers+i)))
		group.Go(func() { r.messages.send(r.t.Context(), stop, rng, n, i) })
	}
	for i := range ringers {
		rng := rand.New(rand.NewPCG(seed, uint64(n*ringers+i)))
		group.Go(func() { r.bell.run(r.t.Context(), stop, rng, n, i) })
	}
	for i := range tellers {
		if r.databases == nil {
			break
		}
		group.Go(func() { r.databases.run(r.t.Context(), stop, n, i) })
	}
}

// settleNetwork waits until everything that was written in a round has been received.
func (r *run) settleNetwork(n int, within time.Duration) {
	r.t.Helper()
	if r.listener != nil {
		r.awaitFeed(n, within)
	}
}

// stopNetwork stops agents and readers, and reads the final state.
func (r *run) stopNetwork() {
	r.t.Helper()
	if !r.cluster.network {
		return
	}
	r.awaitMail(settleWithin)
	r.cluster.stopAgents()
	open := slices.DeleteFunc(statemachine.States(), statemachine.State.Terminal)
	for end := time.Now().Add(settleWithin); len(r.list(open)) > 0 && time.Now().Before(end); wait(50 * time.Millisecond) {
		r.resolveAll()
	}
	if r.databases == nil {
		return
	}
	var err error
	r.seen, err = r.databases.read(r.t.Context(), r.databases.realtime, r.databases.firestore)
	require.NoError(r.t, err)
	r.databaseWrites = r.databases.ended(r.t.Context(), r.api)
	for end := time.Now().Add(settleWithin); time.Now().Before(end); wait(20 * time.Millisecond) {
		if heard, _, there := r.listener.current(); there && len(heard) == len(r.seen.List) {
			break
		}
	}
	r.heard = r.listener.received()
}

// checkNetwork compares the observations of agents, readers and database clients with the store.
func (r *run) checkNetwork(store *bus.Store) []crash.Violation {
	r.t.Helper()
	if !r.cluster.network {
		return nil
	}
	found := crash.CheckMessages(r.letters())
	if r.databases == nil {
		return found
	}
	held := bankOf(r, store)
	found = slices.Concat(found, crash.CheckDatabase(r.databaseWrites, held), crash.CheckSubscriptions(r.heard, held.List))
	if !reflect.DeepEqual(held, r.seen) {
		found = append(found, crash.Violation{Invariant: "I16", What: "the journals hold something else than readers saw"})
	}
	return found
}

// roles are those of the processes that there were.
func (c *cluster) roles() []string {
	list := []string{roleNode, roleWorker}
	if c.network {
		list = append(list, roleAgent)
	}
	if c.cluster {
		list = append(list, roleBroker)
	}
	return list
}

// printNetwork prints a summary of the network.
func (r *run) printNetwork() {
	r.t.Helper()
	if !r.cluster.network {
		return
	}
	letters, whats, over := r.letters(), map[string]int{}, 0
	for _, e := range letters {
		whats[e.What]++
	}
	kinds := map[string]int{}
	for _, d := range r.databaseWrites {
		kinds[d.Kind]++
		if !d.Answered {
			kinds[d.Kind+" unanswered"]++
		}
	}
	for _, h := range r.heard {
		if h.Ended {
			over++
		}
	}
	r.t.Logf("deliveries to a hook: %d", len(r.rung()))
	r.t.Logf("messages: %v; writes: %v, counted %d; subscriptions to the list: %d, told of their end %d", whats, kinds, r.seen.Sum, len(r.heard), over)
}
