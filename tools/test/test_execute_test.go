package test_test

import (
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/test/need"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/test"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type failure struct {
	Name    string `json:"name"`
	Message string `json:"message"`
}

type output struct {
	Framework string    `json:"framework"`
	Passed    int       `json:"passed"`
	Failed    int       `json:"failed"`
	Skipped   int       `json:"skipped"`
	Coverage  *float64  `json:"coverage_percent"`
	Failures  []failure `json:"failures"`
	Note      string    `json:"note"`
}

// newEnv returns an Env whose workspace contains a copy of the fixture.
func newEnv(t *testing.T, fixture string) *tools.Env {
	t.Helper()
	root, err := pathguard.Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	runner, err := proc.New(proc.Config{Read: []string{report(t, "")}, Write: []string{cache(t)}})
	require.NoError(t, err)
	env := &tools.Env{
		Task: "TASK_01JD0000000000000000000000", State: statemachine.Done, Root: root, Exec: runner,
		Workspace: filepath.Join(root.Name(), "Working", "TASK_01JD0000000000000000000000"),
		Log:       slog.New(slog.DiscardHandler), Now: time.Now,
		Progress: func(float64, float64, string) {},
		Record:   func(events.Kind, events.Payload) {},
	}
	require.NoError(t, os.MkdirAll(env.Workspace, 0o755))
	if fixture == "" {
		require.NoError(t, os.Mkdir(workspace(env), 0o755))
	} else {
		require.NoError(t, os.CopyFS(workspace(env), os.DirFS(filepath.Join("testdata", fixture))))
	}
	return env
}

func workspace(env *tools.Env) string { return filepath.Join(env.Workspace, "workspace") }

func call(t *testing.T, env *tools.Env, args map[string]any) (output, error) {
	t.Helper()
	tool := test.Tools()[0]
	raw, err := json.Marshal(args)
	require.NoError(t, err)
	if raw, err = tool.Check(raw); err != nil {
		return output{}, err
	}
	data, err := tool.Call(t.Context(), env, raw)
	var out output
	if err == nil {
		require.NoError(t, json.Unmarshal(data, &out))
	}
	return out, err
}

// S0-130: what passed, failed and was skipped, with messages.
func TestGoModule(t *testing.T) {
	t.Parallel()
	env := newEnv(t, "module")
	var progress float64
	env.Progress = func(done, _ float64, _ string) { progress = done }
	out, err := call(t, env, map[string]any{})
	require.NoError(t, err)
	assert.Equal(t, "go", out.Framework)
	assert.Equal(t, []int{3, 2, 1}, []int{out.Passed, out.Failed, out.Skipped})
	assert.Nil(t, out.Coverage)
	require.Len(t, out.Failures, 2)
	messages := map[string]string{}
	for _, f := range out.Failures {
		messages[f.Name] = f.Message
	}
	assert.Contains(t, messages["example.com/fixture.TestFail"], "Sign(-3) = -1, want 1")
	assert.Contains(t, messages["example.com/fixture/broken"], "undefined: undefinedFunction")
	assert.InDelta(t, 6, progress, 0)
}

// S0-130: coverage, and a part of the tests.
func TestGoCoverageAndPaths(t *testing.T) {
	t.Parallel()
	env := newEnv(t, "module")
	out, err := call(t, env, map[string]any{"test_path": filepath.Join(workspace(env), "passing"), "coverage": true})
	require.NoError(t, err)
	assert.Equal(t, []int{2, 0, 0}, []int{out.Passed, out.Failed, out.Skipped})
	require.NotNil(t, out.Coverage)
	assert.InDelta(t, 66.6, *out.Coverage, 0.01)
	assert.Equal(t, []failure{}, out.Failures)
	left, err := filepath.Glob(filepath.Join(env.Workspace, "temp", "cover-*"))
	require.NoError(t, err)
	assert.Empty(t, left)

	out, err = call(t, env, map[string]any{"test_path": filepath.Join(workspace(env), "fixture_test.go"), "framework": "go"})
	require.NoError(t, err)
	assert.Equal(t, []int{1, 1, 1}, []int{out.Passed, out.Failed, out.Skipped}, "the package of the file")

	out, err = call(t, env, map[string]any{"test_path": filepath.Join(workspace(env), "empty")})
	require.NoError(t, err)
	assert.Equal(t, []int{0, 0, 0}, []int{out.Passed, out.Failed, out.Skipped})
}

func TestGoProgramThatDies(t *testing.T) {
	t.Parallel()
	env := newEnv(t, "module")
	dir := filepath.Join(workspace(env), "dying")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x_test.go"), []byte(
		"package dying\nimport (\"os\"; \"testing\"; \"fmt\"; \"strings\")\n"+
			"func TestMain(*testing.M) { fmt.Println(\"dying now\", strings.Repeat(\"x\", 3000000)); os.Exit(3) }\n"), 0o644))
	out, err := call(t, env, map[string]any{"test_path": dir})
	require.NoError(t, err)
	require.Len(t, out.Failures, 1)
	assert.Equal(t, "example.com/fixture/dying", out.Failures[0].Name)
	assert.Less(t, len(out.Failures[0].Message), 5000)
}

