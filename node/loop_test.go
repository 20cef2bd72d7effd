package node_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/node"
)

// A destination that delivers to a hook of its own node, whose tasks have events for the destination, ends by itself.
func TestLoopOfADestinationAndAHook(t *testing.T) {
	t.Parallel()
	e := serveRPC(t, func(c *node.Config) { c.Tools.NetAllow = []string{"127.0.0.1"} })
	e.putHook("loop", `{"provider":"standard","plan":{"orch":"v1","name":"again","steps":[{"id":"a","set":{"n":1}}]}}`, hookSecret)
	status, answer, _ := e.request(http.MethodPost, "/api/v1/destinations", e.token,
		`{"name":"loop","definition":{"url":"`+e.site("/hooks/loop")+`","events":["task.completed"]},"secret":"`+hookSecret+`"}`)
	require.Equal(t, http.StatusOK, status, answer)
	run(t, e.API(), "orch: v1\nname: first\nsteps: [{id: a, set: {n: 1}}]\n")
	require.Eventually(t, func() bool {
		_, answer, _ = e.request(http.MethodGet, "/api/v1/hooks/loop/deliveries", e.token, "")
		return strings.Contains(answer, `"result":"refused"`)
	}, time.Minute, 50*time.Millisecond)
	assert.Contains(t, answer, "the delivery has come through 9 destinations and hooks, the limit is 8")
	_, answer, _ = e.request(http.MethodGet, "/api/v1/tasks?label=hook=loop", e.token, "")
	assert.Equal(t, 8, strings.Count(answer, `"id":"TASK_`))
	require.Eventually(t, func() bool {
		_, answer, _ = e.request(http.MethodGet, "/api/v1/destinations/loop?deliveries=10", e.token, "")
		return strings.Contains(answer, "the receiver answered 422")
	}, time.Minute, 50*time.Millisecond, "%s", answer)
	_, answer, _ = e.request(http.MethodGet, "/api/v1/tasks/@last", e.token, "")
	assert.NotContains(t, answer, `"hops"`, "the task of a person")
}
