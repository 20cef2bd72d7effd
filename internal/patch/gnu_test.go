package patch_test

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/test/need"
)

// variant returns a random text of short lines from a small alphabet, so that lines repeat, and a changed version of
// it.
func variant(r *rand.Rand) (before, after string) {
	lines := make([]string, r.IntN(40))
	for i := range lines {
		lines[i] = strings.Repeat(string(rune('a'+r.IntN(4))), r.IntN(3))
	}
	changed := append([]string(nil), lines...)
	for range 1 + r.IntN(6) {
		at := r.IntN(len(changed) + 1)
		switch r.IntN(3) {
		case 0:
			changed = append(changed[:at:at], append([]string{"new" + strconv.Itoa(r.IntN(100))}, changed[at:]...)...)
		case 1:
			changed = append(changed[:at:at], changed[min(len(changed), at+1+r.IntN(3)):]...)
		default:
			changed = append(changed[:at:at], append([]string{"-- x", "++ y"}[:1+r.IntN(2)], changed[min(len(changed), at+1):]...)...)
		}
	}
	return ended(r, lines), ended(r, changed)
}

// ended joins lines, now and then without the last line feed.
func ended(r *rand.Rand, lines []string) string {
	text := strings.Join(lines, "\n")
	if len(lines) > 0 && (r.IntN(4) > 0 || text == "" || strings.HasSuffix(text, "\n")) {
		text += "\n"
	}
	return text
}

// gnu is GNU diff and patch over files of a directory.
type gnu struct {
	t   *testing.T
	dir string
}

func newGNU(t *testing.T) gnu {
	t.Helper()
	need.Program(t, "diff", "patch")
	return gnu{t, t.TempDir()}
}

func (g gnu) write(name, text string) string {
	g.t.Helper()
	path := filepath.Join(g.dir, name)
	require.NoError(g.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// diff returns the unified diff of two texts, with that many lines of context.
func (g gnu) diff(before, after string, context int) string {
	g.t.Helper()
	cmd := exec.CommandContext(g.t.Context(), "diff", "-U"+strconv.Itoa(context), "--label", "a/f", "--label", "b/f", g.write("before", before), g.write("after", after))
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil {
		require.ErrorAs(g.t, err, &exit)
		require.Equal(g.t, 1, exit.ExitCode(), "%s", exit.Stderr)
	}
	return string(out)
}

// patch applies a patch without fuzz. ok is false when it failed, or found another place for a hunk.
func (g gnu) patch(source, text string) (out string, ok bool) {
	g.t.Helper()
	file := g.write("f", source)
	cmd := exec.CommandContext(g.t.Context(), "patch", "--fuzz=0", "--force", "--binary", "--no-backup-if-mismatch", "--reject-file=-", file, g.write("patch", text))
	said, err := cmd.CombinedOutput()
	data, readErr := os.ReadFile(file)
	if readErr != nil { // an empty result
		require.ErrorIs(g.t, readErr, os.ErrNotExist)
	}
	return string(data), err == nil && !strings.Contains(string(said), "offset")
}

// S4-023: for diffs of all amounts of context the result is that of GNU patch, and the file meant.
func TestLikeGNU(t *testing.T) {
	t.Parallel()
	r, g, cases := rand.New(rand.NewPCG(4, 23)), newGNU(t), 0
	for cases < 300 {
		before, after := variant(r)
		text := g.diff(before, after, r.IntN(5))
		if text == "" {
			continue
		}
		cases++
		patched, ok := g.patch(before, text)
		require.True(t, ok, text)
		require.Equal(t, after, patched, text)
		out, err := apply(before, text)
		require.NoError(t, err, "%q\n%s", before, text)
		require.Equal(t, patched, out, "%q\n%s", before, text)
	}
	t.Logf("compared with GNU patch: %d diffs, none differs", cases)
}

// S4-024: on files that have drifted, every patch that GNU patch applies without fuzz and offset is applied with the
// same result. Any other patch that is applied has every line of every hunk at its position. (GNU patch also requires
// that a hunk without trailing context is at the end of the file.)
func TestDriftLikeGNU(t *testing.T) {
	t.Parallel()
	r, g := rand.New(rand.NewPCG(4, 24)), newGNU(t)
	both, neither, alone := 0, 0, 0
	for both+neither+alone < 300 {
		before, after := variant(r)
		text := g.diff(before, after, 1+r.IntN(4))
		if text == "" {
			continue
		}
		drifted := drift(r, before)
		want, ok := g.patch(drifted, text)
		out, err := apply(drifted, text)
		switch {
		case ok:
			require.NoError(t, err, "%q\n%s", drifted, text)
			require.Equal(t, want, out, "%q\n%s", drifted, text)
			both++
		case err != nil:
			refused(t, err)
			neither++
		default:
			assert.True(t, inPlace(drifted, text), "%q\n%s", drifted, text)
			alone++
		}
	}
	assert.Positive(t, both)
	assert.Positive(t, neither)
	t.Logf("drifted files: %d taken by both, %d by neither, %d by us alone", both, neither, alone)
}

// drift changes, inserts or removes a line of a text.
func drift(r *rand.Rand, text string) string {
	lines := strings.SplitAfter(text, "\n")
	at := r.IntN(len(lines))
	switch r.IntN(3) {
	case 0:
		lines[at] = "drift\n"
	case 1:
		lines[at] += "drift\n"
	default:
		lines[at] = ""
	}
	return strings.Join(lines, "")
}

// inPlace reports whether all old lines of a well-formed patch are in source at the lines that its headers name.
func inPlace(source, text string) bool {
	src, at := strings.SplitAfter(source, "\n"), 0
	for _, l := range strings.SplitAfter(text, "\n")[2:] {
		switch {
		case strings.HasPrefix(l, "@@ -"):
			first, _, _ := strings.Cut(l[len("@@ -"):], " ")
			start, count, _ := strings.Cut(first, ",")
			at, _ = strconv.Atoi(start)
			if count != "0" {
				at--
			}
		case strings.HasPrefix(l, " "), strings.HasPrefix(l, "-"):
			if at >= len(src) || strings.TrimSuffix(src[at], "\n") != strings.TrimSuffix(l[1:], "\n") {
				return false
			}
			at++
		}
	}
	return true
}