// Without its telemetry, go leaves no process behind that writes to the home of the tests.
func TestGoRunsWithoutTelemetry(t *testing.T) {
	t.Parallel()
	env := newEnv(t, "module")
	dir := filepath.Join(workspace(env), "telemetry")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x_test.go"), []byte(
		"package telemetry\nimport (\"os/exec\"; \"testing\")\n"+
			"func TestMode(t *testing.T) { out, err := exec.Command(\"go\", \"env\", \"GOTELEMETRY\").Output(); "+
			"if err != nil || string(out) != \"off\\n\" { t.Fatalf(\"%q %v\", out, err) } }\n"), 0o644))
	out, err := call(t, env, map[string]any{"test_path": dir})
	require.NoError(t, err)
	assert.Equal(t, 1, out.Passed, "%v", out.Failures)
}

func TestGoModuleThatCannotBeLoaded(t *testing.T) {
	t.Parallel()
	env := newEnv(t, "module")
	require.NoError(t, os.WriteFile(filepath.Join(workspace(env), "go.mod"), []byte("nonsense"), 0o644))
	_, err := call(t, env, map[string]any{})
	assert.Equal(t, fault.ExecFailed, fault.CodeOf(err))
	assert.Contains(t, err.Error(), "go.mod")
}

func TestNode(t *testing.T) {
	t.Parallel()
	need.Program(t, "node", "npm")
	env := newEnv(t, "node")
	out, err := call(t, env, map[string]any{})
	require.NoError(t, err)
	assert.Equal(t, "npm", out.Framework)
	assert.Equal(t, []int{3, 1, 1}, []int{out.Passed, out.Failed, out.Skipped})
	require.Len(t, out.Failures, 1)
	assert.Equal(t, "fails", out.Failures[0].Name)
	assert.Contains(t, out.Failures[0].Message, "1 == 2")

	out, err = call(t, env, map[string]any{"test_path": filepath.Join(workspace(env), "other.test.js")})
	require.NoError(t, err)
	assert.Equal(t, []int{1, 0, 0}, []int{out.Passed, out.Failed, out.Skipped})
}

