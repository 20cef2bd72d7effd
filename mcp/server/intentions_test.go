package server_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/mcp/server"
)

// envReader names a directory into which TestIntentions writes the input for a reader of the profile.
const envReader = "ORCH_READER"

// noTool is the answer of a reader who would call no tool.
const noTool = "none"

// intentions are requests to an agent, and the tool of the coding profile that a reader has chosen first for each.
type intentions struct {
	Measured struct {
		// List is the digest of the list that the reader had, Reader is who that was.
		List, Date, Reader string
	}
	Intentions []intention
}

// intention is one request. First are the tools with which an agent may start, Chosen the one that the reader has named.
type intention struct {
	Says   string
	First  []string
	Chosen string
}

// The descriptions of the coding profile lead a reader to the right tool, as measured for the present list. A change of the list requires
// a new measurement: ORCH_READER=DIR go test ./mcp/server -run TestIntentions writes list.json and intentions.txt. A reader who has
// seen nothing else, such as a model in a new conversation, names a tool for each line. The answers, the date, the reader and
// the digest go into testdata/intentions.json.
func TestIntentions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "intentions.json"))
	require.NoError(t, err)
	var all intentions
	require.NoError(t, json.Unmarshal(text, &all))
	names, list := startNode(t).listed(t, server.ProfileCoding)
	if dir := os.Getenv(envReader); dir != "" {
		all.write(t, dir, list)
	}
	var misses []string
	wanted := map[string]bool{}
	for _, i := range all.Intentions {
		require.NotEmpty(t, i.First, i.Says)
		assert.Subset(t, append(names, noTool), i.First, i.Says)
		for _, name := range i.First {
			wanted[name] = true
		}
		if !slices.Contains(i.First, i.Chosen) {
			misses = append(misses, fmt.Sprintf("%s: %s, not one of %v", i.Says, i.Chosen, i.First))
		}
	}
	for _, name := range names {
		assert.True(t, wanted[name], "nobody wants %s", name)
	}
	t.Logf("%d of %d, by %s on %s", len(all.Intentions)-len(misses), len(all.Intentions), all.Measured.Reader, all.Measured.Date)
	assert.Len(t, all.Intentions, 50)
	assert.LessOrEqual(t, len(misses), 2, strings.Join(misses, "\n"))
	digest := sha256.Sum256([]byte(list))
	assert.Equal(t, all.Measured.List, hex.EncodeToString(digest[:]), "the list has changed since it was measured: let a new reader read it, as the comment of this test says")
}

// write writes the list and the intentions, without the answers.
func (all intentions) write(t *testing.T, dir, list string) {
	t.Helper()
	var lines strings.Builder
	for i, each := range all.Intentions {
		fmt.Fprintf(&lines, "%d. %s\n", i+1, each.Says)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "list.json"), []byte(list), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "intentions.txt"), []byte(lines.String()), 0o600))
}
