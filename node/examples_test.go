package node_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/node"
)

// timed checks the timestamp of an object, in RFC 3339 and UTC (S3-005), and takes it away.
func timed(t *testing.T, from object) object {
	t.Helper()
	text, _ := from["timestamp"].(string)
	at, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	assert.True(t, strings.HasSuffix(text, "Z"), text)
	assert.WithinDuration(t, time.Now(), at, time.Hour)
	delete(from, "timestamp")
	return from
}

// S3-006: the request of the specification for a document gets the response of the specification.
func TestRPCExampleOfReading(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	agent := object{"id": "agent-001", "name": "Research Agent", "status": "active", "capabilities": []any{"research", "analysis"}}
	require.Nil(t, e.call("firebase.write", object{"database": "firestore", "path": "agents/agent-001", "data": agent}).Error)
	r := e.post(e.token, `{"jsonrpc": "2.0", "id": "1", "method": "firebase.read",
		"params": {"database": "firestore", "path": "agents/agent-001", "query": {"limit": 10}}}`)
	require.Nil(t, r.Error, "%v", r.Error)
	assert.JSONEq(t, `"1"`, string(r.ID))
	about, _ := r.Result["metadata"].(object)
	timed(t, about)
	assert.Equal(t, object{"success": true, "data": agent, "metadata": object{"path": "agents/agent-001", "count": 1.0}}, r.Result)
}

// S3-006, S3-031: the request of the specification for a push gets its response, and what was pushed is there.
func TestRPCExampleOfWriting(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	r := e.post(e.token, `{"jsonrpc": "2.0", "id": "2", "method": "firebase.write", "params": {
		"database": "firestore", "path": "messages/conversations/conv-123", "operation": "push", "data": {
			"from": "agent-001", "to": "agent-002", "message": "Task completed successfully", "timestamp": "2025-11-03T10:35:00Z"}}}`)
	require.Nil(t, r.Error, "%v", r.Error)
	assert.JSONEq(t, `"2"`, string(r.ID))
	key, _ := r.Result["key"].(string)
	assert.NotEmpty(t, key)
	about, _ := r.Result["metadata"].(object)
	timed(t, about)
	assert.Equal(t, object{
		"success": true, "key": key, "metadata": object{"path": "messages/conversations/conv-123", "operation": "push"},
	}, r.Result)
	r = e.call("firebase.read", object{"database": "firestore", "path": "messages/conversations/conv-123/" + key})
	require.Nil(t, r.Error, "%v", r.Error)
	assert.Equal(t, object{
		"from": "agent-001", "to": "agent-002", "message": "Task completed successfully", "timestamp": "2025-11-03T10:35:00Z",
	}, r.Result["data"])
}

// subscribing are the params of the specification for a subscription.
const subscribing = `{"subscriptionId": "sub-tasks-001", "database": "realtime", "path": "tasks/queue", "eventType": "child_added", "includeInitial": false}`

// S3-006, S3-042, A-02: the example of a subscription in a session of MCP, which hears the notification of the
// specification; /rpc has no sessions, and says what to do.
func TestExampleOfSubscribing(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	r := e.post(e.token, `{"jsonrpc": "2.0", "id": "3", "method": "firebase.subscribe", "params": `+subscribing+`}`)
	require.NotNil(t, r.Error)
	assert.Equal(t, fault.ValidationError.RPC(), r.Error.Code)
	assert.Equal(t, "NO_SESSION", r.Error.Data["reason"])
	assert.Contains(t, r.Error.Data["suggestion"], "session")

	face, err := server.New(server.Config{API: e.API(), Catalogue: catalogueOf(t), Stores: server.Stores{Subscriptions: node.NewSubscriptions(e.Node)}})
	require.NoError(t, err)
	t.Cleanup(face.Close)
	c := newCaller(t, face)
	c.say(strings.ReplaceAll(opening, "\n", " "))
	c.hear()
	c.call(3, "firebase.subscribe", subscribing)
	var answer struct {
		Result struct{ StructuredContent object }
	}
	require.NoError(t, json.Unmarshal([]byte(c.hear()), &answer))
	assert.Equal(t, object{"success": true, "subscriptionId": "sub-tasks-001"}, answer.Result.StructuredContent)
	task := object{"id": "task-456", "type": "analysis", "priority": "high"}
	require.Nil(t, e.call("firebase.write", object{"database": "realtime", "path": "tasks/queue/task-456", "data": task}).Error)
	var told object
	require.NoError(t, json.Unmarshal([]byte(c.hear()), &told))
	params, ok := told["params"].(object)
	require.True(t, ok, fmt.Sprint(told))
	timed(t, params)
	assert.Equal(t, object{"jsonrpc": "2.0", "method": "firebase.event", "params": object{
		"subscriptionId": "sub-tasks-001", "eventType": "child_added", "data": task, "key": "task-456",
	}}, told)
}
