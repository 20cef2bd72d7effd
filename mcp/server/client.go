package server

import (
	"context"
	"encoding/json"
	"reflect"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/events"
)

// The names that the protocol gives to things (seed 002 and the tasks extension of 2026-07-28).
const (
	tasksExtension = "io.modelcontextprotocol/tasks"
	relatedTask    = "io.modelcontextprotocol/related-task"
	statelessFrom  = "2026-07-28"
	lastOfSessions = "2025-11-25"
	// metaTask names the task in which a tool is to be called, metaError holds the whole error of a call (M-4).
	metaTask  = "orch/taskId"
	metaError = "orch/error"
	// metaCall names the call that an agent holds and asks for something for, as headerCall does over HTTP.
	metaCall   = "orch/call"
	headerCall = "Orch-Call"
)

// Headers of this process: the router of versions and the stdio reader note in them what the SDK's decoding of a request drops.
// Those that come from outside are taken away first.
const (
	notePrefix = "Orch-Note-"
	noteTask   = notePrefix + "Task"
	noteID     = notePrefix + "Id"
	noteHTTP   = notePrefix + "Http"
	noteReply  = notePrefix + "Reply"
	noteRoom   = notePrefix + "Room"
	// noteProfile is the profile that the URL of a request names.
	noteProfile = notePrefix + "Profile"
	// noteStream is the key of the stream that answers a request.
	noteStream = notePrefix + "Stream"
)

// client is what a request says about who sent it and what it understands.
type client struct {
	who     Identity
	session *mcp.ServerSession
	// modern is true for 2026-07-28 and later, older for what came before the tasks of 2025-11-25.
	modern, older bool
	caps          *mcp.ClientCapabilities
	// roots is true when the client says where it works.
	roots bool
	// task is set when the caller of 2025-11-25 wants a task.
	task *taskRequest
	// badTask is true when that is none.
	badTask bool
	// level is true when a request of 2026-07-28 asks for log entries.
	level bool
	// program is the name of the client's program, sessionName how it names its session, if it does.
	program, sessionName string
	// call is the call of an agent that the request is for, as text; empty when the request names none.
	call string
	// cause is the id of the request, for the log; empty when it has none.
	cause string
	// note returns what was noted on the request (notePrefix).
	note func(string) string
	// sessionless is true for clients of another face, which have no session; listener hears what follows from their call.
	sessionless bool
	listener    *Listener
	// reservation bounds the memory of the answer, nil for none.
	reservation *reservation
}

// taskRequest is the `task` parameter of 2025-11-25.
type taskRequest struct {
	// TTL is in milliseconds; nil leaves it to the server.
	TTL *float64 `json:"ttl"`
}

// readMeta takes over what the request itself says of its version and capabilities: over stdio one connection
// carries requests of both generations.
func (c *client) readMeta(req mcp.Request) {
	p := req.GetParams()
	if p == nil || reflect.ValueOf(p).IsNil() { // params that are not there are a nil pointer
		return
	}
	meta := p.GetMeta()
	c.readSession(meta)
	if call, ok := meta[metaCall].(string); ok {
		c.call = call
	}
	version, ok := meta[mcp.MetaKeyProtocolVersion].(string)
	if !ok || version < statelessFrom {
		return
	}
	c.modern = true
	c.level = meta[mcp.MetaKeyLogLevel] != nil
	caps := &mcp.ClientCapabilities{}
	if raw := mustJSON(meta[mcp.MetaKeyClientCapabilities]); json.Unmarshal(raw, caps) == nil {
		var declared map[string]any
		decode(raw, &declared)
		c.caps, c.roots = caps, declared["roots"] != nil
	}
}

// knowsTasks reports whether the client of 2026-07-28 can be given a task.
func (c *client) knowsTasks() bool {
	_, ok := c.caps.Extensions[tasksExtension]
	return c.modern && ok
}

// showsForms reports whether the client can show forms to its user.
func (c *client) showsForms() bool {
	e := c.caps.Elicitation
	return e != nil && (e.Form != nil || e.URL == nil)
}

// questionKinds are the kinds of questions that the client answers while a call runs.
func (c *client) questionKinds() []string {
	var kinds []string
	if c.caps.Elicitation != nil {
		kinds = append(kinds, events.Elicitation)
	}
	if c.caps.Sampling != nil {
		kinds = append(kinds, events.Sampling)
	}
	if c.roots {
		kinds = append(kinds, events.Roots)
	}
	return kinds
}

// ttl is how long the client sees the task it asks for.
func (w *taskRequest) ttl(usual, most time.Duration) time.Duration {
	if w == nil || w.TTL == nil || *w.TTL <= 0 {
		return usual
	}
	if *w.TTL > float64(most.Milliseconds()) {
		return most
	}
	return time.Duration(*w.TTL) * time.Millisecond
}

// clientKey finds the client of a request in its context.
type clientKey struct{}

func clientFrom(ctx context.Context) client {
	if c, ok := ctx.Value(clientKey{}).(*client); ok {
		return *c
	}
	return client{note: func(string) string { return "" }, caps: &mcp.ClientCapabilities{}}
}
