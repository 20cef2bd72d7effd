package patch_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/patch"
)

const head = "--- a/f\n+++ b/f\n"

// apply parses a patch for /root/f and applies it.
func apply(source, text string) (string, error) {
	d, err := patch.Parse(text)
	if err != nil {
		return "", err
	}
	if err := d.Names("/root/f"); err != nil {
		return "", err
	}
	out, err := d.Apply([]byte(source))
	return string(out), err
}

// refused asserts PATCH_FAILED with the name of the S4 rules.
func refused(t *testing.T, err error, about ...any) {
	t.Helper()
	var e *fault.Error
	require.ErrorAs(t, err, &e, about...)
	assert.Equal(t, fault.PatchFailed, e.Code, about...)
	assert.Equal(t, "PatchFailed", e.Reason, about...)
	assert.Equal(t, "patch", e.Field, about...)
}

// S4-023.
func TestApply(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ source, text, want string }{
		"change":                     {"a\nb\nc\n", head + "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", "a\nB\nc\n"},
		"start":                      {"a\n", head + "@@ -1 +1,2 @@\n+0\n a\n", "0\na\n"},
		"end":                        {"a\n", head + "@@ -1 +1,2 @@\n a\n+z\n", "a\nz\n"},
		"middle without context":     {"a\nb\nc\n", head + "@@ -2 +2 @@\n-b\n+B\n", "a\nB\nc\n"},
		"insert without context":     {"a\nb\nc\n", head + "@@ -2,0 +3 @@\n+x\n", "a\nb\nx\nc\n"},
		"insert first":               {"a\n", head + "@@ -0,0 +1 @@\n+x\n", "x\na\n"},
		"insert last":                {"a\n", head + "@@ -1,0 +2 @@\n+x\n", "a\nx\n"},
		"delete first":               {"a\nb\n", head + "@@ -1 +0,0 @@\n-a\n", "b\n"},
		"delete all":                 {"a\nb\n", head + "@@ -1,2 +0,0 @@\n-a\n-b\n", ""},
		"fill the empty":             {"", head + "@@ -0,0 +1 @@\n+x\n", "x\n"},
		"two hunks, moved":           {"a\nb\nc\nd\n", head + "@@ -1 +1,3 @@\n a\n+1\n+2\n@@ -4 +6 @@\n-d\n+D\n", "a\n1\n2\nb\nc\nD\n"},
		"less trailing context":      {"a\nb\nc\n", head + "@@ -1,2 +1,2 @@\n a\n-b\n+B\n", "a\nB\nc\n"},
		"adjacent hunks":             {"a\nb\n", head + "@@ -1 +1 @@\n-a\n+A\n@@ -2 +2 @@\n-b\n+B\n", "A\nB\n"},
		"empty context line":         {"a\n\nb\n", head + "@@ -1,3 +1,3 @@\n a\n\n-b\n+B\n", "a\n\nB\n"},
		"dashes are content":         {"-- a\n++ b\n", head + "@@ -1,2 +1,2 @@\n--- a\n+-- A\n ++ b\n", "-- A\n++ b\n"},
		"header text":                {"a\n", head + "@@ -1 +1 @@ func main() {\n-a\n+b\n", "b\n"},
		"no newline, both":           {"a\nb", head + "@@ -1,2 +1,2 @@\n-a\n+A\n b\n\\ No newline at end of file\n", "A\nb"},
		"no newline, gained":         {"a", head + "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n", "a\n"},
		"no newline, lost":           {"a\n", head + "@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n", "a"},
		"no newline, other words":    {"a", head + "@@ -1 +1 @@\n-a\n\\ Kein Zeilenumbruch\n+b\n\\ x\n", "b"},
		"patch without final LF":     {"a\n", head + "@@ -1 +1 @@\n-a\n+b", "b\n"},
		"CRLF content":               {"a\r\nb\r\n", head + "@@ -1,2 +1,2 @@\n-a\r\n+A\r\n b\r\n", "A\r\nb\r\n"},
		"CRLF patch, LF file":        {"a\nb\n", crlf(head + "@@ -1,2 +1,2 @@\n-a\n+A\n b\n"), "A\nb\n"},
		"CRLF patch, CRLF file":      {"a\r\n\r\nb\r\n", crlf(head + "@@ -1,3 +1,3 @@\n-a\n+A\n\n b\n"), "A\r\n\r\nb\r\n"},
		"CRLF patch, no final LF":    {"a\nb", crlf(head + "@@ -1,2 +1,2 @@\n-a\n+A\n b\n\\ No newline at end of file"), "A\nb"},
		"blank lines around":         {"a\n", "\n \n" + head + "@@ -1 +1 @@\n-a\n+b\n\n \t\n", "b\n"},
		"git header":                 {"a\n", "diff --git a/f b/f\nindex 123..456 100644\n" + head + "@@ -1 +1 @@\n-a\n+b\n", "b\n"},
		"svn header":                 {"a\n", "Index: f\n=======\n--- f\t(revision 1)\n+++ f\t(working copy)\n@@ -1 +1 @@\n-a\n+b\n", "b\n"},
		"other bytes":                {"\xff\n\x00\n", head + "@@ -2 +2 @@\n-\x00\n+\x01\n", "\xff\n\x01\n"},
		"create":                     {"old\n", "--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+x\n+y\n", "x\ny\n"},
		"create, git":                {"", "diff --git a/f b/f\nnew file mode 100644\nindex 000..123\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n", "x\n"},
		"create, CRLF":               {"", crlf("--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n"), "x\n"},
		"create without newline":     {"", "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n", "x"},
		"both sides have no newline": {"a", head + "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n", "b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := apply(tc.source, tc.text)
			require.NoError(t, err)
			assert.Equal(t, tc.want, out)
		})
	}
}

