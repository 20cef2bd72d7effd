package git_test

import (
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
)

const password = "correct-horse-battery"

// smartHTTP serves the bare repositories of a folder with git's own server, for one user. While it answers a request
// with the password, it stores the command lines of all processes in seen.
func smartHTTP(t *testing.T, folder string, seen *atomic.Pointer[string]) string {
	t.Helper()
	core, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	require.NoError(t, err)
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(core)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + folder, "GIT_HTTP_EXPORT_ALL=1"},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, given, _ := r.BasicAuth(); user != "ada" || given != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		lines := commandLines()
		seen.Store(&lines)
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// commandLines returns the command lines of all processes, which any user can read.
func commandLines() string {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	var all strings.Builder
	for _, file := range files {
		line, _ := os.ReadFile(file) // the process may have exited
		all.Write(append(line, '\n'))
	}
	return all.String()
}

// helper writes a credential helper that reads the password from a file next to it.
func helper(t *testing.T, secret string) (script, folder string) {
	t.Helper()
	folder = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "password"), []byte(secret), 0o600))
	script = filepath.Join(folder, "helper")
	text := "#!/bin/sh\ntest \"$1\" = get || exit 0\necho username=ada\necho password=$(cat " + folder + "/password)\n"
	require.NoError(t, os.WriteFile(script, []byte(text), 0o700))
	return script, folder
}

// S0-106 over http, against git's own server: the credentials come from the helper and are never shown.
func TestPushOverHTTP(t *testing.T) {
	t.Parallel()
	b := newWriter(t)
	folder := t.TempDir()
	bare := filepath.Join(folder, "x.git")
	b.git("init", "-q", "--bare", "-b", "main", bare)
	b.at(bare).git("config", "http.receivepack", "true")
	var seen atomic.Pointer[string]
	address := smartHTTP(t, folder, &seen)
	b.git("remote", "add", "origin", address+"/x.git")

	_, err := b.push(map[string]any{})
	assert.Equal(t, "REMOTE_REFUSED", reason(err), "%v", err)
	at, err := url.Parse(address)
	require.NoError(t, err)
	b.cfg.PlainHTTP = func(host, port string) bool { return host+":"+port == at.Host }
	_, err = b.push(map[string]any{})
	assert.Equal(t, fault.Unauthorized, fault.CodeOf(err), "without a helper: %v", err)
	var places string
	b.cfg.CredentialHelper, places = helper(t, "wrong")
	b.cfg.Read = []string{places}
	_, err = b.push(map[string]any{})
	assert.Equal(t, fault.Unauthorized, fault.CodeOf(err), "with a wrong password: %v", err)
	assert.Nil(t, seen.Load())

	b.cfg.CredentialHelper, places = helper(t, password)
	b.cfg.Read = []string{places}
	out, err := b.push(map[string]any{})
	require.NoError(t, err)
	assert.Equal(t, b.git("rev-parse", "HEAD"), out.CommitHash)
	assert.Equal(t, out.CommitHash, b.at(bare).git("rev-parse", "main"))
	assert.Contains(t, *seen.Load(), "remote-http")
	assert.NotContains(t, *seen.Load(), password)

	b.cfg.Read = nil
	b.commits("c.txt")
	_, err = b.push(map[string]any{})
	assert.Equal(t, fault.Unauthorized, fault.CodeOf(err), "the helper can read only what it is given: %v", err)
	assert.NotContains(t, err.Error(), password)
}
