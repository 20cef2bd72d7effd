package requirements_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/test/requirements"
)

func TestLoad(t *testing.T) {
	t.Parallel()
	list, err := requirements.Load(fstest.MapFS{requirements.ListFile: {Data: []byte("groups:\n- title: B\n  rules:\n    X-02: Two.\n    X-03: Three.\n- title: A\n  rules:\n    X-01: \"`One`.\"\n")}})
	require.NoError(t, err)
	assert.Equal(t, requirements.List{
		{Title: "B", Rules: []requirements.Rule{{"X-02", "Two."}, {"X-03", "Three."}}},
		{Title: "A", Rules: []requirements.Rule{{"X-01", "`One`."}}},
	}, list)
	assert.Equal(t, []string{"X-02", "X-03", "X-01"}, list.IDs())
	assert.Empty(t, list.Check())

	_, err = requirements.Load(fstest.MapFS{requirements.ListFile: {Data: []byte("group: []\n")}})
	require.ErrorContains(t, err, requirements.ListFile)
}

func TestMentions(t *testing.T) {
	t.Parallel()
	known := []string{"X-01", "X-02", "X-03", "X-04", "A-02", "A-03"}
	for text, ids := range map[string][]string{
		"X-01: and A-02.":                 {"X-01", "A-02"},
		"(X-01 to X-03, A-02)":            {"X-01", "X-02", "X-03", "A-02"},
		"X-01…X-03":                       {"X-01", "X-02", "X-03"},
		"X-01 to\n// X-03":                {"X-01", "X-02", "X-03"},
		"X-01 to A-03":                    {"X-01", "A-03"},
		"from X-01 to nothing, X-03":      {"X-01", "X-03"},
		"X-01, X-03":                      {"X-01", "X-03"},
		"[A-Z0-9] UTF-8 SHA-256 a-X-01_X": nil,
		"X-05, X-01a":                     {"X-05"},
	} {
		var have []string
		for _, m := range requirements.Mentions(text, known) {
			have = append(have, m.ID)
		}
		assert.Equal(t, ids, have, text)
	}
}

func TestTests(t *testing.T) {
	t.Parallel()
	source := "// X-01\npackage b\n\nimport \"fmt\"\n\nconst a = \"X-01\"\n\n// X-02.\n\n// TestC is X-01.\nfunc TestC() { fmt.Print(\"X-03\") }\n\nfunc (x y) check() {} // X-01\n\n// X-01\n"
	tests, err := requirements.Tests(fstest.MapFS{
		"a/b/c_test.go":      {Data: []byte(source)},
		"a/b/c.go":           {Data: []byte("package b\n\n// X-01\nfunc C() {}\n")},
		"a/btest/d.go":       {Data: []byte("package btest\n\nimport (\n\t\"testing\"\n)\n\n// X-03\nfunc Run(*testing.T) {}\n")},
		"a/testdata/e.txtar": {Data: []byte("# X-02 to X-04\n")},
		"a/f.txt":            {Data: []byte("X-02\n")},
	}, []string{"X-01", "X-02", "X-03", "X-04"})
	require.NoError(t, err)
	assert.Equal(t, map[string][]requirements.Test{
		"X-01": {{"a/b.TestC", "a/b/c_test.go"}, {"c_test.go", "a/b/c_test.go"}},
		"X-02": {{"a/b.TestC", "a/b/c_test.go"}, {"e.txtar", "a/testdata/e.txtar"}},
		"X-03": {{"a/b.TestC", "a/b/c_test.go"}, {"a/btest.Run", "a/btest/d.go"}, {"e.txtar", "a/testdata/e.txtar"}},
		"X-04": {{"e.txtar", "a/testdata/e.txtar"}},
	}, tests)

	_, err = requirements.Tests(fstest.MapFS{"a/a_test.go": {Data: []byte("X-01")}}, nil)
	require.Error(t, err)
}
