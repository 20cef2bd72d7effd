package server

import (
	"context"
	"encoding/json"
	"reflect"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/traces"
)

// Names that the protocol defines (the S2 rules and the tasks extension of 2026-07-28), and names of orch.
const (
	tasksExtension        = "io.modelcontextprotocol/tasks"
	relatedTask           = "io.modelcontextprotocol/related-task"
	firstStatelessVersion = "2026-07-28"
	lastSessionVersion    = "2025-11-25"
	// metaTask is the id of the task in which to call a tool.
	metaTask = "orch/taskId"
	// metaError is the whole error of a call (M-4).
	metaError = "orch/error"
	// metaCall is the id of the call that the requesting agent is working on, for which it sends this request. headerCall is
	// the same over HTTP.
	metaCall   = "orch/call"
	headerCall = "Orch-Call"
)

// Internal headers: the version router and the stdio reader record in them the fields that the SDK drops when it decodes a request.
// The router first removes headers with this prefix from external requests.
const (
	notePrefix      = "Orch-Note-"
	noteTask        = notePrefix + "Task"
	noteID          = notePrefix + "Id"
	noteHTTP        = notePrefix + "Http"
	noteReply       = notePrefix + "Reply"
	noteReservation = notePrefix + "Room"
	// noteProfile is the profile in the URL of a request.
	noteProfile = notePrefix + "Profile"
	// noteStream is the key of the stream that answers a request.
	noteStream = notePrefix + "Stream"
)

// client describes the sender of a request, and the features that it supports.
type client struct {
	who     Identity
	session *mcp.ServerSession
	// modern is set for 2026-07-28 and later, older for versions before the tasks of 2025-11-25.
	modern, older bool
	caps          *mcp.ClientCapabilities
	// roots is set if the client offers its roots.
	roots bool
	// task is the task parameter of a call of 2025-11-25, nil if the client requests no task.
	task *taskRequest
	// badTask is set if the task parameter is malformed.
	badTask bool
	// wantsLog is set if a request of 2026-07-28 asks for log entries.
	wantsLog bool
	// program is the name of the client program, sessionName the name that the client has given its session; both may be empty.
	program, sessionName string
	// call is the id of the call that the requesting agent is working on; may be empty.
	call string
	// traceParent is the position in a trace of the requesting program; may be empty.
	traceParent string
	// traceState is the tracestate beside it; may be empty.
	traceState string
	// cause is the id of the request, for the log; may be empty.
	cause string
	// note returns a value recorded on the request (notePrefix).
	note func(string) string
	// sessionless is set for clients of the node's other interfaces (ToolCaller), which have no session.
	sessionless bool
	// listener receives the notifications of the subscription that a sessionless client makes; may be nil.
	listener *Listener
	// reservation is the memory reserved for the answer, nil for no limit.
	reservation *reservation
}

// taskRequest is the `task` parameter of 2025-11-25.
type taskRequest struct {
	// TTL is in milliseconds; with nil the server chooses.
	TTL *float64 `json:"ttl"`
}

// readMeta reads the version and the capabilities from the _meta of a request, because over stdio one connection carries
// requests of both generations.
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
	if at, _ := meta["traceparent"].(string); traces.IsContext(at) {
		c.traceParent = at
		state, _ := meta["tracestate"].(string)
		c.traceState, _ = traces.ParseState(state)
	}
	version, ok := meta[mcp.MetaKeyProtocolVersion].(string)
	if !ok || version < firstStatelessVersion {
		return
	}
	c.modern = true
	c.wantsLog = meta[mcp.MetaKeyLogLevel] != nil
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
		if c.caps.Sampling.Tools != nil {
			kinds = append(kinds, events.SamplingTools)
		}
	}
	if c.roots {
		kinds = append(kinds, events.Roots)
	}
	return kinds
}

// ttl returns how long the client sees the task: the requested time, at most maxTTL, or defaultTTL if none is requested.
func (w *taskRequest) ttl(defaultTTL, maxTTL time.Duration) time.Duration {
	if w == nil || w.TTL == nil || *w.TTL <= 0 {
		return defaultTTL
	}
	if *w.TTL > float64(maxTTL.Milliseconds()) {
		return maxTTL
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
