package build_test

import (
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	"github.com/orch-dev/orch/tools/build"
	"github.com/orch-dev/orch/tools/toolstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// project is the workspace of a task.
type project struct {
	*tools.Env

	cfg build.Config
}

// newProject returns a workspace with files, and programs that come first in the search path.
func newProject(t *testing.T, files map[string]string, programs ...string) project {
	t.Helper()
	root, err := pathguard.Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	p := project{Env: &tools.Env{
		Task: "TASK_01JD0000000000000000000000", State: statemachine.InProgress, Root: root,
		Workspace: filepath.Join(root.Name(), "Working", "TASK_01JD0000000000000000000000"),
		Log:       slog.New(slog.DiscardHandler), Now: time.Now,
		Progress: func(float64, float64, string) {},
		Record:   func(events.Kind, events.Payload) {},
	}}
	require.NoError(t, os.MkdirAll(p.path(""), 0o755))
	p.write(t, files)
	bin := t.TempDir()
	for _, program := range programs {
		name, script, _ := strings.Cut(program, ":")
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	p.search(t, bin, "/usr/local/go/bin", "/usr/local/bin", "/usr/bin", "/bin")
	return p
}

// goCache is the build cache of the Go tool chain for this test.
func goCache(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// search sets the search path for programs.
func (p *project) search(t *testing.T, path ...string) {
	t.Helper()
	runner, err := proc.New(proc.Config{Path: path, Environ: append(os.Environ(), "ORCH_TOKEN=canary", "NPM_TOKEN=canary"), Write: []string{goCache(t)}})
	require.NoError(t, err)
	p.Exec = runner
}

func (p project) path(name string) string { return filepath.Join(p.Workspace, "workspace", name) }

func (p project) write(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(p.path(name)), 0o755))
		require.NoError(t, os.WriteFile(p.path(name), []byte(text), 0o600))
	}
}

func (p project) tool(t *testing.T, name string) tools.Tool {
	t.Helper()
	all := build.Tools(p.cfg)
	i := slices.IndexFunc(all, func(tool tools.Tool) bool { return tool.Spec().Name == name })
	require.GreaterOrEqual(t, i, 0)
	return all[i]
}

// call gets the intent and runs the tool.
func call[Out any](t *testing.T, p project, name string, args map[string]any) (intent tools.Intent, out Out, err error) {
	t.Helper()
	tool := p.tool(t, name)
	raw, err := json.Marshal(args)
	require.NoError(t, err)
	if raw, err = tool.Check(raw); err != nil {
		return intent, out, err
	}
	intender, ok := tool.(tools.Intender)
	require.True(t, ok)
	if intent, err = intender.Intent(t.Context(), p.Env, raw); err != nil {
		_, callErr := tool.Call(t.Context(), p.Env, raw)
		assert.Equal(t, fault.CodeOf(err), fault.CodeOf(callErr), "what has no intent does not run")
		return intent, out, err
	}
	env := *p.Env
	env.Allows = func(target tools.Target) bool { return slices.Contains(intent.Targets, target) }
	data, err := tool.Call(t.Context(), &env, raw)
	if err == nil {
		toolstest.Output(t, tool, data)
		require.NoError(t, json.Unmarshal(data, &out))
	}
	return intent, out, err
}

type buildOutput struct {
	Success   bool     `json:"success"`
	Artifacts []string `json:"artifacts"`
	Errors    []string `json:"errors"`
	Warnings  []string `json:"warnings"`
	ExitCode  int      `json:"exit_code"`
}

// S0-135: a failing build is a result.
func TestBuildGo(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{"go.mod": "module example.com/demo\n\ngo 1.24\n", "main.go": "package main\n\nfunc main() {}\n"})
	intent, out, err := call[buildOutput](t, p, "BUILD_EXECUTE", map[string]any{})
	require.NoError(t, err)
	assert.Equal(t, tools.Intent{Command: "go build ./..."}, intent)
	assert.Equal(t, buildOutput{Success: true, Artifacts: []string{p.path("demo")}, Errors: []string{}, Warnings: []string{}}, out)

	p.write(t, map[string]string{"main.go": "package main\n\nfunc main() { undefinedFunction() }\n", "lib/lib.go": "package lib\n"})
	_, out, err = call[buildOutput](t, p, "BUILD_EXECUTE", map[string]any{})
	require.NoError(t, err, "a failing build is a result")
	assert.False(t, out.Success)
	assert.Equal(t, 1, out.ExitCode)
	require.Len(t, out.Errors, 1)
	assert.Contains(t, out.Errors[0], "./main.go:3:15: undefined: undefinedFunction")

	intent, out, err = call[buildOutput](t, p, "BUILD_EXECUTE", map[string]any{"target": "./lib"})
	require.NoError(t, err)
	assert.Equal(t, "go build ./lib", intent.Command)
	assert.True(t, out.Success)
}

