package auditor_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/audit"
	"github.com/orch-dev/orch/auditor"
	"github.com/orch-dev/orch/fault"
)

// world is a journal that outlives streams, as a data directory does.
type world struct {
	t *testing.T

	mu       sync.Mutex
	now      time.Time
	entries  [][]byte
	pruned   uint64
	snapshot []byte
	position uint64
	exists   bool
	// failing is called before each append; an error is its result. An append that lost its answer has had its effect.
	failing func() (err error, lost bool)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)}
}

func (w *world) Append(_ context.Context, newest uint64, data []byte) (uint64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var err error
	lost := true
	if w.failing != nil {
		err, lost = w.failing()
	}
	if err != nil && !lost {
		return 0, err
	}
	if newest != w.pruned+uint64(len(w.entries)) {
		return 0, fault.New(fault.Conflict, "another change was first")
	}
	w.entries = append(w.entries, slices.Clone(data))
	return newest + 1, err
}

func (w *world) Read(_ context.Context, after uint64, fn func(uint64, []byte) error) error {
	w.mu.Lock()
	entries, pruned := slices.Clone(w.entries), w.pruned
	w.mu.Unlock()
	if after < pruned {
		return fault.New(fault.DataLoss, "entry %d is gone", after+1)
	}
	for i, data := range entries {
		if at := pruned + uint64(i) + 1; at > after {
			if err := fn(at, data); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *world) Last(context.Context) (uint64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pruned + uint64(len(w.entries)), nil
}

func (w *world) Snapshot(context.Context) ([]byte, uint64, error) {
	return w.snapshot, w.position, nil
}

func (w *world) SaveSnapshot(_ context.Context, position uint64, data []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.snapshot, w.position = data, position
	w.entries, w.pruned = w.entries[position-1-w.pruned:], position-1
	return nil
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// secret is what the redaction of the streams of these tests removes.
const secret = "hunter2"

// open returns a stream, whose windows end when it is closed.
func (w *world) open() *auditor.Stream {
	w.t.Helper()
	s := auditor.New(auditor.Config{
		Open: func(_ context.Context, create bool) (auditor.Journal, error) {
			if w.exists = w.exists || create; !w.exists {
				return nil, nil //nolint:nilnil // as auditor.Config.Open says
			}
			return w, nil
		},
		Redact: func(text string) string { return strings.ReplaceAll(text, secret, "[redacted]") },
		Window: time.Hour, Clock: w.clock,
	})
	w.t.Cleanup(s.Close)
	return s
}

// acts returns the acts that a filter selects.
func acts(t *testing.T, s *auditor.Stream, f audit.Filter) []audit.View {
	t.Helper()
	reply, err := s.Audit(t.Context(), api.AuditRequest{Filter: f, Limit: api.MaxActs})
	require.NoError(t, err)
	return reply.Acts
}

// verify checks the whole chain.
func verify(t *testing.T, s *auditor.Stream) audit.Verified {
	t.Helper()
	reply, err := s.AuditEntries(t.Context(), api.AuditEntriesRequest{})
	require.NoError(t, err)
	require.Zero(t, reply.Next)
	done, err := audit.Check(reply.Anchor, reply.Entries)
	require.NoError(t, err)
	return done
}

func act(actor, name, target string) audit.Act {
	return audit.Act{Actor: actor, Face: audit.FaceBus, Name: name, Target: target}
}
