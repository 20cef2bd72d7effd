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

// rpc is the /rpc endpoint, behind the same door as the MCP face.
func (n *Node) rpc(face *server.Server) (http.Handler, error) {
	return httpapi.New(httpapi.Config{Door: door{face}, Redact: n.hands.policy.Redact, Wait: n.cfg.RPCWait, Logger: n.cfg.logger()})
}

// door lets clients of /rpc in as the MCP face does.
type door struct{ face *server.Server }

// Enter implements httpapi.Door.
func (d door) Enter(ctx context.Context, token string) (httpapi.Client, error) {
	b, err := d.face.Bare(ctx, token)
	if err != nil {
		return nil, err
	}
	return bare{b}, nil
}

// FromHere implements httpapi.Door.
func (d door) FromHere(next http.Handler) http.Handler { return d.face.FromHere(next) }

// bare is a client of /rpc.
type bare struct{ *server.Bare }

// Call implements httpapi.Client.
func (b bare) Call(ctx context.Context, c httpapi.Call) (httpapi.Reply, error) {
	reply, err := b.Bare.Call(ctx, server.BareCall{Tool: c.Tool, Args: c.Args, Cause: c.Request, Wait: c.Wait})
	return replyOf(reply), err
}

// Listen implements httpapi.Client.
func (b bare) Listen(ctx context.Context, c httpapi.Call) (httpapi.Reply, httpapi.Listener, error) {
	reply, listener, err := b.Bare.Listen(ctx, server.BareCall{Tool: c.Tool, Args: c.Args, Cause: c.Request, Wait: c.Wait})
	if err != nil {
		return replyOf(reply), nil, err
	}
	return replyOf(reply), listener, nil
}

// replyOf is what /rpc hears of a call, whether it listens or not.
func replyOf(r server.BareReply) httpapi.Reply {
	return httpapi.Reply{Output: r.Output, Task: r.Task, Approval: r.Approval, Question: r.Question, Method: r.Tool}
}

// unlogged calls a tool outside of the log: it only reads this process, so no worker is needed for it.
func (n *Node) unlogged(ctx context.Context, tool tools.Tool, args json.RawMessage) (json.RawMessage, error) {
	return tool.Call(ctx, n.plainEnv(), args)
}

// direct calls a tool for an identity that speaks for itself.
func (n *Node) direct(ctx context.Context, who server.Identity, tool tools.Tool, args json.RawMessage) (json.RawMessage, error) {
	env := n.plainEnv()
	env.Requester, env.Agent = who.Name, who.Agent
	return tool.Call(ctx, env, args)
}

// plainEnv is what a call outside of the log may use.
func (n *Node) plainEnv() *tools.Env {
	return &tools.Env{
		Root: n.hands.root, Log: n.cfg.logger(), Now: time.Now,
		Progress: func(float64, float64, string) {}, Record: func(events.Kind, events.Payload) {}, Spawn: func(tools.Spawn) {},
	}
}
