package crash_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/costs"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/test/crash"
)

// The environment of the test.
const (
	// envRounds is the number of rounds; the default is small, to keep `go test ./...` short.
	envRounds = "ORCH_CRASH_ROUNDS"
	// envSeed repeats the schedule of an earlier run, envOnly one round of it by its number.
	envSeed = "ORCH_CRASH_SEED"
	envOnly = "ORCH_CRASH_ONLY"
	// envSeconds bounds the time of the rounds, in seconds; 0 means no bound.
	envSeconds = "ORCH_CRASH_SECONDS"
	// envClusters is the number of clusters that share the rounds and run at the same time.
	envClusters = "ORCH_CRASH_CLUSTERS"

	defaultRounds = 2
)

// run is one run of the test.
type run struct {
	t       *testing.T
	cluster *cluster
	load    *load
	api     api.API
	faults  map[kind]int
	// snapshots is the number of checkpoints that were compared.
	snapshots int
	// messages, bank and listener are there in a network.
	messages  *messageClient
	databases *databaseClient
	listener  *listener
	// costs are what models cost, as the node answered before it ended.
	costs map[string][]costs.Row
	// beat is the schedule of the run, pager the receiver of its destination.
	beat  crash.Schedule
	pager *pager
	// bell delivers to a hook; nil without a network.
	bell *bell
	// The observations in the network before the node ended: outcomes of writes, messages that readers saw, events of
	// subscriptions.
	databaseWrites []crash.DatabaseWrite
	seen           crash.DatabaseContent
	heard          []crash.SubscriptionLog
}

// TestCrash kills a node and its workers while clients submit, watch, read and cancel tasks. Then it compares the
// answers to the clients and the effects of the tools with the raw log.
func TestCrash(t *testing.T) {
	t.Parallel()
	seed := fromEnv(t, envSeed, uint64(time.Now().UnixNano()))
	rounds, clusters := int(fromEnv(t, envRounds, defaultRounds)), int(fromEnv(t, envClusters, 1))
	for i := range clusters {
		t.Run("cluster", func(t *testing.T) {
			t.Parallel()
			crashRounds(t, options{}, seed+uint64(i), (rounds+clusters-1)/clusters)
		})
	}
}

// crashRounds runs the rounds of a seed, or only one of them.
func crashRounds(t *testing.T, o options, seed uint64, rounds int) {
	t.Helper()
	t.Logf("%s=%d", envSeed, seed)
	r := startRun(t, o)
	began, done := time.Now(), 0
	only := int(fromEnv(t, envOnly, 0))
	limit := time.Duration(fromEnv(t, envSeconds, 0)) * time.Second
	for i, strikes := range scheduleOf(o.kinds(), seed, max(rounds, only)) {
		if only != 0 && i+1 != only {
			continue
		}
		if o.zombies {
			strikes = strikes[:1] // a stop takes long
		}
		if limit != 0 && time.Since(began) > limit {
			break
		}
		r.round(seed, i+1, strikes, o.settleWithin())
		done++
		if r.load.violated() {
			for _, v := range r.load.violations {
				t.Log(v)
			}
			t.Logf("repeat the round with %s=%d %s=%d", envSeed, seed, envOnly, i+1)
			break
		}
	}
	took := time.Since(began)
	if !o.cluster { // what processes hold is the same there
		r.checkUsage(seed, max(rounds, only)+1)
	}
	r.load.awaitWatchers(settleWithin)
	r.stopNetwork()
	r.awaitTidy(settleWithin)
	r.askCosts()
	r.stopBeat()
	r.stopPager()
	r.cluster.stop()
	report := r.check()
	r.print(report, done, seed, took)
	for _, v := range report.Violations {
		t.Error(v)
	}
	assert.NotEmpty(t, report.Ended["DONE"])
}

func fromEnv(t *testing.T, name string, unset uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return unset
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, name)
	return n
}

