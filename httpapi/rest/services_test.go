package rest_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi/rest"
)

type fakeAgents struct{}

func (fakeAgents) Agents(context.Context, rest.AgentsRequest) (rest.AgentsReply, error) {
	return rest.AgentsReply{Agents: []rest.AgentView{{Name: "bot"}}}, nil
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

// serviceCalls returns a request for each route of the agents and the MCP servers.
func serviceCalls() []call {
	const get, post = http.MethodGet, http.MethodPost
	return []call{
		{get, "/agents", "", 200, 403, 403, 200},
		{get, "/mcp/servers", "", 200, 403, 403, 200},
		{get, "/mcp/servers/files/tools", "", 200, 403, 403, 200},
		{post, "/mcp/servers/files/accept", `{"tools":{"a":"1"}}`, 200, 403, 403, 403},
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
