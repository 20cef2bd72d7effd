package policy_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/policy"
)

// TestVariablesOfTheCaller holds that a variable that the caller sets counts as one that the command sets.
func TestVariablesOfTheCaller(t *testing.T) {
	t.Parallel()
	where := policy.ShellContext{Dir: "/w/workspace", Workspace: "/w"}
	for _, test := range []struct {
		command, variable string
		destructive       bool
	}{
		{`echo "$X" "$1" "$@"`, "X", false},
		{`sh -c 'echo "$X"'`, "X", false},
		{"ls", "PATH", true},
		{"ls", "LD_PRELOAD", true},
		{"git log", "GIT_EXTERNAL_DIFF", true},
		{"true", "BASH_ENV", true},
		{"echo $((X))", "X", true},
		{"sh -c 'echo $((X))'", "X", true},
		{"echo $((1 + 1))", "X", false},
		{`"$X" file`, "X", true},
		{`"$1" file`, "X", true},
	} {
		in := where
		in.Env = []string{test.variable}
		assert.Equal(t, test.destructive, policy.Classify(test.command, in).Destructive, "%s=… %s", test.variable, test.command)
	}
}

// TestAllowingRulesAndVariables holds that a rule that allows a program does not allow to make another one of it.
func TestAllowingRulesAndVariables(t *testing.T) {
	t.Parallel()
	rules := withRules(t, one("allow", "commands", "make *"))
	for args, want := range map[string]policy.Action{
		`{"command":"make all"}`:                                        policy.RuleAllow,
		`{"command":"make all","env":{"TARGET":"x"}}`:                   policy.RuleAllow,
		`{"command":"TARGET=x make all"}`:                               policy.RuleAllow,
		`{"command":"make all","env":{"PATH":"/w/evil"}}`:               policy.RuleDeny,
		`{"command":"PATH=/w/evil make all"}`:                           policy.RuleDeny,
		`{"command":"export PATH=/w/evil; make all"}`:                   policy.RuleDeny,
		`{"command":"make all","env":{"LD_PRELOAD":"/w/evil.so"}}`:      policy.RuleDeny,
		`{"command":"make \"$1\"","argv":["all"],"env":{"TARGET":"x"}}`: policy.RuleAllow,
	} {
		c := bashCall("")
		c.Args = json.RawMessage(args)
		c.Spec.Environment = "env"
		assert.Equal(t, want, rules.Judge(c).Action, args)
	}
}
