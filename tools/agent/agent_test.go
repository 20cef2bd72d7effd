package agent_test

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/agent"
	"github.com/orch-dev/orch/tools/toolstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a root with an Env that stores the child task that a call starts.
type bench struct {
	t     *testing.T
	root  string
	env   *tools.Env
	child *tools.Spawn
	cfg   agent.Config
}

func newBench(t *testing.T, cfg agent.Config) *bench {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	root, err := pathguard.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, root.Close()) })
	runner, err := proc.New(proc.Config{Grace: 100 * time.Millisecond, Sandbox: proc.BestEffort})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, runner.Close()) })
	b := &bench{t: t, root: dir, cfg: cfg}
	b.env = &tools.Env{
		Task: "TASK_01JD0000000000000000000000", State: statemachine.InProgress, Root: root, Exec: runner,
		Workspace: filepath.Join(dir, "Working", "TASK_01JD0000000000000000000000"),
		Progress:  func(float64, float64, string) {},
		Spawn:     func(s tools.Spawn) { b.child = &s },
	}
	for _, sub := range []string{"workspace", "temp"} {
		require.NoError(t, os.MkdirAll(filepath.Join(b.env.Workspace, sub), 0o700))
	}
	return b
}

// file writes a file below the root.
func (b *bench) file(name, text string) {
	b.t.Helper()
	path := filepath.Join(b.root, name)
	require.NoError(b.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(b.t, os.WriteFile(path, []byte(text), 0o600))
}

func (b *bench) call(tool tools.Tool, args map[string]string) (json.RawMessage, error) {
	b.t.Helper()
	raw, err := json.Marshal(args)
	require.NoError(b.t, err)
	checked, err := tool.Check(raw)
	if err != nil {
		return nil, err
	}
	return tool.Call(b.t.Context(), b.env, checked)
}

func (b *bench) spawn(agentType, prompt, model string) error {
	b.t.Helper()
	b.child = nil
	args := map[string]string{"subagent_type": agentType, "prompt": prompt}
	if model != "" {
		args["model"] = model
	}
	_, err := b.call(agent.Tools(b.cfg)[0], args)
	return err
}

// report runs the command of an agent.
func (b *bench) report(agentType, prompt, model string) (string, error) {
	b.t.Helper()
	tool := agent.Internal(b.cfg)[0]
	out, err := b.call(tool, map[string]string{"subagent_type": agentType, "prompt": prompt, "model": model})
	if err != nil {
		return "", err
	}
	toolstest.Output(b.t, tool, out)
	var said struct{ Report string }
	require.NoError(b.t, json.Unmarshal(out, &said))
	return said.Report, nil
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	b := newBench(t, agent.Config{Commands: map[string]agent.Command{"reviewer": {Argv: []string{"cat"}}}})
	b.file(".orch/agents/reviewer.yaml", "orch: v1\n")
	require.NoError(t, b.spawn("reviewer", "look ${{ at }} this", ""))
	assert.Equal(t, &tools.Spawn{
		Agent: "reviewer", File: ".orch/agents/reviewer.yaml", Plan: []byte("orch: v1\n"),
		Inputs: json.RawMessage(`{"prompt":"look ${{ at }} this"}`),
	}, b.child, "a template goes before a command")
	require.NoError(t, b.spawn("reviewer", "p", "small"))
	assert.JSONEq(t, `{"prompt":"p","model":"small"}`, string(b.child.Inputs))
}

func TestUnknownAgents(t *testing.T) {
	t.Parallel()
	b := newBench(t, agent.Config{})
	err := b.spawn("none", "p", "")
	require.ErrorIs(t, err, &fault.Error{Code: fault.NotFound})
	assert.Contains(t, fault.From(err).Hint, ".orch/agents/none.yaml")
	b.cfg.Commands = map[string]agent.Command{"writer": {Argv: []string{"cat"}}, "reviewer": {Argv: []string{"cat"}}}
	b.file(".orch/agents/reviewer.yaml", "orch: v1\n")
	b.file(".orch/agents/tester.yaml", "orch: v1\n")
	b.file(".orch/agents/notes.txt", "no template")
	b.file(".orch/agents/.hidden.yaml", "no type")
	err = b.spawn("none", "p", "")
	require.ErrorIs(t, err, &fault.Error{Code: fault.NotFound})
	assert.Equal(t, "there are: reviewer, tester, writer", fault.From(err).Hint)
	assert.Nil(t, b.child)
}

// A type is a name, never a path.
func TestTypesAreNames(t *testing.T) {
	t.Parallel()
	b := newBench(t, agent.Config{})
	b.file("secret.yaml", "orch: v1\n")
	for _, name := range []string{"", "../../secret", "a/b", "/etc/passwd", "a.b", ".x", "-x", "a b", "a\x00", "ä", strings.Repeat("x", 65)} {
		require.Error(t, b.spawn(name, "p", ""), name)
		assert.Nil(t, b.child, name)
	}
	require.ErrorIs(t, b.spawn("x", "", ""), &fault.Error{Code: fault.ValidationError})
}

// A template is only read inside the root.
func TestTemplatesStayInsideTheRoot(t *testing.T) {
	t.Parallel()
	b := newBench(t, agent.Config{})
	outside := filepath.Join(t.TempDir(), "x.yaml")
	require.NoError(t, os.WriteFile(outside, []byte("orch: v1\n"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(b.root, ".orch", "agents"), 0o700))
	require.NoError(t, os.Symlink(outside, filepath.Join(b.root, ".orch", "agents", "x.yaml")))
	require.Error(t, b.spawn("x", "p", ""))
	assert.Nil(t, b.child)
}

// The plan of a command is valid, and its only required input is the prompt.
func TestPlanOfACommand(t *testing.T) {
	t.Parallel()
	b := newBench(t, agent.Config{Commands: map[string]agent.Command{"writer": {Argv: []string{"cat"}, Timeout: time.Minute}}})
	require.NoError(t, b.spawn("writer", "${{ fail('no') }}", ""))
	assert.Empty(t, b.child.File)
	assert.Equal(t, "writer", b.child.Agent)
	p, err := plan.Parse("plan", b.child.Plan, plan.Options{})
	require.NoError(t, err)
	prog, err := p.Program()
	require.NoError(t, err)
	inputs, err := prog.CheckInputs(b.child.Inputs)
	require.NoError(t, err)
	step := prog.Steps()[0]
	assert.Equal(t, "AGENT_EXECUTE", step.Tool)
	assert.Equal(t, time.Minute, time.Duration(step.Timeout))
	args, err := step.Args(plan.Scope{Inputs: inputs})
	require.NoError(t, err)
	assert.JSONEq(t, `{"subagent_type":"writer","prompt":"${{ fail('no') }}","model":""}`, string(args))
}

func TestCommands(t *testing.T) {
	t.Parallel()
	const show = `printf '%s|' "$@"; cat`
	for name, c := range map[string]struct {
		argv        []string
		model, want string
	}{
		"prompt on stdin":     {[]string{"bash", "-c", show, "-"}, "", "the prompt"},
		"prompt as argument":  {[]string{"bash", "-c", show, "-", "-p", "{prompt}"}, "", "-p|the prompt|"},
		"with a model":        {[]string{"bash", "-c", show, "-", "--model={model}"}, "small", "--model=small|the prompt"},
		"without a model":     {[]string{"bash", "-c", show, "-", "--model={model}"}, "", "|the prompt"},
		"model inside prompt": {[]string{"bash", "-c", show, "-", "{model}", "{prompt}"}, "{prompt}", "{prompt}|the prompt|"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, agent.Config{Commands: map[string]agent.Command{"a": {Argv: c.argv}}})
			said, err := b.report("a", "the prompt", c.model)
			require.NoError(t, err)
			assert.Equal(t, strings.TrimPrefix(c.want, "|"), strings.TrimPrefix(said, "|"))
		})
	}
}

