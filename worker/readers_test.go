package worker_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/tools/builtin"
	"github.com/orch-dev/orch/worker"
)

// secretFiles returns files of the workspace, each with the parts that no reader may return.
func secretFiles() map[string]struct {
	text   string
	hidden []string
} {
	seed := "SUAM" + strings.Repeat("K7QXZ2", 9)
	body := []string{strings.Repeat("b3BlbnNzaC1rZXkt", 4), strings.Repeat("Q0FGRTEyMzQ1Njc4", 4), strings.Repeat("dGhpcyBpcyBhIGtl", 4)}
	return map[string]struct {
		text   string
		hidden []string
	}{
		"nats.creds":  {"-----BEGIN USER NKEY SEED-----\n" + seed + "\n------END USER NKEY SEED------\n", []string{seed}},
		"server.key":  {"-----BEGIN PRIVATE KEY-----\n" + strings.Join(body, "\n") + "\n-----END PRIVATE KEY-----\n", body},
		"netrc":       {"machine git.example.org\n  login bot\n  password q7WabcDEF12\n", []string{"q7WabcDEF12"}},
		"values.yaml": {"database:\n  user: app\n  password: q7Wx9k2\nport: 1\n", []string{"q7Wx9k2"}},
		"env":         {"SMTP_PASSWORD=k9.word:tail7\nHOME=/x\n", []string{"k9.word:tail7"}},
	}
}

// A secret that nobody may write cannot be read either, with any tool.
func TestReadersShowNoSecrets(t *testing.T) {
	t.Parallel()
	runner, err := proc.New(proc.Config{})
	require.NoError(t, err)
	b := newBench(t, worker.Config{Exec: runner}, builtin.All(builtin.Config{})...)
	dir := b.working("workspace")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	git := func(args ...string) {
		c := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	git("init", "-q")
	for name := range secretFiles() {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("old\n"), 0o600))
	}
	git("add", ".")
	git("commit", "-qm", "old")
	for name, file := range secretFiles() {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(file.text), 0o600))
	}
	for name, file := range secretFiles() {
		path := filepath.Join(dir, name)
		for _, c := range []struct{ tool, args string }{
			{"FILE_READ", `{"file_path":"` + path + `"}`},
			{"FILE_READ", `{"file_path":"` + path + `","offset":2}`},
			{"FILE_READ", `{"file_path":"` + path + `","offset":2,"limit":1}`},
			{"GREP_SEARCH", `{"path":"` + path + `","pattern":"."}`},
			{"GREP_SEARCH", `{"path":"` + path + `","pattern":"^ *[A-Za-z0-9+/]{20,}=*$|password|PASS"}`},
			{"BASH_EXECUTE", `{"command":"cat ` + path + `"}`},
			{"BASH_EXECUTE", `{"command":"cat -n ` + path + `"}`},
			{"BASH_EXECUTE", `{"command":"grep -Hn . ` + path + `"}`},
			{"GIT_DIFF", `{"repository_path":"` + dir + `"}`},
		} {
			out := b.Execute(t.Context(), call(c.tool, c.args))
			require.Nil(t, out.Error, "%s %s: %v", c.tool, c.args, out.Error)
			require.True(t, json.Valid(out.Output))
			for _, hidden := range file.hidden {
				assert.NotContains(t, string(out.Output), hidden, "%s %s", c.tool, c.args)
			}
		}
	}
}
