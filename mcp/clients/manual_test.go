package clients_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/mcp/clients"
)

// TestTheManualIsCurrent checks that docs/how-to/connect-an-mcp-client.md has the entries that are written, and the sources of the facts.
func TestTheManualIsCurrent(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/how-to/connect-an-mcp-client.md")
	require.NoError(t, err)
	page := string(raw)
	stdio := clients.Entry{Name: "orch", Command: "/usr/local/bin/orch", Args: []string{
		"mcp", "serve", "--root", "/home/ada/project", "--data-dir", "/home/ada/.orch/data",
	}}
	for _, c := range clients.All() {
		text, err := c.Snippet(stdio)
		require.NoError(t, err)
		assert.Contains(t, page, text, c.ID)
		assert.Contains(t, page, c.Source, c.ID)
		if !c.SpeaksHTTP() {
			continue
		}
		text, err = c.Snippet(overHTTP())
		require.NoError(t, err)
		assert.Contains(t, page, text, c.ID)
	}
}
