package test_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/test/need"
	"github.com/orch-dev/orch/tools"
)

// script writes a program.
func script(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755))
}

// report returns the absolute path of a recorded report.
func report(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", "reports", name))
	require.NoError(t, err)
	return path
}

// withCargo returns an Env with a crate and a fake cargo that runs the script.
func withCargo(t *testing.T, text string) *tools.Env {
	t.Helper()
	env := newEnv(t, "")
	require.NoError(t, os.WriteFile(filepath.Join(workspace(env), "Cargo.toml"), []byte("[package]\nname = \"fixture\"\n"), 0o600))
	bin := t.TempDir()
	script(t, filepath.Join(bin, "cargo"), text)
	var err error
	env.Exec, err = proc.New(proc.Config{Path: []string{bin, "/usr/bin", "/bin"}, Read: []string{report(t, "")}})
	require.NoError(t, err)
	return env
}

func TestCargo(t *testing.T) {
	t.Parallel()
	env := withCargo(t, `echo "$*" >> args; cat `+report(t, "cargo.txt")+`; echo "error: test failed" >&2; exit 101`)
	out, err := call(t, env, map[string]any{})
	require.NoError(t, err)
	assert.Equal(t, "cargo", out.Framework)
	assert.Equal(t, []int{4, 2, 1}, []int{out.Passed, out.Failed, out.Skipped})
	require.Len(t, out.Failures, 2)
	assert.Equal(t, "tests::does_not_panic", out.Failures[0].Name)
	assert.Equal(t, "tests::fails", out.Failures[1].Name)
	assert.Contains(t, out.Failures[1].Message, "left: 2")
	assert.Contains(t, out.Failures[0].Message, "did not panic as expected")
	assert.NotContains(t, out.Failures[0].Message, "left: 2")

	require.NoError(t, os.Mkdir(filepath.Join(workspace(env), "tests"), 0o755))
	file := filepath.Join(workspace(env), "tests", "outer.rs")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = call(t, env, map[string]any{"test_path": file})
	require.NoError(t, err)
	args, err := os.ReadFile(filepath.Join(workspace(env), "tests", "args"))
	require.NoError(t, err)
	assert.Equal(t, "test --no-fail-fast --color=never --test=outer\n", string(args))
}

func TestCargoThatCannotTest(t *testing.T) {
	t.Parallel()
	out, err := call(t, withCargo(t, "echo 'error: could not compile `fixture`' >&2; exit 101"), map[string]any{})
	require.NoError(t, err)
	require.Len(t, out.Failures, 1)
	assert.Contains(t, out.Failures[0].Message, "could not compile")

	_, err = call(t, withCargo(t, "echo 'error: failed to parse manifest' >&2; exit 101"), map[string]any{})
	assert.Equal(t, fault.ExecFailed, fault.CodeOf(err))
	assert.Contains(t, err.Error(), "failed to parse manifest")
}

// TestCargoThatMayNotWrite: the error tells how to permit writes in the project for its lock file.
func TestCargoThatMayNotWrite(t *testing.T) {
	t.Parallel()
	env := withCargo(t, "echo 'error: failed to open Cargo.lock: Read-only file system (os error 30)' >&2; exit 101")
	project := filepath.Join(env.Root.Name(), "project")
	require.NoError(t, os.Rename(workspace(env), project))
	_, err := call(t, env, map[string]any{"test_path": project})
	assert.Equal(t, fault.ExecFailed, fault.CodeOf(err))
	assert.Contains(t, fault.From(err).Hint, "not in "+project+": a person opens it")
}

