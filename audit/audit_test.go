package audit_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/audit"
	"github.com/orch-dev/orch/fault"
)

// chain returns n encoded entries that follow an anchor.
func chain(t *testing.T, from audit.Anchor, n int) []json.RawMessage {
	t.Helper()
	prev, all := from.Prev, []json.RawMessage{}
	for i := range n {
		e := audit.Entry{
			Number: max(from.First, 1) + uint64(i), Prev: prev, At: time.Date(2026, 11, 29, 12, 0, i, 0, time.UTC), Outcome: audit.Done,
			Act: audit.Act{Actor: "user:<ada>", Face: audit.FaceBus, Name: "task.cancel", Target: fmt.Sprintf("TASK_%d", i)},
		}
		data, err := e.Encode()
		require.NoError(t, err)
		prev = audit.Hash(data)
		all = append(all, data)
	}
	return all
}

// exported returns the lines of an export file.
func exported(t *testing.T, from audit.Anchor, entries []json.RawMessage) []string {
	t.Helper()
	var out bytes.Buffer
	x, err := audit.NewExporter(&out, from)
	require.NoError(t, err)
	for _, one := range entries {
		require.NoError(t, x.Add(one))
	}
	done, err := x.Close()
	require.NoError(t, err)
	assert.Equal(t, len(entries), done.Entries)
	return strings.SplitAfter(strings.TrimSuffix(out.String(), "\n"), "\n")
}

func TestExportIsVerified(t *testing.T) {
	t.Parallel()
	middle := audit.Anchor{First: 8, Prev: audit.Hash([]byte("the one before"))}
	for _, from := range []audit.Anchor{{}, middle} {
		for _, n := range []int{0, 1, 5} {
			lines := exported(t, from, chain(t, from, n))
			require.Len(t, lines, n+2)
			done, err := audit.ReadExport(strings.NewReader(strings.Join(lines, "")), "")
			require.NoError(t, err)
			assert.Equal(t, n, done.Entries)
			assert.Equal(t, max(from.First, 1), done.First)
		}
	}
	var out bytes.Buffer
	x, err := audit.NewExporter(&out, audit.Anchor{})
	require.NoError(t, err)
	require.True(t, fault.Has(x.Add(chain(t, middle, 1)[0]), fault.DataLoss), "an export of a broken chain is refused")
}

// A file that was cut off and got another last line verifies, and does not have the digest of the true end.
func TestShortenedExport(t *testing.T) {
	t.Parallel()
	entries := chain(t, audit.Anchor{}, 5)
	lines, short := exported(t, audit.Anchor{}, entries), exported(t, audit.Anchor{}, entries[:3])
	assert.Equal(t, lines[:4], short[:4])
	full, err := audit.ReadExport(strings.NewReader(strings.Join(lines, "")), audit.Hash(entries[2]))
	require.NoError(t, err)
	assert.EqualValues(t, 3, full.Contains)
	assert.Equal(t, audit.Hash(entries[4]), full.Head)
	cut, err := audit.ReadExport(strings.NewReader(strings.Join(short, "")), full.Head)
	require.NoError(t, err)
	assert.EqualValues(t, 3, cut.Last)
	assert.Zero(t, cut.Contains)
	assert.NotEqual(t, full.Head, cut.Head)
	e, err := audit.Decode(entries[2])
	require.NoError(t, err)
	assert.Equal(t, e.At, cut.EndedAt)
}

