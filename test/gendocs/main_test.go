package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/statemachine"
)

// the pages in docs correspond to the tables.
func TestDocsAreCurrent(t *testing.T) {
	t.Parallel()
	for _, p := range pages() {
		have, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", p.name))
		require.NoError(t, err, "run go generate ./...")
		assert.Equal(t, p.text(), string(have), "docs/reference/%s is out of date: run go generate ./...", p.name)
	}
}

// The page of the rules names the existing tests.
func TestRequirementsAreCurrent(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	have, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(requirementsPage)))
	require.NoError(t, err, "run go generate ./...")
	page, err := requirementsOf(os.DirFS(root))
	require.NoError(t, err)
	assert.Equal(t, page, string(have), "%s is out of date: run go generate ./...", requirementsPage)
}

func TestRequirementsOf(t *testing.T) {
	t.Parallel()
	page, err := requirementsOf(fstest.MapFS{
		"docs/requirements.yaml": {Data: []byte("groups:\n  - title: All\n    rules:\n      X-01: One | two.\n      X-02: Three.\n      X-03: Four.\n")},
		"a/b/c_test.go":          {Data: []byte("package b\n\n// X-01 to X-02.\nfunc TestC() {}\n")},
		"a/testdata/d.txtar":     {Data: []byte("# X-01\n")},
	})
	require.NoError(t, err)
	assert.Contains(t, page, "2 of 3 rules name a test")
	assert.Contains(t, page, "\n| X-01 | One \\| two. | [a/b.TestC](../../a/b/c_test.go), [d.txtar](../../a/testdata/d.txtar) |\n"+
		"| X-02 | Three. | [a/b.TestC](../../a/b/c_test.go) |\n| X-03 | Four. |  |\n")
	_, err = requirementsOf(fstest.MapFS{})
	require.Error(t, err)
}

// The page of the settings contains the table that orch help environment prints.
func TestSettingsAreCurrent(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "settings.md"))
	require.NoError(t, err)
	_, _, found := strings.Cut(string(page), config.Markdown())
	assert.True(t, found, "docs/reference/settings.md is out of date: run go generate ./...")
}

func TestWrite(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, write(filepath.Join("..", ".."), folder))
	page, err := os.ReadFile(filepath.Join(folder, "statemachine.md"))
	require.NoError(t, err)
	assert.Equal(t, 41+1+3, strings.Count(string(page), " --> "),
		"every edge, the start and the three ends")
	assert.Contains(t, string(page), "| -32203 | STATE_NOT_ALLOWED |")
	for _, row := range statemachine.TurnTable() {
		assert.Contains(t, string(page), "| `"+string(row.Kind)+"` |")
	}
	require.Error(t, write(filepath.Join("..", ".."), filepath.Join(folder, "nowhere")))
}
