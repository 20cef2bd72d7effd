package clients_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/clients"
)

// overStdio and overHTTP are the entries of all tests.
func overStdio() clients.Entry {
	return clients.Entry{Name: "orch", Command: "/opt/orch", Args: []string{"mcp", "serve", "--root", "/src"}}
}

func overHTTP() clients.Entry {
	return clients.Entry{Name: "orch", URL: "http://127.0.0.1:7424/mcp"}
}

func client(t *testing.T, id string) clients.Client {
	t.Helper()
	c, err := clients.Find(id)
	require.NoError(t, err)
	return c
}

func TestFilesOfUsers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		id, os string
		env    map[string]string
		want   string
	}{
		{"antigravity", "linux", nil, "/home/ada/.gemini/config/mcp_config.json"},
		{"claude-code", "linux", nil, "/home/ada/.claude.json"},
		{"claude-code", "linux", map[string]string{"CLAUDE_CONFIG_DIR": "/etc/claude"}, "/etc/claude/.claude.json"},
		{"claude-desktop", "linux", nil, "/home/ada/.config/Claude/claude_desktop_config.json"},
		{"claude-desktop", "darwin", nil, "/home/ada/Library/Application Support/Claude/claude_desktop_config.json"},
		{"claude-desktop", "windows", map[string]string{"APPDATA": "/roaming"}, "/roaming/Claude/claude_desktop_config.json"},
		{"codex", "linux", nil, "/home/ada/.codex/config.toml"},
		{"codex", "darwin", map[string]string{"CODEX_HOME": "/codex"}, "/codex/config.toml"},
		{"copilot", "linux", nil, "/home/ada/.copilot/mcp-config.json"},
		{"copilot", "darwin", map[string]string{"COPILOT_HOME": "/copilot"}, "/copilot/mcp-config.json"},
		{"cursor", "windows", nil, "/home/ada/.cursor/mcp.json"},
		{"devin", "darwin", nil, "/home/ada/.config/devin/mcp_config.json"},
		{"devin", "windows", map[string]string{"APPDATA": "/roaming"}, "/roaming/devin/mcp_config.json"},
		{"opencode", "linux", map[string]string{"XDG_CONFIG_HOME": "/xdg"}, "/xdg/opencode/opencode.json"},
		{"opencode", "windows", nil, "/home/ada/.config/opencode/opencode.json"},
		{"gemini", "linux", nil, "/home/ada/.gemini/settings.json"},
		{"vscode", "linux", nil, "/home/ada/.config/Code/User/mcp.json"},
		{"vscode", "linux", map[string]string{"XDG_CONFIG_HOME": "/xdg"}, "/xdg/Code/User/mcp.json"},
		{"vscode", "linux", map[string]string{"XDG_CONFIG_HOME": "relative"}, "/home/ada/.config/Code/User/mcp.json"},
		{"vscode", "darwin", nil, "/home/ada/Library/Application Support/Code/User/mcp.json"},
		{"vscode", "windows", nil, "/home/ada/AppData/Roaming/Code/User/mcp.json"},
		{"windsurf", "linux", nil, "/home/ada/.codeium/windsurf/mcp_config.json"},
		{"zed", "linux", map[string]string{"XDG_CONFIG_HOME": "/xdg"}, "/xdg/zed/settings.json"},
		{"zed", "darwin", map[string]string{"XDG_CONFIG_HOME": "/xdg"}, "/home/ada/.config/zed/settings.json"},
		{"zed", "windows", map[string]string{"APPDATA": "/roaming"}, "/roaming/Zed/settings.json"},
	} {
		got, err := client(t, tc.id).File(clients.Place{OS: tc.os, Home: "/home/ada", Getenv: func(k string) string { return tc.env[k] }})
		require.NoError(t, err)
		assert.Equal(t, tc.want, filepath.ToSlash(got), "%s on %s", tc.id, tc.os)
	}
}

func TestFilesOfProjects(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"claude-code": "/src/.mcp.json", "codex": "/src/.codex/config.toml", "cursor": "/src/.cursor/mcp.json",
		"gemini": "/src/.gemini/settings.json", "vscode": "/src/.vscode/mcp.json", "zed": "/src/.zed/settings.json",
		"copilot": "/src/.mcp.json", "devin": "/src/.devin/mcp_config.json", "opencode": "/src/opencode.json",
		"antigravity": "", "claude-desktop": "", "windsurf": "",
	}
	require.ElementsMatch(t, clients.IDs(), keys(want))
	for id, file := range want {
		c := client(t, id)
		got, err := c.File(clients.Place{OS: "linux", Project: "/src", InProject: true})
		assert.Equal(t, file, filepath.ToSlash(got))
		assert.Equal(t, file == "", fault.Has(err, fault.ValidationError), id)
		assert.Equal(t, file != "", c.HasProject(), id)
	}
}

// TestTheFileThatIsThere: of two endings the one counts that a user has.
func TestTheFileThatIsThere(t *testing.T) {
	t.Parallel()
	place := clients.Place{OS: "linux", Project: t.TempDir(), InProject: true}
	c := client(t, "opencode")
	for _, name := range []string{"opencode.json", "opencode.jsonc"} {
		file, err := c.File(place)
		require.NoError(t, err)
		assert.Equal(t, name, filepath.Base(file))
		require.NoError(t, os.WriteFile(filepath.Join(place.Project, "opencode.jsonc"), []byte("{}"), 0o600))
	}
}

func keys(m map[string]string) []string {
	var list []string
	for k := range m {
		list = append(list, k)
	}
	return list
}

func TestFindTellsWhatThereIs(t *testing.T) {
	t.Parallel()
	_, err := clients.Find("emacs")
	require.ErrorIs(t, err, fault.New(fault.ValidationError, ""))
	assert.Contains(t, fault.From(err).Hint, "antigravity, claude-code, claude-desktop, codex, copilot, cursor")
}

// TestNoClientGetsASecret checks that an entry names the variable, or that there is none over HTTP.
func TestNoClientGetsASecret(t *testing.T) {
	t.Parallel()
	for _, c := range clients.All() {
		text, err := c.Snippet(overHTTP())
		if !c.SpeaksHTTP() {
			assert.True(t, fault.Has(err, fault.ValidationError), c.ID)
			continue
		}
		require.NoError(t, err)
		assert.Regexp(t, `\bORCH_TOKEN\b|\$\{input:orch-token\}`, text, c.ID)
		assert.Contains(t, text, `"http://127.0.0.1:7424/mcp"`, c.ID)
	}
}

func TestEveryClientNamesItsSource(t *testing.T) {
	t.Parallel()
	for _, c := range clients.All() {
		assert.Regexp(t, `^https://`, c.Source, c.ID)
		assert.Regexp(t, `^20\d\d-\d\d$`, c.Checked, c.ID)
		assert.NotEmpty(t, c.Reload, c.ID)
		assert.NotEmpty(t, c.Title, c.ID)
	}
}
