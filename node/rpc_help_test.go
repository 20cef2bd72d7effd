package node_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
)

// The error for a mistyped method or input suggests the nearest one, but only among those that the caller may see.
func TestRPCSaysWhatWasMeant(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	r := e.call("github.readfile", object{})
	require.NotNil(t, r.Error)
	assert.Equal(t, fault.MethodNotFound.RPC(), r.Error.Code)
	assert.Equal(t, "did you mean github.readFile?", r.Error.Data["suggestion"])
	assert.Equal(t, "did you mean orch_result?", e.call("orch_results", object{}).Error.Data["suggestion"])
	assert.Contains(t, e.call("tools/call", object{}).Error.Data["suggestion"], "system.listSkills")
	for field, hint := range map[string]string{"taskId": "did you mean task_id?", "wait_second": "did you mean wait_seconds?", "zzz": "its inputs are field, offset, task_id, wait_seconds"} {
		r = e.call("orch_result", object{field: "TASK_x"})
		require.NotNil(t, r.Error, field)
		assert.Equal(t, field, r.Error.Data["field"])
		assert.Equal(t, hint, r.Error.Data["suggestion"])
	}
}

// The reason of an error is a name. The text for people is separate.
func TestRPCReasonsAreNames(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	r := e.call("test.hang", object{}, "Prefer", "wait=1")
	require.NotNil(t, r.Error)
	assert.Equal(t, "TIMEOUT", r.Error.Data["reason"])
	assert.Regexp(t, `^TASK_`, r.Error.Data["task"])
	r = e.call("test.asks", object{})
	require.NotNil(t, r.Error)
	assert.Equal(t, "APPROVAL_REQUIRED", r.Error.Data["reason"])
	assert.Regexp(t, `^APR_`, r.Error.Data["approval"])
}

// Whoever has registered an agent by a call that it did not wait for gets the secret with orch_result, once.
func TestRPCRevealsSecretsLater(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	notification := `{"jsonrpc":"2.0","method":"onboarding.registerAgent","params":{"agentInfo":{"name":"ada-1","type":"analyst","version":"1.0.0"},"capabilities":[{"name":"a","category":"b"}]}}`
	require.Equal(t, http.StatusNoContent, e.post(e.token, notification).Status)
	list := e.call("orch_list", object{})
	require.Nil(t, list.Error)
	tasks, _ := list.Result["tasks"].([]any)
	require.Len(t, tasks, 1)
	task, _ := tasks[0].(object)
	secret := func() string {
		r := e.call("orch_result", object{"task_id": task["id"], "wait_seconds": 50})
		require.Nil(t, r.Error)
		require.Equal(t, "DONE", r.Result["state"])
		output, _ := r.Result["output"].(object)
		result, _ := output["result"].(object)
		credentials, _ := result["credentials"].(object)
		text, _ := credentials["secret"].(string)
		return text
	}
	first := secret()
	assert.Regexp(t, `^orch_`, first)
	assert.False(t, strings.HasPrefix(secret(), "orch_"), "it is shown once")
	assert.Nil(t, e.post(first, `{"jsonrpc":"2.0","id":1,"method":"system.getAgents"}`).Error, "the credential is good")
}

// portable names have the same pages.
func TestRPCPagesOfPortableNames(t *testing.T) {
	t.Parallel()
	e := serveRPC(t, func(c *node.Config) { c.Faces.PortableNames, c.Faces.RPCWait = true, time.Minute })
	for _, method := range []string{"system.listSkills", "system_listSkills"} {
		r := e.call(method, object{"category": "git", "limit": 2, "offset": 2})
		require.Nil(t, r.Error, "%v", r.Error)
		pages, _ := r.Result["pagination"].(object)
		assert.EqualValues(t, 3, pages["totalPages"], method)
	}
}
