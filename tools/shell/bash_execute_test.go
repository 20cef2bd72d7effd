package shell_test

import (
	"encoding/json"
	"log/slog"
	"os"
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
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/shell"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type output struct {
	Stdout     string `json:"stdout"`
	Stderr     string `json:"stderr"`
	ExitCode   int    `json:"exit_code"`
	DurationMS *int64 `json:"duration_ms"`
	Truncated  bool   `json:"truncated"`
}

func newEnv(t *testing.T) *tools.Env {
	t.Helper()
	root, err := pathguard.Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	runner, err := proc.New(proc.Config{Grace: 200 * time.Millisecond, Environ: []string{"ORCH_TOKEN=canary", "GITHUB_TOKEN=canary", "HOME=/root", "LANG=C"}})
	require.NoError(t, err)
	env := &tools.Env{
		Task: "TASK_01JD0000000000000000000000", State: statemachine.InProgress, Root: root, Exec: runner,
		Workspace: filepath.Join(root.Name(), "Working", "TASK_01JD0000000000000000000000"),
		Log:       slog.New(slog.DiscardHandler), Now: time.Now,
		Progress: func(float64, float64, string) {},
		Record:   func(events.Kind, events.Payload) {},
	}
	for _, dir := range []string{"workspace", "temp", "outputs"} {
		require.NoError(t, os.MkdirAll(filepath.Join(env.Workspace, dir), 0o755))
	}
	return env
}

func call(t *testing.T, env *tools.Env, args map[string]any) (output, error) {
	t.Helper()
	tool := shell.Tools()[0]
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

// S0-081, S0-084, A-31: an exit code is a result, and nothing waits for input.
func TestResults(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	out, err := call(t, env, map[string]any{"command": "echo out; echo err >&2; pwd; exit 3"})
	require.NoError(t, err)
	assert.Equal(t, "out\n"+env.Workspace+"/workspace\n", out.Stdout)
	assert.Equal(t, "err\n", out.Stderr)
	assert.Equal(t, 3, out.ExitCode)
	assert.NotNil(t, out.DurationMS)
	assert.False(t, out.Truncated)

	out, err = call(t, env, map[string]any{"command": "read x; echo $?; cat; vi --version >/dev/null 2>&1; tty"})
	require.NoError(t, err)
	assert.Equal(t, "1\nnot a tty\n", out.Stdout, "nothing waits for input")
}

// S0-086: output is capped, and says so.
func TestOutputFitsInItsJSONForm(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	env := newEnv(t)
	for command, kept := range map[string]int{
		"head -c 3000000 /dev/zero":                    (limit - 2) / 6,
		"head -c 3000000 /dev/zero | tr '\\0' x":       limit - 2,
		"head -c 3000000 /dev/zero | tr '\\0' '\\n'":   (limit - 2) / 2,
		"head -c 3000000 /dev/zero | tr '\\0' '<'":     (limit - 2) / 6,
		"head -c 1048574 /dev/zero | tr '\\0' x":       limit - 2,
		"head -c 524288 /dev/zero | tr '\\0' '\"'":     limit/2 - 1,
		"printf 'ü%.0s' {1..1000}; printf '\\b\\f\\t'": 2003,
	} {
		out, err := call(t, env, map[string]any{"command": "{ " + command + "; } | tee /dev/stderr"})
		require.NoError(t, err)
		for _, text := range []string{out.Stdout, out.Stderr} {
			data, err := json.Marshal(text)
			require.NoError(t, err)
			assert.Len(t, text, kept, command)
			assert.LessOrEqual(t, len(data), limit, command)
		}
		whole := kept == 2003 || strings.Contains(command, "1048574")
		assert.Equal(t, !whole, out.Truncated, command)
	}
}

// The user's own repository is above the workspaces.
func TestGitStaysInTheWorkspace(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	root := env.Root.Name()
	env.Approval = "APPROVAL_1"
	out, err := call(t, env, map[string]any{"command": "git init -q .", "working_directory": root})
	require.NoError(t, err)
	require.Zero(t, out.ExitCode, out.Stderr)

	out, err = call(t, env, map[string]any{"command": "git rev-parse --show-toplevel"})
	require.NoError(t, err)
	assert.NotZero(t, out.ExitCode, out.Stdout)
	assert.Empty(t, out.Stdout)

	out, err = call(t, env, map[string]any{"command": "git rev-parse --show-toplevel", "working_directory": root})
	require.NoError(t, err)
	assert.Equal(t, root+"\n", out.Stdout, "a task may still look at the repository that it works for")

	out, err = call(t, env, map[string]any{"command": "git init -q . && cd \"$PWD\" && git rev-parse --show-toplevel"})
	require.NoError(t, err)
	assert.Equal(t, env.Workspace+"/workspace\n", out.Stdout)
}

// S0-086, X-16: no secret of the node is in the environment.
func TestEnvironmentHoldsNoSecrets(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	out, err := call(t, env, map[string]any{"command": "env; echo $HOME; cd; pwd"})
	require.NoError(t, err)
	assert.NotContains(t, out.Stdout, "canary")
	assert.Contains(t, out.Stdout, "TMPDIR="+env.Workspace+"/temp\n")
	assert.True(t, strings.HasSuffix(out.Stdout, env.Workspace+"/temp\n"))
}

// S0-085: it exists, and lies inside of the root.
func TestWorkingDirectory(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	other := filepath.Join(env.Root.Name(), "other")
	require.NoError(t, os.Mkdir(other, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(other, "file"), nil, 0o600))
	require.NoError(t, os.Symlink("/", filepath.Join(env.Root.Name(), "out")))

	out, err := call(t, env, map[string]any{"command": "pwd", "working_directory": other})
	require.NoError(t, err)
	assert.Equal(t, other+"\n", out.Stdout)

	for path, code := range map[string]fault.Code{
		"/":                               fault.OutsideRoot,
		other + "/../..":                  fault.OutsideRoot,
		filepath.Join(other, "..", "out"): fault.OutsideRoot,
		filepath.Join(other, "missing"):   fault.NotFound,
		filepath.Join(other, "file"):      fault.InvalidFormat,
		"relative":                        fault.InvalidFormat,
	} {
		_, err := call(t, env, map[string]any{"command": "pwd", "working_directory": path})
		assert.Equal(t, code, fault.CodeOf(err), path)
		assert.Equal(t, "working_directory", fault.From(err).Field, path)
	}
}

// S0-082: the error has what was printed until then.
func TestTimeoutCarriesPartialOutput(t *testing.T) {
	t.Parallel()
	_, err := call(t, newEnv(t), map[string]any{"command": "echo partial; sleep 60 & sleep 60", "timeout": 300})
	require.Equal(t, fault.Timeout, fault.CodeOf(err))
	assert.Contains(t, err.Error(), "partial")
	_, err = call(t, newEnv(t), map[string]any{"command": "yes | head -c 100000 >&2; sleep 60", "timeout": 500})
	require.Equal(t, fault.Timeout, fault.CodeOf(err))
	assert.Contains(t, err.Error(), "stderr so far:")
	assert.Less(t, len(err.Error()), 5000)
}

// S0-080: each wrong input is named.
func TestInputsAreChecked(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]map[string]any{
		"command": {},
		"timeout": {"command": "true", "timeout": 1.5},
	} {
		_, err := call(t, newEnv(t), args)
		require.Error(t, err)
		assert.Equal(t, name, fault.From(err).Field)
	}
	for _, timeout := range []any{0, -1, "1", 3_600_001} {
		_, err := call(t, newEnv(t), map[string]any{"command": "true", "timeout": timeout})
		assert.Error(t, err)
	}
}

