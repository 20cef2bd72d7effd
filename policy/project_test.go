package policy_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// How a session writes in its project, by its setting and its grants.
func TestWritesInTheProject(t *testing.T) {
	t.Parallel()
	p, err := policy.New(policy.Config{Root: "/project", Working: "/project/Working", DataDir: "/data"})
	require.NoError(t, err)
	write := tools.Spec{Name: "W", Effect: tools.Write, Gate: tools.InProgress, Approval: tools.OutsideWorkspace, Paths: []tools.Path{{Field: "path", Access: tools.WritePath}}}
	for name, tc := range map[string]struct {
		path, writes  string
		scopes        []string
		opens, offers []string
		asks, refusal bool
		outOfASession bool
	}{
		"ask":                    {path: "/project/src/a.go", asks: true, offers: []string{"path /project/src/a.go", "path /project"}},
		"ask, granted":           {path: "/project/src/a.go", scopes: []string{"path /project/src/a.go"}},
		"ask, granted elsewhere": {path: "/project/src/ab.go", scopes: []string{"path /project/src/a"}, asks: true, offers: []string{"path /project/src/ab.go", "path /project"}},
		"ask, granted above":     {path: "/project/src/a.go", scopes: []string{"path /project"}},
		"session":                {path: "/project/src/a.go", writes: policy.WritesSession, asks: true, opens: []string{"path /project"}},
		"session, granted":       {path: "/project/src/a.go", writes: policy.WritesSession, scopes: []string{"path /project"}},
		"allow":                  {path: "/project/src/a.go", writes: policy.WritesAllow},
		"allow, elsewhere":       {path: "/other/a.go", writes: policy.WritesAllow, asks: true},
		"allow, hooks":           {path: "/project/.git/hooks/pre-commit", writes: policy.WritesAllow, refusal: true},
		"allow, the undo of all": {path: "/project/Working/.undo/git/config", writes: policy.WritesAllow, refusal: true},
		"no session, no offer":   {path: "/project/src/a.go", asks: true, outOfASession: true},
	} {
		c := policy.Call{
			Spec: &write, State: statemachine.InProgress, Args: []byte(`{}`), Paths: map[string]string{"path": filepath.Clean(tc.path)},
			Workspace: "/project/Working/TASK_1", Project: []string{"/project"}, Start: "/project", Writes: tc.writes, Scopes: tc.scopes,
		}
		if tc.outOfASession {
			c.Project, c.Start = nil, ""
		}
		ask, err := p.Decide(&c)
		assert.Equal(t, tc.refusal, err != nil, "%s: %v", name, err)
		require.Equal(t, tc.asks, ask != nil, name)
		if ask != nil {
			assert.Equal(t, tc.opens, ask.Scopes, name)
			assert.Equal(t, tc.offers, ask.Offers, name)
		}
	}
}

// A command that only writes in the project has its own kind of request. A grant for the project does not permit a
// command that is destructive elsewhere.
func TestCommandsInTheProject(t *testing.T) {
	t.Parallel()
	p, err := policy.New(policy.Config{Root: "/project", Working: "/project/Working", DataDir: "/data"})
	require.NoError(t, err)
	run := tools.Spec{Name: "R", Effect: tools.Write, Gate: tools.InProgress, Approval: tools.IfDestructive, Command: "command"}
	for command, want := range map[string][3]string{ // ask, session, allow
		"echo a > src/a.txt":    {"outside_workspace", "outside_workspace", ""},
		"rm -rf build":          {"destructive", "destructive", "destructive"},
		"go test ./...":         {"", "", ""},
		"rm -rf /etc":           {"destructive", "destructive", "destructive"},
		"echo x > .git/hooks/h": {"destructive", "destructive", "destructive"},
		"rm ../outside":         {"destructive", "destructive", "destructive"},
		"curl x | sh":           {"destructive", "destructive", "destructive"},
	} {
		for i, writes := range []string{policy.WritesAsk, policy.WritesSession, policy.WritesAllow} {
			ask, err := p.Decide(&policy.Call{
				Spec: &run, State: statemachine.InProgress, Args: []byte(`{"command":"` + command + `"}`), Paths: map[string]string{},
				Workspace: "/project/Working/TASK_1", Project: []string{"/project"}, Start: "/project", Writes: writes,
			})
			require.NoError(t, err)
			rule := ""
			if ask != nil {
				rule = ask.Rule
			}
			assert.Equal(t, want[i], rule, "%s, %s", command, writes)
		}
	}
}

// An allow rule overrides the default of its file, but no request of the node itself.
func TestAnAllowLeavesTheGates(t *testing.T) {
	t.Parallel()
	write := tools.Spec{Name: "W", Effect: tools.Write, Gate: tools.InProgress, Approval: tools.OutsideWorkspace, Paths: []tools.Path{{Field: "path", Access: tools.WritePath}}}
	ungated, run := write, tools.Spec{Name: "R", Effect: tools.Write, Gate: tools.InProgress, Approval: tools.IfDestructive, Command: "command"}
	ungated.Approval = tools.NoApproval
	for name, tc := range map[string]struct {
		spec       tools.Spec
		file, want string
	}{
		"default": {spec: ungated, file: "paths: [/project/a.go]", want: ""},
		"path":    {spec: write, file: "paths: [/project/a.go]", want: "outside_workspace"},
		"command": {spec: run, file: `commands: ["./score.sh*"]`, want: "destructive"},
	} {
		c := policy.Call{Spec: &tc.spec, State: statemachine.InProgress, Workspace: "/project/Working/TASK_1", Project: []string{"/project"}, Start: "/project"}
		c.Args, c.Paths = []byte(`{"command":"./score.sh a"}`), map[string]string{}
		if tc.spec.Command == "" {
			c.Args, c.Paths["path"] = []byte(`{}`), "/project/a.go"
		}
		assert.Equal(t, "policy:default", askedBy(t, "", c), name)
		assert.Equal(t, tc.want, askedBy(t, "rules: [{name: r, action: allow, "+tc.file+"}]\n", c), name)
	}
}

// askedBy returns the rule that asks about a call, under a policy file with default ask, or "".
func askedBy(t *testing.T, text string, c policy.Call) string {
	t.Helper()
	rules, err := policy.ParseRules("p.yaml", []byte("version: 1\ndefault: ask\n"+text))
	require.NoError(t, err)
	p, err := policy.New(policy.Config{Root: "/project", Working: "/project/Working", DataDir: "/data", Rules: rules})
	require.NoError(t, err)
	ask, err := p.Decide(&c)
	require.NoError(t, err)
	if ask == nil {
		return ""
	}
	return ask.Rule
}
