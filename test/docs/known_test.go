package docs_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// folders returns the folders of the documentation for readers.
func folders() []string {
	return []string{"docs/tutorials", "docs/how-to", "docs/reference", "docs/explanation", "docs/releases"}
}

// pagesToFollow returns the pages of the documentation that show something to do: commands, files, code.
func pagesToFollow(t *testing.T) (pages []string) {
	t.Helper()
	candidates := []string{"README.md"}
	for _, folder := range append(folders(), "skills/*", "examples/*") {
		found, err := filepath.Glob(filepath.Join(source, folder, "*.md"))
		require.NoError(t, err)
		for _, path := range found {
			candidates = append(candidates, strings.TrimPrefix(filepath.ToSlash(path), source+"/"))
		}
	}
	for _, page := range candidates {
		text, err := os.ReadFile(filepath.Join(source, page))
		require.NoError(t, err)
		units, err := parse(string(text))
		require.NoError(t, err, page)
		_, err = os.Stat(directionsOf(page))
		if err == nil || slices.ContainsFunc(units, func(u unit) bool { return u.kind != shown }) {
			pages = append(pages, page)
		}
	}
	return pages
}

// Each page that shows something to do has directions. One whose commands cannot be run says so there, block by block.
func TestPagesHaveDirections(t *testing.T) {
	t.Parallel()
	pages := pagesToFollow(t)
	assert.Greater(t, len(pages), 50)
	for _, page := range pages {
		assert.FileExists(t, directionsOf(page), page)
	}
}

// Each file with directions is about a page that exists.
func TestDirectionsHaveAPage(t *testing.T) {
	t.Parallel()
	var known []string
	for _, page := range pagesToFollow(t) {
		known = append(known, directionsOf(page))
	}
	require.NoError(t, filepath.WalkDir("testdata", func(path string, _ os.DirEntry, err error) error {
		if filepath.Ext(path) == ".yaml" {
			assert.Contains(t, known, path)
		}
		return err
	}))
}
