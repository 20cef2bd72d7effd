package patch_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/internal/patch"
)

func TestBetween(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, before, after, want string }{
		{"nothing", "a\n", "a\n", ""},
		{"a new file", "", "a\nb\n", "--- f\n+++ f\n@@ -0,0 +1,2 @@\n+a\n+b\n"},
		{"the middle", "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n6\n7\n8\n9\n", "--- f\n+++ f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n"},
		{"no newline", "a", "a\nb\n", "--- f\n+++ f\n@@ -1,1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n"},
		{"two pieces", "a\nb\nc\nd\n", "x\nb\nc\ny\nd\n", "--- f\n+++ f\n@@ -1,4 +1,5 @@\n-a\n+x\n b\n c\n+y\n d\n"},
		{"all goes", "a\n", "", "--- f\n+++ f\n@@ -1,1 +0,0 @@\n-a\n"},
	} {
		assert.Equal(t, tc.want, patch.Between("f", []byte(tc.before), []byte(tc.after)), tc.name)
	}
}
