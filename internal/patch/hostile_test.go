package patch_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/internal/patch"
)

// malformed returns patches that must be refused for any file.
func malformed() []string {
	good := "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
	list := []string{
		"", "\n", " \n\t\n", "x", "@@", "@@ -1 +1 @@", "--- a/f", "--- a/f\n+++ b/f", head, head + "\n", head + "x\n" + good,
		good, "+++ b/f\n--- a/f\n" + good, "--- a/f\n" + good, "+++ b/f\n" + good, "--- a/f\n\n+++ b/f\n" + good, "---\n+++\n" + good,
		"--- \n+++ \n" + good, "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "--- /dev/null\n+++ /dev/null\n@@ -0,0 +1 @@\n+a\n",
		"--- /dev/null\n+++ b/f\n" + good, "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n@@ -1 +1 @@\n-a\n+b\n",
		"--- /dev/null\n+++ b/f\n@@ -1,0 +1 @@\n+a\n", "--- /dev/null\n+++ b/f\n@@ -0,0 +1,0 @@\n",
		head + good + head + good, head + good + "diff --git a/g b/g\n--- a/g\n+++ b/g\n" + good, head + good + "--- a/g\n+++ b/g\n" + good,
		head + good + "thanks", head + good + "\n\nthanks\n", head + good + " d\n", head + good + "+d\n", head + good + "-d\n",
		head + good + "\\ No newline at end of file\n\\ No newline at end of file\n", head + good + "@@@ -1 -1 +1 @@@\n",
		head + good + "-- \n2.39.2\n", head + "\n" + good, "*** a/f\n--- b/f\n***************\n*** 1 ****\n! a\n--- 1 ----\n! b\n",
		"1c1\n< a\n---\n> b\n", "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n", "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n" + head + good,
		"diff --git a/f b/f\nnew file mode 120000\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n",
		"diff --git a/f b/f\nnew file mode 100755\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n",
		"diff --git a/f b/f\nnew file mode 160000\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n",
		"diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
		"diff --git a/f b/f\nsimilarity index 100%\nrename from f\nrename to g\n", "diff --git a/f b/f\nrename from g\nrename to f\n" + head + good,
		"diff --git a/f b/f\ncopy from g\ncopy to f\n" + head + good, "diff --git a/f b/f\nGIT binary patch\nliteral 0\nHcmV?d00001\n",
		"Binary files a/f and b/f differ\n", "diff --git a/f b/f\nindex 1..2\nBinary files a/f and b/f differ\n",
		"From 0123 Mon Sep 17 00:00:00 2001\nSubject: x\n---\n f | 2 +-\n" + head + good, "#!/bin/sh\n" + head + good, "ed f\n" + head + good,
		"Prereq: 1.2\n" + head + good, head + "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n-b\n+c\n",
		head + "@@ -1,2 +1 @@\n-a\n\\ No newline at end of file\n-b\n+c\n", head + "@@ -1 +1,2 @@\n-a\n+b\n\\ No newline at end of file\n+c\n",
		head + "@@ -1,2 +1,2 @@\n a\n\\ No newline at end of file\n-b\n+c\n", head + "@@ -1 +1 @@\n\\ No newline at end of file\n-a\n+b\n",
		head + "@@ -1 +1 @@\n-\n\\ No newline at end of file\n+b\n", head + "@@ -1 +1 @@\n-a\n\\\n+b\n",
		head + "@@ -1 +1 @@\n-a\n+b\n@@ -1 +1 @@\n-a\n+b\n@@ -", "--- a/f\n+++ b/f\r\n@@ -1 +1 @@\n-a\n+b\n", "\ufeff" + head + good,
	}
	for _, header := range hunkHeaders() {
		list = append(list, head+header+"\n-a\n+b\n", head+header+"\n a\n-b\n+B\n c\n")
	}
	for op := range strings.SplitSeq("a b c @ # ! * > < = | ~ \t \r \x00 \x7f é . , 0 1 / ^ %", " ") {
		list = append(list, head+"@@ -1,3 +1,3 @@\n a\n-b\n"+op+"B\n c\n", head+"@@ -1,2 +1,2 @@\n"+op+"a\n-b\n+B\n")
	}
	return list
}