func TestBuildMake(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{"Makefile": "all:\n\t@echo made > out.txt\n\t@echo 'x.c:1:2: warning: unused' >&2\nbad:\n\t@echo 'x.c:3:1: error: no' >&2; exit 3\n", "go.mod": "module m\n"})
	intent, out, err := call[buildOutput](t, p, "BUILD_EXECUTE", map[string]any{})
	require.NoError(t, err)
	assert.Equal(t, "make", intent.Command, "a Makefile comes first")
	assert.Equal(t, buildOutput{Success: true, Artifacts: []string{p.path("out.txt")}, Errors: []string{}, Warnings: []string{"x.c:1:2: warning: unused"}}, out)

	_, out, err = call[buildOutput](t, p, "BUILD_EXECUTE", map[string]any{"target": "bad"})
	require.NoError(t, err)
	assert.Equal(t, 2, out.ExitCode)
	assert.Contains(t, out.Errors, "x.c:3:1: error: no")
}

// TestBuildInTheRoot: in a session the project is the root, and internal files of the node are not artifacts.
func TestBuildInTheRoot(t *testing.T) {
	t.Parallel()
	p := newProject(t, nil)
	p.Session, p.Writable = "TASK_01JD0000000000000000000000", []string{p.Root.Name()}
	makefile := "all:\n\techo 1 > out.txt; echo 2 > Working/cached; echo 3 > $$TMPDIR/log\n"
	require.NoError(t, os.WriteFile(filepath.Join(p.Root.Name(), "Makefile"), []byte(makefile), 0o600))
	_, out, err := call[buildOutput](t, p, "BUILD_EXECUTE", nil)
	require.NoError(t, err)
	assert.True(t, out.Success, out.Errors)
	assert.Equal(t, []string{filepath.Join(p.Root.Name(), "out.txt")}, out.Artifacts)
}

func TestBuildNPM(t *testing.T) {
	t.Parallel()
	need.Program(t, "npm")
	p := newProject(t, map[string]string{"package.json": `{"scripts":{"build":"mkdir -p dist && echo 1 > dist/app.js","types":"echo \"src/a.ts(1,2): error TS2304: no name\"; exit 2"}}`})
	intent, out, err := call[buildOutput](t, p, "BUILD_EXECUTE", map[string]any{})
	require.NoError(t, err)
	assert.Equal(t, "npm run build", intent.Command)
	assert.Equal(t, []string{p.path("dist/app.js")}, out.Artifacts)
	_, out, err = call[buildOutput](t, p, "BUILD_EXECUTE", map[string]any{"target": "types"})
	require.NoError(t, err)
	assert.Contains(t, out.Errors, "src/a.ts(1,2): error TS2304: no name")
	_, _, err = call[buildOutput](t, p, "BUILD_EXECUTE", map[string]any{"target": "nothing"})
	assert.Equal(t, fault.ExecFailed, fault.CodeOf(err))
	p.write(t, map[string]string{"package.json": "no json"})
	_, _, err = call[buildOutput](t, p, "BUILD_EXECUTE", map[string]any{})
	assert.Equal(t, fault.ExecFailed, fault.CodeOf(err))
}

func TestBuildCargo(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{"Cargo.toml": "[package]\nname = \"x\"\n"}, `cargo:
echo "cargo $*" > target.txt
printf 'warning: unused variable\n  --> src/main.rs:2:9\nerror[E0425]: cannot find value\n --> src/main.rs:3:5\nerror: could not compile\n' >&2
exit 101`)
	intent, out, err := call[buildOutput](t, p, "BUILD_EXECUTE", map[string]any{"target": "app"})
	require.NoError(t, err)
	assert.Equal(t, "cargo build --bin app", intent.Command)
	assert.Equal(t, buildOutput{
		ExitCode: 101, Artifacts: []string{p.path("target.txt")},
		Errors:   []string{"src/main.rs:3:5: error[E0425]: cannot find value", "error: could not compile"},
		Warnings: []string{"src/main.rs:2:9: warning: unused variable"},
	}, out)
}

