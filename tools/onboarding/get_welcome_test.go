package onboarding_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/builtin"
	"github.com/orch-dev/orch/tools/onboarding"
	"github.com/orch-dev/orch/tools/toolstest"
)

type object = map[string]any

type greeting struct {
	Welcome struct{ Message, SystemOverview, RoleDescription string }
	Steps   []struct {
		Step                       int
		Title, Description, Action string
	} `json:"quickStart"`
	Resources struct{ Documentation, Tutorials, Contacts []string }
}

func welcome(t *testing.T, cfg onboarding.Config, args object) (greeting, error) {
	t.Helper()
	tool := onboarding.Tools(cfg)[0]
	raw, err := json.Marshal(args)
	require.NoError(t, err)
	checked, err := tool.Check(raw)
	if err != nil {
		return greeting{}, err
	}
	out, err := tool.Call(context.Background(), &tools.Env{Task: "TASK_1", Now: time.Now}, checked)
	if err != nil {
		return greeting{}, err
	}
	toolstest.Output(t, tool, out)
	var g greeting
	require.NoError(t, json.Unmarshal(out, &g))
	return g, nil
}

func offering(offered map[string][]string) onboarding.Config {
	return onboarding.Config{Node: func() *onboarding.Node {
		return &onboarding.Node{Version: "1.2.3", Contacts: []string{"user:ada"}, Offered: func(context.Context, events.TaskID) (map[string][]string, error) {
			return offered, nil
		}}
	}}
}

// everything is the configuration of a node with all built-in tools.
func everything() onboarding.Config {
	offered := map[string][]string{}
	for _, f := range builtin.Families(builtin.Config{}) {
		for _, tool := range f.Tools {
			offered[f.Category] = append(offered[f.Category], tool.Spec().Name)
		}
	}
	return offering(offered)
}

// S3-002, S3-003.
func TestSchemasAreThoseOfTheSpecification(t *testing.T) {
	t.Parallel()
	for _, tool := range onboarding.Tools(onboarding.Config{}) {
		toolstest.Specified(t, tool, "testdata/seed003.json")
	}
}

// S3-081: the message contains the name, the roles differ, steps are numbered and name existing tools.
func TestWelcome(t *testing.T) {
	t.Parallel()
	cfg, seen := everything(), map[string]bool{}
	for _, role := range []string{"researcher", "developer", "coordinator", "analyst", "specialist"} {
		g, err := welcome(t, cfg, object{"agentName": "Nia", "role": role})
		require.NoError(t, err)
		assert.Contains(t, g.Welcome.Message, "Nia")
		assert.Contains(t, g.Welcome.SystemOverview, "1.2.3")
		for _, text := range []string{g.Welcome.Message, g.Welcome.RoleDescription} {
			assert.False(t, seen[text], "%s: the text of another role", role)
			seen[text] = true
		}
		for i, s := range g.Steps {
			assert.Equal(t, i+1, s.Step)
			assert.NotEmpty(t, s.Title)
			assert.NotEmpty(t, s.Description)
		}
		assert.Equal(t, []string{"user:ada"}, g.Resources.Contacts)
		assert.NotEmpty(t, g.Resources.Tutorials)
		for _, page := range append(g.Resources.Documentation, g.Resources.Tutorials...) {
			_, err := os.Stat(filepath.Join("..", "..", filepath.FromSlash(page)))
			assert.NoError(t, err, "the page is not there")
		}
	}
}

// An agent that may register gets the steps for that, with valid arguments, and for using its credential.
func TestWelcomeSaysHowToTakePart(t *testing.T) {
	t.Parallel()
	register := onboarding.Tools(onboarding.Config{})[1]
	require.Equal(t, onboarding.RegisterAgent, register.Spec().Name)
	for name, topics := range map[string][]string{"Nia": nil, "Nia the 3rd": {"maps", "birds"}} {
		g, err := welcome(t, everything(), object{"agentName": name, "role": "analyst", "specializations": topics})
		require.NoError(t, err)
		args, ok := strings.CutPrefix(g.Steps[0].Action, onboarding.RegisterAgent+" ")
		require.True(t, ok)
		_, err = register.Check(json.RawMessage(args))
		require.NoError(t, err, args)
		for i, path := range []string{agents.TasksPath, agents.StatusPath, agents.ResultsPath} {
			assert.True(t, strings.HasPrefix(g.Steps[i+1].Action, "POST "+path+" {"), g.Steps[i+1].Action)
		}
		assert.Contains(t, g.Resources.Documentation, "docs/reference/agents.md")
	}
}

// The steps depend on the tools that the agent may call: no others are named.
func TestStepsAreThoseOfToolsThatAreOffered(t *testing.T) {
	t.Parallel()
	g, err := welcome(t, offering(map[string][]string{"system": {"system.listSkills"}, "files": {"FILE_READ"}}),
		object{"agentName": "N", "role": "developer", "specializations": []string{`a "b"`}})
	require.NoError(t, err)
	var actions []string
	for _, s := range g.Steps {
		actions = append(actions, s.Action)
	}
	assert.Equal(t, []string{"system.listSkills", "FILE_READ", `system.listSkills {"search":"a \"b\""}`}, actions)
	assert.Contains(t, g.Welcome.SystemOverview, "2 tools: files (1), system (1)")
	assert.Contains(t, g.Welcome.RoleDescription, `a "b"`)
}

func TestUnknownLanguageIsEnglish(t *testing.T) {
	t.Parallel()
	cfg := everything()
	english, err := welcome(t, cfg, object{"agentName": "N", "role": "analyst", "language": "en"})
	require.NoError(t, err)
	for _, language := range []string{"xx", "", "klingon"} {
		other, err := welcome(t, cfg, object{"agentName": "N", "role": "analyst", "language": language})
		require.NoError(t, err)
		assert.Equal(t, english, other)
	}
}

// S3-080.
func TestInputs(t *testing.T) {
	t.Parallel()
	cfg := everything()
	for field, tc := range map[string]struct {
		args object
		code fault.Code
	}{
		"agentName":          {object{"agentName": "", "role": "analyst"}, fault.ValidationError},
		"role":               {object{"agentName": "N", "role": "boss"}, fault.ValidationError},
		"specializations[0]": {object{"agentName": "N", "role": "analyst", "specializations": []any{1}}, fault.ValidationError},
	} {
		_, err := welcome(t, cfg, tc.args)
		require.ErrorIs(t, err, &fault.Error{Code: tc.code})
		assert.Equal(t, field, fault.From(err).Field)
	}
	_, err := welcome(t, cfg, object{"agentName": strings.Repeat("x", 101), "role": "analyst"})
	require.ErrorIs(t, err, &fault.Error{Code: fault.ValidationError})
	_, err = welcome(t, cfg, object{"role": "analyst"})
	require.ErrorIs(t, err, &fault.Error{Code: fault.RequiredField})
	_, err = welcome(t, onboarding.Config{}, object{"agentName": "N", "role": "analyst"})
	require.ErrorIs(t, err, &fault.Error{Code: fault.ToolUnavailable}, "without a node")
}