// hunkHeaders returns invalid headers, and headers with counts that do not match the body.
func hunkHeaders() []string {
	list := []string{
		"@@", "@@ @@", "@@ -1 @@", "@@ +1 @@", "@@ -1 +1", "@@ -1 +1 @", "@@ 1 1 @@", "@@ +1 -1 @@", "@@ -1  +1 @@", "@@-1 +1@@", "@@ - 1 +1 @@",
		"@@ -1, +1 @@", "@@ -,1 +1 @@", "@@ -1,1,1 +1 @@", "@@ -a +1 @@", "@@ -1 +b @@", "@@ -1.0 +1 @@", "@@ -0x1 +1 @@", "@@ -1e0 +1 @@", "@@ -1_0 +1 @@",
		"@@ --1 +1 @@", "@@ -+1 +1 @@", "@@ -1 +-1 @@", "@@ -1,-1 +1 @@", "@@ -1,+1 +1 @@", "@@ -1 ++1 @@", "@@ -0 +1 @@", "@@ -0,1 +1 @@", "@@ -1 +0 @@",
		"@@ -0,3 +1,3 @@", "@@ -1,3 +0,3 @@", "@@ -2147483648 +1 @@", "@@ -1,2147483648 +1 @@", "@@ -9223372036854775807,9223372036854775807 +1 @@",
		"@@ -18446744073709551616 +1 @@", "@@ -1,99999999999999999999 +1 @@", "@@ -１ +1 @@", "@@ -١ +1 @@", "@@ -1 +1 +1 @@", "@@\t-1 +1 @@", " @@ -1 +1 @@",
	}
	for old := range 6 {
		for added := range 6 {
			if fits := old == added && (old == 1 || old == 3); !fits {
				list = append(list, fmt.Sprintf("@@ -1,%d +1,%d @@", old, added))
			}
		}
	}
	return list
}

// S4-024: all of them are refused, and no message contains content of the patch.
func TestMalformed(t *testing.T) {
	t.Parallel()
	cases := malformed()
	require.GreaterOrEqual(t, len(cases), 200)
	accepted := 0
	for _, text := range cases {
		for _, source := range []string{"", "a\n", "a\nb\nc\n", "a", "a\nb\nc"} {
			out, err := apply(source, text)
			if err == nil {
				accepted++
				t.Errorf("accepted with the result %q for %q:\n%s", out, source, text)
				continue
			}
			refused(t, err, text)
		}
	}
	t.Logf("malformed patches: %d cases, %d wrongly accepted", len(cases), accepted)
}

// Hunks that overlap or come in another order than the file.
func TestOverlap(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"@@ -1,2 +1,2 @@\n a\n-b\n+B\n@@ -2,2 +2,2 @@\n-b\n+X\n c\n",
		"@@ -3 +3 @@\n-c\n+C\n@@ -1 +1 @@\n-a\n+A\n",
		"@@ -1 +1 @@\n-a\n+A\n@@ -1 +1 @@\n-a\n+A\n",
		"@@ -1 +1 @@\n-a\n+A\n@@ -0,0 +1 @@\n+A\n",
	} {
		_, err := apply("a\nb\nc\n", head+text)
		refused(t, err, text)
	}
	_, err := apply("a\nb\n", head+"@@ -1 +1 @@\n-a\n+A\n\\ No newline at end of file\n")
	refused(t, err, "a line end is lost before other lines")
	_, err = apply("a", head+"@@ -1,0 +2 @@\n+b\n")
	refused(t, err, "something is put behind a line without line end")
}

// The result of an accepted patch contains every added line and no removed one.
func FuzzApply(f *testing.F) {
	for i, text := range malformed() {
		f.Add("a\nb\nc\n", text, i%2 == 0)
	}
	f.Add("a\nb\nc\n", head+"@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", false)
	f.Add("", "```diff\n--- /dev/null\n+++ f\n@@ -0,0 +1 @@\n+x\n```", true)
	f.Fuzz(func(t *testing.T, source, text string, fenced bool) {
		if fenced {
			text = "```diff\n" + text + "\n```"
		}
		d, err := patch.Parse(text)
		if err != nil {
			refused(t, err)
			return
		}
		out, err := d.Apply([]byte(source))
		if err != nil {
			refused(t, err)
			return
		}
		again, err := d.Apply([]byte(source))
		require.NoError(t, err)
		assert.Equal(t, string(out), string(again))
		body := strings.ReplaceAll(text, "\r", "")
		grown := strings.Count(body, "\n+") - strings.Count(body, "\n-")
		if !d.Create() && grown >= 0 {
			assert.LessOrEqual(t, strings.Count(string(out), "\n"), strings.Count(source, "\n")+strings.Count(body, "\n+")+1)
		}
	})
}
