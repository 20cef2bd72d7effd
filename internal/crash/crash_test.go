package crash_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/internal/crash"
	"github.com/orch-dev/orch/internal/node"
	"github.com/orch-dev/orch/orchestrator"
)

// The environment of the test.
const (
	// envRounds is the number of rounds; the default keeps `go test ./...` short.
	envRounds = "ORCH_CRASH_ROUNDS"
	// envSeed repeats the schedule of an earlier run.
	envSeed = "ORCH_CRASH_SEED"

	defaultRounds = 2
)

// run is one run of the test.
type run struct {
	t       *testing.T
	cluster *cluster
	load    *load
	api     orchestrator.API
	faults  map[kind]int
}

// TestCrash kills a node and its workers while clients submit, follow and cancel tasks, and then holds
// what the clients were told and what the tools did against the raw log.
func TestCrash(t *testing.T) {
	t.Parallel()
	rounds, seed := int(fromEnv(t, envRounds, defaultRounds)), fromEnv(t, envSeed, uint64(time.Now().UnixNano()))
	t.Logf("%d rounds, %s=%d", rounds, envSeed, seed)
	r := begin(t)
	began := time.Now()
	for i, strikes := range schedule(seed, rounds) {
		r.round(seed, i+1, strikes)
		if len(r.load.violations) > 0 {
			break
		}
	}
	took := time.Since(began)
	r.calm(seed, rounds+1)
	r.load.watching.Wait()
	r.cluster.stop()
	report := r.check()
	r.print(report, rounds, seed, took)
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

// begin starts the processes and the clients. The directory stays after a failure.
func begin(t *testing.T) *run {
	t.Helper()
	dir, err := os.MkdirTemp("", "orch-crash-*") //nolint:usetesting // it is kept after a failure
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the data, the ledger and the logs are in %s", dir)
			return
		}
		assert.NoError(t, os.RemoveAll(dir))
	})
	c := startCluster(t, dir)
	r := &run{t: t, cluster: c, faults: map[kind]int{}, api: dial(t, c)}
	r.load = &load{api: dial(t, c), watcher: dial(t, c)}
	return r
}

func dial(t *testing.T, c *cluster) orchestrator.API {
	t.Helper()
	remote, err := node.Dial(t.Context(), config(c.dir, io.Discard))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, remote.Close()) })
	return remote
}

// round strikes while clients work, and then waits until all their tasks are over.
func (r *run) round(seed uint64, n int, strikes []strike) {
	r.t.Helper()
	began := time.Now()
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		r.load.run(r.t.Context(), stop, seed, n)
	}()
	for _, s := range strikes {
		wait(s.after)
		r.cluster.strike(s)
		r.faults[s.kind]++
	}
	close(stop)
	<-ended
	struck := time.Since(began)
	r.settle(n)
	settled := time.Since(began)
	r.replay(n)
	r.t.Logf("round %d: %d tasks, faults %s, settled %s, replayed %s", n, len(r.load.ackedIn(n)),
		struck.Round(time.Millisecond), (settled - struck).Round(time.Millisecond), (time.Since(began) - settled).Round(time.Millisecond))
}

// calm checks that processes hold no more after work than before it (I14).
func (r *run) calm(seed uint64, n int) {
	r.t.Helper()
	for i := range r.cluster.workers {
		r.cluster.drainWorker(i)
	}
	r.cluster.node.terminate(drainWithin)
	r.cluster.startNode()
	r.work(seed, n) // connections and caches of the first use are no leak
	before := r.usage()
	r.work(seed, n+1)
	assert.Eventually(r.t, func() bool {
		for i, u := range r.usage() {
			if u.goroutines > before[i].goroutines+8 || u.files > before[i].files+4 {
				return false
			}
		}
		return true
	}, 15*time.Second, 100*time.Millisecond, "I14: before %v, after %v", before, r.usage())
}

// work lets the clients work for a moment without faults.
func (r *run) work(seed uint64, n int) {
	r.t.Helper()
	stop := make(chan struct{})
	time.AfterFunc(time.Second, func() { close(stop) })
	r.load.run(r.t.Context(), stop, seed, n)
	r.settle(n)
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

// check opens the store that the node has left and holds everything against it.
func (r *run) check() crash.Report {
	r.t.Helper()
	effects, err := crash.ReadLedger(ledgerPath(r.cluster.dir))
	require.NoError(r.t, err)
	store := openStore(r.t, filepath.Join(r.cluster.dir, "data"))
	report, err := crash.Check(r.t.Context(), store, crash.Evidence{
		Acks: r.load.acks, Cancels: r.load.cancels, Watches: r.load.watches, Effects: effects,
		Lost: r.cluster.lost, Mark: readMark(r.t, r.cluster.dir),
	})
	require.NoError(r.t, err)
	report.Violations = append(r.load.violations, report.Violations...)
	found, err := store.Verify(r.t.Context(), nil)
	require.NoError(r.t, err)
	for _, p := range found.Problems {
		report.Violations = append(report.Violations, crash.Violation{Invariant: "I11", Task: p.Task, What: p.What})
	}
	for _, role := range []string{roleNode, roleWorker} {
		for _, line := range r.cluster.crashes(role) {
			report.Violations = append(report.Violations, crash.Violation{Invariant: "I14", What: "the " + role + " said: " + line})
		}
	}
	for _, left := range processesOf(r.cluster.dir) {
		report.Violations = append(report.Violations, crash.Violation{Invariant: "I14", What: "process " + strconv.Itoa(left) + " is left"})
	}
	if r.cluster.orphans > 0 {
		report.Violations = append(report.Violations, crash.Violation{Invariant: "I14", What: strconv.Itoa(r.cluster.orphans) + " children outlived their worker"})
	}
	return report
}

func openStore(t *testing.T, dir string) *bus.Store {
	t.Helper()
	server, err := bus.StartServer(t.Context(), bus.ServerConfig{DataDir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close(context.WithoutCancel(t.Context()))) })
	conn, err := server.Connect(t.Context())
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	store, err := conn.OpenStore(t.Context(), bus.StoreConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, store.Close(context.WithoutCancel(t.Context()))) })
	return store
}

func readMark(t *testing.T, dir string) *crash.Mark {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "data", "highwater.json"))
	require.NoError(t, err)
	m := &crash.Mark{}
	require.NoError(t, json.Unmarshal(data, m))
	return m
}

// print says what was done and found.
func (r *run) print(report crash.Report, rounds int, seed uint64, took time.Duration) {
	r.t.Helper()
	r.t.Logf("rounds %d in %s, %s each; seed %d", rounds, took.Round(time.Second), (took / time.Duration(max(rounds, 1))).Round(time.Millisecond), seed)
	r.t.Logf("tasks: %d acknowledged, %d with children, %d commits, %v; %d requests were repeated",
		len(r.load.acks), report.Tasks, report.Commits, report.Ended, r.load.repeats)
	r.t.Logf("faults: %v", r.faults)
	r.t.Logf("effects: %v; attempts that lost their worker %d, late results refused %d", report.Begins, report.Lost, report.Refused)
	r.t.Logf("in doubt: %d, resolved %v", report.InDoubt, report.Resolved)
	r.t.Logf("watches: %d", len(r.load.watches))
	r.t.Logf("node starts: %d, median %s, longest %s; drains: %d, longest %s", len(r.cluster.restarts),
		median(r.cluster.restarts), longest(r.cluster.restarts), len(r.cluster.drains), longest(r.cluster.drains))
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
