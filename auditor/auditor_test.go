package auditor_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/audit"
	"github.com/orch-dev/orch/auditor"
	"github.com/orch-dev/orch/fault"
)

func TestAnActIsRecordedBeforeAndAfterItsEffect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.open()
	assert.Empty(t, acts(t, s, audit.Filter{}))
	assert.False(t, w.exists, "reading creates no journal")
	p, err := s.Begin(t.Context(), act("user:ada", "token.create", "bob"))
	require.NoError(t, err)
	require.Equal(t, audit.Unknown, acts(t, s, audit.Filter{})[0].Outcome)
	p.End(nil, "TOK_1", nil)
	p, err = s.Begin(t.Context(), act("user:ada", "task.cancel", "TASK_1"))
	require.NoError(t, err)
	p.End(fault.New(fault.StateNotAllowed, "it is over").WithField("id"), "", nil)
	p, err = s.Begin(t.Context(), act("user:ada", "task.cancel", "TASK_2"))
	require.NoError(t, err)
	p.End(fault.New(fault.Unavailable, "gone"), "", nil)
	_, err = s.Begin(t.Context(), act("user:ada", "node.pause", ""))
	require.NoError(t, err)

	require.Len(t, acts(t, s, audit.Filter{}), 4) // the results are written
	again := w.open()                             // as after a crash
	all := acts(t, again, audit.Filter{})
	require.Len(t, all, 4, "%d entries", len(w.entries))
	assert.Equal(t, "TOK_1", all[0].Target)
	var outcomes []audit.Outcome
	for _, a := range all {
		outcomes = append(outcomes, a.Outcome)
	}
	assert.Equal(t, []audit.Outcome{audit.Done, audit.Refused, audit.Failed, audit.Unknown}, outcomes)
	assert.Equal(t, &audit.Problem{Code: fault.StateNotAllowed, Field: "id", Message: "it is over"}, all[1].Error)
	done := verify(t, again)
	assert.Equal(t, 7, done.Entries)
	assert.Equal(t, 1, done.Unknown)
}

func TestFilters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.open()
	begin := w.clock()
	for i, a := range []audit.Act{act("user:ada", "token.create", "a"), act("user:bob", "token.revoke", "a"), act("user:ada", "task.cancel", "TASK_1")} {
		w.advance(time.Minute)
		var err error
		if i == 1 {
			err = fault.New(fault.NotFound, "no")
		}
		require.NoError(t, s.Record(t.Context(), a, err))
	}
	for name, c := range map[string]struct {
		filter audit.Filter
		want   []uint64
	}{
		"all":     {audit.Filter{}, []uint64{1, 2, 3}},
		"actor":   {audit.Filter{Actor: "user:ada"}, []uint64{1, 3}},
		"act":     {audit.Filter{Name: "token.revoke"}, []uint64{2}},
		"prefix":  {audit.Filter{Name: "token.*"}, []uint64{1, 2}},
		"target":  {audit.Filter{Target: "TASK_1"}, []uint64{3}},
		"refused": {audit.Filter{Outcome: []audit.Outcome{audit.Refused}}, []uint64{2}},
		"since":   {audit.Filter{Since: begin.Add(2 * time.Minute)}, []uint64{2, 3}},
		"until":   {audit.Filter{Until: begin.Add(2 * time.Minute)}, []uint64{1}},
		"none":    {audit.Filter{Actor: "user:eve"}, nil},
	} {
		var got []uint64
		for _, a := range acts(t, s, c.filter) {
			got = append(got, a.Number)
		}
		assert.Equal(t, c.want, got, name)
	}
	for _, limit := range []int{-1, api.MaxActs + 1} {
		_, err := s.Audit(t.Context(), api.AuditRequest{Limit: limit})
		require.Equal(t, "limit", fault.From(err).Field)
		_, err = s.AuditEntries(t.Context(), api.AuditEntriesRequest{Limit: limit})
		require.Equal(t, "limit", fault.From(err).Field)
	}
	_, err := s.Audit(t.Context(), api.AuditRequest{Filter: audit.Filter{Outcome: []audit.Outcome{audit.Begun}}})
	require.Equal(t, "outcome", fault.From(err).Field)
}

