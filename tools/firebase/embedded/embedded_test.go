package embedded_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/embedded"
	"github.com/orch-dev/orch/tools/firebase/firebasetest"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// journal is a journal in memory whose methods can be made to fail.
type journal struct {
	mu       sync.Mutex
	first    uint64 // the position before the first entry
	entries  [][]byte
	snapshot []byte
	at       uint64
	saved    int
	// lost makes the next append fail although the entry is stored, refused makes it fail without storing it; silent
	// makes all reads fail.
	lost, refused error
	silent        error
	// news is true when Follow reports new entries.
	news bool
}

// Append implements embedded.Journal.
func (j *journal) Append(_ context.Context, after uint64, data []byte) (uint64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if after != j.first+uint64(len(j.entries)) {
		return 0, fault.New(fault.Conflict, "another was first")
	}
	if err := j.refused; err != nil {
		j.refused = nil
		return 0, err
	}
	j.entries = append(j.entries, data)
	err := j.lost
	j.lost = nil
	return after + 1, err
}

// Read implements embedded.Journal.
func (j *journal) Read(_ context.Context, after uint64, each func(uint64, []byte) error) error {
	j.mu.Lock()
	err, first, entries := j.silent, j.first, j.entries
	j.mu.Unlock()
	if err != nil {
		return err
	}
	if after < first {
		return fault.New(fault.DataLoss, "entries are gone")
	}
	for i := after - first; i < uint64(len(entries)); i++ {
		if err := each(first+i+1, entries[i]); err != nil {
			return err
		}
	}
	return nil
}

// Snapshot implements embedded.Journal.
func (j *journal) Snapshot(context.Context) ([]byte, uint64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.snapshot, j.at, nil
}

// SaveSnapshot implements embedded.Journal.
func (j *journal) SaveSnapshot(_ context.Context, position uint64, data []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if position <= j.at {
		return nil // another one was saved first
	}
	j.snapshot, j.at = data, position
	j.entries = j.entries[position-j.first:]
	j.first = position
	j.saved++
	return nil
}

// Last implements embedded.Journal.
func (j *journal) Last(context.Context) (uint64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.first + uint64(len(j.entries)), j.silent
}

// Follow implements embedded.Journal.
func (j *journal) Follow(ctx context.Context, changed func(uint64)) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		j.mu.Lock()
		tells := j.news
		j.mu.Unlock()
		if tells {
			changed(0)
		}
		<-tick.C
	}
	return nil
}

// Largest implements embedded.Journal.
func (*journal) Largest() int { return 8 << 20 }

func (j *journal) open(tb testing.TB, open func(embedded.Config) *embedded.Database, cfg embedded.Config) *embedded.Database {
	tb.Helper()
	cfg.Journal = func(context.Context) (embedded.Journal, error) { return j, nil }
	d := open(cfg)
	tb.Cleanup(d.Close)
	return d
}

const backlog = 64

// A caller that waits for the journal can be cancelled; others still get the database.
func TestWaitingForTheJournal(t *testing.T) {
	t.Parallel()
	began, goOn := make(chan struct{}), make(chan struct{})
	d := embedded.NewRealtime(embedded.Config{Journal: func(context.Context) (embedded.Journal, error) {
		close(began)
		<-goOn
		return &journal{}, nil
	}})
	t.Cleanup(d.Close)
	errs := make(chan error, 2)
	read := func() {
		_, err := d.Read(t.Context(), "a", firebase.Query{})
		errs <- err
	}
	go read()
	<-began
	go read()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := d.Read(ctx, "a", firebase.Query{})
	require.Error(t, err)
	assert.Empty(t, errs)
	close(goOn)
	require.NoError(t, <-errs)
	require.NoError(t, <-errs)
}

// The conformance kits, with a snapshot every few writes.
func TestConformance(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	journals := map[firebase.Backend]*journal{}
	kit := func(open func(embedded.Config) *embedded.Database) firebasetest.Kit {
		start := func(tb testing.TB, j *journal) firebase.Backend {
			tb.Helper()
			d := j.open(tb, open, embedded.Config{Backlog: backlog, Entries: 3})
			mu.Lock()
			defer mu.Unlock()
			journals[d] = j
			return d
		}
		return firebasetest.Kit{
			Open: func(tb testing.TB) firebase.Backend { tb.Helper(); return start(tb, &journal{}) },
			Reopen: func(tb testing.TB, b firebase.Backend) firebase.Backend {
				tb.Helper()
				mu.Lock()
				j := journals[b]
				mu.Unlock()
				return start(tb, j)
			},
			Backlog: backlog,
		}
	}
	t.Run("realtime", func(t *testing.T) { t.Parallel(); firebasetest.Realtime(t, kit(embedded.NewRealtime)) })
	t.Run("firestore", func(t *testing.T) { t.Parallel(); firebasetest.Firestore(t, kit(embedded.NewFirestore)) })
}

func set(tb testing.TB, b firebase.Backend, path string, data any) error {
	tb.Helper()
	_, err := b.Write(tb.Context(), path, firebase.Write{Operation: firebase.Set, Data: data})
	return err
}

func read(tb testing.TB, b firebase.Backend, path string) any {
	tb.Helper()
	s, err := b.Read(tb.Context(), path, firebase.Query{})
	require.NoError(tb, err)
	return s.Data
}

