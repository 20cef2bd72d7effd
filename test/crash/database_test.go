package crash_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/test/crash"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/embedded"
)

const (
	// listPath is the list of the Realtime Database, documentsPath the collection of Firestore, sumPath the counter.
	listPath      = "list"
	documentsPath = "documents"
	sumPath       = "sum"
	// bankEvery is the longest pause between two transactions of a client.
	bankEvery = 150 * time.Millisecond
)

// bankJobs are the tasks that write databases. NAME in a plan is the name of the task.
func bankJobs() []job {
	const head = "orch: v1\nname: NAME\nsteps:\n"
	step := func(more, with string) string {
		return "  - id: x\n    tool: firebase.write\n" + more + "    with: {" + with + "}\n"
	}
	const again = "    retry: {max_attempts: 20, initial: 20ms, max: 100ms}\n"
	push := func(database, path string) string {
		return "database: " + database + ", path: " + path + ", operation: push, data: {by: NAME}"
	}
	return []job{
		{name: "count", deposit: crash.Counter, plan: head + step(again, `database: realtime, path: bank/ROUND, operation: update, transaction: true, data: {sum: {".sv": {increment: 1}}, "by/NAME": {".sv": {increment: 1}}}`)},
		{name: "push", deposit: crash.List, plan: head + step("", push("realtime", listPath))},
		{name: "push again", deposit: crash.List, plan: head + step(again, push("realtime", listPath))},
		{name: "add", deposit: crash.Documents, plan: head + step(again, push("firestore", documentsPath))},
	}
}

// databaseClient records what clients write to the databases and read from them.
type databaseClient struct {
	load *load
	// realtime and firestore are those of the node, whichever it is.
	realtime, firestore firebase.Backend

	mu     sync.Mutex
	writes []crash.DatabaseWrite
	// tasks are the writes that are tasks.
	tasks map[events.TaskID]crash.DatabaseWrite
	// sum is the highest value of the counter that a client has read.
	sum int
}

// elsewhere is a database of the node, as workers reach it.
type elsewhere struct {
	remote *rpc.Remote
	name   firebase.Database
}

// The requests of workers about databases.
type (
	bankRead struct {
		Database firebase.Database `json:"database"`
		Path     string            `json:"path"`
		Query    firebase.Query    `json:"query"`
	}
	bankWrite struct {
		Database firebase.Database `json:"database"`
		Path     string            `json:"path"`
		Write    firebase.Write    `json:"write"`
	}
)

// Read implements firebase.Backend.
func (e elsewhere) Read(ctx context.Context, path string, q firebase.Query) (s firebase.Snapshot, err error) {
	err = e.remote.Ask(ctx, bus.DatabasePrefix+".read", bankRead{e.name, path, q}, &s)
	return s, err
}

// Write implements firebase.Backend.
func (e elsewhere) Write(ctx context.Context, path string, w firebase.Write) (done firebase.Written, err error) {
	err = e.remote.Ask(ctx, bus.DatabasePrefix+".write", bankWrite{e.name, path, w}, &done)
	return done, err
}

// Watch implements firebase.Backend.
func (elsewhere) Watch(context.Context, string, firebase.EventType) (firebase.Watching, error) {
	return firebase.Watching{}, errors.ErrUnsupported
}

func openDatabaseClient(l *load, remote *rpc.Remote) *databaseClient {
	return &databaseClient{
		load: l, realtime: elsewhere{remote, firebase.Realtime}, firestore: elsewhere{remote, firebase.Firestore},
		tasks: map[events.TaskID]crash.DatabaseWrite{},
	}
}

// writeName makes a unique name of a write.
func writeName(kind, name string) string { return strings.ReplaceAll(kind, " ", "-") + "-" + name }

// expect records that a task will write.
func (b *databaseClient) expect(id events.TaskID, d crash.DatabaseWrite) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tasks[id] = d
}

// run increments the counter in transactions until stop is closed, and reads it.
func (b *databaseClient) run(ctx context.Context, stop <-chan struct{}, round, i int) {
	for n := 0; !closed(stop); n++ {
		b.count(ctx, round, fmt.Sprintf("direct-%d-%d-%d", round, i, n))
		b.readCounter(ctx, round)
		_ = pause.For(ctx, rand.N(bankEvery))
	}
}

