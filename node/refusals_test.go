package node_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/audit"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/node"
)

// refusedCall is a refused call in the audit stream.
type refusedCall struct {
	audit.View

	Args, SHA256 string
}

// refusalsOf stops a node, so that it records what it has counted, starts another one and returns the refusals and the text of
// all entries.
func refusalsOf(t *testing.T, cfg node.Config, n *node.Node) (all []refusedCall, text string) {
	t.Helper()
	require.NoError(t, n.Stop(t.Context()))
	again := start(t, cfg)
	for _, a := range actsOf(t, again.API(), audit.Filter{Outcome: []audit.Outcome{audit.Refused}}) {
		all = append(all, refusedCall{a, a.Params["args"], a.Params["args_digest"]})
	}
	return all, entriesText(t, again.API())
}

// refusalOf returns the record of an identity, a tool and a code.
func refusalOf(t *testing.T, all []refusedCall, by, tool, code string) refusedCall {
	t.Helper()
	for _, r := range all {
		if r.Actor == by && r.Target == tool && string(r.Error.Code) == code {
			return r
		}
	}
	require.Fail(t, "not noted", "%s %s %s in %+v", by, tool, code, all)
	return refusedCall{}
}

// Whatever the reason of a refusal, and on every face, the log records who tried what.
func TestRefusedCallsAreNoted(t *testing.T) {
	t.Parallel()
	const secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
	var cfg node.Config
	e := serveRPC(t, func(c *node.Config) { cfg = *c })
	me := person(t)
	remote, err := node.Dial(t.Context(), cfg)
	require.NoError(t, err)
	defer func() { assert.NoError(t, remote.Close()) }()
	over := func(tool string, args object) { require.NotNil(t, e.call(tool, args).Error, tool) }

	over("test.fail", object{"count": 0, "code": "${{ inputs.x }}"}) // schema
	over("FILE_READ", object{"file_path": 7})
	over("no.such.tool", object{"probe": true})
	over("orch_submit", object{"actor": "user:nobody"})
	over("FILE_WRITE", object{"file_path": "a", "content": secret})
	e.token = e.issue(bus.NewToken{Name: "eye", Role: bus.RoleViewer})
	over("test.fail", object{"count": 3})
	id := submit(t, e.API(), "orch: v1\nsteps: [{id: a, wait: {signal: go}}]\n")
	call := func(tool, args string) {
		_, err := remote.Call(t.Context(), api.CallRequest{ID: id, Tool: tool, Args: json.RawMessage(args), Wait: time.Minute})
		require.Error(t, err, tool)
	}
	call("FILE_READ", `{"file_path":8}`)
	call("NOTHING", `{"x":1}`)
	call("LOG_WRITE", `{"level":"INFO","message":"`+secret+`"}`)
	_, err = remote.Submit(t.Context(), api.SubmitRequest{Plan: json.RawMessage(`{"orch":"v1","steps":[{"id":"a","tool":"NOTHING","with":{"y":1}}]}`)})
	require.Error(t, err)

	all, text := refusalsOf(t, cfg, e.Node)
	schema := refusalOf(t, all, "user:op", "test.fail", "VALIDATION_ERROR")
	assert.Equal(t, "count", schema.Error.Field)
	assert.JSONEq(t, `{"count":0,"code":"${{ inputs.x }}"}`, schema.Args, "an expression stands there as it was sent")
	refusalOf(t, all, "user:op", "FILE_READ", "VALIDATION_ERROR")
	assert.JSONEq(t, `{"probe":true}`, refusalOf(t, all, "user:op", "no.such.tool", "METHOD_NOT_FOUND").Args)
	refusalOf(t, all, "user:eye", "test.fail", "FORBIDDEN")
	inside := refusalOf(t, all, me, "FILE_READ", "VALIDATION_ERROR")
	assert.Equal(t, string(id), inside.Params["task"])
	assert.JSONEq(t, `{"file_path":8}`, inside.Args)
	refusalOf(t, all, me, "NOTHING", "NOT_FOUND")
	for _, hidden := range []refusedCall{refusalOf(t, all, "user:op", "FILE_WRITE", "SECRET_DETECTED"), refusalOf(t, all, me, "LOG_WRITE", "SECRET_DETECTED")} {
		assert.Empty(t, hidden.Args)
		assert.Len(t, hidden.SHA256, len("sha256:")+64)
	}
	assert.NotContains(t, text, secret)
	refusalOf(t, all, me, "NOTHING", "INVALID_PLAN")
}

// A flood of refusals is counted and does not fill the log. For one identity, a few kinds are recorded separately, and the rest
// as one number.
func TestRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	n := start(t, cfg)
	remote, err := node.Dial(t.Context(), cfg)
	require.NoError(t, err)
	defer func() { assert.NoError(t, remote.Close()) }()
	id := submit(t, n.API(), "orch: v1\nsteps: [{id: a, wait: {signal: go}}]\n")
	const kinds, each = 40, 5
	long := strings.Repeat("x", 100<<10)
	for i := range kinds * each {
		_, err := remote.Call(t.Context(), api.CallRequest{ID: id, Tool: fmt.Sprintf("PROBE_%d", i%kinds), Args: json.RawMessage(`{"a":"` + long + `"}`)})
		require.Error(t, err)
	}
	all, text := refusalsOf(t, cfg, n)
	count, seen := 0, map[string]bool{}
	for _, r := range all {
		count += max(r.Count, 1)
		seen[r.Name] = true
		assert.LessOrEqual(t, len(r.Args), 600)
	}
	assert.Equal(t, kinds*each, count, "none is lost")
	assert.True(t, seen["*"], "the rest is counted together")
	assert.LessOrEqual(t, len(all), 2*11, "the first of each kind, and their counts")
	assert.Less(t, len(text), 100<<10)
}