// S0-082: a command that cannot start is EXEC_FAILED.
func TestStartFailure(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	var err error
	env.Exec, err = proc.New(proc.Config{Path: []string{"/nowhere"}})
	require.NoError(t, err)
	_, err = call(t, env, map[string]any{"command": "true"})
	assert.Equal(t, fault.ExecFailed, fault.CodeOf(err))
}

func TestProgressCountsOutput(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	var last float64
	env.Progress = func(done, _ float64, _ string) { last = done }
	_, err := call(t, env, map[string]any{"command": "echo 123; echo 45 >&2"})
	require.NoError(t, err)
	assert.InDelta(t, 7, last, 0)
}

// TestValuesAreNoCode passes hostile values in env and argv: no shell interprets them.
func TestValuesAreNoCode(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	hostile := "a'b\"$(touch pwned)`touch pwned`; touch pwned\n-x"
	out, err := call(t, env, map[string]any{
		"command": `printf '%s|' "$VALUE" "$1" "$2" "$#" "$0"; ls`,
		"env":     map[string]string{"VALUE": hostile}, "argv": []string{hostile, ""},
	})
	require.NoError(t, err)
	assert.Equal(t, hostile+"|"+hostile+"||2|bash|", out.Stdout)
}

func TestBadValues(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	for name, test := range map[string]struct {
		args  map[string]any
		field string
	}{
		"no name":          {map[string]any{"env": map[string]string{"A-B": "x"}}, "env"},
		"assignment":       {map[string]any{"env": map[string]string{"A=B": "x"}}, "env"},
		"function":         {map[string]any{"env": map[string]string{"BASH_FUNC_ls%%": "() { id; }"}}, "env"},
		"NUL in a value":   {map[string]any{"env": map[string]string{"A": "x\x00y"}}, "env.A"},
		"NUL in a word":    {map[string]any{"argv": []string{"ok", "x\x00y"}}, "argv[1]"},
		"the node's own":   {map[string]any{"env": map[string]string{"ORCH_DATA_DIR": "/x"}}, "env"},
		"name of a secret": {map[string]any{"env": map[string]string{"API_TOKEN": "x"}}, "env"},
	} {
		test.args["command"] = "true"
		_, err := call(t, env, test.args)
		require.Error(t, err, name)
		assert.Equal(t, test.field, fault.From(err).Field, name)
	}
}
