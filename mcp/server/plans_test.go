package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/plan"
)

// submit calls orch_submit and returns its result.
func (w *web) submit(args string) map[string]any {
	w.t.Helper()
	a := w.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"orch_submit","arguments":` + args + `}}`)
	result, _ := a.message["result"].(map[string]any)
	require.NotNil(w.t, result, a.body)
	return result
}

// Every problem of a plan is reported at once, with its place, a code and a hint, without shell commands.
func TestAPlanIsRefusedWithAllItsProblems(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	w := n.web(t, n.face(func(c *server.Config) { c.HTTP.Tokens = tokens{} }))
	w.open()
	const bad = `{"orch":"v1","steps":[{"id":"a","tool":"FILE_RAED","with":{}},{"id":"b","tool":"FILE_READ","with":{}},{"id":"c","tool":"echo","nedds":["a"]}]}`
	for _, args := range []string{`{"plan":` + bad + `}`, `{"plan":` + bad + `,"validate_only":true}`} {
		result := w.submit(args)
		assert.Equal(t, true, result["isError"])
		structured, _ := result["structuredContent"].(map[string]any)
		problems, _ := structured["problems"].([]any)
		require.Len(t, problems, 3, "%v", result)
		text := string(raw(problems))
		assert.Contains(t, text, `"code":"METHOD_NOT_FOUND"`)
		assert.Contains(t, text, `did you mean FILE_READ?`)
		assert.Contains(t, text, `file_path`)
		assert.Contains(t, text, `did you mean needs?`)
		for _, p := range problems {
			problem, _ := p.(map[string]any)
			assert.NotEmpty(t, problem["path"])
			assert.Positive(t, problem["col"])
			assert.NotEmpty(t, problem["message"])
		}
		content := string(raw(result["content"]))
		assert.Contains(t, content, "FILE_RAED")
		assert.Contains(t, content, "nedds")
		assert.NotContains(t, string(raw(result)), "`orch ", "there is no shell")
	}
	result := w.submit(`{"plan":"[]"}`)
	assert.Contains(t, string(raw(result)), "orch://plan-schema")
	assert.NotContains(t, string(raw(result)), "orch plan new")
	assert.Empty(t, n.list())
}

// A plan that is only checked is checked as a submission is: with the arguments of its calls, and what their results have.
func TestAPlanIsCheckedWithItsArguments(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	w := n.web(t, n.face(func(c *server.Config) { c.HTTP.Tokens = tokens{} }))
	w.open()
	for _, check := range []string{"true", "false"} {
		result := w.submit(`{"validate_only":` + check + `,"plan":{"orch":"v1","steps":[
			{"id":"a","tool":"FILE_READ","with":{"file_path":7}},{"id":"b","tool":"echo","with":{"text":"${{ steps.a.output.contents }}"}}]}}`)
		structured, _ := result["structuredContent"].(map[string]any)
		assert.Equal(t, false, structured["valid"], "validate_only %s: %v", check, result)
		assert.Contains(t, string(raw(structured["problems"])), "steps[0].with.file_path", "validate_only %s", check)
		assert.Contains(t, string(raw(structured["problems"])), "contents", "validate_only %s", check)
	}
	assert.Empty(t, n.list())
}

// However many problems there are, the answer is bounded.
func TestProblemsOfAPlanAreBounded(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	w := n.web(t, n.face(func(c *server.Config) { c.HTTP.Tokens = tokens{} }))
	w.open()
	var steps []string
	for i := range 1000 {
		steps = append(steps, fmt.Sprintf(`{"id":"s%d","tool":"nothing_%d"}`, i, i))
	}
	result := w.submit(`{"plan":{"orch":"v1","steps":[` + strings.Join(steps, ",") + `]}}`)
	structured, _ := result["structuredContent"].(map[string]any)
	problems, _ := structured["problems"].([]any)
	assert.Len(t, problems, plan.MaxProblems)
	assert.Less(t, len(raw(result)), 64<<10)
	assert.Contains(t, string(raw(result["_meta"])), `"complete":false`)
}

// A model can write a plan by the schema of the tool: its examples are plans, it is small, and the resource has the rest.
func TestOrchSubmitDescribesAPlan(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	w := n.web(t, n.face(func(c *server.Config) { c.HTTP.Tokens = tokens{} }))
	w.open()
	a := w.post(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	result, _ := a.message["result"].(map[string]any)
	list, _ := result["tools"].([]any)
	var definition map[string]any
	for _, item := range list {
		if tool, _ := item.(map[string]any); tool["name"] == "orch_submit" {
			definition = tool
		}
	}
	require.NotNil(t, definition)
	assert.Contains(t, definition["description"], "orch://plan-schema")
	assert.LessOrEqual(t, len(raw(definition["inputSchema"])), 4<<10)
	var schema struct {
		Properties struct {
			Plan struct{ Examples []json.RawMessage }
		}
	}
	require.NoError(t, json.Unmarshal(raw(definition["inputSchema"]), &schema))
	require.NotEmpty(t, schema.Properties.Plan.Examples)
	for _, example := range schema.Properties.Plan.Examples {
		result := w.submit(`{"validate_only":true,"plan":` + string(example) + `}`)
		structured, _ := result["structuredContent"].(map[string]any)
		assert.Equal(t, true, structured["valid"], "%s: %v", example, result)
	}
	assert.Empty(t, n.list(), "it only validates")
	read := w.post(`{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"orch://plan-schema"}}`)
	contents, _ := read.message["result"].(map[string]any)
	first, _ := contents["contents"].([]any)
	require.Len(t, first, 1, read.body)
	one, _ := first[0].(map[string]any)
	assert.JSONEq(t, string(plan.Schema()), fmt.Sprint(one["text"]))
	done := w.submit(`{"plan":{"orch":"v1","steps":[{"id":"a","tool":"echo","with":{"text":"x"}}]}}`)
	structured, _ := done["structuredContent"].(map[string]any)
	assert.Equal(t, structured["id"], structured["task_id"])
	for _, check := range []string{"true", "false"} {
		refused := w.submit(`{"validate_only":` + check + `,"plan":{"orch":"v1","secrets":{"A":"env:DB_A"},"steps":[{"id":"a","tool":"echo","with":{"text":"x"}}]}}`)
		assert.Equal(t, true, refused["isError"])
		assert.Contains(t, string(raw(refused)), "SECRET_NOT_ALLOWED", "clients of MCP submit no plans with secrets")
	}
}