// startRun starts the processes and the clients. The directory is kept after a failure.
func startRun(t *testing.T, o options) *run {
	t.Helper()
	dir, err := os.MkdirTemp("", "orch-crash-*") //nolint:usetesting // it is kept after a failure
	require.NoError(t, err)
	agents := filepath.Join(dir, ".orch", "agents")
	require.NoError(t, os.MkdirAll(agents, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(agents, "crew.yaml"), []byte(crewPlan), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".orch", "models"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".orch", "models", "script.yaml"), []byte(modelScript), 0o600))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the data, the ledger and the logs are in %s", dir)
			return
		}
		assert.NoError(t, os.RemoveAll(dir))
	})
	c := startCluster(t, dir, o)
	r := &run{t: t, cluster: c, faults: map[kind]int{}, api: dial(t, c)}
	t.Cleanup(func() { r.load.watching.Wait() })
	r.load = &load{api: dial(t, c), watcher: dial(t, c), jobs: o.jobs(), watched: map[events.TaskID]int{}, dial: func() (*rpc.Remote, error) {
		return node.Dial(t.Context(), c.config())
	}}
	r.startPager()
	r.startNetwork()
	r.startBeat()
	return r
}

func dial(t *testing.T, c *cluster) *rpc.Remote {
	t.Helper()
	remote, err := node.Dial(t.Context(), c.config())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, remote.Close()) })
	return remote
}

// round applies the strikes while clients work, and then waits until all their tasks have ended.
func (r *run) round(seed uint64, n int, strikes []strike, within time.Duration) {
	r.t.Helper()
	began := time.Now()
	r.cluster.round = n
	stop, ended, still := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		r.runLoad(stop, seed, n)
	}()
	r.load.lookAround(r.t.Context(), still, seed, n)
	r.load.watching.Go(func() { r.load.grantAll(r.t.Context(), still, n) })
	for _, s := range strikes {
		wait(s.after)
		r.cluster.strike(s)
		r.faults[s.kind]++
	}
	close(stop)
	<-ended
	r.cluster.frozen.Wait()
	struck := time.Since(began)
	r.settle(n, within)
	r.settleNetwork(n, within)
	close(still)
	settled := time.Since(began)
	r.replay(n)
	r.t.Logf("round %d: %s; %d tasks, faults %s, settled %s, replayed %s", n, names(strikes), len(r.load.ackedIn(n)),
		struck.Round(time.Millisecond), (settled - struck).Round(time.Millisecond), (time.Since(began) - settled).Round(time.Millisecond))
}

// names lists the faults of a round.
func names(strikes []strike) string {
	list := make([]string, len(strikes))
	for i, s := range strikes {
		list[i] = string(s.kind)
		if s.trap.point != "" {
			list[i] += fmt.Sprintf(" (%s %d)", s.trap.point, s.trap.pass)
		}
	}
	return strings.Join(list, ", ")
}

// calmWithin bounds how long processes may take to release unneeded resources.
const calmWithin = 15 * time.Second

// checkUsage checks that processes use no more resources after work than before it (I14).
func (r *run) checkUsage(seed uint64, n int) {
	r.t.Helper()
	for i := range r.cluster.workers {
		r.cluster.drainWorker(i)
	}
	r.cluster.drainNode()
	r.work(seed, n)                                    // connections and caches of the first use are no leak
	before, held := r.usage(), 4*len(r.cluster.agents) // connections of agents come and go
	r.work(seed, n+1)
	after := r.usage()
	for end := time.Now().Add(calmWithin); grown(before, after, held) && time.Now().Before(end); after = r.usage() {
		wait(100 * time.Millisecond)
	}
	r.t.Logf("before work %v, after it %v", before, after)
	if grown(before, after, held) {
		r.load.violate("I14", "", n, "before work %v, after it %v", before, after)
		r.t.Logf("the node does %s", r.cluster.node.stacks())
	}
}

// staffed is the number of goroutines that a process may have of its own; a node with workers has about 140.
const staffed = 150

// grown reports whether processes use more resources than before, beyond normal fluctuation.
func grown(before, after []usage, connections int) bool {
	for i, u := range after {
		b := before[i]
		if u.goroutines > max(b.goroutines+8+connections, staffed) || u.files > b.files+4+connections || u.rss > b.rss+b.rss/2+32<<20 {
			return true
		}
	}
	return false
}

// work lets the clients work for a moment without faults.
func (r *run) work(seed uint64, n int) {
	r.t.Helper()
	stop, still := make(chan struct{}), make(chan struct{})
	r.load.watching.Go(func() { r.load.grantAll(r.t.Context(), still, n) })
	defer close(still)
	time.AfterFunc(time.Second, func() { close(stop) })
	r.runLoad(stop, seed, n)
	r.settle(n, r.cluster.settleWithin())
	r.replay(n)
}

