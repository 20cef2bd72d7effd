package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/internal/config"
)

// the pages in docs are what the tables say.
func TestDocsAreCurrent(t *testing.T) {
	t.Parallel()
	for _, p := range pages() {
		have, err := os.ReadFile(filepath.Join("..", "..", "docs", p.name))
		require.NoError(t, err, "run go generate ./...")
		assert.Equal(t, p.text(), string(have), "docs/%s is out of date: run go generate ./...", p.name)
	}
}

// The page of the settings holds the table that orch help environment prints.
func TestSettingsAreCurrent(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "settings.md"))
	require.NoError(t, err)
	_, _, found := strings.Cut(string(page), config.Markdown())
	assert.True(t, found, "docs/settings.md is out of date: run go generate ./...")
}

func TestWrite(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, write(folder))
	page, err := os.ReadFile(filepath.Join(folder, "statemachine.md"))
	require.NoError(t, err)
	assert.Equal(t, 41+1+3, strings.Count(string(page), " --> "),
		"every edge, the start and the three ends")
	assert.Contains(t, string(page), "| -32203 | STATE_NOT_ALLOWED |")
	require.Error(t, write(filepath.Join(folder, "nowhere")))
}
