package plan_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/plan"
)

func TestShellQuotes(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		`shell("a b")`:           `'a b'`,
		`shell("")`:              `''`,
		`shell("it's $(id)")`:    `'it'\''s $(id)'`,
		`shell(1)`:               `'1'`,
		`shell(true)`:            `'true'`,
		`shell(["a", "b c", 2])`: `'a' 'b c' '2'`,
		`shell([])`:              ``,
	} {
		got, err := set(t, "${{ "+expression+" }}")
		require.NoError(t, err, expression)
		var out struct{ X string }
		require.NoError(t, json.Unmarshal([]byte(got), &out), got)
		assert.Equal(t, want, out.X, expression)
	}
	for expression, want := range map[string]string{
		`shell(nil)`:      "null cannot be part of a text",
		`shell({"a": 1})`: "a list or an object cannot be part of a text",
		`shell([["a"]])`:  "a list or an object cannot be part of a text",
		`shell("a\x00b")`: "a text with a NUL",
		`shell("a", "b")`: "shell",
	} {
		_, err := plan.Parse("p.yaml", []byte(steps("id: a", "set: {x: '${{ "+expression+" }}'}")), plan.Options{})
		if err == nil {
			_, err = set(t, "${{ "+expression+" }}")
		}
		assert.ErrorContains(t, err, want, expression)
	}
}

// TestShellQuotesForRealShells hands hostile words to the shells of this machine.
func TestShellQuotesForRealShells(t *testing.T) {
	t.Parallel()
	words := []any{"", " ", "'", "''", `\`, `\'`, "$(id)", "`id`", "$HOME", "!!", "a\nb", "-n", "*", "~", "#x", "é\u202e", `"`, "&& id", "\t", "${IFS}"}
	list, err := json.Marshal(words)
	require.NoError(t, err)
	text, err := set(t, "${{ shell(fromJSON("+quoteExpr(string(list))+")) }}")
	require.NoError(t, err)
	var quoted struct{ X string }
	require.NoError(t, json.Unmarshal([]byte(text), &quoted))
	for _, shell := range []string{"sh", "bash"} {
		out, err := exec.CommandContext(t.Context(), shell, "-c", `printf '%s\0' `+quoted.X).Output()
		require.NoError(t, err, shell)
		got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		require.Len(t, got, len(words), shell)
		for i, word := range words {
			assert.Equal(t, word, got[i], shell)
		}
	}
}

func quoteExpr(s string) string {
	data, _ := json.Marshal(s) //nolint:errchkjson // a text always has a form in JSON
	return string(data)
}

func TestSpliceWarnings(t *testing.T) {
	t.Parallel()
	const raw, quoted = "the shell reads the value of", "is in quotes, which end the protection of shell()"
	for command, want := range map[string]string{
		`echo ${{ inputs.x }}`:                             raw,
		`echo "${{ inputs.x }}"`:                           raw,
		`${{ inputs.x }}`:                                  raw,
		`echo ${{ inputs.n + 1 }} ${{ steps.b.output.y }}`: raw,
		`echo ${{ inputs.ok ? "a" : inputs.x }}`:           raw,
		`echo ${{ task.name }}`:                            raw,
		`echo ${{ inputs.odd }}`:                           raw,
		`echo "${{ shell(inputs.x) }}"`:                    quoted,
		`echo 'it''s ${{ shell(inputs.x) }}'`:              quoted,
		`echo ${{ shell(inputs.x) }}`:                      "",
		`echo 'a' "b" \' ${{ shell(inputs.x) }}`:           "",
		`echo ${{ inputs.n }} ${{ inputs.ok }}`:            "",
		`echo ${{ inputs.env }} ${{ task.id }}`:            "",
		`echo ${{ inputs.ok ? "a" : "b" }}`:                "",
		`echo $${{ x }}`:                                   "",
	} {
		var warnings []string
		opt := plan.Options{
			Tool: func(name string) (plan.ToolInfo, bool) { return plan.ToolInfo{Name: name, Command: "command"}, true },
			Warn: func(p plan.Problem) { warnings = append(warnings, p.String()) },
		}
		src, err := json.Marshal(map[string]any{
			"orch": "v1",
			"inputs": map[string]any{"properties": map[string]any{
				"x": map[string]any{"type": "string"}, "n": map[string]any{"type": "integer"}, "ok": map[string]any{"type": "boolean"},
				"env": map[string]any{"enum": []any{"staging", "prod"}}, "odd": map[string]any{"enum": []any{"a", "$(id)"}},
			}},
			"steps": []any{
				map[string]any{"id": "b", "set": map[string]any{"y": 1}},
				map[string]any{"id": "a", "tool": "BASH_EXECUTE", "with": map[string]any{"command": command}},
			},
		})
		require.NoError(t, err)
		_, err = plan.Parse("p.json", src, opt)
		require.NoError(t, err, command)
		if want == "" {
			assert.Empty(t, warnings, command)
			continue
		}
		if assert.NotEmpty(t, warnings, command) {
			assert.Contains(t, warnings[0], want, command)
			assert.Contains(t, warnings[0], "steps[1].with.command", command)
		}
	}
}
