package docs_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// block returns a fenced block.
func block(language, text string) string { return "```" + language + "\n" + text + "\n```\n" }

// A page that is right passes, and what is wrong in one is found, with its line.
func TestPagesBite(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		page, directions string
		// want are the beginnings of the findings.
		want []string
	}{
		"right": {page: block("sh", "echo one # says one\nX=two") + "Then:\n" + block("sh", "cd /tmp\necho \"TASK_0123456789ABCDEFGHJKMNPQRS took 12ms, $X\"") +
			block("", "TASK_ABCDEFGHJKMNPQRS0123456789 took 4.2s, two")},
		"file":              {page: block("yaml", "# a/b.yaml\nx: 1") + block("sh", "grep x a/b.yaml")},
		"fails":             {page: "\n" + block("sh", "true\nfalse\ntrue"), want: []string{"4: the command has not ended with 0"}},
		"does not fail":     {page: block("sh", "true"), directions: `at: [{unit: "true", fails: 1}]`, want: []string{"2: the command has not ended with 1"}},
		"ends the page":     {page: block("sh", "exit 0\ntrue"), want: []string{"2: the command has not ended with 0"}},
		"other output":      {page: block("sh", "echo one") + block("", "two"), want: []string{"5: the page shows\ntwo"}},
		"output in between": {page: block("sh", "printf 'a\\nb\\nc\\n'") + block("", "a\nc"), want: []string{"5: the page shows\na"}},
		"output left out":   {page: block("sh", "printf 'a\\nb\\nc\\n'") + block("", "a\n…\nc")},
		"no output":         {page: block("", "two"), want: []string{"2: the page shows\ntwo"}},
		"console":           {page: block("console", "$ echo one\none\n$ echo two\nthree"), want: []string{"5: the page shows\nthree"}},
		"promise":           {page: block("sh", "echo one"), directions: `at: [{unit: echo, shows: [two]}]`, want: []string{`2: the output has no "two"`}},
		"value":             {page: block("sh", "test ID = 7 # ID"), directions: `values: {ID: "7"}`},
		"left out":          {page: block("sh", "false\nfalse") + block("go", "x"), directions: "at: [{unit: 'false', block: true, left out: no}, {unit: x, left out: no}]"},
		"language left out": {page: block("go", "x") + block("go", "x"), directions: "languages: {go: no}"},
		"set-up fails":      {page: block("sh", "true"), directions: `setup: "false"`, want: []string{"0: the set-up has not ended with 0"}},
		"beside":            {page: block("sh", "until test -e go; do sleep 0.1; done"), directions: `at: [{unit: until, meanwhile: touch go}]`},
		"fails beside":      {page: block("sh", "until test -e go; do sleep 0.1; done; false"), directions: `at: [{unit: until, meanwhile: touch go}]`, want: []string{"2: the command has not ended with 0"}},
		"background":        {page: block("sh", "sleep 1000\necho one"), directions: `at: [{unit: sleep, background: true}]`},
		"background fails":  {page: block("sh", "touch here; false\ntest -e here"), directions: `at: [{unit: touch, background: true, meanwhile: 'wait_for eval "cat \$RUN/output.*.code"'}]`, want: []string{"2: the command has not ended with 0"}},
		"input":             {page: block("sh", "read x && test \"$x\" = yes"), directions: `at: [{unit: read, input: "yes\n"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var d directions
			require.NoError(t, yaml.Unmarshal([]byte(c.directions), &d))
			units, err := parse(c.page)
			require.NoError(t, err)
			acts, err := direct(units, d)
			require.NoError(t, err)
			findings := newWorld(t, t.TempDir()).perform(t, d, acts)
			require.Len(t, findings, len(c.want), strings.Join(findings, "\n"))
			for i, want := range c.want {
				assert.True(t, strings.HasPrefix(findings[i], want), findings[i])
			}
		})
	}
}

// What cannot be followed is refused.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, page := range map[string]string{
		"no end": "```sh\ntrue\n", "no script": block("sh", "if true"), "no prompt": block("console", "one"), "empty": "```go\n```\n",
	} {
		_, err := parse(page)
		require.Error(t, err, name)
	}
	units, err := parse(block("sh", "true") + block("yaml", "x: 1"))
	require.NoError(t, err)
	_, err = direct(units, directions{})
	require.ErrorContains(t, err, "line 5: the block is neither run nor written")
	for _, unknown := range []string{"fals", "", "x: 1 "} {
		_, err = direct(units, directions{At: []direction{{Unit: unknown, LeftOut: "no"}}})
		require.ErrorContains(t, err, "nothing begins with", unknown)
	}
}
