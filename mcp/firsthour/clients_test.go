package firsthour_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/test/need"
)

// entry is an entry that `orch mcp install` has written for a client.
type entry struct {
	Command string
	Args    []string
	URL     string
	Headers map[string]string
}

// installed is an entry of the configuration of the user's client.
func (w *world) installed(name string) entry {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.home, ".claude.json"))
	require.NoError(w.t, err)
	var config struct {
		Servers map[string]entry `json:"mcpServers"`
	}
	require.NoError(w.t, json.Unmarshal(text, &config))
	require.Contains(w.t, config.Servers, name)
	return config.Servers[name]
}

// transport returns the transport that an entry describes.
func (w *world) transport(e entry) mcp.Transport {
	w.t.Helper()
	if e.URL == "" {
		cmd := w.command(e.Args...)
		require.Equal(w.t, cmd.Path, e.Command)
		return &mcp.CommandTransport{Command: cmd}
	}
	token, err := os.ReadFile(filepath.Join(w.home, "data", "mcp.token"))
	require.NoError(w.t, err)
	headers := http.Header{}
	for name, value := range e.Headers {
		headers.Set(name, strings.ReplaceAll(value, "${ORCH_TOKEN}", strings.TrimSpace(string(token))))
	}
	return &mcp.StreamableClientTransport{Endpoint: e.URL, HTTPClient: &http.Client{Transport: with{headers}}, DisableStandaloneSSE: true}
}

// with sends headers with every request, each on a connection of its own: the node may have died since the last one.
type with struct{ headers http.Header }

// RoundTrip implements http.RoundTripper.
func (h with) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name := range h.headers {
		r.Header.Set(name, h.headers.Get(name))
	}
	return (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
}

// connect connects a client of a generation, whose user answers forms with a function.
func (w *world) connect(version, name string, answer func(*mcp.ElicitRequest) (*mcp.ElicitResult, error)) *mcp.ClientSession {
	w.t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "scripted", Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}}},
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return answer(r)
		},
	})
	session, err := client.Connect(w.t.Context(), w.transport(w.installed(name)), &mcp.ClientSessionOptions{ProtocolVersion: version})
	require.NoError(w.t, err)
	return session
}

// unpack unpacks an npm package with the version and digest in scripts/mcp/package-lock.json.
func (w *world) unpack(p project) {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "scripts", "mcp", "package-lock.json"))
	require.NoError(w.t, err)
	need.Program(w.t, "npm", "tar")
	var lock struct {
		Packages map[string]struct{ Version, Integrity string }
	}
	require.NoError(w.t, json.Unmarshal(text, &lock))
	wanted := lock.Packages["node_modules/"+p.npm]
	require.NotEmpty(w.t, wanted.Integrity)
	out, err := exec.CommandContext(w.t.Context(), "npm", "pack", "--json", "--prefer-offline", "--pack-destination", w.home, p.npm+"@"+wanted.Version).Output()
	if err != nil {
		w.leaveOut("npm does not fetch %s: %v", p.npm, err)
	}
	var packed []struct{ Filename, Integrity string }
	require.NoError(w.t, json.Unmarshal(out, &packed), "%s", out)
	require.Len(w.t, packed, 1)
	require.Equal(w.t, wanted.Integrity, packed[0].Integrity)
	require.NoError(w.t, os.MkdirAll(w.project, 0o755))
	untar := exec.CommandContext(w.t.Context(), "tar", "-xzf", filepath.Join(w.home, packed[0].Filename), "--strip-components=1", "-C", w.project)
	out, err = untar.CombinedOutput()
	require.NoError(w.t, err, "%s", out)
	w.replace("package.json", p.script, "node --test")
}

// leaveOut skips a repository that this machine cannot have, unless it must (make clients).
func (w *world) leaveOut(format string, args ...any) {
	w.t.Helper()
	if os.Getenv("ORCH_FIRSTHOUR_NPM") != "" {
		w.t.Fatalf(format, args...)
	}
	w.t.Skipf(format, args...)
}

// replace replaces a text of a file that must be there.
func (w *world) replace(file, old, text string) {
	w.t.Helper()
	path := filepath.Join(w.project, file)
	content, err := os.ReadFile(path)
	require.NoError(w.t, err)
	require.Contains(w.t, string(content), old)
	require.NoError(w.t, os.WriteFile(path, []byte(strings.Replace(string(content), old, text, 1)), 0o644))
}