func (r *run) usage() []usage {
	r.t.Helper()
	list := []usage{r.cluster.node.usage()}
	for _, w := range r.cluster.workers {
		list = append(list, w.usage())
	}
	return list
}

// check opens the store of the stopped node and checks all evidence against it.
func (r *run) check() crash.Report {
	r.t.Helper()
	effects, err := crash.ReadLedger(ledgerPath(r.cluster.dir))
	require.NoError(r.t, err)
	store := r.openStore()
	var archived []events.TaskID
	for head, err := range store.ArchivedHeads(r.t.Context()) {
		require.NoError(r.t, err, "%v", errors.Unwrap(err))
		archived = append(archived, head.Task)
	}
	r.load.mu.Lock() // watchers may still be at work
	defer r.load.mu.Unlock()
	report, err := crash.Check(r.t.Context(), store, crash.Evidence{
		Acks: r.load.acks, Cancels: r.load.cancels, Watches: r.load.watches, Effects: effects,
		Lost: r.cluster.lost, Secrets: r.cluster.secrets(), Mark: r.readMark(), Agents: r.cluster.agentOf, Absences: slices.Concat(r.cluster.absent(), readGaps(r.t, r.cluster.dir)), Archived: archived,
		Requests: r.cluster.biller.all(), Says: r.load.says, Budgets: r.cluster.budgets.all(), Costs: r.costs, Schedules: []crash.Schedule{r.beat}, Destination: r.pager.evidence(r.t), HookDeliveries: r.rung(),
	})
	require.NoError(r.t, err)
	report.Violations = slices.Concat(r.load.violations, report.Violations, checkLooks(r.load.looks))
	r.snapshots, err = checkSnapshots(r.t.Context(), store, &report)
	require.NoError(r.t, err)
	leaked, err := filesWithSecret(r.cluster.dir, r.cluster.secrets()...)
	require.NoError(r.t, err)
	report.Violations = append(report.Violations, leaked...)
	found, err := store.Verify(r.t.Context(), nil)
	require.NoError(r.t, err)
	for _, p := range found.Problems {
		report.Violations = append(report.Violations, crash.Violation{Invariant: "I11", Task: p.Task, What: p.What})
	}
	report.Violations = slices.Concat(report.Violations, r.leftovers(), r.folders(store), r.checkNetwork(store))
	return report
}

// awaitTidy waits until the node has cleaned up the folders that earlier nodes had no time for: a node checks all
// folders when it becomes active, and a later one continues if it is stopped before the end.
func (r *run) awaitTidy(within time.Duration) {
	r.t.Helper()
	for end := time.Now().Add(within); time.Now().Before(end); wait(50 * time.Millisecond) {
		left, err := filepath.Glob(filepath.Join(r.cluster.dir, "Working", "TASK_*", "temp"))
		require.NoError(r.t, err)
		if len(left) == 0 {
			return
		}
	}
}

// folders returns the folders that should have been removed or moved: temporary ones, because every task has ended, and
// those of archived tasks (I14).
func (r *run) folders(store *bus.Store) []crash.Violation {
	r.t.Helper()
	archived := map[string]bool{}
	for head, err := range store.ArchivedHeads(r.t.Context()) {
		require.NoError(r.t, err, "%v", errors.Unwrap(err))
		archived[string(head.Task)] = true
	}
	for head, err := range store.Heads(r.t.Context()) { // those whose archiving goes on
		require.NoError(r.t, err, "%v", errors.Unwrap(err))
		delete(archived, string(head.Task))
	}
	dirs, err := filepath.Glob(filepath.Join(r.cluster.dir, "Working", "TASK_*"))
	require.NoError(r.t, err)
	var found []crash.Violation
	for _, dir := range dirs {
		if archived[filepath.Base(dir)] {
			found = append(found, crash.Violation{Invariant: "I14", What: "the folder " + dir + " of an archived task is left"})
		}
		if _, err := os.Stat(filepath.Join(dir, "temp")); err == nil {
			found = append(found, crash.Violation{Invariant: "I14", What: "a temporary folder is left in " + dir})
		}
	}
	return found
}

