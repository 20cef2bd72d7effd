package plan_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/plan"
)

const exampleDir = "../examples"

// exampleTools are the tools that the examples call, as far as a check needs to know them.
func exampleTools(name string) (plan.ToolInfo, bool) {
	tools := map[string]plan.ToolInfo{
		"GIT_STATUS":   {Effect: plan.EffectRead, AnyState: true, Properties: []string{"repository_path"}},
		"GIT_DIFF":     {Effect: plan.EffectRead, AnyState: true, Properties: []string{"repository_path", "staged"}},
		"GLOB_SEARCH":  {Effect: plan.EffectRead, AnyState: true, Required: []string{"pattern"}, Properties: []string{"pattern", "path"}},
		"BASH_EXECUTE": {Effect: plan.EffectWrite, Required: []string{"command"}, Properties: []string{"command", "argv", "env", "timeout", "working_directory"}, Secrets: map[string]bool{"env": false}},
		"GREP_SEARCH": {
			Effect: plan.EffectRead, AnyState: true, Required: []string{"pattern"},
			Properties: []string{"pattern", "path", "glob", "output_mode", "case_insensitive"},
		},
		"FILE_READ":    {Effect: plan.EffectRead, AnyState: true, Required: []string{"file_path"}, Properties: []string{"file_path", "offset", "limit"}},
		"FILE_WRITE":   {Effect: plan.EffectWrite, Required: []string{"file_path", "content"}, Properties: []string{"file_path", "content"}},
		"HTTP_REQUEST": {Effect: plan.EffectWrite, Required: []string{"url", "method"}, Properties: []string{"url", "method", "headers", "body", "timeout"}, Secrets: map[string]bool{"headers": true}},
		"TEST_EXECUTE": {Effect: plan.EffectIdempotent, AnyState: true, Properties: []string{"test_path", "framework", "coverage"}},
		"TASK_SPAWN":   {Effect: plan.EffectIdempotent, AnyState: true, Required: []string{"subagent_type", "prompt"}, Properties: []string{"subagent_type", "prompt", "model"}},
		"AGENT_TASK":   {Effect: plan.EffectWrite, Required: []string{"title"}, Properties: []string{"title", "description", "data", "requires", "type", "agent"}},
		"LOG_WRITE":    {Effect: plan.EffectWrite, AnyState: true, Required: []string{"level", "message"}, Properties: []string{"level", "message", "context"}},
	}
	info, ok := tools[name]
	return info, ok
}

func exampleFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(exampleDir + "/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 10)
	return files
}

func exampleOptions() plan.Options {
	return plan.Options{
		ReadFile: os.ReadFile, Tool: exampleTools,
		ToolNames: func() []string { return []string{"GIT_STATUS", "GIT_DIFF", "FILE_READ", "FILE_WRITE", "BASH_EXECUTE"} },
	}
}

func TestExamplesAreValid(t *testing.T) {
	t.Parallel()
	for _, file := range append(exampleFiles(t), exampleDir+"/agents/counter.yaml") {
		src, err := os.ReadFile(file)
		require.NoError(t, err)
		p, err := plan.Parse(file, src, exampleOptions())
		require.NoError(t, err, "%v", errors.Unwrap(err))
		assertFixedPoint(t, p)
	}
	p, err := plan.Parse("plan.yaml", plan.Skeleton("hello: world"), exampleOptions())
	require.NoError(t, err)
	assert.Equal(t, "hello: world", p.Name)
	assertFixedPoint(t, p)
}

func assertFixedPoint(t *testing.T, p *plan.Plan) {
	t.Helper()
	pr, err := plan.Compile(p.JSON())
	require.NoError(t, err)
	require.Equal(t, string(p.JSON()), string(pr.Plan().JSON()))
	require.Equal(t, p.SHA256(), pr.Plan().SHA256())
}
