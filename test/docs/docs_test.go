package docs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/test/need"
)

// Every command of a page with directions ends as the page says, and the output that the page shows appears.
func TestPages(t *testing.T) {
	t.Parallel()
	need.Program(t, "bash", "git", "curl")
	bin := t.TempDir()
	built, err := need.Orch(bin)
	require.NoError(t, err)
	if filepath.Base(built) != "orch" || filepath.Dir(built) != bin {
		require.NoError(t, os.Symlink(built, filepath.Join(bin, "orch")))
	}
	for _, page := range pagesToFollow(t) {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			d, err := readDirections(page)
			require.NoError(t, err, directionsOf(page))
			need.Program(t, d.Needs...)
			text, err := os.ReadFile(filepath.Join(source, page))
			require.NoError(t, err)
			units, err := parse(string(text))
			require.NoError(t, err, page)
			acts, err := direct(units, d)
			require.NoError(t, err, directionsOf(page))
			for _, finding := range newWorld(t, bin).perform(t, d, acts) {
				t.Errorf("%s:%s", page, finding)
			}
		})
	}
}