// leftovers returns what processes left behind: stack traces, children, temporary files (I14).
func (r *run) leftovers() []crash.Violation {
	r.t.Helper()
	var found []crash.Violation
	add := func(format string, args ...any) {
		found = append(found, crash.Violation{Invariant: "I14", What: fmt.Sprintf(format, args...)})
	}
	for _, role := range r.cluster.roles() {
		for _, line := range r.cluster.crashes(role) {
			add("the %s said: %s", role, line)
		}
	}
	for _, pid := range processesOf(r.cluster.dir) {
		if r.cluster.isBroker(pid) { // the store is read from it
			continue
		}
		add("process %d is left: %s", pid, about(pid))
	}
	if r.cluster.orphans > 0 {
		add("%d children outlived their worker", r.cluster.orphans)
	}
	files, err := os.ReadDir(tempDir(r.cluster.dir))
	require.NoError(r.t, err)
	for _, f := range files {
		add("the temporary file %s is left", f.Name())
	}
	return found
}

// openStore opens the store of the stopped node.
func (r *run) openStore() *bus.Store {
	r.t.Helper()
	t := r.t
	var conn *bus.Conn
	var err error
	if r.cluster.cluster {
		conn, err = bus.Dial(t.Context(), bus.DialConfig{URL: r.cluster.natsURL()})
	} else {
		server, noServer := bus.StartServer(t.Context(), bus.ServerConfig{DataDir: filepath.Join(r.cluster.dir, "data")})
		require.NoError(t, noServer)
		t.Cleanup(func() { assert.NoError(t, server.Close(context.WithoutCancel(t.Context()))) })
		conn, err = server.Connect(t.Context())
	}
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	store, err := conn.OpenStore(t.Context(), bus.StoreConfig{Replicas: r.cluster.replicas()})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, store.Close(context.WithoutCancel(t.Context()))) })
	return store
}

// readMark returns the mark beside the store of an embedded server.
func (r *run) readMark() *crash.Mark {
	r.t.Helper()
	if r.cluster.cluster {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(r.cluster.dir, "data", "highwater.json"))
	require.NoError(r.t, err)
	m := &crash.Mark{}
	require.NoError(r.t, json.Unmarshal(data, m))
	return m
}

// print prints a summary of the run.
func (r *run) print(report crash.Report, rounds int, seed uint64, took time.Duration) {
	r.t.Helper()
	r.t.Logf("rounds %d in %s, %s each; %s=%d", rounds, took.Round(time.Second), (took / time.Duration(max(rounds, 1))).Round(time.Millisecond), envSeed, seed)
	r.t.Logf("tasks: %d acknowledged, %d with children, %d commits, %v; %d requests were repeated",
		len(r.load.acks), report.Tasks, report.Commits, report.Ended, r.load.repeats)
	r.t.Logf("faults: %v; deaths at failpoints: %v, and %d that were not reached", r.faults, r.cluster.points, r.cluster.missed)
	r.t.Logf("effects: %v; attempts that lost their worker %d, late results refused %d", report.Begins, report.Lost, report.Refused)
	r.t.Logf("models: %d requests, %d messages to agents, %d grants; costs %v", len(r.cluster.biller.all()), len(r.load.says), r.load.grants, r.costs[costs.ByModel])
	r.t.Logf("in doubt: %d, resolved %v", report.InDoubt, report.Resolved)
	r.t.Logf("deliveries to a destination: %d", len(r.pager.evidence(r.t).Accepted))
	r.t.Logf("watches: %d; looks at the state of tasks: %d; checkpoints compared: %d; requests refused for a secret: %d",
		len(r.load.watches), len(r.load.looks), r.snapshots, r.load.refusals)
	r.t.Logf("node starts: %d, median %s, longest %s; drains: %d, longest %s", len(r.cluster.restarts),
		median(r.cluster.restarts), longest(r.cluster.restarts), len(r.cluster.drains), longest(r.cluster.drains))
	r.printNetwork()
	if r.cluster.pair != nil {
		r.cluster.pair.print()
	}
	count := map[string]int{}
	for _, v := range report.Violations {
		count[v.Invariant]++
	}
	for _, i := range crash.Invariants() {
		r.t.Logf("%-4s %s: %d violations", i[0], i[1], count[i[0]])
	}
	r.t.Logf("violations: %d", len(report.Violations))
}

func median(list []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2].Round(time.Millisecond)
}

func longest(list []time.Duration) time.Duration {
	if len(list) == 0 {
		return 0
	}
	return slices.Max(list).Round(time.Millisecond)
}
