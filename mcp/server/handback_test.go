package server_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/mcp/server"
)

// handedBackBy returns the description of a call that was handed back.
func handedBackBy(t *testing.T, a answer) (fields map[string]any, text string) {
	t.Helper()
	result, _ := a.message["result"].(map[string]any)
	require.NotContains(t, result, "isError", a.body)
	structured, _ := result["structuredContent"].(map[string]any)
	fields, _ = structured["handed_back"].(map[string]any)
	require.NotNil(t, fields, a.body)
	content, _ := result["content"].([]any)
	first, _ := content[0].(map[string]any)
	text, _ = first["text"].(string)
	return fields, text
}

func impatient(c *server.Config) { c.HTTP.Tokens, c.Limits.SyncWait = tokens{}, time.Millisecond }

// A call that waits for an absent agent is handed back, and not as a failure, which a model would retry.
func TestHandBackSaysWhatTheCallWaitsFor(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	w := n.web(t, n.face(impatient))
	w.open()
	fields, text := handedBackBy(t, w.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"AGENT_TASK","arguments":{"title":"t","description":"d","requires":["go"]}}}`))
	assert.Equal(t, "agent", fields["waits_for"], fields)
	assert.Contains(t, fields["reason"], "no such agent is online")
	assert.Contains(t, text, "no such agent is online")
	assert.Contains(t, text, "orch_result")
	assert.NotContains(t, text, "orch explain", "no words of a shell")
	id, _ := fields["task_id"].(string)
	a := w.post(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"orch_result","arguments":{"task_id":"` + id + `","wait_seconds":0.01}}}`)
	assert.Contains(t, a.body, `"waits_for":"agent"`)
}

// The schema of each tool permits the result of a handed-back call, and requires of other results the same as before.
func TestOutputSchemasAllowToHandBack(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	w := n.web(t, n.face(impatient))
	w.open()
	seen := 0
	for cursor := ""; ; {
		a := w.post(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{` + cursor + `}}`)
		result, _ := a.message["result"].(map[string]any)
		list, _ := result["tools"].([]any)
		require.NotEmpty(t, list, a.body)
		for _, item := range list {
			tool, _ := item.(map[string]any)
			if tool["outputSchema"] == nil {
				continue
			}
			seen++
			var schema jsonschema.Schema
			require.NoError(t, json.Unmarshal(raw(tool["outputSchema"]), &schema))
			resolved, err := schema.Resolve(nil)
			require.NoError(t, err, tool["name"])
			assert.NoError(t, resolved.Validate(map[string]any{"handed_back": map[string]any{"task_id": "TASK_1"}}), tool["name"])
			assert.Equal(t, "object", schema.Type)
			name, _ := tool["name"].(string)
			original, ok := n.catalogue.Get(name)
			require.True(t, ok, name)
			var before jsonschema.Schema
			require.NoError(t, json.Unmarshal(original.OutputSchema(), &before))
			if len(before.Required) > 0 {
				require.Error(t, resolved.Validate(map[string]any{}), name)
			}
		}
		next, more := result["nextCursor"].(string)
		if !more {
			break
		}
		cursor = `"cursor":"` + next + `"`
	}
	assert.Greater(t, seen, 20)
}

// A client that waits for a result is asked the questions of the task, however the task was started.
func TestWaitingForAResultAsks(t *testing.T) {
	t.Parallel()
	for _, k := range kindsAsked() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t, k)
			s.enter()
			id := s.other().started()
			waits := s.begins(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"orch_result","arguments":{"task_id":"` + id + `","wait_seconds":50}}}`)
			s.reply(waits.question(k))
			assert.Contains(t, waits.result(), `"state":"DONE"`)

			id = s.other().started()
			args := `"name":"orch_result","arguments":{"task_id":"` + id + `","wait_seconds":50},`
			round := func(more string) map[string]any {
				a := s.other().modern("tools/call", "orch_result", args+more, able)
				result, _ := a.message["result"].(map[string]any)
				require.NotNil(t, result, a.body)
				return result
			}
			result := round("")
			requests, _ := result["inputRequests"].(map[string]any)
			require.Len(t, requests, 1)
			for key := range requests {
				result = round(`"requestState":` + string(raw(result["requestState"])) + `,"inputResponses":{"` + key + `":` + k.answer + `},`)
			}
			assert.Contains(t, string(raw(result)), `"state":"DONE"`)
		})
	}
}
