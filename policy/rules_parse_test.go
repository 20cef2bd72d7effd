package policy_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/policy"
)

func TestRulesFileErrorsNameTheirPlace(t *testing.T) {
	t.Parallel()
	for text, place := range map[string]string{
		"":                              ":1:1",
		"rules: []\n":                   ":1:8",
		"default: deny\n":               ":1:1",
		"version: 2\n":                  ":1:10",
		"version: 1\nversion: 1\n":      ":2:1",
		"version: 1\nrulez: []\n":       ":2:1",
		"version: 1\n---\nversion: 1\n": ":2:1",
		"version: 1\ndefault: never\n":  ":2:10",
		"version: 1\nrules: [{name: a, action: deny}]\n":                                      ":2:9",
		"version: 1\nrules: [{name: a, tools: [x]}]\n":                                        ":2:9",
		"version: 1\nrules: [{name: A b, action: deny, tools: [x]}]\n":                        ":2:16",
		"version: 1\nrules: [{name: a, action: deny, tools: []}]\n":                           ":2:40",
		"version: 1\nrules: [{name: a, action: deny, tools: [1]}]\n":                          ":2:41",
		"version: 1\nrules: [{name: a, action: deny, tool: [x]}]\n":                           ":2:33",
		"version: 1\nrules: [{name: a, action: deny, hosts: [\"*example.com\"]}]\n":           ":2:41",
		"version: 1\nrules: [{name: a, action: deny, hosts: [\"https://x\"]}]\n":              ":2:41",
		"version: 1\nrules: [{name: a, action: deny, paths: [\"../x\"]}]\n":                   ":2:41",
		"version: 1\nrules: [{name: a, action: deny, commands: [\"a && b\"]}]\n":              ":2:44",
		"version: 1\nrules: [{name: a, action: deny, effects: [wrte]}]\n":                     ":2:43",
		"version: 1\nrules: [{name: a, action: deny, recipients: [ada]}]\n":                   ":2:46",
		"version: 1\nrules: [{name: a, action: deny, tools: &x [a]}]\n":                       ":2:40",
		"version: 1\nrules: [{name: a, action: deny, tools: [a], examples: {match: [{}]}}]\n": ":2:64",
	} {
		_, err := policy.ParseRules("p.yaml", []byte(text))
		require.Error(t, err, text)
		assert.Equal(t, "p.yaml"+place, fault.From(err).Field, text)
	}
}

func FuzzParseRules(f *testing.F) {
	f.Add("version: 1\nrules: [{name: a, action: deny, commands: [\"git push*\"], examples: {match: [{tool: X, args: {a: 1}}]}}]\n")
	f.Add("version: 1\ndefault: ask\n---\n")
	f.Add("a: &x [*x]\n")
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := policy.ParseRules("p.yaml", []byte(text))
		if err != nil {
			var e *fault.Error
			require.ErrorAs(t, err, &e)
			require.NotEmpty(t, e.Field)
			return
		}
		for _, r := range rules.List {
			require.NotEmpty(t, r.Name)
		}
	})
}