// The prompt and the model cannot become options of the program.
func TestPromptAndModelAreNoOptions(t *testing.T) {
	t.Parallel()
	b := newBench(t, agent.Config{Commands: map[string]agent.Command{
		"prompt": {Argv: []string{"echo", "{prompt}"}},
		"model":  {Argv: []string{"echo", "-e", "{model}"}},
		"behind": {Argv: []string{"printf", "%s", "--", "{prompt}"}},
		"joined": {Argv: []string{"printf", "%s", "p={prompt}"}},
	}})
	for agentType, call := range map[string][2]string{"prompt": {"-n", ""}, "model": {"p", "-n"}} {
		_, err := b.report(agentType, call[0], call[1])
		assert.Equal(t, fault.ValidationError, fault.CodeOf(err), "%s: %v", agentType, err)
	}
	said, err := b.report("joined", "-n", "")
	require.NoError(t, err)
	assert.Equal(t, "p=-n", said)
	said, err = b.report("behind", "-n", "")
	require.NoError(t, err)
	assert.Equal(t, "---n", said)
}

// The program runs in the workspace, and its home is not that of the user.
func TestCommandsRunInTheWorkspace(t *testing.T) {
	t.Parallel()
	b := newBench(t, agent.Config{Commands: map[string]agent.Command{"a": {Argv: []string{"bash", "-c", "cat >/dev/null; pwd; echo $HOME"}}}})
	said, err := b.report("a", "p", "")
	require.NoError(t, err)
	assert.Equal(t, b.env.Workspace+"/workspace\n"+b.env.Workspace+"/temp", said)
}