// Pages have every act once, with its result, even if that was recorded long after.
func TestPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.open()
	slow, err := s.Begin(t.Context(), act("user:ada", "task.import", "f"))
	require.NoError(t, err)
	const n = 2500
	for i := range n {
		require.NoError(t, s.Record(t.Context(), act("user:ada", "task.cancel", fmt.Sprintf("TASK_%d", i)), nil))
	}
	slow.End(nil, "", nil)
	seen := map[uint64]audit.Outcome{}
	last := uint64(n + 3)
	for before, first := uint64(0), true; first || before != 0; first = false {
		reply, err := s.Audit(t.Context(), api.AuditRequest{Before: before, Limit: 700})
		require.NoError(t, err)
		for _, a := range reply.Acts {
			require.Less(t, a.Number, last)
			seen[a.Number] = a.Outcome
		}
		last, before = reply.Acts[0].Number, reply.Next
	}
	require.Len(t, seen, n+1)
	assert.Equal(t, audit.Done, seen[1])
	entries, after := 0, uint64(0)
	for {
		page, err := s.AuditEntries(t.Context(), api.AuditEntriesRequest{After: after, Limit: 999})
		require.NoError(t, err)
		entries += len(page.Entries)
		if after = page.Next; after == 0 {
			break
		}
	}
	assert.Equal(t, n+2, entries)
}

// Equal refusals cost two entries in a window, whoever makes how many of them.
func TestRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.open()
	why := fault.New(fault.Unauthorized, "no")
	const each, actors, targets = 20, 40, 30
	for range each {
		for a := range actors {
			for i := range targets {
				s.Refused(act(fmt.Sprintf("agent:%d", a), "task.cancel", fmt.Sprintf("TASK_%d", i)), why)
			}
		}
	}
	s.Close()
	again := w.open()
	total := 0
	for _, a := range acts(t, again, audit.Filter{}) {
		assert.Equal(t, audit.Refused, a.Outcome)
		total += max(a.Count, 1)
	}
	assert.Equal(t, each*actors*targets, total, "none is lost")
	assert.LessOrEqual(t, verify(t, again).Entries, 2*auditor.MaxKinds+2)
}

func TestEntriesHaveNoSecretsAndAreSmall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.open()
	long := strings.Repeat("x", 1<<20) + secret
	params := map[string]string{}
	for i := range 100 {
		params[fmt.Sprintf("p%d", i)] = long
	}
	a := audit.Act{Actor: "user:" + secret, Credential: secret, Face: audit.FaceHTTP, Source: secret, Name: "x" + secret, Target: "a " + secret + "\xff", Params: params}
	a.Params["reason"] = "because " + secret
	p, err := s.Begin(t.Context(), a)
	require.NoError(t, err)
	p.End(fault.New(fault.ValidationError, "not %s", secret).WithField(secret).WithReason(secret), secret, nil)
	s.Refused(a, fault.New(fault.Forbidden, "not %s", secret))
	s.Close()
	verify(t, w.open())
	require.Len(t, w.entries, 3)
	for _, data := range w.entries {
		assert.NotContains(t, string(data), secret)
		assert.Less(t, len(data), audit.MaxLine)
	}
}