func TestNPMScript(t *testing.T) {
	t.Parallel()
	need.Program(t, "npm")
	for name, tc := range map[string]struct {
		script string
		want   []int
	}{
		"status alone":   {"echo fine", []int{1, 0, 0}},
		"failing status": {"echo broken; exit 1", []int{0, 1, 0}},
		"tap":            {"echo '# pass 4'; echo '# fail 2'; echo '# skipped 1'; exit 1", []int{4, 2, 1}},
		"jest":           {"echo 'Tests:       1 failed, 2 skipped, 3 passed, 6 total'; exit 1", []int{3, 1, 2}},
		"vitest":         {"echo '      Tests  5 passed (5)'", []int{5, 0, 0}},
		"mocha":          {"echo '  7 passing (3ms)'; echo '  1 pending'; echo '  2 failing'; exit 2", []int{7, 2, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newEnv(t, "script")
			require.NoError(t, os.WriteFile(filepath.Join(workspace(env), "run.sh"), []byte(tc.script+"\n"), 0o644))
			out, err := call(t, env, map[string]any{"framework": "npm"})
			require.NoError(t, err)
			assert.Equal(t, tc.want, []int{out.Passed, out.Failed, out.Skipped})
			if tc.want[1] > 0 {
				require.Len(t, out.Failures, 1)
				assert.Equal(t, "npm test", out.Failures[0].Name)
			}
		})
	}
}

// Tests may write only in the workspace of their task, wherever they are: the task may have changed those of a
// project, too.
func TestWhereTestsWrite(t *testing.T) {
	t.Parallel()
	need.Program(t, "npm")
	env := newEnv(t, "script")
	mark := filepath.Join(env.Root.Name(), "mark")
	project := filepath.Join(env.Root.Name(), "project")
	run := []byte("touch " + mark + " inside\n")
	require.NoError(t, os.WriteFile(filepath.Join(workspace(env), "run.sh"), run, 0o644))
	require.NoError(t, os.CopyFS(project, os.DirFS(workspace(env))))

	out, err := call(t, env, map[string]any{"framework": "npm"})
	require.NoError(t, err)
	assert.Equal(t, 1, out.Failed)
	assert.FileExists(t, filepath.Join(workspace(env), "inside"))
	assert.NoFileExists(t, mark)

	cached := filepath.Join(filepath.Dir(env.Workspace), ".cache", "project")
	require.NoError(t, os.CopyFS(cached, os.DirFS(project)))
	out, err = call(t, env, map[string]any{"framework": "npm", "test_path": cached})
	require.NoError(t, err)
	assert.Equal(t, 1, out.Failed)
	assert.NoFileExists(t, mark)

	out, err = call(t, env, map[string]any{"framework": "npm", "test_path": project})
	require.NoError(t, err)
	assert.Equal(t, 1, out.Failed)
	assert.NoFileExists(t, mark)
	assert.NoFileExists(t, filepath.Join(project, "inside"))
}

// Tests can read only the part of the root that the client of the task permits (S2-050).
func TestTestsStayInTheRootsOfTheClient(t *testing.T) {
	t.Parallel()
	need.Program(t, "npm")
	env := newEnv(t, "script")
	project, mark := filepath.Join(env.Root.Name(), "project"), filepath.Join(env.Root.Name(), "mark")
	require.NoError(t, os.WriteFile(filepath.Join(workspace(env), "run.sh"), []byte("cat "+mark+"\n"), 0o644))
	require.NoError(t, os.WriteFile(mark, []byte("elsewhere"), 0o644))
	require.NoError(t, os.CopyFS(project, os.DirFS(workspace(env))))
	out, err := call(t, env, map[string]any{"framework": "npm", "test_path": project})
	require.NoError(t, err)
	assert.Equal(t, 1, out.Passed)
	env.Client = &events.Client{Roots: []string{project}}
	out, err = call(t, env, map[string]any{"framework": "npm", "test_path": project})
	require.NoError(t, err)
	assert.Equal(t, 1, out.Failed)
}

