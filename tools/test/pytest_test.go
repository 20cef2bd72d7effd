package test_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/test/need"
	"github.com/orch-dev/orch/tools"
)

// needPytest requires pytest and pytest-cov for the system's Python.
func needPytest(t *testing.T) {
	t.Helper()
	err := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", "import pytest, pytest_cov, coverage").Run()
	need.That(t, "pytest", err == nil)
}

// shop is a project whose tests cover half of its code; more are further files.
func shop(t *testing.T, more map[string]string) (*tools.Env, string) {
	t.Helper()
	env := newEnv(t, "")
	dir := workspace(env)
	files := map[string]string{
		"pyproject.toml": "[tool.pytest.ini_options]\npythonpath = [\".\"]\n", "shop/__init__.py": "",
		"shop/cart.py":       "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    c = a - b\n    return c\n\n\ndef neg(a):\n    return -a\n",
		"tests/test_cart.py": "from shop.cart import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
	}
	maps.Copy(files, more)
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return env, dir
}

// tree returns every path below a directory.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		all = append(all, path)
		return err
	}))
	return all
}

// TestPytestMeasuresTheProject and not pytest itself; no files are left in the project.
func TestPytestMeasuresTheProject(t *testing.T) {
	t.Parallel()
	needPytest(t)
	for name, tc := range map[string]struct {
		more map[string]string
		path string
		want float64
	}{
		// The package has 7 statements, of which 4 run; the test has 3.
		"all":         {nil, "", 70},
		"a folder":    {nil, "tests", 70},
		"a file":      {nil, "tests/test_cart.py", 70},
		"a source":    {map[string]string{".coveragerc": "[run]\nsource = shop\n"}, "", 57.1},
		"in the toml": {map[string]string{"pyproject.toml": "[tool.pytest.ini_options]\npythonpath = \".\"\n[tool.coverage.run]\nbranch = true\nsource = [\"shop\"]\n"}, "tests", 57.1},
		"options":     {map[string]string{"pyproject.toml": "[tool.pytest.ini_options]\npythonpath = \".\"\naddopts = \"--cov=shop --cov-report=term\"\n"}, "", 57.1},
		"never run":   {map[string]string{"shop/more.py": "A = 1\nB = 2\n"}, "", 58.3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, dir := shop(t, tc.more)
			before := tree(t, dir)
			out, err := call(t, env, map[string]any{"test_path": filepath.Join(dir, tc.path), "framework": "pytest", "coverage": true})
			require.NoError(t, err)
			assert.Equal(t, []int{1, 0, 0}, []int{out.Passed, out.Failed, out.Skipped}, out.Failures)
			require.NotNil(t, out.Coverage)
			assert.InDelta(t, tc.want, *out.Coverage, 0.01)
			assert.Equal(t, before, tree(t, dir))
			left, err := os.ReadDir(filepath.Join(env.Workspace, "temp"))
			require.NoError(t, err)
			assert.Empty(t, left)
		})
	}
}

// TestPytestBesideTheWorkspace: passing tests still pass where programs may not write.
func TestPytestBesideTheWorkspace(t *testing.T) {
	t.Parallel()
	needPytest(t)
	env, dir := shop(t, map[string]string{"pyproject.toml": "[tool.pytest.ini_options]\npythonpath = \".\"\naddopts = \"--cov=shop --ff\"\n"})
	project := filepath.Join(env.Root.Name(), "project")
	require.NoError(t, os.Rename(dir, project))
	before := tree(t, project)
	for _, coverage := range []bool{false, true} {
		out, err := call(t, env, map[string]any{"test_path": project, "coverage": coverage})
		require.NoError(t, err)
		assert.Equal(t, []int{1, 0, 0}, []int{out.Passed, out.Failed, out.Skipped}, out.Failures)
		assert.Equal(t, coverage, out.Coverage != nil)
	}
	assert.Equal(t, before, tree(t, project))
}

// TestPytestWithoutPlugin: coverage.py is used without pytest-cov, and without both the tests still run.
func TestPytestWithoutPlugin(t *testing.T) {
	t.Parallel()
	needPytest(t)
	env, dir := shop(t, nil)
	bin := t.TempDir()
	script(t, filepath.Join(bin, "pytest"), `case $* in *--cov*) echo "error: unrecognized arguments: --cov-report=xml" >&2; exit 4;; esac
exec /usr/bin/python3 -m pytest "$@"`)
	var err error
	env.Exec, err = proc.New(proc.Config{Path: []string{bin, "/usr/bin", "/bin"}, Read: []string{bin}})
	require.NoError(t, err)
	out, err := call(t, env, map[string]any{"coverage": true})
	require.NoError(t, err)
	assert.Equal(t, 1, out.Passed, out.Failures)
	require.NotNil(t, out.Coverage)
	assert.InDelta(t, 70, *out.Coverage, 0.01)

	script(t, filepath.Join(bin, "python3"), `echo "/usr/bin/python3: No module named coverage" >&2; exit 1`)
	before := tree(t, dir)
	out, err = call(t, env, map[string]any{"coverage": true})
	require.NoError(t, err)
	assert.Equal(t, 1, out.Passed, out.Failures)
	assert.Nil(t, out.Coverage)
	assert.Equal(t, before, tree(t, dir))
}

// TestPytestOfTheProject: the virtual environment of the project takes precedence over the system.
func TestPytestOfTheProject(t *testing.T) {
	t.Parallel()
	env, dir := shop(t, nil)
	script(t, filepath.Join(dir, ".venv", "bin", "pytest"), `for a in "$@"; do case $a in
--junit-xml=*) echo '<testsuites><testsuite><testcase classname="t" name="own"/><testcase classname="t" name="two"/></testsuite></testsuites>' > "${a#*=}";;
esac; done
echo "$PWD $*" > args`)
	out, err := call(t, env, map[string]any{"test_path": filepath.Join(dir, "tests")})
	require.NoError(t, err)
	assert.Equal(t, 2, out.Passed)
	args, err := os.ReadFile(filepath.Join(dir, "args"))
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(string(args), dir+" -q "), string(args))
	assert.True(t, strings.HasSuffix(string(args), " "+filepath.Join(dir, "tests")+"\n"), string(args))
}

// TestTestsThatMayNotWrite: tests that write in the project fail until that is permitted, and the note explains it.
func TestTestsThatMayNotWrite(t *testing.T) {
	t.Parallel()
	needPytest(t)
	env, dir := shop(t, map[string]string{"tests/test_out.py": "import pathlib\n\n\ndef test_out():\n    pathlib.Path('out.txt').write_text('x')\n"})
	project := filepath.Join(env.Root.Name(), "project")
	require.NoError(t, os.Rename(dir, project))
	out, err := call(t, env, map[string]any{"test_path": project})
	require.NoError(t, err)
	assert.Equal(t, []int{1, 1}, []int{out.Passed, out.Failed})
	assert.Contains(t, out.Note, "not in "+project+": a person opens it for the session")

	env.Writable = []string{env.Root.Name()}
	out, err = call(t, env, map[string]any{"test_path": project})
	require.NoError(t, err)
	assert.Equal(t, []int{2, 0}, []int{out.Passed, out.Failed}, out.Failures)
	assert.Empty(t, out.Note)
	assert.FileExists(t, filepath.Join(project, "out.txt"))
}
