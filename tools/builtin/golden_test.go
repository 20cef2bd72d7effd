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
// ORCH_UPDATE_GOLDEN=1 rewrites the files. They contain the names (S0-001, S4-001), the inputs (S0-021, S0-041,
// S0-080, S0-095, S0-110, S0-120, S0-130, S0-160, S4-020, S4-050) with their units, the approval rules
// (S0-020, S0-040) and the outputs (O-1, A-50).
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
