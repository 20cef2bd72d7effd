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
		require.Equal(t, want, p.run(t.Context(), []string{"mcp", "install", "--client", "cursor"}), typed)
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

// TestTheQuestionHidesNothing: a file cannot paint over what is shown.
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