// Files in the home of the workspace may name programs that npm, go or Python run; tests get another home.
func TestHomeOfTests(t *testing.T) {
	t.Parallel()
	need.Program(t, "npm")
	env := newEnv(t, "script")
	mark, project := filepath.Join(env.Root.Name(), "mark"), filepath.Join(env.Root.Name(), "project")
	require.NoError(t, os.WriteFile(filepath.Join(workspace(env), "run.sh"), []byte("echo $HOME > $TMPDIR/home\n"), 0o644))
	require.NoError(t, os.CopyFS(project, os.DirFS(workspace(env))))
	temp := filepath.Join(env.Workspace, "temp")
	require.NoError(t, os.Mkdir(temp, 0o755))
	shell := filepath.Join(temp, "shell")
	require.NoError(t, os.WriteFile(shell, []byte("#!/bin/sh\ntouch "+mark+"\n"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(temp, ".npmrc"), []byte("script-shell="+shell+"\n"), 0o644))

	out, err := call(t, env, map[string]any{"framework": "npm", "test_path": project})
	require.NoError(t, err)
	assert.Equal(t, 1, out.Passed)
	assert.NoFileExists(t, mark)
	home, err := os.ReadFile(filepath.Join(temp, "home"))
	require.NoError(t, err)
	assert.NoDirExists(t, strings.TrimSpace(string(home)))
}

// S0-130, A-39: no framework, or an unknown one, is an error.
func TestNoFramework(t *testing.T) {
	t.Parallel()
	env := newEnv(t, "")
	_, err := call(t, env, map[string]any{})
	assert.Equal(t, fault.ExecFailed, fault.CodeOf(err))
	assert.Contains(t, err.Error(), "no test framework is configured")

	_, err = call(t, env, map[string]any{"framework": "junit5"})
	assert.Equal(t, fault.ValidationError, fault.CodeOf(err))
	assert.Equal(t, "framework", fault.From(err).Field)
	assert.Contains(t, err.Error(), "go, npm, jest, vitest, node, pytest and cargo")

	_, err = call(t, env, map[string]any{"framework": "npm"})
	assert.Equal(t, fault.ExecFailed, fault.CodeOf(err))
	for _, manifest := range []string{"{}", "no json", `{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}`} {
		require.NoError(t, os.WriteFile(filepath.Join(workspace(env), "package.json"), []byte(manifest), 0o644))
		_, err = call(t, env, map[string]any{})
		assert.Equal(t, fault.ExecFailed, fault.CodeOf(err), manifest)
	}
}

func TestRunnerIsMissing(t *testing.T) {
	t.Parallel()
	for _, framework := range []string{"go", "npm", "pytest"} {
		env := newEnv(t, map[string]string{"go": "module", "npm": "script", "pytest": "pytest"}[framework])
		var err error
		env.Exec, err = proc.New(proc.Config{Path: []string{"/nowhere"}})
		require.NoError(t, err)
		_, err = call(t, env, map[string]any{})
		assert.Equal(t, fault.ExecFailed, fault.CodeOf(err), framework)
		assert.Contains(t, err.Error(), "is not installed")
	}
}

func TestPathsStayInTheRoot(t *testing.T) {
	t.Parallel()
	env := newEnv(t, "module")
	for path, code := range map[string]fault.Code{
		"/":                                      fault.OutsideRoot,
		filepath.Join(workspace(env), "missing"): fault.NotFound,
		"relative":                               fault.InvalidFormat,
		"./...":                                  fault.InvalidFormat,
	} {
		_, err := call(t, env, map[string]any{"test_path": path})
		assert.Equal(t, code, fault.CodeOf(err), path)
		assert.Equal(t, "test_path", fault.From(err).Field)
	}
}

func TestDetectionStopsAtTheWorkspace(t *testing.T) {
	t.Parallel()
	env := newEnv(t, "")
	require.NoError(t, os.WriteFile(filepath.Join(env.Root.Name(), "go.mod"), []byte("module example.com/root\n"), 0o644))
	_, err := call(t, env, map[string]any{})
	assert.Equal(t, fault.ExecFailed, fault.CodeOf(err))
	assert.NotContains(t, err.Error(), "go test")
}

// cache is the build cache of the Go tool chain for this test.
func cache(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}
