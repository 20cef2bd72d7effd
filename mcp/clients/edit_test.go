package clients_test

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/clients"
)

var update = flag.Bool("update", false, "write the golden files")

// TestEdits installs and uninstalls in files as people have them. The first line of a story is the id of the
// client and the transport; then come the sections before, installed and uninstalled.
func TestEdits(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/edit/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			story, err := txtar.ParseFile(file)
			require.NoError(t, err)
			edits(t, file, story)
		})
	}
}

func edits(t *testing.T, file string, story *txtar.Archive) {
	t.Helper()
	id, transport, _ := strings.Cut(strings.TrimSpace(string(story.Comment)), " ")
	c, entry := client(t, id), overStdio()
	if transport == "http" {
		entry = overHTTP()
	}
	before := story.Files[0].Data
	installed, err := c.Install("f", before, entry)
	require.NoError(t, err)
	again, err := c.Install("f", installed, entry)
	require.NoError(t, err)
	assert.Equal(t, string(installed), string(again), "a second time")
	gone, err := c.Uninstall("f", installed, "orch")
	require.NoError(t, err)
	none, err := c.Uninstall("f", gone, "orch")
	require.NoError(t, err)
	assert.Equal(t, string(gone), string(none), "a second time")
	if *update {
		story.Files = []txtar.File{story.Files[0], {Name: "installed", Data: installed}, {Name: "uninstalled", Data: gone}}
		require.NoError(t, writeStory(file, story))
		return
	}
	require.Len(t, story.Files, 3)
	assert.Equal(t, string(story.Files[1].Data), string(installed))
	assert.Equal(t, string(story.Files[2].Data), string(gone))
}

func TestNewFiles(t *testing.T) {
	t.Parallel()
	for _, c := range clients.All() {
		got, err := c.Install("f", nil, overStdio())
		require.NoError(t, err, c.ID)
		snippet, err := c.Snippet(overStdio())
		require.NoError(t, err)
		assert.Equal(t, strings.TrimSpace(snippet), strings.TrimSpace(string(got)), c.ID)
		assert.True(t, strings.HasSuffix(string(got), "\n"), c.ID)
	}
}

// TestWindows checks that the byte order mark and the line ends are kept.
func TestWindows(t *testing.T) {
	t.Parallel()
	got, err := client(t, "cursor").Install("f", []byte("\xef\xbb\xbf{\r\n\t\"mcpServers\": {}\r\n}\r\n"), overHTTP())
	require.NoError(t, err)
	assert.Equal(t, "\xef\xbb\xbf{\r\n\t\"mcpServers\": {\r\n\t\t\"orch\": {\r\n\t\t\t\"url\": \"http://127.0.0.1:7424/mcp\",\r\n\t\t\t\"headers\": {\r\n"+
		"\t\t\t\t\"Authorization\": \"Bearer ${env:ORCH_TOKEN}\"\r\n\t\t\t}\r\n\t\t}\r\n\t}\r\n}\r\n", string(got))
	got, err = client(t, "codex").Install("f", []byte("model = \"o\"\r\n"), overHTTP())
	require.NoError(t, err)
	assert.Equal(t, "model = \"o\"\r\n\r\n[mcp_servers.orch]\r\nurl = \"http://127.0.0.1:7424/mcp\"\r\nbearer_token_env_var = \"ORCH_TOKEN\"\r\n", string(got))
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, id, content string
		code              fault.Code
		field             string
	}{
		{"a comma too many", "cursor", "{\n  \"mcpServers\": {,}\n}", fault.InvalidFormat, "f:2:18"},
		{"no end", "claude-code", "{\n  \"mcpServers\": {", fault.InvalidFormat, "f:2:18"},
		{"a list", "cursor", "[]", fault.InvalidFormat, "f:1:1"},
		{"only a comment", "zed", "// nothing\n", fault.InvalidFormat, "f:2:1"},
		{"servers in a list", "cursor", `{"mcpServers": []}`, fault.Conflict, "f"},
		{"servers that are nothing", "cursor", `{"mcpServers": null}`, fault.Conflict, "f"},
		{"inputs that are no list", "vscode", `{"inputs": {}}`, fault.Conflict, "f"},
		{"servers of OpenCode 1", "opencode", `{"mcp": {"jira": {"type": "remote", "url": "https://jira.example/mcp"}}}`, fault.Conflict, "f"},
		{"a list in place of mcp", "opencode", `{"mcp": []}`, fault.Conflict, "f"},
		{"broken TOML", "codex", "model = \"o\"\n[mcp_servers", fault.InvalidFormat, "f:2:12"},
		{"servers in one line", "codex", `mcp_servers = {orch = {command = "x"}}`, fault.Conflict, "f"},
		{"a table in two places", "codex", "[mcp_servers.orch]\ncommand = \"x\"\n[other]\n[mcp_servers.orch.env]\nA = \"b\"\n", fault.Conflict, "f"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			entry := overStdio()
			if tc.id == "vscode" {
				entry = overHTTP()
			}
			_, err := client(t, tc.id).Install("f", []byte(tc.content), entry)
			require.ErrorIs(t, err, fault.New(tc.code, ""))
			assert.Equal(t, tc.field, fault.From(err).Field)
		})
	}
}

// TestTheLastOfTwoCounts as it does for the clients; all of them go.
func TestTheLastOfTwoCounts(t *testing.T) {
	t.Parallel()
	c := client(t, "cursor")
	const twice = `{"mcpServers": {"orch": {"command": "a"}, "orch": {"command": "b"}}}`
	got, err := c.Install("f", []byte(twice), overStdio())
	require.NoError(t, err)
	assert.Contains(t, string(got), `"orch": {"command": "a"}, "orch": {`)
	got, err = c.Uninstall("f", []byte(twice), "orch")
	require.NoError(t, err)
	const none = `{"mcpServers": {}}`
	assert.JSONEq(t, none, string(got))
	assert.Len(t, got, len(none))
}
