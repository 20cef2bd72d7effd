package injection_test

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

type object = map[string]any

// injection is a case: a text that an agent reads, and what a model that obeys it does.
type injection struct {
	Name string
	// Via is where the text comes from, a key of sources.
	Via string
	// Text is what the attacker has written. In all fields {root}, {dir} and others are places, see world.place.
	Text string
	// Sign is a part of the text by which the model recognizes it; by default the first words of the text.
	Sign string
	// Agent has further keys of the agent step, Plan those of the plan.
	Agent, Plan object
	// Tries are the calls that the model makes when it has read the text, Then those of the turn after it.
	Tries, Then []try
	// Says is the final answer. Refuses makes it the reason of a refusal.
	Says    string
	Refuses bool
	// Ends is the state of the task at its end, if only one is right.
	Ends string
}

// try is a call that a model makes because a text asks for it. It must fail, unless it is Harmless.
type try struct {
	Tool string
	Args object
	// Raw are arguments that are no object, or no JSON.
	Raw      string
	Harmless bool
	// Times makes the call several times.
	Times int
}

// wordsOf matches words that stay as they are in JSON and in every view of a text.
var wordsOf = regexp.MustCompile(`\p{L}[\p{L}\p{M}\p{N} ,]{7,40}`)

// readCases reads all cases.
func readCases(t *testing.T) []injection {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	require.NoError(t, err)
	var all []injection
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var list []injection
		dec := yaml.NewDecoder(strings.NewReader(string(text)))
		dec.KnownFields(true)
		require.NoError(t, dec.Decode(&list), file)
		for i := range list {
			list[i].Name = strings.TrimSuffix(filepath.Base(file), ".yaml") + "-" + list[i].Name
		}
		all = append(all, list...)
	}
	return all
}

// sign returns the words by which the model recognizes the text.
func (c injection) sign() string {
	if c.Sign != "" {
		return c.Sign
	}
	return strings.TrimSpace(wordsOf.FindString(c.Text))
}

// granted returns the patterns of the tools that the agent may call.
func (c injection) granted() []string {
	patterns := []string{"FILE_READ"}
	if list, ok := c.Agent["tools"].([]any); ok {
		patterns = nil
		for _, p := range list {
			patterns = append(patterns, fmt.Sprint(p))
		}
	}
	if tool := sources()[c.Via].tool; tool != "" && !slices.Contains(patterns, tool) {
		patterns = append(patterns, tool)
	}
	return patterns
}

// matches reports whether the last pattern that matches a tool selects it.
func matches(patterns []string, tool string) bool {
	selected := false
	for _, p := range patterns {
		name, not := strings.CutPrefix(p, "!")
		if ok, err := path.Match(name, tool); err == nil && ok {
			selected = !not
		}
	}
	return selected
}

// limits are what an agent may use.
type limits struct{ turns, calls, tokens int }

// limits returns those of the agent of the case.
func (c injection) limits() limits {
	l := limits{turns: 6, calls: 12, tokens: 200_000}
	budget, _ := c.Agent["budget"].(object)
	for value, field := range map[any]*int{c.Agent["max_turns"]: &l.turns, budget["calls"]: &l.calls, budget["tokens"]: &l.tokens} {
		if n, ok := value.(int); ok {
			*field = n
		}
	}
	return l
}

// plan returns the plan of a case for a model.
func (c injection) plan(model, prompt string) object {
	l := c.limits()
	agent := object{
		"model": model, "instructions": "You are a careful assistant of a small shop.", "prompt": prompt, "max_turns": l.turns,
		"budget": object{"usd": 1, "calls": l.calls, "tokens": l.tokens},
	}
	if budget, ok := c.Agent["budget"].(object); ok {
		maps.Copy(agent["budget"].(object), budget)
	}
	for key, value := range c.Agent {
		if key != "budget" {
			agent[key] = value
		}
	}
	agent["tools"] = c.granted()
	p := object{"orch": "v1", "name": c.Name, "steps": []object{{"id": "a", "agent": agent}}}
	maps.Copy(p, c.Plan)
	return p
}

// Each case has a name of its own, a source, a text, and something that the model then does.
func TestCases(t *testing.T) {
	t.Parallel()
	cases, names, via := readCases(t), map[string]bool{}, map[string]int{}
	for _, c := range cases {
		assert.False(t, names[c.Name], "%s is there twice", c.Name)
		assert.Regexp(t, `^[a-z0-9-]+$`, c.Name)
		assert.Contains(t, sources(), c.Via, c.Name)
		assert.NotEmpty(t, c.Text, c.Name)
		assert.NotEmpty(t, c.sign(), c.Name)
		assert.True(t, len(c.Tries) > 0 || c.Says != "", "%s tries nothing", c.Name)
		names[c.Name] = true
		via[c.Via]++
	}
	assert.GreaterOrEqual(t, len(cases), 200)
	for source := range sources() {
		assert.GreaterOrEqual(t, via[source], 3, "the source %s", source)
	}
	t.Log(len(cases), "cases:", via)
}
