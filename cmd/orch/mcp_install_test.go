package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
)

// newTerminal returns a command line with a person who types.
func newTerminal(t *testing.T, typed string) *probe {
	t.Helper()
	p := newProbe(t)
	p.in, p.inTTY, p.errTTY, p.exe = strings.NewReader(typed), true, true, "/opt/orch"
	return p
}

func TestInstallAsks(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]int{"y\n": exitOK, "YES\n": exitOK, "n\n": exitCancelled, "\n": exitCancelled, "": exitCancelled} {
		p := newTerminal(t, typed)
		file := filepath.Join(p.home, ".cursor", "mcp.json")
		require.Equal(t, want, p.run(t.Context(), []string{"mcp", "install", "--client", "cursor", "--no-check"}), typed)
		assert.Contains(t, p.err.String(), "+++ "+file)
		assert.Contains(t, p.err.String(), "Write this? [y/N]")
		if want == exitOK {
			assert.FileExists(t, file)
			assert.NotContains(t, p.out.String(), "+++", "the change was shown once")
		} else {
			assert.NoFileExists(t, file)
			assert.Contains(t, p.err.String(), "nothing was changed")
		}
	}
}

// TestTheQuestionHidesNothing checks that a file cannot hide anything from the question with control characters.
func TestTheQuestionHidesNothing(t *testing.T) {
	t.Parallel()
	p := newTerminal(t, "n\n")
	require.NoError(t, os.Mkdir(filepath.Join(p.home, ".cursor"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(p.home, ".cursor", "mcp.json"), []byte("{} // \x1b[2J\n"), 0o600))
	require.Equal(t, exitCancelled, p.run(t.Context(), []string{"mcp", "install", "--client", "cursor"}))
	assert.NotContains(t, p.err.String(), "\x1b[2J")
}

func TestInstallPassesTheSelection(t *testing.T) {
	t.Parallel()
	p := newTerminal(t, "")
	require.Equal(t, exitOK, p.run(t.Context(), []string{"mcp", "install", "--client", "vscode", "--tools", "FILE_*,orch_*", "--only-read", "--dry-run"}))
	assert.Contains(t, p.out.String(), `"--tools", "FILE_*,orch_*", "--only-read", "--portable-names"]`)
}

// serverScript writes a minimal MCP server as a shell script, and returns its path.
func serverScript(t *testing.T, tools string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "orch")
	text := `#!/bin/sh
while read -r line; do case $line in
*'"initialize"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"serverInfo":{"name":"orch","version":"9"}}}';;
*'"tools/list"'*) echo '` + tools + `';;
esac; done
`
	require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
	return path
}

// TestInstallTriesTheEntry checks that the entry is started before it is written, and not written if a client could not use it.
func TestInstallTriesTheEntry(t *testing.T) {
	t.Parallel()
	p := newTerminal(t, "")
	p.exe = serverScript(t, `{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"a"},{"name":"b"}]}}`)
	file := filepath.Join(p.home, ".cursor", "mcp.json")
	install := []string{"mcp", "install", "--client", "cursor", "--yes"}
	require.Equal(t, exitOK, p.run(t.Context(), install), p.err.String())
	assert.Contains(t, p.out.String(), "works:   2 tools in 27 bytes, profile coding, orch 9\n")
	was, err := os.ReadFile(file)
	require.NoError(t, err)

	// The second time nothing is written, but the entry is checked again.
	p.out.Reset()
	require.Equal(t, exitOK, p.run(t.Context(), install))
	assert.Contains(t, p.out.String(), "nothing to change in "+file)
	assert.Contains(t, p.out.String(), "works:   2 tools")

	for name, tc := range map[string]struct{ tools, want string }{
		"no tools":   {`{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}`, "lists no tools"},
		"an error":   {`{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"no log"}}`, "answers tools/list with an error: no log"},
		"no message": {`orch 1.0 starts`, `a line that is not a message: "orch 1.0 starts"`},
	} {
		p.exe = serverScript(t, tc.tools)
		require.Equal(t, exitFailed, p.run(t.Context(), install), name)
		assert.Contains(t, p.err.String(), "Cursor could not use it", name)
		assert.Contains(t, p.err.String(), tc.want, name)
		now, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, string(was), string(now), name)
	}
}

func TestInstallRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		exe, want string
		args      []string
	}{
		"both files":       {"/opt/orch", "exclude each other", []string{"--user", "--project"}},
		"a name":           {"/opt/orch", "--name must have", []string{"--name", "a b"}},
		"no root":          {"/opt/orch", "there is no such directory", []string{"--root", "gone"}},
		"a passing binary": {filepath.Join(os.TempDir(), "go-build1", "orch"), "build it first", nil},
		"an unknown one":   {"", "build it first", nil},
	} {
		p := newTerminal(t, "")
		p.exe = tc.exe
		assert.NotEqual(t, exitOK, p.run(t.Context(), append([]string{"mcp", "install", "--client", "cursor"}, tc.args...)), name)
		assert.Contains(t, p.err.String(), tc.want, name)
	}
}

func TestFaceURL(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]string{
		"auto": "http://127.0.0.1:7424/mcp", "127.0.0.1:80": "http://127.0.0.1:80/mcp", "0.0.0.0:81": "http://127.0.0.1:81/mcp",
		"[::]:82": "http://127.0.0.1:82/mcp", "[::1]:83": "http://[::1]:83/mcp", "box:84": "http://box:84/mcp", ":85": "http://127.0.0.1:85/mcp",
	} {
		got, err := faceURL(setting)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for _, setting := range []string{"off", "127.0.0.1:0", "nonsense"} {
		_, err := faceURL(setting)
		assert.True(t, fault.Has(err, fault.ValidationError), setting)
	}
}
