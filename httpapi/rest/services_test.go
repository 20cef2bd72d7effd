package rest_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/bulk"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi/rest"
)

type fakeAgents struct{}

func (fakeAgents) Agents(context.Context, rest.AgentsRequest) (rest.AgentsReply, error) {
	return rest.AgentsReply{Agents: []rest.AgentView{{Name: "bot"}}}, nil
}

// fakeWork gives no calls. It records the last request.
type fakeWork struct{ api *fakeAPI }

func (f fakeWork) Work(_ context.Context, r rest.WorkRequest) (agents.Exchanged, error) {
	f.api.record("work", r)
	return agents.Exchanged{}, nil
}

// fakeServers has one server, files. It records the last acceptance.
type fakeServers struct{ api *fakeAPI }

func (fakeServers) Servers(context.Context, rest.ServersRequest) (rest.ServersReply, error) {
	return rest.ServersReply{Servers: []rest.ServerView{{Name: "files"}}}, nil
}

func (fakeServers) Tools(_ context.Context, r rest.ServerToolsRequest) (rest.ServerToolsReply, error) {
	if r.Server != "files" {
		return rest.ServerToolsReply{}, fault.New(fault.NotFound, "there is no such MCP server").WithField("server")
	}
	return rest.ServerToolsReply{Tools: []rest.ServerTool{}}, nil
}

func (f fakeServers) Accept(_ context.Context, r rest.AcceptRequest) (rest.ServerToolsReply, error) {
	f.api.record("mcp_accept", r)
	return rest.ServerToolsReply{Tools: []rest.ServerTool{}}, nil
}

// fakeBulk selects nothing. It records the last request.
type fakeBulk struct{ api *fakeAPI }

func (f fakeBulk) Bulk(_ context.Context, r rest.BulkRequest) (bulk.Report, error) {
	f.api.record("bulk", r)
	return bulk.Report{Items: []bulk.Item{}}, nil
}

func (f fakeBulk) Progress(_ context.Context, r rest.BulkProgressRequest) (rest.BulkProgress, error) {
	f.api.record("bulk_progress", r)
	return rest.BulkProgress{Count: 3, Tried: 1}, nil
}

// serviceCalls returns a request for each route of the agents, their work, the MCP servers and the acts on many tasks.
func serviceCalls() []call {
	const get, post = http.MethodGet, http.MethodPost
	return []call{
		{get, "/agents", "", 200, 403, 403, 200},
		{post, "/work", `{"instance":"a"}`, 403, 403, 200, 403},
		{get, "/mcp/servers", "", 200, 403, 403, 200},
		{get, "/mcp/servers/files/tools", "", 200, 403, 403, 200},
		{post, "/mcp/servers/files/accept", `{"tools":{"a":"1"}}`, 200, 403, 403, 403},
		{post, "/tasks:bulk", `{"act":"cancel","where":{"dead":true},"dry_run":true}`, 200, 403, 403, 403},
		{get, "/tasks:bulk?idempotency_key=k", "", 200, 403, 403, 403},
	}
}

func TestAcceptance(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	many := make([]string, 1001)
	for i := range many {
		many[i] = `"t` + strconv.Itoa(i) + `":"1"`
	}
	for _, c := range []struct{ name, body, code, field string }{
		{"nothing", `{}`, "REQUIRED_FIELD", "tools"},
		{"no tools", `{"tools":{}}`, "REQUIRED_FIELD", "tools"},
		{"no digest", `{"tools":{"a":""}}`, "REQUIRED_FIELD", "tools.a"},
		{"too many", `{"tools":{` + strings.Join(many, ",") + `}}`, "VALIDATION_ERROR", "tools"},
		{"an actor", `{"tools":{"a":"1"},"actor":"user:eve"}`, "VALIDATION_ERROR", "actor"},
		{"a server in the body", `{"tools":{"a":"1"},"server":"other"}`, "VALIDATION_ERROR", "server"},
	} {
		got := s.as(rest.Operator, http.MethodPost, "/mcp/servers/files/accept", c.body)
		code, field := got.problem(t)
		assert.Equal(t, []any{400, c.code, c.field}, []any{got.Status, code, field}, c.name)
	}
	assert.Nil(t, s.api.last("mcp_accept"))
	assert.Equal(t, 200, s.as(rest.Operator, http.MethodPost, "/mcp/servers/files/accept", `{"tools":{"a":"1"}}`).Status)
	assert.Equal(t, rest.AcceptRequest{Server: "files", Tools: map[string]string{"a": "1"}, Actor: "user:ada"}, s.api.last("mcp_accept"))
	assert.Equal(t, 404, s.as(rest.Viewer, http.MethodGet, "/mcp/servers/none/tools", "").Status)
	s.clients.sees = func(string) bool { return true }
	assert.Equal(t, 403, s.as(rest.Operator, http.MethodPost, "/mcp/servers/files/accept", `{"tools":{"a":"1"}}`).Status, "a narrowed token accepts nothing")
}