// A write whose confirmation was lost is applied once, and confirmed when the journal contains it.
func TestLostConfirmations(t *testing.T) {
	t.Parallel()
	j := &journal{}
	d := j.open(t, embedded.NewRealtime, embedded.Config{})
	require.NoError(t, set(t, d, "n", 1.0))
	timeout := fault.New(fault.Unavailable, "no answer")
	j.lost = timeout
	require.NoError(t, set(t, d, "n", 2.0), "the journal has it")
	assert.Equal(t, any(2.0), read(t, d, "n"))

	j.refused = timeout
	err := set(t, d, "n", 3.0)
	assert.Equal(t, refusal.ConnectionError, fault.From(err).Reason)
	assert.Equal(t, any(2.0), read(t, d, "n"))

	j.lost, j.silent = timeout, timeout
	err = set(t, d, "n", 4.0)
	assert.Equal(t, refusal.ConnectionError, fault.From(err).Reason, "nobody knows")
	assert.Equal(t, any(2.0), read(t, d, "n"))
	j.silent = nil
	_, err = d.Write(t.Context(), "n", firebase.Write{Operation: firebase.Set, Data: map[string]any{".sv": map[string]any{"increment": 1.0}}})
	require.NoError(t, err)
	assert.Equal(t, any(5.0), read(t, d, "n"), "what was there after all counts")
	assert.Len(t, j.entries, 4)
	assert.Equal(t, any(5.0), read(t, j.open(t, embedded.NewRealtime, embedded.Config{}), "n"))
}

// A write that may not be durable is not confirmed, even if the journal contains it.
func TestNothingIsConfirmedThatIsNotDurable(t *testing.T) {
	t.Parallel()
	j := &journal{}
	d := j.open(t, embedded.NewFirestore, embedded.Config{})
	j.lost = fault.New(fault.Unavailable, "the disk did not confirm").WithReason("SYNC_FAILED")
	err := set(t, d, "c/d", map[string]any{})
	assert.Equal(t, refusal.ConnectionError, fault.From(err).Reason)
}

// Errors of a journal become errors of a database; a journal that failed to open is opened again.
func TestErrorsOfTheJournal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code   fault.Code
		reason string
	}{
		{fault.DiskFull, refusal.QuotaExceeded}, {fault.Unavailable, refusal.ConnectionError}, {fault.DataLoss, refusal.ConnectionError},
	} {
		j := &journal{}
		d := j.open(t, embedded.NewRealtime, embedded.Config{})
		require.NoError(t, set(t, d, "a", 1.0))
		j.refused = fault.New(c.code, "no").WithHint("do this")
		e := fault.From(set(t, d, "a", 2.0))
		assert.Equal(t, c.reason, e.Reason)
		assert.Equal(t, "do this", e.Hint)
		fails := true
		again := embedded.NewRealtime(embedded.Config{Journal: func(context.Context) (embedded.Journal, error) {
			if fails {
				return nil, fault.New(c.code, "no")
			}
			return j, nil
		}})
		_, err := again.Read(t.Context(), "a", firebase.Query{})
		assert.Equal(t, c.reason, fault.From(err).Reason)
		fails = false
		assert.Equal(t, any(1.0), read(t, again, "a"))
		again.Close()
		_, err = again.Watch(t.Context(), "a", firebase.Value)
		assert.Equal(t, refusal.ConnectionError, fault.From(err).Reason)
	}
}

// A damaged journal is reported, not skipped.
func TestDamage(t *testing.T) {
	t.Parallel()
	for name, j := range map[string]*journal{
		"an entry":         {entries: [][]byte{[]byte(`{"id"`)}},
		"a path":           {entries: [][]byte{[]byte(`{"puts":[{"path":"a//b","data":1}]}`)}},
		"a value":          {entries: [][]byte{[]byte(`{"puts":[{"path":"a","data":{".sv":"now"}}]}`)}},
		"the snapshot":     {snapshot: []byte(`[`), at: 1, first: 1},
		"in the snapshot":  {snapshot: []byte(`{"puts":[{"path":"","data":{"a.b":1}}]}`), at: 1, first: 1},
		"what lies before": {first: 5},
	} {
		_, err := j.open(t, embedded.NewRealtime, embedded.Config{}).Read(t.Context(), "a", firebase.Query{})
		e := fault.From(err)
		require.NotNil(t, e, name)
		assert.Equal(t, refusal.ConnectionError, e.Reason, name)
		assert.Contains(t, e.Message, "damaged", name)
	}
}

// Snapshots are saved by the number of entries and by their size, and the journal remains short.
func TestSnapshots(t *testing.T) {
	t.Parallel()
	j := &journal{}
	d := j.open(t, embedded.NewFirestore, embedded.Config{Entries: 10})
	for n := range 100 {
		require.NoError(t, set(t, d, fmt.Sprintf("c/d%d", n%7), map[string]any{"n": float64(n)}))
	}
	d.Close()
	assert.Positive(t, j.saved)
	assert.Less(t, len(j.entries), 100)

	j = &journal{}
	d = j.open(t, embedded.NewRealtime, embedded.Config{Bytes: 1 << 20})
	for n := range 100 {
		require.NoError(t, set(t, d, "big", strings.Repeat("x", 50<<10)+strconv.Itoa(n)))
	}
	d.Close()
	assert.Positive(t, j.saved)
	assert.Less(t, j.saved, 6)
}
