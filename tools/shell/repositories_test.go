package shell_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/internal/proc"
)

// Programs of a session may write in its project, but not in repositories, because git would run files there. Git
// itself may.
func TestProgramsDoNotWriteInRepositories(t *testing.T) {
	t.Parallel()
	if !proc.Probe().Views {
		t.Skip("needs mount namespaces")
	}
	env := newEnv(t)
	root := env.Root.Name()
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	for _, dir := range []string{root, filepath.Join(root, "deep", "sub")} {
		require.NoError(t, os.MkdirAll(dir, 0o700))
		for _, args := range [][]string{{"init", "-q"}, {"config", "user.email", "a@b.c"}, {"config", "user.name", "a"}, {"commit", "-q", "--allow-empty", "-m", "x"}} {
			said, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).CombinedOutput()
			require.NoError(t, err, "%s", said)
		}
	}
	write("tree/.git", "gitdir: elsewhere\n")
	env.Writable = []string{root}
	run := func(command string) (code int, said string) {
		out, err := call(t, env, map[string]any{"command": command, "working_directory": root})
		require.NoError(t, err)
		return out.ExitCode, out.Stdout + out.Stderr
	}
	for _, at := range []string{".git/commondir", ".git/config.worktree", ".git/HEAD", ".git/hooks/pre-commit", "deep/sub/.git/config", "deep/sub/.git/info/attributes", "tree/.git"} {
		code, said := run("echo ../fake > " + at)
		assert.NotZero(t, code, at)
		assert.Contains(t, said, "Read-only file system", at)
	}
	code, said := run("mv .git elsewhere || mv deep/sub/.git deep/sub/elsewhere || mv deep elsewhere")
	assert.NotZero(t, code, said)
	code, said = run("echo x > deep/new.txt")
	assert.Zero(t, code, said)
	_, said = run("true | git add -A .; git commit -q -m x")
	assert.Contains(t, said, "run git in a separate command")
	for _, command := range []string{
		"git add deep/new.txt && git commit -q -m 'fix: x'", "git checkout -q -b next", "cd deep/sub && git commit -q --allow-empty -m y", "git branch --show-current | grep next",
	} {
		code, said = run(command)
		assert.Zero(t, code, "%s: %s", command, said)
	}
	// A repository whose configuration runs programs cannot affect the others.
	write("e.sh", "#!/bin/sh\ntouch "+root+"/ran\necho ../fake > "+root+"/.git/commondir\n")
	require.NoError(t, os.Chmod(filepath.Join(root, "e.sh"), 0o700))
	out, err := exec.CommandContext(t.Context(), "git", "-C", filepath.Join(root, "deep", "sub"), "config", "core.fsmonitor", filepath.Join(root, "e.sh")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	_, said = run("cd deep/sub && git status")
	assert.FileExists(t, filepath.Join(root, "ran"), said)
	assert.NoFileExists(t, filepath.Join(root, ".git", "commondir"))
}