func crlf(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") }

// S4-021: with and without language, blank lines, CR LF, longer fences.
func TestFences(t *testing.T) {
	t.Parallel()
	body := head + "@@ -1 +1 @@\n-a\n+```\n"
	for _, text := range []string{
		"```diff\n" + body + "```",
		"```diff\n" + body + "```\n",
		"```\n" + body + "```\n",
		"```patch title=\"x\"\n" + body + "```  \n",
		"\n\n```diff\n\n" + body + "\n```\n\n",
		"````diff\n" + body + "````\n",
		"```diff\n" + body + "`````\n",
		"~~~diff\n" + body + "~~~\n",
		"```diff\r\n" + crlf(body) + "```\r\n",
		"``` diff\n" + body + "```",
		body,
	} {
		out, err := apply("a\n", text)
		require.NoError(t, err, "%q", text)
		assert.Equal(t, "```\n", out, "%q", text)
	}
	for _, text := range []string{
		"```diff\n" + body,
		"```diff\n" + body + "~~~\n",
		"````diff\n" + body + "```\n",
		"```diff\n" + body + "``` x\n",
		"```diff\n" + body + "```\nHope this helps\n",
		"Here is the patch:\n```diff\n" + body + "```\n",
		"```diff\n```diff\n" + body + "```\n```\n",
		"```", "```\n```", "```diff\n\n```",
	} {
		_, err := apply("a\n", text)
		refused(t, err, text)
	}
}

// S4-026: which names match the file.
func TestNames(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"f.go": true, "a/f.go": true, "b/f.go": true, "i/f.go": true, "./f.go": true, "src/f.go": true, "a/src/f.go": true,
		"/root/src/f.go": true, "/root//src/./f.go": true, "root/src/f.go": true, "f.go\t2026-01-01 00:00:00": true,
		`"src/f.go"`: true, `"a/src/\146.go"`: true, "real/r.go": true, "a/real/r.go": true,
		"g.go": false, "a/g.go": false, "lib/f.go": false, "/f.go": false, "/etc/passwd": false, "../f.go": false, "src/../../f.go": false,
		"xf.go": false, "f.go x": false, "f.g": false, "a/": false, ".": false, "/": false, "..": false, "a/a/f.go": false,
		`"src/f.go`: false, `"`: false, `""`: false, "": false, "f.go/": true, "F.GO": false, "x/real/r.go": false,
	} {
		d, err := patch.Parse("--- " + name + "\n+++ " + name + "\n@@ -1 +1 @@\n-a\n+b\n")
		if err == nil {
			err = d.Names("/root/src/f.go", "/root/real/r.go")
		}
		if ok {
			require.NoError(t, err, name)
		} else {
			refused(t, err, name)
		}
	}
}

// The two names of a patch must be of one file, or the old one of a backup copy.
func TestNamesOfBothSides(t *testing.T) {
	t.Parallel()
	hunk := "@@ -1 +1 @@\n-a\n+b\n"
	for text, ok := range map[string]bool{
		"--- f.orig\n+++ f\n":                                        true,
		"--- a/f~\n+++ a/f\n":                                        true,
		"--- g\n+++ f\n":                                             false,
		"--- f\n+++ g\n":                                             false,
		"--- f\n+++ f.orig\n":                                        false,
		"diff --git a/g b/f\n--- a/f\n+++ b/f\n":                     false,
		"diff --git a/f b/f\n--- a/g\n+++ b/g\n":                     false,
		"diff -u f.old f\n--- f.old\n+++ f\n":                        true,
		"Index: g\n====\n--- f\n+++ f\n":                             false,
		"diff --git a/f b/f\ndiff --git a/f b/f\n--- a/f\n+++ b/f\n": false,
	} {
		_, err := apply("a\n", text+hunk)
		if ok {
			require.NoError(t, err, text)
		} else {
			refused(t, err, text)
		}
	}
}

// S4-024: a patch that does not match is refused with the right line, and the message contains nothing of the file.
func TestDrift(t *testing.T) {
	t.Parallel()
	text := head + "@@ -2,3 +2,3 @@\n b\n-hunter2\n+C\n d\n"
	for source, line := range map[string]string{
		"":                            "after the end",
		"a\n":                         "line 2 of the file",
		"a\nb\n":                      "line 3 of the file",
		"a\nb\nhunter3\nd\n":          "line 3 of the file",
		"a\nb\nhunter2 \nd\n":         "line 3 of the file",
		"a\nb\nhunter2\n":             "line 4 of the file",
		"a\nb\nhunter2\nd":            "line 4 of the file",
		"x\na\nb\nhunter2\nd\n":       "line 2 of the file", // moved by one line
		"a\r\nb\r\nhunter2\r\nd\r\n":  "line 2 of the file",
		"a\nb\nhunter2\nhunter2\nd\n": "line 4 of the file",
	} {
		_, err := apply(source, text)
		refused(t, err, source)
		require.ErrorContains(t, err, line, "%q", source)
		assert.NotContains(t, err.Error(), "hunter")
		assert.Contains(t, fault.From(err).Hint, "read the file again")
	}
}