// An append whose answer is lost, one that fails, and one that comes second leave a whole chain and each act once.
func TestLostAnswersAndConflicts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.open(), w.open()
	var calls int
	w.failing = func() (error, bool) {
		calls++
		switch calls % 4 {
		case 1:
			return fault.New(fault.Unavailable, "the answer is lost"), true
		case 2:
			return fault.New(fault.DiskFull, "full"), false
		default:
			return nil, true
		}
	}
	recorded := 0
	for i := range 40 {
		s := one
		if i%3 == 0 {
			s = two
		}
		err := s.Record(t.Context(), act("user:ada", "task.cancel", fmt.Sprintf("TASK_%d", i)), nil)
		if err == nil {
			recorded++
		} else {
			require.True(t, fault.Has(err, fault.DiskFull), "%v", err)
		}
	}
	assert.Len(t, acts(t, one, audit.Filter{}), recorded)
	assert.Equal(t, recorded, verify(t, two).Entries)
	w.failing = func() (error, bool) { return fault.New(fault.DiskFull, "full").WithHint("free some"), false }
	_, err := one.Begin(t.Context(), act("user:ada", "token.create", "x"))
	require.Equal(t, "NOT_AUDITED", fault.From(err).Reason)
	require.True(t, fault.Has(err, fault.DiskFull))
}

func TestConcurrentActs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.open()
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			p, err := s.Begin(t.Context(), act("user:ada", "task.cancel", fmt.Sprintf("TASK_%d", i)))
			if assert.NoError(t, err) {
				p.End(nil, "", nil)
			}
			s.Refused(act("user:eve", "token.create", ""), fault.New(fault.Forbidden, "no"))
		})
	}
	group.Wait()
	assert.Len(t, acts(t, s, audit.Filter{Outcome: []audit.Outcome{audit.Done}}), 50)
	s.Close()
	s.Close()
	refused := 0
	for _, a := range acts(t, w.open(), audit.Filter{Actor: "user:eve"}) {
		refused += max(a.Count, 1)
	}
	assert.Equal(t, 50, refused)
}

// Old entries go, and what stays can be verified. A second cut works on what stayed.
func TestCut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.open()
	n, err := s.Cut(t.Context(), w.clock(), "system:retention")
	require.NoError(t, err)
	require.Zero(t, n)
	for range 10 {
		require.NoError(t, s.Record(t.Context(), act("user:ada", "node.pause", ""), nil))
		w.advance(time.Hour)
	}
	whole := verify(t, s)
	n, err = s.Cut(t.Context(), w.clock().Add(-3*time.Hour), "system:retention")
	require.NoError(t, err)
	assert.Equal(t, 7, n)
	done := verify(t, w.open())
	assert.Equal(t, uint64(8), done.First)
	cuts := acts(t, s, audit.Filter{Name: auditor.ActCut})
	require.Len(t, cuts, 1)
	assert.Equal(t, map[string]string{"before": "2026-11-29T19:00:00Z", "entries": "7", "first": "8", "prev": done.Prev}, cuts[0].Params)
	assert.Equal(t, audit.Done, cuts[0].Outcome)
	assert.NotEqual(t, whole.Head, done.Head)
	w.advance(1000 * time.Hour)
	n, err = s.Cut(t.Context(), w.clock(), "system:retention")
	require.NoError(t, err)
	assert.Equal(t, 4, n, "the newest stays")
	assert.Equal(t, 3, verify(t, s).Entries)
	assert.Equal(t, 3, verify(t, w.open()).Entries)
	require.NoError(t, s.Record(t.Context(), act("user:ada", "node.pause", ""), nil))
	assert.Equal(t, 4, verify(t, s).Entries)
}

// A beginning that was exchanged is noticed.
func TestAWrongBeginningIsNoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.open()
	require.NoError(t, s.Record(t.Context(), act("user:ada", "node.pause", ""), nil))
	w.snapshot, w.position = []byte(`{"first":3}`), 2
	_, err := s.AuditEntries(t.Context(), api.AuditEntriesRequest{})
	require.True(t, fault.Has(err, fault.DataLoss), "%v", err)
	_, err = s.Audit(t.Context(), api.AuditRequest{})
	require.True(t, fault.Has(err, fault.DataLoss), "%v", err)
}
