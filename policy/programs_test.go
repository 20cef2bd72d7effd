package policy_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// scriptCall is a call of a shell with a working directory.
func scriptCall(t *testing.T, command string, env ...string) *policy.Call {
	t.Helper()
	values := map[string]string{}
	for _, name := range env {
		values[name] = "x"
	}
	args, err := json.Marshal(map[string]any{"command": command, "env": values})
	require.NoError(t, err)
	return &policy.Call{
		Spec: &tools.Spec{
			Name: "BASH_EXECUTE", Effect: tools.Write, Gate: tools.InProgress, Approval: tools.IfDestructive, Command: "command", Environment: "env",
			Paths: []tools.Path{{Field: "working_directory", Access: tools.ReadPath}},
		},
		State: statemachine.InProgress, Args: args, Workspace: "/root/Working/TASK_1", Paths: map[string]string{"working_directory": "/root/proj"},
	}
}

// Only a command that is one plain call of a file is a call of the user's own program.
func TestOwnProgram(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		`./score.sh a b`:                   "/root/proj/score.sh",
		`./score.sh "$1" "$@" "x-$NAME"`:   "/root/proj/score.sh",
		`/root/x/../score.sh 'a b'`:        "/root/score.sh",
		`'./my score.sh' --all`:            "/root/proj/my score.sh",
		`sh score.sh a`:                    "/root/proj/score.sh",
		`/usr/bin/python3 tools/x.py "$1"`: "/root/proj/tools/x.py",
		`bash "./score.sh"`:                "/root/proj/score.sh",
		"./score.sh a # a comment":         "/root/proj/score.sh",
	} {
		got, ok := policy.OwnProgram(scriptCall(t, command))
		assert.True(t, ok, command)
		assert.Equal(t, want, got, command)
	}
	for _, command := range []string{
		``, `score.sh a`, `./score.sh a; rm -rf /`, `./score.sh a && true`, `./score.sh a | sh`, `./score.sh a &`, `! ./score.sh`, `./score.sh > f`, `./score.sh 2>&1`,
		`./score.sh < f`, `X=1 ./score.sh`, `LD_PRELOAD=x ./score.sh`, `./score.sh $1`, `./score.sh $(id)`, "./score.sh `id`", `./score.sh "$(id)"`, `./score.sh <(id)`,
		`./score.sh *`, `./score.sh {a,b}`, `./score.sh ~/x`, `./score.sh "${x:-$(id)}"`, `./score.sh "${x@P}"`, `./score.sh "${!x}"`, `./score.sh "${a[$(id)]}"`,
		`./score.sh $'\x41'`, `"$0" a`, `"./$1"`, `$1`, `~/score.sh`, `./s*.sh`, `sh -c ./score.sh`, `sh -x score.sh`, `sh`, `sh "$1"`, `python3 -c 1`, `env ./score.sh`, `exec ./score.sh`,
		`time ./score.sh`, `(./score.sh)`, `{ ./score.sh; }`, `if true; then ./score.sh; fi`, `f() { :; }; ./score.sh`, `. ./score.sh`, `source ./score.sh`, `./score.sh "a`,
		"./score.sh a\nid", `./score.sh $((1))`, `coproc ./score.sh`,
	} {
		got, ok := policy.OwnProgram(scriptCall(t, command))
		assert.False(t, ok, "%s: %s", command, got)
	}
	for _, name := range []string{"LD_PRELOAD", "PATH", "BASH_ENV", "PYTHONPATH"} {
		_, ok := policy.OwnProgram(scriptCall(t, "./score.sh", name))
		assert.False(t, ok, name)
	}
	_, ok := policy.OwnProgram(scriptCall(t, "./score.sh", "NAME"))
	assert.True(t, ok)

	other := scriptCall(t, "./score.sh")
	other.Spec.Approval = tools.ByIntent
	_, ok = policy.OwnProgram(other)
	assert.False(t, ok, "a tool that says what it would do")
	nowhere := scriptCall(t, "./score.sh")
	nowhere.Paths = nil
	_, ok = policy.OwnProgram(nowhere)
	assert.False(t, ok, "in the workspace")
}

// A program in a plan needs no approval if it has the submitted content and every ancestor's plan names it as well.
func TestPinnedProgram(t *testing.T) {
	t.Parallel()
	p, err := policy.New(policy.Config{Root: "/root"})
	require.NoError(t, err)
	mine := events.Program{Path: "/root/proj/score.sh", SHA256: "aa"}
	names := policy.Allow{Programs: []events.Program{mine}}
	decide := func(change func(*policy.Call)) *policy.Ask {
		c := scriptCall(t, "./score.sh a")
		c.Program, c.Allow = mine, names
		change(c)
		ask, err := p.Decide(c)
		require.NoError(t, err)
		return ask
	}
	assert.Nil(t, decide(func(*policy.Call) {}))
	assert.Nil(t, decide(func(c *policy.Call) { c.Within = []policy.Allow{names} }))
	assert.NotNil(t, decide(func(c *policy.Call) { c.Within = []policy.Allow{names, {}} }), "a task above does not name it")
	assert.NotNil(t, decide(func(c *policy.Call) { c.Allow = policy.Allow{} }))
	assert.NotNil(t, decide(func(c *policy.Call) { c.Program = events.Program{} }), "it is not known what it runs")
	assert.NotNil(t, decide(func(c *policy.Call) { c.Scopes = []string{"path /root/proj"} }), "its session may change it")
	assert.Nil(t, decide(func(c *policy.Call) {
		c.Allow, c.Scopes = policy.Allow{}, []string{"program /root/proj/score.sh sha256:aa"}
	}))
	assert.NotNil(t, decide(func(c *policy.Call) {
		c.Allow, c.Scopes = policy.Allow{}, []string{"program /root/proj/score.sh sha256:a"}
	}))
	ask := decide(func(c *policy.Call) { c.Program.SHA256 = "bb" })
	require.NotNil(t, ask)
	assert.Contains(t, ask.Reason, "/root/proj/score.sh has changed since its plan was submitted")
}

// The policy file also applies to calls of the user's programs.
func TestPinnedProgramUnderRules(t *testing.T) {
	t.Parallel()
	rules, err := policy.ParseRules("p.yaml", []byte(`
version: 1
rules:
  - {name: no, action: deny, commands: ["./score.sh denied"]}
  - {name: maybe, action: ask, commands: ["./score.sh asked"]}
`))
	require.NoError(t, err)
	p, err := policy.New(policy.Config{Root: "/root", Rules: rules})
	require.NoError(t, err)
	mine := events.Program{Path: "/root/proj/score.sh", SHA256: "aa"}
	c := scriptCall(t, "./score.sh denied")
	c.Program, c.Allow = mine, policy.Allow{Programs: []events.Program{mine}}
	_, err = p.Decide(c)
	require.ErrorContains(t, err, "no")
	again := scriptCall(t, "./score.sh asked")
	again.Program, again.Allow = c.Program, c.Allow
	ask, err := p.Decide(again)
	require.NoError(t, err)
	require.NotNil(t, ask)
	assert.Equal(t, "policy:maybe", ask.Rule)
}
