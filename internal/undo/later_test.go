package undo_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/classify/secrets"
	"github.com/orch-dev/orch/internal/undo"
)

// look is a dry run of an undo.
func (p *place) look(session, task string, force bool) undo.Report {
	p.t.Helper()
	r, err := p.store.Undo(p.t.Context(), p.root, undo.Request{Session: session, Task: task, Force: force, Dry: true})
	require.NoError(p.t, err)
	return r
}

// An undo says of each path that was changed since by whom, what, and whether that is lost.
func TestUndoSaysWhatWasChangedSince(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("a.txt", "one\n")
	p.write("b.txt", "one\n")
	p.write("same.txt", "one\n")
	p.call("S1", "T1/edit", nil, func() {
		for _, name := range []string{"a.txt", "b.txt", "same.txt", "new.txt"} {
			p.write(name, "two\n")
		}
	})
	p.call("S1", "T2/edit", []string{"a.txt"}, func() { p.write("a.txt", "two\nthree\n") })
	p.call("S2", "T3/run", nil, func() { p.write("a.txt", "two\nthree\nfour\n"); p.write("new.txt", "two, too\n") })
	p.write("b.txt", "by hand\n")
	for _, force := range []bool{false, true} {
		r := p.look("S1", "T1", force)
		assert.Equal(t, force, len(r.Conflicts) == 0)
		require.Len(t, r.Later, 3, "same.txt was not changed since")
		a, b, fresh := r.Later[0], r.Later[1], r.Later[2]
		assert.Equal(t, []string{"a.txt", "b.txt", "new.txt"}, []string{a.Path, b.Path, fresh.Path})
		assert.Equal(t, []bool{force, force, force}, []bool{a.Lost, b.Lost, fresh.Lost})
		assert.Equal(t, []string{"S1 T2/edit", "S2 T3/run"}, names(a.By))
		assert.Equal(t, []string{" "}, names(b.By), "nobody that is recorded")
		assert.WithinDuration(t, time.Now(), b.By[0].At, time.Minute)
		assert.Equal(t, "--- a.txt\n+++ a.txt\n@@ -1,1 +1,3 @@\n two\n+three\n+four\n", a.Diff)
		assert.Equal(t, "--- b.txt\n+++ b.txt\n@@ -1,1 +1,1 @@\n-two\n+by hand\n", b.Diff)
		assert.Equal(t, []string{"S2 T3/run"}, names(fresh.By))
	}
	whole := p.look("S1", "", true)
	require.Len(t, whole.Later, 3)
	assert.Equal(t, []string{"S2 T3/run"}, names(whole.Later[0].By), "T2 is undone as well")
	p.write("a.txt", "two\nthree\nfour\nfive\n")
	assert.Equal(t, []string{"S1 T2/edit", "S2 T3/run", " "}, names(p.look("S1", "T1", false).Later[0].By))
	done, err := p.store.Undo(t.Context(), p.root, undo.Request{Session: "S1", Task: "T1", By: "T4/undo", Force: true})
	require.NoError(t, err)
	assert.Len(t, done.Later, 3, "the result keeps what was lost")
	assert.Equal(t, "one\n", p.read("a.txt"))
	assert.Equal(t, "none", p.read("new.txt"))
	other := p.look("S2", "", true)
	require.Len(t, other.Later, 2)
	assert.Equal(t, []string{"S1 T4/undo"}, names(other.Later[0].By))
	assert.Equal(t, []string{"S1 T4/undo"}, names(other.Later[1].By))
	assert.Empty(t, p.look("S1", "T1", true).Later, "an undo undoes no undo")
}

func names(by []undo.By) (all []string) {
	for _, b := range by {
		all = append(all, b.Session+" "+b.Call)
	}
	return all
}