// The intent contains exactly the command that runs, for the classification of S0-136.
func TestBuildCommand(t *testing.T) {
	t.Parallel()
	p := newProject(t, nil)
	intent, out, err := call[buildOutput](t, p, "BUILD_EXECUTE", map[string]any{"build_command": "echo $HOME $ORCH_TOKEN:$NPM_TOKEN >", "target": "x"})
	require.NoError(t, err)
	assert.Equal(t, "echo $HOME $ORCH_TOKEN:$NPM_TOKEN > x", intent.Command)
	assert.Equal(t, []string{p.path("x")}, out.Artifacts)
	text, err := os.ReadFile(p.path("x"))
	require.NoError(t, err)
	assert.Equal(t, p.Workspace+"/temp :\n", string(text))

	_, out, err = call[buildOutput](t, p, "BUILD_EXECUTE", map[string]any{"build_command": "echo https://user:canary@x.example; exit 7"})
	require.NoError(t, err)
	assert.Equal(t, 7, out.ExitCode)
	require.Len(t, out.Errors, 1)
	assert.NotContains(t, out.Errors[0], "canary")

	intent, _, _ = call[buildOutput](t, p, "BUILD_EXECUTE", map[string]any{"build_command": "test -e /x && rm -rf /x"})
	assert.Equal(t, "test -e /x && rm -rf /x", intent.Command)
}

// S0-135: without a configuration nothing is built.
func TestBuildIsNotConfigured(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{"readme.txt": "x"})
	_, _, err := call[buildOutput](t, p, "BUILD_EXECUTE", map[string]any{})
	assert.Equal(t, fault.ExecFailed, fault.CodeOf(err))
	assert.Contains(t, err.Error(), "no build is configured")
	for _, target := range []string{"-f", "--eval=x", "a b", "a;b", "$(x)", "`x`", "a|b", "a&b", ">x", "/abs", "~x", "a'b", "a\"b", "a\nb", "*", "../x", "a/../../b", "a=b", "", "{a,b}", "!x", "#x"} {
		_, _, err := call[buildOutput](t, p, "BUILD_EXECUTE", map[string]any{"build_command": "echo", "target": target})
		if target == "" {
			continue // ignored or rejected: it adds nothing in either case
		}
		require.Error(t, err, target)
		assert.Equal(t, "target", fault.From(err).Field, target)
	}
}

// The workspace is created after the approval: the policy sees an empty project before the first call of a task.
func TestIntentBeforeTheWorkspace(t *testing.T) {
	t.Parallel()
	p := newProject(t, nil)
	require.NoError(t, os.RemoveAll(p.Workspace))
	assert.Equal(t, tools.Intent{Command: "make"}, judged(t, p, "BUILD_EXECUTE", `{"build_command":"make"}`))
	assert.Equal(t, tools.Intent{Targets: []tools.Target{{Kind: tools.Package, Name: "npm:demo"}}},
		judged(t, p, "PACKAGE_INSTALL", `{"package_name":"demo","package_manager":"npm"}`))
}

func judged(t *testing.T, p project, name, args string) tools.Intent {
	t.Helper()
	tool, ok := p.tool(t, name).(tools.Intender)
	require.True(t, ok)
	out, err := tool.Intent(t.Context(), p.Env, json.RawMessage(args))
	require.NoError(t, err)
	return out
}

func TestBuilderIsMissing(t *testing.T) {
	t.Parallel()
	for file, text := range map[string]string{"Makefile": "all:\n", "go.mod": "module m\n", "Cargo.toml": "", "package.json": `{"scripts":{"build":"x"}}`} {
		p := newProject(t, map[string]string{file: text})
		p.search(t, "/nowhere")
		_, _, err := call[buildOutput](t, p, "BUILD_EXECUTE", map[string]any{})
		assert.Equal(t, fault.ExecFailed, fault.CodeOf(err), file)
		assert.Contains(t, err.Error(), "is not installed")
	}
}
