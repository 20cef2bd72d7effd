package registry_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/mcp/registry"
)

// a map of servers becomes valid definitions.
func TestImport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := w.put("client.json", `{
		"theme": "dark", // of Gemini CLI
		"mcpServers": {
			"Good One": {"command": "npx", "args": ["-y", "x"], "env": {"A": "secret-of-a-file", "N": 7, "B": true, "Z": null}, "cwd": "/srv"},
			"old": {"type": "sse", "url": "https://example.com/sse"},
			"a/b": {"command": 7},
			"web": {"httpUrl": "https://example.com/mcp", "headers": {"X": "y"}, "trust": true},
		},
	}`)
	in, err := registry.Import(file)
	require.NoError(t, err)
	require.Len(t, in.Problems, 2)
	assert.Equal(t, "/mcpServers/old/type", in.Problems[0].Path)
	assert.Contains(t, in.Problems[0].Message, "the old transport sse is not supported")
	assert.Equal(t, "/mcpServers/a~1b/command", in.Problems[1].Path)
	require.Len(t, in.Servers, 2)
	good, web := in.Servers[0], in.Servers[1]
	assert.Equal(t, "good-one", good.Name)
	assert.Equal(t, map[string]string{"A": "secret-of-a-file", "N": "7", "B": "true", "Z": ""}, good.Env)
	assert.Equal(t, "/srv", good.Cwd)
	assert.Equal(t, registry.TransportHTTP, web.Transport)
	assert.Equal(t, "https://example.com/mcp", web.BaseURL)
	for _, s := range in.Servers {
		problems, err := w.Validate(t.Context(), w.put(s.Name+".json", string(s.File())))
		require.NoError(t, err)
		assert.Empty(t, problems)
	}
	_, err = registry.Import(file + ".none")
	require.ErrorIs(t, err, registry.ErrFileNotFound)
}

func TestDocumentedDefinitionsAreValid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	page, err := os.ReadFile("../../docs/reference/mcp-servers.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(page, -1)
	require.Len(t, blocks, 3)
	for _, block := range blocks {
		problems, err := w.Validate(t.Context(), w.put("example.json", string(block[1])))
		require.NoError(t, err)
		assert.Empty(t, problems)
	}
}

// The permissions of a client stay the same, and lost properties are reported.
func TestImportTellsWhatItLeaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in, err := registry.Import(w.put("client.json", `{"mcpServers": {
		"asks": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${input:key}"}, "timeout": 60},
		"gemini": {"command": "x", "includeTools": ["get_*"], "excludeTools": ["get_secret"]},
		"plain": {"type": "stdio", "command": "x", "args": ["${workspaceFolder}"]},
		"shows": {"command": "x", "args": ["--token", "${MY_TOKEN}"], "envFile": ".env"},
		"windsurf": {"command": "x", "disabledTools": ["drop"]}
	}}`))
	require.NoError(t, err)
	assert.Empty(t, in.Problems)
	require.Len(t, in.Servers, 5)
	assert.Equal(t, []string{"get_*", "!get_secret"}, in.Servers[1].Tools)
	assert.Equal(t, []string{"!drop"}, in.Servers[4].Tools)
	assert.Equal(t, []registry.Skipped{
		{Name: "asks", Reason: "without timeout, which orch does not know"},
		{Name: "asks", Reason: "${input:key} is asked for by the client alone: write ${NAME}, a variable of the environment"},
		{Name: "shows", Reason: "without envFile, which orch does not know"},
		{Name: "shows", Reason: "it cannot be started: the command line of shows names the secret MY_TOKEN, and every user of the machine can see it"},
	}, in.Left)

	_, err = registry.Import(w.put("settings.json", `{"theme": "dark"}`))
	require.ErrorContains(t, err, "it has no map mcpServers or servers")
}