// jest and vitest write the same report to the given path.
func TestJestAndVitest(t *testing.T) {
	t.Parallel()
	for _, framework := range []string{"jest", "vitest"} {
		t.Run(framework, func(t *testing.T) {
			t.Parallel()
			env := newEnv(t, "script")
			_, err := call(t, env, map[string]any{"framework": framework})
			require.Equal(t, fault.ExecFailed, fault.CodeOf(err))
			require.Contains(t, err.Error(), framework+" is not installed")

			script(t, filepath.Join(workspace(env), "node_modules", ".bin", framework), `echo "$*" > args
for a in "$@"; do case $a in
--outputFile=*) cp `+report(t, "jest.json")+` "${a#*=}";;
--coverageDirectory=*|--coverage.reportsDirectory=*) mkdir "${a#*=}"; echo '{"total":{"lines":{"pct":1},"statements":{"total":8,"covered":6,"pct":75.5}}}' > "${a#*=}/coverage-summary.json";;
esac; done
exit 1`)
			out, err := call(t, env, map[string]any{"framework": framework, "coverage": true})
			require.NoError(t, err)
			assert.Equal(t, []int{2, 2, 2}, []int{out.Passed, out.Failed, out.Skipped})
			assert.Equal(t, "sum fails", out.Failures[0].Name)
			assert.Contains(t, out.Failures[0].Message, "Expected: 4")
			assert.Equal(t, "/x/broken.test.js", out.Failures[1].Name)
			require.NotNil(t, out.Coverage)
			assert.InDelta(t, 75.5, *out.Coverage, 0.01)
			left, err := os.ReadDir(filepath.Join(env.Workspace, "temp"))
			require.NoError(t, err)
			assert.Empty(t, left)

			file := filepath.Join(workspace(env), "sum.test.js")
			require.NoError(t, os.WriteFile(file, nil, 0o600))
			out, err = call(t, env, map[string]any{"framework": framework, "test_path": file})
			require.NoError(t, err)
			assert.Nil(t, out.Coverage)
			args, err := os.ReadFile(filepath.Join(workspace(env), "args"))
			require.NoError(t, err)
			assert.True(t, strings.HasSuffix(string(args), " "+file+"\n"), string(args))

			script(t, filepath.Join(workspace(env), "node_modules", ".bin", framework), "echo nonsense >&2; exit 2")
			_, err = call(t, env, map[string]any{"framework": framework})
			assert.Equal(t, fault.ExecFailed, fault.CodeOf(err))
			assert.Contains(t, err.Error(), "nonsense")
		})
	}
}

// A link in place of a report is not followed, nor is a link above it.
func TestReportsAreNoLinks(t *testing.T) {
	t.Parallel()
	env := newEnv(t, "script")
	dir, file := filepath.Join(env.Root.Name(), "precious"), filepath.Join(env.Root.Name(), "coverage-summary.json")
	require.NoError(t, os.Mkdir(dir, 0o755))
	kept := filepath.Join(dir, "coverage-summary.json")
	for _, path := range []string{kept, file} {
		require.NoError(t, os.WriteFile(path, []byte("{}"), 0o600))
	}
	script(t, filepath.Join(workspace(env), "node_modules", ".bin", "jest"), `for a in "$@"; do case $a in
--outputFile=*) [ -e own ] && cp `+report(t, "jest.json")+` "${a#*=}" || ln -s `+file+` "${a#*=}";;
--coverageDirectory=*) ln -s `+dir+` "${a#*=}";;
esac; done`)
	_, err := call(t, env, map[string]any{"framework": "jest"})
	assert.Equal(t, fault.ExecFailed, fault.CodeOf(err), "%v", err)
	require.NoError(t, os.WriteFile(filepath.Join(workspace(env), "own"), nil, 0o600))
	_, err = call(t, env, map[string]any{"framework": "jest", "coverage": true})
	assert.Equal(t, fault.ProtectedPath, fault.CodeOf(err), "%v", err)

	require.NoError(t, os.RemoveAll(filepath.Join(env.Workspace, "temp")))
	require.NoError(t, os.Symlink("../../precious", filepath.Join(env.Workspace, "temp")))
	_, err = call(t, env, map[string]any{"framework": "jest"})
	assert.Equal(t, fault.ProtectedPath, fault.CodeOf(err), "%v", err)
	assert.FileExists(t, kept)
	assert.FileExists(t, file)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, left, 1)
}

func TestNodeCoverage(t *testing.T) {
	t.Parallel()
	need.Program(t, "node")
	env := newEnv(t, "node")
	out, err := call(t, env, map[string]any{"framework": "node", "coverage": true})
	require.NoError(t, err)
	assert.Equal(t, "node", out.Framework)
	assert.Equal(t, []int{3, 1, 1}, []int{out.Passed, out.Failed, out.Skipped})
	require.NotNil(t, out.Coverage)
	assert.Greater(t, *out.Coverage, 50.0)
	assert.LessOrEqual(t, *out.Coverage, 100.0)
	out, err = call(t, env, map[string]any{"framework": "node", "test_path": filepath.Join(workspace(env), "other.test.js")})
	require.NoError(t, err)
	assert.Equal(t, []int{1, 0, 0}, []int{out.Passed, out.Failed, out.Skipped})
}

func TestFrameworksAreMissing(t *testing.T) {
	t.Parallel()
	for _, framework := range []string{"node", "cargo"} {
		env := newEnv(t, "script")
		var err error
		env.Exec, err = proc.New(proc.Config{Path: []string{"/nowhere"}})
		require.NoError(t, err)
		_, err = call(t, env, map[string]any{"framework": framework})
		assert.Equal(t, fault.ExecFailed, fault.CodeOf(err), framework)
		assert.Contains(t, err.Error(), "is not installed")
	}
}
