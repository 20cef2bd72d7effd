package server

import (
	"context"
	"encoding/json"
	"reflect"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/events"
)

// Names that the protocol defines (S2 rules and the tasks extension of 2026-07-28).
const (
	tasksExtension = "io.modelcontextprotocol/tasks"
	relatedTask    = "io.modelcontextprotocol/related-task"
	statelessFrom  = "2026-07-28"
	lastOfSessions = "2025-11-25"
	// metaTask names the task in which a tool is to be called, metaError is the whole error of a call (M-4).
	metaTask  = "orch/taskId"
	metaError = "orch/error"
	// metaCall identifies the call that an agent works on and sends this request for, as headerCall does over HTTP.
	metaCall   = "orch/call"
	headerCall = "Orch-Call"
)

// Internal headers: the version router and the stdio reader record in them the fields that the SDK drops when it decodes a request.
// They are first removed from requests from outside.
const (
	notePrefix = "Orch-Note-"
	noteTask   = notePrefix + "Task"
	noteID     = notePrefix + "Id"
	noteHTTP   = notePrefix + "Http"
	noteReply  = notePrefix + "Reply"
	noteRoom   = notePrefix + "Room"
	// noteProfile is the profile in the URL of a request.
	noteProfile = notePrefix + "Profile"
	// noteStream is the key of the stream that answers a request.
	noteStream = notePrefix + "Stream"
)

// client is the sender of a request, and what it supports.
type client struct {
	who     Identity
	session *mcp.ServerSession
	// modern is set for 2026-07-28 and later, older for versions before the tasks of 2025-11-25.
	modern, older bool
	caps          *mcp.ClientCapabilities
	// roots is set if the client offers its roots.
	roots bool
	// task is set if a caller of 2025-11-25 wants a task.
	task *taskRequest
	// badTask is set if that parameter is malformed.
	badTask bool
	// level is set if a request of 2026-07-28 asks for log entries.
	level bool
	// program is the name of the client's program, sessionName its name for its session; both may be empty.
	program, sessionName string
	// call is the call of an agent that the request is for, as text; may be empty.
	call string
	// cause is the id of the request, for the log; may be empty.
	cause string
	// note returns a value recorded on the request (notePrefix).
	note func(string) string
	// sessionless is set for clients of another face, which have no session; listener receives the notifications that follow their call.
	sessionless bool
	listener    *Listener
	// reservation is the memory reserved for the answer, nil for no limit.
	reservation *reservation
}

// taskRequest is the `task` parameter of 2025-11-25.
type taskRequest struct {
	// TTL is in milliseconds; with nil the server chooses.
	TTL *float64 `json:"ttl"`
}

// readMeta reads the version and capabilities in the request itself: over stdio one connection
// carries requests of both generations.
func (c *client) readMeta(req mcp.Request) {
	p := req.GetParams()
	if p == nil || reflect.ValueOf(p).IsNil() { // missing params are a nil pointer
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

// knowsTasks reports whether a client of 2026-07-28 supports tasks.
func (c *client) knowsTasks() bool {
	_, ok := c.caps.Extensions[tasksExtension]
	return c.modern && ok
}

// showsForms reports whether the client can show forms to its user.
func (c *client) showsForms() bool {
	e := c.caps.Elicitation
	return e != nil && (e.Form != nil || e.URL == nil)
}

// questionKinds returns the kinds of questions that the client answers while a call runs.
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

// ttl returns how long the client can see the task.
func (w *taskRequest) ttl(usual, most time.Duration) time.Duration {
	if w == nil || w.TTL == nil || *w.TTL <= 0 {
		return usual
	}
	if *w.TTL > float64(most.Milliseconds()) {
		return most
	}
	return time.Duration(*w.TTL) * time.Millisecond
}

// clientKey is the context key of the client of a request.
type clientKey struct{}

func clientFrom(ctx context.Context) client {
	if c, ok := ctx.Value(clientKey{}).(*client); ok {
		return *c
	}
	return client{note: func(string) string { return "" }, caps: &mcp.ClientCapabilities{}}
}
