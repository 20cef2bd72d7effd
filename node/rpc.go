package node

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/httpapi"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/tools"
)

// rpc returns the HTTP handler for /rpc. It uses the same authentication as MCP.
func (fa *face) rpc(face *server.Server) (http.Handler, error) {
	return httpapi.New(httpapi.Config{Authenticator: rpcAuthenticator{face}, Redact: fa.executor.policy.Redact, Wait: fa.cfg.Faces.RPCWait, Logger: fa.cfg.logger()})
}

// rpcAuthenticator authenticates clients of /rpc with the MCP server.
type rpcAuthenticator struct{ face *server.Server }

// Authenticate implements httpapi.Authenticator.
func (d rpcAuthenticator) Authenticate(ctx context.Context, token string) (httpapi.Client, error) {
	b, err := d.face.ToolCaller(ctx, token)
	if err != nil {
		return nil, err
	}
	return rpcClient{b}, nil
}

// CheckOrigin implements httpapi.Authenticator.
func (d rpcAuthenticator) CheckOrigin(next http.Handler) http.Handler {
	return d.face.CheckOrigin(next)
}

// rpcClient is a client of /rpc.
type rpcClient struct{ *server.ToolCaller }

// Call implements httpapi.Client.
func (b rpcClient) Call(ctx context.Context, c httpapi.Call) (httpapi.Reply, error) {
	reply, err := b.ToolCaller.Call(ctx, server.ToolCall{Tool: c.Tool, Args: c.Args, Cause: c.Request, Wait: c.Wait, For: c.For})
	return replyOf(reply), err
}

// Listen implements httpapi.Client.
func (b rpcClient) Listen(ctx context.Context, c httpapi.Call) (httpapi.Reply, httpapi.Listener, error) {
	reply, listener, err := b.ToolCaller.Listen(ctx, server.ToolCall{Tool: c.Tool, Args: c.Args, Cause: c.Request, Wait: c.Wait, For: c.For})
	if err != nil {
		return replyOf(reply), nil, err
	}
	return replyOf(reply), listener, nil
}

// replyOf converts the reply of a tool for /rpc.
func replyOf(r server.ToolReply) httpapi.Reply {
	return httpapi.Reply{Output: r.Output, Task: r.Task, Approval: r.Approval, Rule: r.Rule, Question: r.Question, Method: r.Tool}
}

// unlogged calls a tool without a task, so the log does not record the call. It is for tools that only read the state of this
// process and need no worker.
func (fa *face) unlogged(ctx context.Context, tool tools.Tool, args json.RawMessage) (json.RawMessage, error) {
	return tool.Call(ctx, fa.unloggedEnv(), args)
}

// direct calls a tool without a task, on behalf of the identity who.
func (fa *face) direct(ctx context.Context, who server.Identity, tool tools.Tool, args json.RawMessage) (json.RawMessage, error) {
	env := fa.unloggedEnv()
	env.Requester, env.Agent = who.Name, who.Agent
	return tool.Call(ctx, env, args)
}

// unloggedEnv returns the environment for a call without a task.
func (fa *face) unloggedEnv() *tools.Env {
	return &tools.Env{
		Root: fa.executor.root, Log: fa.cfg.logger(), Now: time.Now,
		Progress: func(float64, float64, string) {}, Record: func(events.Kind, events.Payload) {}, Spawn: func(tools.Spawn) {},
	}
}
