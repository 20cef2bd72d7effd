package policy_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/builtin"
)

const explainedRules = `version: 1
rules:
  - {name: no-keys, action: deny, reason: keys, paths: ["*.pem"]}

  - name: ask-agents
    action: ask
    agents: ["agent:*"]
    tools: ["FILE_*"]
  - {name: no-push, action: deny, commands: ["git push*"]}
`

func explainer(t *testing.T, root string) (*policy.Policy, *tools.Catalogue) {
	t.Helper()
	rules, err := policy.ParseRules("p.yaml", []byte(explainedRules))
	require.NoError(t, err)
	assert.Equal(t, explainedRules, rules.Text)
	assert.Len(t, rules.Digest(), 64)
	p, err := policy.New(policy.Config{Root: root, Rules: rules})
	require.NoError(t, err)
	catalogue, err := tools.New(builtin.All(builtin.Config{})...)
	require.NoError(t, err)
	return p, catalogue
}

func TestExplain(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	p, catalogue := explainer(t, root)
	task := events.KeyedTaskID("", "t")
	for name, c := range map[string]struct {
		call    policy.Imagined
		action  policy.Action
		rule    string
		matches []policy.Match
		ask     string
		refused fault.Code
	}{
		"a read": {policy.Imagined{Tool: "FILE_READ", Args: raw(`{"file_path":"a"}`), Agent: "user:ada"}, "allow", "default", []policy.Match{}, "", ""},
		"a key": {
			policy.Imagined{Tool: "FILE_READ", Args: raw(`{"file_path":"a/b.pem"}`), Agent: "user:ada"},
			"deny", "no-keys",
			[]policy.Match{{"no-keys", "deny", 3, false}},
			"", fault.Forbidden,
		},
		"an agent": {
			policy.Imagined{Tool: "FILE_READ", Args: raw(`{"file_path":"a"}`), Agent: "agent:bot"},
			"ask", "ask-agents",
			[]policy.Match{{"ask-agents", "ask", 5, false}},
			"policy:ask-agents", "",
		},
		"an unknown identity": {
			policy.Imagined{Tool: "FILE_READ", Args: raw(`{"file_path":"a"}`)},
			"ask", "ask-agents",
			[]policy.Match{{"ask-agents", "ask", 5, true}},
			"policy:ask-agents", "",
		},
		"a write outside of the workspace": {
			policy.Imagined{Tool: "FILE_WRITE", Args: raw(`{"file_path":"a","content":""}`), Agent: "user:ada"}, "ask", "default", []policy.Match{}, "outside_workspace", "",
		},
		"a write inside": {
			policy.Imagined{Tool: "FILE_WRITE", Args: raw(`{"file_path":"Working/` + string(task) + `/a","content":""}`), Agent: "user:ada", Task: task},
			"allow", "default",
			[]policy.Match{},
			"", "",
		},
		"a push": {
			policy.Imagined{Tool: "BASH_EXECUTE", Args: raw(`{"command":"git push"}`), Agent: "user:ada"},
			"deny", "no-push",
			[]policy.Match{{"no-push", "deny", 9, false}},
			"", fault.Forbidden,
		},
	} {
		e, err := p.Explain(catalogue, c.call)
		require.NoError(t, err, name)
		assert.Equal(t, c.action, e.Action, name)
		assert.Equal(t, c.rule, e.File.Rule, name)
		assert.Equal(t, c.matches, e.Matches, name)
		assert.Equal(t, c.ask != "", e.Ask != nil, name)
		if e.Ask != nil {
			assert.Equal(t, c.ask, e.Ask.Rule, name)
		}
		assert.Equal(t, c.refused != "", e.Refused != nil, name)
		assert.NotEmpty(t, e.Effect, name)
	}
	assert.NoDirExists(t, root+"/Working", "nothing happens")
}

func TestExplainRefusesWhatCannotBeCalled(t *testing.T) {
	t.Parallel()
	p, catalogue := explainer(t, t.TempDir())
	for _, c := range []struct {
		tool, args, field, hint string
		code                    fault.Code
	}{
		{"FILE_REED", `{}`, "tool", "FILE_READ", fault.NotFound},
		{"FILE_READ", `{}`, "args.file_path", "", fault.RequiredField},
		{"FILE_READ", `[]`, "args", "", fault.ValidationError},
	} {
		_, err := p.Explain(catalogue, policy.Imagined{Tool: c.tool, Args: raw(c.args)})
		f := fault.From(err)
		assert.Equal(t, c.code, f.Code, c.tool+c.args)
		assert.Equal(t, c.field, f.Field, c.tool+c.args)
		assert.Contains(t, f.Hint, c.hint)
	}
}

func raw(text string) json.RawMessage { return json.RawMessage(text) }