// A program that runs while a call changes a file has not changed it since.
func TestUndoOfACallWithinAnother(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("a.txt", "one\n")
	program, err := p.store.Begin(t.Context(), "S2", "T2/run", nil)
	require.NoError(t, err)
	p.call("S1", "T1/edit", []string{"a.txt"}, func() { p.write("a.txt", "two\n") })
	_, err = program.End(t.Context())
	require.NoError(t, err)
	p.write("a.txt", "three\n")
	assert.Equal(t, []string{" "}, names(p.look("S1", "T1", false).Later[0].By))
}

// What is no text, is too large or is removed is named without its content.
func TestChangedSinceWithoutDiff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		now  string
		diff string
	}{
		"bytes":     {now: "\x00\xff"},
		"large":     {now: strings.Repeat("x\n", 200<<10)},
		"long diff": {now: strings.Repeat("x\n", 20<<10), diff: "more lines"},
		"removed":   {diff: "-two"},
	} {
		p := newPlace(t)
		p.write("a.txt", "one\n")
		p.call("S1", "T1/edit", nil, func() { p.write("a.txt", "two\n") })
		if c.now == "" {
			p.run("rm a.txt")
		} else {
			p.write("a.txt", c.now)
		}
		r := p.look("S1", "", true)
		require.Len(t, r.Later, 1, name)
		assert.LessOrEqual(t, len(r.Later[0].Diff), 9<<10, name)
		if c.diff == "" {
			assert.Empty(t, r.Later[0].Diff, name)
		} else {
			assert.Contains(t, r.Later[0].Diff, c.diff, name)
		}
		assert.Equal(t, []string{"a.txt"}, r.Restored, name)
	}
}

// A hunk in the middle of a key shows nothing of it, for both versions are redacted as a whole.
func TestDiffsAreRedactedAsAWhole(t *testing.T) {
	t.Parallel()
	key := func(middle string) string {
		return "title\n-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat(strings.Repeat("MIIE", 16)+"\n", 12) + middle + "\n" +
			strings.Repeat(strings.Repeat("Qk1r", 16)+"\n", 12) + "-----END RSA PRIVATE KEY-----\n"
	}
	p := newPlace(t)
	p.write("a.txt", key(strings.Repeat("b2xk", 16)))
	p.call("S1", "T1/edit", nil, func() { p.write("a.txt", strings.Replace(p.read("a.txt"), "title", "other", 1)) })
	p.write("a.txt", strings.Replace(p.read("a.txt"), strings.Repeat("b2xk", 16), strings.Repeat("bmV3", 16), 1))
	r := p.look("S1", "", true)
	require.Len(t, r.Later, 1)
	assert.Contains(t, r.Later[0].Diff, "+bmV3")
	p.store.Redact = func(content []byte) []byte { return []byte(secrets.Clean(string(content))) }
	r = p.look("S1", "", true)
	require.Len(t, r.Later, 1)
	assert.True(t, r.Later[0].Lost)
	assert.NotContains(t, r.Later[0].Diff, "b2xk")
	assert.NotContains(t, r.Later[0].Diff, "bmV3")
	assert.NotContains(t, r.Later[0].Diff, "MIIE")
}

// A dry run records nothing: what changes between it and the undo of a call that was cut off is undone too.
func TestDryRunRecordsNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("a.txt", "one")
	_, err := p.store.Begin(t.Context(), "S1", "T1/call", nil)
	require.NoError(t, err)
	p.write("a.txt", "two")
	assert.Equal(t, []string{"a.txt"}, p.look("S1", "", false).Restored)
	p.write("a.txt", "three")
	again := undo.New(p.root, p.runner(), filepath.Join(p.dir, "Working"), ".undo")
	r, err := again.Undo(t.Context(), p.root, undo.Request{Session: "S1"})
	require.NoError(t, err)
	assert.Equal(t, undo.Report{Restored: []string{"a.txt"}, Removed: []string{}, Conflicts: []string{}}, r)
	assert.Equal(t, "one", p.read("a.txt"))
}
