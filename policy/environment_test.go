package policy_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/policy"
)

// TestAllowingRulesAndVariables checks that a rule that allows a program does not allow it with variables that change
// what it does.
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
		assert.Equal(t, want, rules.EvaluateRules(c).Action, args)
	}
}
