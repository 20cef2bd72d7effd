package builtin_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/builtin"
)

// S3-001: exactly these sixteen tools, those of the Sartor network, have a dot in their names.
func TestDottedNames(t *testing.T) {
	t.Parallel()
	var names []string
	for _, tool := range builtin.All(builtin.Config{}) {
		if name := tool.Spec().Name; strings.Contains(name, ".") {
			names = append(names, name)
		}
	}
	assert.ElementsMatch(t, []string{
		"firebase.read", "firebase.write", "firebase.subscribe", "firebase.unsubscribe",
		"github.readFile", "github.searchCode", "github.createIssue", "github.createPR", "github.getWorkflowRuns",
		"onboarding.getWelcome", "onboarding.registerAgent", "onboarding.getChecklist",
		"system.listSkills", "system.getAgents", "system.getTaskQueue", "system.getSystemStatus",
	}, names)
}

// S3-004: omitted inputs have their defaults before the tool is called.
func TestDefaultsOfDottedTools(t *testing.T) {
	t.Parallel()
	catalogue, err := tools.New(builtin.All(builtin.Config{})...)
	require.NoError(t, err)
	for name, tc := range map[string]struct{ given, filled string }{
		"firebase.read":          {`"database":"realtime","path":"a"`, `"shallow":false`},
		"firebase.write":         {`"database":"realtime","path":"a","data":1`, `"operation":"set","merge":false,"transaction":false`},
		"firebase.subscribe":     {`"subscriptionId":"s","database":"realtime","path":"a"`, `"eventType":"value","includeInitial":true`},
		"github.readFile":        {`"owner":"o","repo":"r","path":"f"`, `"ref":"main","encoding":"utf8"`},
		"github.searchCode":      {`"query":"q"`, `"sort":"best-match","perPage":30,"page":1`},
		"github.createPR":        {`"owner":"o","repo":"r","title":"t","head":"h","base":"b"`, `"draft":false,"maintainer_can_modify":true`},
		"github.getWorkflowRuns": {`"owner":"o","repo":"r"`, `"limit":30`},
		"onboarding.getWelcome":  {`"agentName":"n","role":"analyst"`, `"language":"en"`},
		"onboarding.registerAgent": {
			`"agentInfo":{"name":"ada","type":"analyst","version":"1.0.0"},"capabilities":[{"name":"a","category":"b"}]`, "",
		},
		"onboarding.getChecklist": {`"agentId":"a"`, `"includeCompleted":true`},
		"system.listSkills":       {"", `"includeDeprecated":false,"limit":100,"offset":0`},
		"system.getAgents":        {"", `"includeMetrics":false`},
		"system.getTaskQueue":     {"", `"includeAssigned":false,"limit":20`},
		"system.getSystemStatus":  {"", `"includeServices":true,"includeMetrics":true,"includeDependencies":false`},
	} {
		tool, ok := catalogue.Get(name)
		require.True(t, ok, name)
		checked, err := tool.Check(json.RawMessage("{" + tc.given + "}"))
		require.NoError(t, err, name)
		assert.JSONEq(t, "{"+strings.Trim(tc.given+","+tc.filled, ",")+"}", string(checked), name)
	}
	tool, _ := catalogue.Get("onboarding.registerAgent")
	checked, err := tool.Check(json.RawMessage(`{"agentInfo":{"name":"ada","type":"analyst","version":"1.0.0"},
		"capabilities":[{"name":"a","category":"b"}],"configuration":{"retryPolicy":{}}}`))
	require.NoError(t, err)
	var in struct{ Configuration json.RawMessage }
	require.NoError(t, json.Unmarshal(checked, &in))
	assert.JSONEq(t, `{"maxConcurrentTasks":5,"timeout":30000,"retryPolicy":{"maxRetries":3,"backoffMs":1000}}`, string(in.Configuration))
}