// A request for work is made by the identity of its token, and has no field that the protocol does not have.
func TestWork(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, c := range []struct{ name, body, code, field string }{
		{"an unknown field", `{"instance":"a","free":1}`, "VALIDATION_ERROR", "free"},
		{"an actor", `{"instance":"a","actor":"agent:eve"}`, "VALIDATION_ERROR", "actor"},
		{"an unknown field of a report", `{"instance":"a","done":[{},{"results":1}]}`, "VALIDATION_ERROR", "done.1.results"},
		{"an unknown field of a call", `{"instance":"a","running":[{"tool":"X"}]}`, "VALIDATION_ERROR", "running.0.tool"},
		{"a list of another kind", `{"instance":"a","done":{}}`, "VALIDATION_ERROR", "done"},
		{"an attempt of another kind", `{"instance":"a","done":[{"attempt":"1"}]}`, "VALIDATION_ERROR", "done.attempt"},
		{"a number of another kind", `{"instance":"a","take":"8"}`, "VALIDATION_ERROR", "take"},
	} {
		got := s.as(rest.Agent, http.MethodPost, "/work", c.body)
		code, field := got.problem(t)
		assert.Equal(t, []any{400, c.code, c.field}, []any{got.Status, code, field}, c.name)
	}
	assert.Nil(t, s.api.last("work"))
	got := s.as(rest.Agent, http.MethodPost, "/work", `{"instance":"a","take":2,"wait":1000000000}`)
	assert.Equal(t, []any{200, "{}\n"}, []any{got.Status, got.Body})
	assert.Equal(t, rest.WorkRequest{Exchange: agents.Exchange{Instance: "a", Take: 2, Wait: time.Second}, Actor: "agent:bot"}, s.api.last("work"))
}

func TestBulk(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, c := range []struct{ name, body, code, field string }{
		{"nothing", `{}`, "REQUIRED_FIELD", "set"},
		{"no act", `{"dry_run":true}`, "REQUIRED_FIELD", "act"},
		{"an unknown act", `{"dry_run":true,"act":"kill","where":{"dead":true}}`, "VALIDATION_ERROR", "act"},
		{"no filter", `{"dry_run":true,"act":"cancel"}`, "REQUIRED_FIELD", "where"},
		{"an empty filter", `{"dry_run":true,"act":"cancel","where":{}}`, "REQUIRED_FIELD", "where"},
		{"an unknown filter", `{"dry_run":true,"act":"cancel","where":{"lables":{"a":"b"}}}`, "VALIDATION_ERROR", "where.lables"},
		{"an unknown state", `{"dry_run":true,"act":"cancel","where":{"states":["RUNNING"]}}`, "VALIDATION_ERROR", "where.states"},
		{"no set", `{"act":"cancel","where":{"dead":true}}`, "REQUIRED_FIELD", "set"},
		{"too many", `{"dry_run":true,"act":"cancel","where":{"dead":true},"max":10001}`, "VALIDATION_ERROR", "max"},
		{"an actor", `{"dry_run":true,"act":"cancel","where":{"dead":true},"actor":"user:eve"}`, "VALIDATION_ERROR", "actor"},
		{"a long key", `{"set":"","act":"cancel","where":{"dead":true},"idempotency_key":"` + strings.Repeat("k", 257) + `"}`, "VALIDATION_ERROR", "idempotency_key"},
	} {
		got := s.as(rest.Operator, http.MethodPost, "/tasks:bulk", c.body)
		code, field := got.problem(t)
		assert.Equal(t, []any{400, c.code, c.field}, []any{got.Status, code, field}, c.name)
	}
	got := s.as(rest.Operator, http.MethodPost, "/tasks:bulk", `{"set":"","act":"cancel","where":{"dead":true}}`, "Idempotency-Key", "k")
	assert.Equal(t, 200, got.Status, got.Body)
	r, ok := s.api.last("bulk").(rest.BulkRequest)
	assert.True(t, ok)
	assert.Equal(t, "k", r.IdempotencyKey)
	assert.Equal(t, "user:ada", r.Actor)
	assert.NotNil(t, r.Set)
}