func TestCommandsFail(t *testing.T) {
	t.Parallel()
	b := newBench(t, agent.Config{Commands: map[string]agent.Command{
		"status":  {Argv: []string{"bash", "-c", "echo why >&2; exit 3"}},
		"missing": {Argv: []string{"no-such-program"}},
		"chatty":  {Argv: []string{"bash", "-c", "head -c 2000000 /dev/zero | tr '\\0' x"}},
		"deaf":    {Argv: []string{"bash", "-c", "exit 0"}},
	}})
	_, err := b.report("status", "p", "")
	require.ErrorIs(t, err, &fault.Error{Code: fault.ExecFailed})
	assert.Contains(t, err.Error(), "status 3: why")
	_, err = b.report("missing", "p", "")
	require.ErrorIs(t, err, &fault.Error{Code: fault.ExecFailed})
	_, err = b.report("chatty", "p", "")
	assert.Equal(t, "SIZE_LIMIT_EXCEEDED", fault.From(err).Reason)
	_, err = b.report("none", "p", "")
	require.ErrorIs(t, err, &fault.Error{Code: fault.NotFound})
	said, err := b.report("deaf", strings.Repeat("long ", 100_000), "")
	require.NoError(t, err, "who does not read its prompt need not")
	assert.Empty(t, said)
}

func TestCommandIsCancelled(t *testing.T) {
	t.Parallel()
	b := newBench(t, agent.Config{Commands: map[string]agent.Command{"slow": {Argv: []string{"bash", "-c", "echo begun; sleep 60"}}}})
	ctx, cancel := context.WithCancel(t.Context())
	b.env.Progress = func(float64, float64, string) { cancel() }
	_, err := agent.Internal(b.cfg)[0].Call(ctx, b.env, json.RawMessage(`{"subagent_type":"slow","prompt":"p"}`))
	require.ErrorIs(t, err, &fault.Error{Code: fault.Cancelled})
}

// S2-051: the model of the client is an agent if the client offers it.
func TestModelOfTheClient(t *testing.T) {
	t.Parallel()
	b := newBench(t, agent.Config{})
	spawn := agent.Tools(b.cfg)[0]
	args := json.RawMessage(`{"subagent_type":"model","prompt":"how many?"}`)
	_, err := spawn.Call(t.Context(), b.env, args)
	require.True(t, fault.Has(err, fault.NotFound), "%v", err)
	b.env.Client = &events.Client{Asks: []string{events.Sampling}}
	_, err = spawn.Call(t.Context(), b.env, args)
	asking, ok := errors.AsType[*tools.Asking](err)
	require.True(t, ok, "%v", err)
	assert.Contains(t, string(asking.Questions[0].Params), "how many?")
	b.env.Answers = map[string]json.RawMessage{"report": json.RawMessage(`{"content":{"type":"text","text":"seven"}}`)}
	out, err := spawn.Call(t.Context(), b.env, args)
	require.NoError(t, err)
	assert.JSONEq(t, `{"task_id":"TASK_01JD0000000000000000000000","status":"DONE","report":"seven"}`, string(out))
	assert.Nil(t, b.child)
	b.env.Answers["report"] = json.RawMessage("null")
	_, err = spawn.Call(t.Context(), b.env, args)
	require.True(t, fault.Has(err, fault.Cancelled), "%v", err)
}