// count increments the sum in a transaction. Without an answer the outcome is unknown.
func (b *databaseClient) count(ctx context.Context, round int, name string) {
	ctx, stop := context.WithTimeout(ctx, oneAnswer)
	defer stop()
	path := "bank/" + roundPath(round)
	_, err := firebase.Transact(ctx, b.realtime, path, func(s firebase.Snapshot) (firebase.Write, error) {
		sum := 0.0
		if was, ok := s.Data.(map[string]any); ok {
			sum, _ = was["sum"].(float64)
		}
		return firebase.Write{Operation: firebase.Update, Data: map[string]any{"sum": sum + 1, "by/" + name: map[string]any{".sv": map[string]any{"increment": 1}}}}, nil
	})
	if fault.Has(err, fault.Conflict) {
		return // it was not done, or the check finds a name that nobody knows
	}
	d := crash.DatabaseWrite{Name: name, Kind: crash.Counter, Round: round, Answered: err == nil}
	b.mu.Lock()
	b.writes = append(b.writes, d)
	b.mu.Unlock()
}

func roundPath(round int) string { return fmt.Sprintf("r%d", round) }

// readCounter reads the counter of a round: it never decreases (I16).
func (b *databaseClient) readCounter(ctx context.Context, round int) {
	ctx, stop := context.WithTimeout(ctx, oneAnswer)
	defer stop()
	b.mu.Lock()
	before := b.sum
	b.mu.Unlock()
	s, err := b.realtime.Read(ctx, "bank/"+roundPath(round)+"/sum", firebase.Query{})
	if err != nil {
		return
	}
	sum, _ := s.Data.(float64)
	if now := round*sumOfRound + int(sum); now < before {
		b.load.violate("I16", "", round, "the counter went back from %d to %d", before-round*sumOfRound, int(sum))
	} else {
		b.mu.Lock()
		b.sum = max(b.sum, now)
		b.mu.Unlock()
	}
}

// sumOfRound is more than anybody counts in a round.
const sumOfRound = 1_000_000

// ended collects the outcomes of the tasks that wrote: writes of tasks that are DONE have happened, the others may
// have.
func (b *databaseClient) ended(ctx context.Context, owner api.API) []crash.DatabaseWrite {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := append([]crash.DatabaseWrite(nil), b.writes...)
	for id, d := range b.tasks {
		view, _, err := insist(ctx, owner.Get, api.GetRequest{ID: id})
		d.Answered = err == nil && view.State == statemachine.Done
		all = append(all, d)
	}
	return all
}

// happened reports whether a write of a task is in the database.
func (b *databaseClient) happened(ctx context.Context, d crash.DatabaseWrite) (bool, error) {
	held, err := b.read(ctx, b.realtime, b.firestore)
	if err != nil {
		return false, err
	}
	switch d.Kind {
	case crash.Counter:
		return held.By[d.Name] > 0, nil
	case crash.List:
		return has(held.List, d.Name), nil
	default:
		return has(held.Documents, d.Name), nil
	}
}

func has(pushed map[string]string, name string) bool {
	for _, by := range pushed {
		if by == name {
			return true
		}
	}
	return false
}

// read returns the content of the databases.
func (*databaseClient) read(ctx context.Context, realtime, firestore firebase.Backend) (crash.DatabaseContent, error) {
	held := crash.DatabaseContent{By: map[string]int{}, List: map[string]string{}, Documents: map[string]string{}}
	rounds, err := objectAt(ctx, realtime, "bank")
	if err != nil {
		return held, err
	}
	for _, round := range rounds {
		of, _ := round.(map[string]any)
		sum, _ := of["sum"].(float64)
		held.Sum += int(sum)
		by, _ := of["by"].(map[string]any)
		for name, n := range by {
			times, _ := n.(float64)
			held.By[name] = int(times)
		}
	}
	for path, into := range map[string]map[string]string{listPath: held.List, documentsPath: held.Documents} {
		b := realtime
		if path == documentsPath {
			b = firestore
		}
		pushed, err := objectAt(ctx, b, path)
		if err != nil {
			return held, err
		}
		for key, child := range pushed {
			of, _ := child.(map[string]any)
			into[key], _ = of["by"].(string)
		}
	}
	return held, nil
}

func objectAt(ctx context.Context, b firebase.Backend, path string) (map[string]any, error) {
	s, _, err := insist(ctx, func(ctx context.Context, path string) (firebase.Snapshot, error) {
		return b.Read(ctx, path, firebase.Query{})
	}, path)
	object, _ := s.Data.(map[string]any)
	return object, err
}

// bankOf reads the databases from the journals of a store, as the next node would.
func bankOf(r *run, store *bus.Store) crash.DatabaseContent {
	r.t.Helper()
	open := func(database func(embedded.Config) *embedded.Database, name string) firebase.Backend {
		d := database(embedded.Config{Journal: func(ctx context.Context) (embedded.Journal, error) { return store.OpenJournal(ctx, name) }})
		r.t.Cleanup(d.Close)
		return d
	}
	held, err := r.databases.read(r.t.Context(), open(embedded.NewRealtime, bus.RealtimeJournal), open(embedded.NewFirestore, bus.FirestoreJournal))
	require.NoError(r.t, err)
	return held
}
