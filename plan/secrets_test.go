package plan_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/plan"
)

// secretPlaces is the hint of the checker.
const secretPlaces = " (a secret declared below `secrets` is the whole value of an entry of `env` of BASH_EXECUTE, or the end of one of `headers` of HTTP_REQUEST; " +
	"nothing else sees it, neither commands nor conditions, outputs and agents)"

func secretCases() []problemCase {
	const top = "orch: v1\nsecrets: {PW: env:PW}\n"
	call := func(with string) string {
		return top + "steps:\n  - id: a\n    tool: BASH_EXECUTE\n    with: {command: ls, " + with + "}\n"
	}
	return []problemCase{
		{"secret value", "orch: v1\nsecrets: {PW: hunter2}\nsteps: [{id: a, set: {x: 1}}]\n", "p.yaml:2:15: secrets.PW: a plan holds no secret, only the place where it lies (write env:NAME for a variable of the worker, or file:/PATH for a file of it)"},
		{"secret file", "orch: v1\nsecrets: {PW: file:a/../b}\nsteps: [{id: a, set: {x: 1}}]\n", "p.yaml:2:15: secrets.PW: a plan holds no secret, only the place where it lies (write env:NAME for a variable of the worker, or file:/PATH for a file of it)"},
		{"secret name", "orch: v1\nsecrets: {P-W: env:PW}\nsteps: [{id: a, set: {x: 1}}]\n", "p.yaml:2:11: secrets.P-W: a secret has no such name (names have letters, digits and _, begin with no digit, and have at most 64 letters)"},
		{"unknown secret", call(`env: {PW: "${{ secrets.PV }}"}`), `p.yaml:6:48: steps[0].with.env.PW: there is no secret "PV" (did you mean PW?)`},
		{"part of a variable", call(`env: {PW: "x ${{ secrets.PW }}"}`), "p.yaml:6:35: steps[0].with.env.PW: nothing may precede or follow a secret in `env` (put it together in the program)"},
		{"before a text", call(`env: {PW: "${{ secrets.PW }}x"}`), "p.yaml:6:40: steps[0].with.env.PW: the expression `secrets.PW` is wrong: unknown name secrets" + secretPlaces},
		{"computed", call(`env: {PW: "${{ upper(secrets.PW) }}"}`), "p.yaml:6:46: steps[0].with.env.PW: the expression `upper(secrets.PW)` is wrong: unknown name secrets" + secretPlaces},
		{"in a list", call(`argv: ["${{ secrets.PW }}"]`), "p.yaml:6:37: steps[0].with.argv[0]: the expression `secrets.PW` is wrong: unknown name secrets" + secretPlaces},
		{"in a command", top + "steps: [{id: a, tool: BASH_EXECUTE, with: {command: \"echo ${{ secrets.PW }}\"}}]\n", "p.yaml:3:63: steps[0].with.command: the expression `secrets.PW` is wrong: unknown name secrets" + secretPlaces},
		{"in a condition", top + "steps: [{id: a, if: secrets.PW != '', set: {x: 1}}]\n", "p.yaml:3:21: steps[0].if: the expression `secrets.PW != ''` is wrong: unknown name secrets" + secretPlaces},
		{"in an output", top + "steps: [{id: a, set: {x: 1}}]\noutputs: {x: \"${{ secrets.PW }}\"}\n", "p.yaml:4:19: outputs.x: the expression `secrets.PW` is wrong: unknown name secrets" + secretPlaces},
		{"of another tool", top + "steps: [{id: a, tool: AGENT_TASK, with: {title: t, data: {x: \"${{ secrets.PW }}\"}}}]\n", "p.yaml:3:62: steps[0].with.data.x: `data` of AGENT_TASK takes no secret" + secretPlaces},
		{"as an item", top + "steps: [{id: a, for_each: '[1]', as: secrets, do: [{id: b, set: {x: 1}}]}]\n", `p.yaml:3:38: steps[0].as: the name "secrets" is taken in expressions (choose another one, such as item)`},
		{"undeclared", steps("id: a", "tool: BASH_EXECUTE", "with: {command: ls, env: {A: '${{ secrets.PW }}'}}"), "p.yaml:5:39: steps[0].with.env.A: the expression `secrets.PW` is wrong: unknown name secrets" + secretPlaces},
	}
}

const usesSecrets = `
orch: v1
secrets: {PW: env:PW, TOKEN: file:/run/secrets/token}
steps:
  - id: a
    tool: BASH_EXECUTE
    with: {command: ls, env: {A: "${{ secrets.PW }}", B: plain, C: "$${{ secrets.PW }}"}}
  - id: each
    for_each: "[1, 2]"
    do:
      - {id: ask, tool: HTTP_REQUEST, with: {url: "https://a.example", method: GET, headers: {Authorization: "Bearer ${{ secrets.TOKEN }}"}}}
  - id: sub
    run: {orch: v1, secrets: {K: env:K}, steps: [{id: b, tool: BASH_EXECUTE, with: {command: ls, env: {K: "${{ secrets.K }}"}}}]}
`

// TestSecretsStayInTheText checks that arguments contain the placeholder of each secret, and that the program knows its
// position, also when the plan is compiled from the log.
func TestSecretsStayInTheText(t *testing.T) {
	t.Parallel()
	p, err := plan.Parse("p.yaml", []byte(usesSecrets), plan.Options{Tool: exampleTools})
	require.NoError(t, err)
	assert.Equal(t, []string{"env:K", "env:PW", "file:/run/secrets/token"}, p.SecretSources())
	program, err := plan.Compile(p.JSON())
	require.NoError(t, err)

	a := program.Node("a")
	args, err := a.Args(plan.Scope{})
	require.NoError(t, err)
	assert.JSONEq(t, `{"command": "ls", "env": {"A": "${{ secrets.PW }}", "B": "plain", "C": "${{ secrets.PW }}"}}`, string(args))
	assert.Equal(t, []plan.SecretUse{{Field: "env", Key: "A", Name: "PW", Source: "env:PW"}}, a.Secrets, "data that looks like a secret's text is none")
	assert.Equal(t, "${{ secrets.PW }}", a.Secrets[0].Text())
	assert.Equal(t, []plan.SecretUse{{Field: "headers", Key: "Authorization", Name: "TOKEN", Source: "file:/run/secrets/token", Prefix: "Bearer "}},
		program.Node("each").Children[0].Secrets)
	assert.Equal(t, "env:K", program.Node("sub").Sub.Node("b").Secrets[0].Source)
}