// Whatever is changed in a file, the first broken entry is named.
func TestTampering(t *testing.T) {
	t.Parallel()
	lines := exported(t, audit.Anchor{}, chain(t, audit.Anchor{}, 5))
	for name, c := range map[string]struct {
		change func(l []string) []string
		want   string
	}{
		"changed":       {func(l []string) []string { l[3] = strings.Replace(l[3], "TASK_2", "TASK_9", 1); return l }, "entry 4 does not continue the chain"},
		"space":         {func(l []string) []string { l[3] = strings.Replace(l[3], ":", ": ", 1); return l }, "entry 4 does not continue the chain"},
		"last changed":  {func(l []string) []string { l[5] = strings.Replace(l[5], "TASK_4", "TASK_9", 1); return l }, "entry 5 is missing or was changed"},
		"removed":       {func(l []string) []string { return append(l[:2], l[3:]...) }, "entry 2 is missing"},
		"last removed":  {func(l []string) []string { return append(l[:5], l[6]) }, "entry 4 is missing or was changed"},
		"first removed": {func(l []string) []string { return append(l[:1], l[2:]...) }, "entry 1 is missing"},
		"moved":         {func(l []string) []string { l[2], l[3] = l[3], l[2]; return l }, "entry 2 is missing: the next one is 3"},
		"twice":         {func(l []string) []string { l[3] = l[2]; return l }, "entry 2 is in the place of entry 3"},
		"no object":     {func(l []string) []string { l[2] = "x\n"; return l }, "entry 2 cannot be read"},
		"cut off":       {func(l []string) []string { return l[:4] }, "the file ends after entry 3"},
		"in a line":     {func(l []string) []string { l = l[:4]; l[3] = l[3][:20]; return l }, "entry 3 cannot be read"},
		"continued":     {func(l []string) []string { return append(l, "\n", l[1]) }, "there are lines after the last one"},
		"other start":   {func(l []string) []string { l[0] = strings.Replace(l[0], `"first":1`, `"first":2`, 1); return l }, "entry 1 is in the place of entry 2"},
		"too long":      {func(l []string) []string { l[2] = strings.Repeat("x", audit.MaxLine+1) + "\n"; return l }, "the file ends after entry 1"},
	} {
		_, err := audit.ReadExport(strings.NewReader(strings.Join(c.change(append([]string{}, lines...)), "")), "")
		require.Error(t, err, name)
		assert.Equal(t, fault.DataLoss, fault.CodeOf(err), name)
		assert.Equal(t, audit.Broken, fault.From(err).Reason, name)
		assert.Contains(t, err.Error(), c.want, name)
	}
	for _, text := range []string{"", "x", "{}\n", `{"format":"orch-audit/2"}`, strings.Repeat("x", audit.MaxLine+1)} {
		_, err := audit.ReadExport(strings.NewReader(text), "")
		assert.Equal(t, fault.InvalidFormat, fault.CodeOf(err), "%.20s", text)
	}
}

// The encoding of an entry never changes: files of earlier versions are verified for ever.
func TestGolden(t *testing.T) {
	t.Parallel()
	file, err := os.Open("testdata/v1.jsonl")
	require.NoError(t, err)
	defer func() { assert.NoError(t, file.Close()) }()
	done, err := audit.ReadExport(file, "")
	require.NoError(t, err)
	assert.Equal(t, 5, done.Entries)
	data, err := os.ReadFile("testdata/v1.jsonl")
	require.NoError(t, err)
	assert.Equal(t, strings.Join(exported(t, audit.Anchor{}, chain(t, audit.Anchor{}, 5)), "")+"\n", string(data))
}

// A newer orch may write fields that this one does not know.
func TestUnknownFields(t *testing.T) {
	t.Parallel()
	_, err := audit.Check(audit.Anchor{}, []json.RawMessage{json.RawMessage(`{"n":1,"at":"2026-11-29T12:00:00Z","actor":"a","face":"x","act":"y","outcome":"z","new":1}`)})
	require.NoError(t, err)
}

func TestView(t *testing.T) {
	t.Parallel()
	begun := audit.Entry{Number: 7, Act: audit.Act{Name: "token.create", Target: "bob"}, Outcome: audit.Begun}
	assert.Equal(t, audit.Unknown, audit.ViewOf(&begun, nil).Outcome)
	result := audit.Entry{Number: 9, At: time.Unix(1, 0), Act: audit.Act{Target: "TOK_1"}, Outcome: audit.Done, Of: 7, Task: &audit.Link{ID: "TASK_1"}}
	v := audit.ViewOf(&begun, &result)
	assert.Equal(t, audit.Done, v.Outcome)
	assert.Equal(t, "TOK_1", v.Target)
	assert.Equal(t, uint64(7), v.Number)
	assert.True(t, audit.Filter{Target: "TASK_1"}.Matches(v), "the task that was changed counts as a target")
	assert.Nil(t, audit.ProblemOf(nil))
	assert.Empty(t, audit.Digest(nil))
	assert.Equal(t, "sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881", audit.Digest([]byte("x")))
}
