package server_test

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/mcp/server"
)

// clients that accept no dots see underscores, both names can be called, and without the option nothing is changed.
func TestPortableNames(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	names := func(session *mcp.ClientSession) map[string]bool {
		found := map[string]bool{}
		for tool, err := range session.Tools(t.Context(), nil) {
			require.NoError(t, err)
			assert.False(t, found[tool.Name], "%s stands twice", tool.Name)
			found[tool.Name] = true
		}
		return found
	}
	plain, _ := n.connect(n.face(speaking))
	portable, _ := n.connect(n.face(speaking, func(c *server.Config) { c.Offer.PortableNames = true }))
	usual, shown := names(plain), names(portable)
	assert.Len(t, shown, len(usual))
	for name := range usual {
		assert.True(t, shown[strings.ReplaceAll(name, ".", "_")], name)
	}
	for name := range shown {
		assert.NotContains(t, name, ".")
	}
	for _, name := range []string{"github_readFile", "github.readFile"} {
		r, err := portable.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: map[string]any{"owner": "o o", "repo": "r", "path": "p"}})
		require.NoError(t, err, name)
		require.True(t, r.IsError)
		failed, _ := r.Meta["orch/error"].(map[string]any)
		assert.Equal(t, "INVALID_FORMAT", failed["name"], "%s: the tool itself has answered", name)
	}
	_, err := plain.CallTool(t.Context(), &mcp.CallToolParams{Name: "github_readFile"})
	require.Error(t, err)
	_, err = portable.CallTool(t.Context(), &mcp.CallToolParams{Name: "github_none"})
	require.Error(t, err)
}

// What a client does not see is not there under another name either.
func TestPortableNamesKeepTheSelection(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	session, _ := n.connect(n.face(speaking, func(c *server.Config) {
		c.Offer.PortableNames, c.Offer.Show = true, server.Selection{Tools: []string{"github.readFile"}}
	}))
	list, err := session.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, list.Tools, 1)
	assert.Equal(t, "github_readFile", list.Tools[0].Name)
	_, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "github_searchCode", Arguments: map[string]any{"query": "q"}})
	require.Error(t, err)
}

// speaking accepts clients with tokens.
func speaking(c *server.Config) { c.HTTP.Tokens = tokens{} }
