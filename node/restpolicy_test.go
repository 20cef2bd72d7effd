package node_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/httpapi/rest"
	"github.com/orch-dev/orch/node"
)

const nodeRules = `version: 1
rules:
  - name: no-keys
    action: deny
    reason: not the key AKIAIOSFODNN7EXAMPLX
    paths: ["*.pem"]
`

// decode decodes an answer with status 200.
func decode[T any](t *testing.T, status int, answer string) T {
	t.Helper()
	require.Equal(t, http.StatusOK, status, answer)
	var out T
	require.NoError(t, json.Unmarshal([]byte(answer), &out))
	return out
}

// The policy of a node is shown without secrets, explains calls, and is compared with another one. Nothing happens meanwhile.
func TestPolicyOverHTTP(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(file, []byte(nodeRules), 0o600))
	e := serveRPC(t, func(c *node.Config) { c.Confinement.Policy = file })
	viewer := e.issue(bus.NewToken{Name: "vic", Role: bus.RoleViewer})

	status, answer, _ := e.request("GET", "/api/v1/policy", viewer, "")
	view := decode[rest.PolicyView](t, status, answer)
	assert.NotContains(t, answer, "AKIAIOSFODNN7EXAMPLX")
	assert.Contains(t, view.Text, "- name: no-keys\n")
	assert.Equal(t, []any{file, "allow", false}, []any{view.File, view.Default, view.Changed})
	require.Len(t, view.Rules, 1)
	assert.Equal(t, []any{"no-keys", 3, map[string][]string{"paths": {"*.pem"}}}, []any{view.Rules[0].Name, view.Rules[0].Line, view.Rules[0].Criteria})
	assert.Contains(t, view.Tools, "FILE_READ")
	require.NoError(t, os.WriteFile(file, []byte("version: 1\n"), 0o600))
	status, answer, _ = e.request("GET", "/api/v1/policy", viewer, "")
	assert.True(t, decode[rest.PolicyView](t, status, answer).Changed)

	status, answer, _ = e.request("POST", "/api/v1/policy/explain", viewer, `{"tool":"FILE_READ","args":{"file_path":"a.pem"},"agent":"agent:bot"}`)
	explained := decode[rest.ExplainedCall](t, status, answer)
	assert.Equal(t, []any{"deny", "no-keys", "POLICY_DENIED"}, []any{explained.Action, explained.File.Rule, explained.Refused.Reason})
	assert.NotContains(t, answer, "AKIAIOSFODNN7EXAMPLX")
	status, answer, _ = e.request("POST", "/api/v1/policy/explain", viewer, `{"tool":"FILE_WRITE","args":{"file_path":"a","content":"x"},"agent":"agent:bot"}`)
	explained = decode[rest.ExplainedCall](t, status, answer)
	assert.Equal(t, []any{"ask", "outside_workspace", "idempotent"}, []any{explained.Action, explained.Approval.Rule, explained.Effect})

	status, _, h := e.request("POST", "/api/v1/tasks", e.token, helloPlan)
	require.Equal(t, http.StatusCreated, status)
	task := h.Get("Location")
	_, answer, _ = e.request("GET", task+"/result?wait=30s", e.token, "")
	require.Contains(t, answer, `"state":"DONE"`)
	body := func(policy string, more string) string {
		text, err := json.Marshal(policy)
		require.NoError(t, err)
		return `{"policy":` + string(text) + more + `}`
	}
	const noLog = "version: 1\nrules: [{name: no-log, action: deny, tools: [LOG_*]}]\n"
	status, answer, _ = e.request("POST", "/api/v1/policy/backtest", viewer, body(noLog, ""))
	report := decode[rest.BacktestReport](t, status, answer)
	assert.Equal(t, []rest.VerdictChange{{From: "allow", To: "deny", Calls: 1}}, report.Changes)
	require.Len(t, report.Changed, 1)
	assert.Equal(t, []string{task, "no-log"}, []string{"/api/v1/tasks/" + string(report.Changed[0].Task), report.Changed[0].After.Rule})
	for _, c := range []struct {
		more  string
		calls int
	}{
		{`,"tool":"LOG_*"`, 1},
		{`,"tool":"FILE_*"`, 0},
		{`,"states":["FAILED"]`, 0},
		{`,"labels":{"team":"core"}`, 0},
		{`,"until":"2020-01-01T00:00:00Z"`, 0},
		{`,"task":"` + strings.TrimPrefix(task, "/api/v1/tasks/") + `"`, 1},
	} {
		status, answer, _ = e.request("POST", "/api/v1/policy/backtest", viewer, body(noLog, c.more))
		assert.Equal(t, c.calls, decode[rest.BacktestReport](t, status, answer).Calls, c.more)
	}
	for policy, field := range map[string]string{
		"version: 2\n": "policy.yaml:1:10",
		"version: 1\nrules:\n  - {name: a, action: deny, tools: [LOG_*], examples: {match: [{tool: FILE_READ, args: {file_path: a}}]}}\n": "policy.yaml:3:",
	} {
		status, answer, _ = e.request("POST", "/api/v1/policy/backtest", viewer, body(policy, ""))
		assert.Equal(t, http.StatusBadRequest, status)
		assert.Contains(t, answer, field)
	}
}

// A node without a policy file says that none is in effect.
func TestNoPolicyOverHTTP(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	status, answer, _ := e.request("GET", "/api/v1/policy", e.token, "")
	view := decode[rest.PolicyView](t, status, answer)
	assert.Equal(t, []any{"", "", "allow", 0}, []any{view.File, view.Text, view.Default, len(view.Rules)})
}
