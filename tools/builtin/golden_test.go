package builtin_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/builtin"
)

// TestGolden compares the description of every tool, with its schemas, with testdata/<name>.json.
// ORCH_UPDATE_GOLDEN=1 rewrites the files.
func TestGolden(t *testing.T) {
	t.Parallel()
	want := map[string]bool{}
	for _, tool := range builtin.All(builtin.Config{}) {
		file := filepath.Join("testdata", tool.Spec().Name+".json")
		want[file] = true
		var text bytes.Buffer
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		require.NoError(t, enc.Encode(tools.Describe(tool)))
		if os.Getenv("ORCH_UPDATE_GOLDEN") == "1" {
			require.NoError(t, os.WriteFile(file, text.Bytes(), 0o644))
		}
		golden, err := os.ReadFile(file)
		require.NoError(t, err, "run the test with ORCH_UPDATE_GOLDEN=1")
		assert.Equal(t, string(golden), text.String(), "%s: if the change is meant, run the test with ORCH_UPDATE_GOLDEN=1", file)
	}
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	for _, file := range files {
		assert.True(t, want[file], "%s belongs to no tool; the names of tools are for ever", strings.TrimSuffix(file, ".json"))
	}
}
