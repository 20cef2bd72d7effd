package tools

import "encoding/json"

// TaskMode specifies whether a call becomes a task of an MCP client (S2-026). In every mode the call is a task of orch.
type TaskMode string

// The modes. In the zero value a client that supports it decides itself; otherwise a slow call becomes a task.
const (
	// AtOnce: if the client lets the server decide, the call becomes a task immediately, because such calls usually
	// take long.
	AtOnce TaskMode = "at_once"
	// NoTask: the call never becomes a task of the client.
	NoTask TaskMode = "forbidden"
	// OnlyTask: the call always becomes a task of the client. Hosts without tasks cannot call such a tool.
	OnlyTask TaskMode = "required"
)

// SessionUse specifies how calls of a tool change the subscriptions of an MCP session.
type SessionUse string

// The uses.
const (
	// NoSession is the zero value: the tool needs no session.
	NoSession    SessionUse = ""
	Subscribes   SessionUse = "subscribes"
	Unsubscribes SessionUse = "unsubscribes"
)

// Replier is a tool whose output represents a complete MCP result: content blocks, structured content and the error
// flag, as external MCP servers return it.
type Replier interface {
	// Reply returns the MCP result for an output of Call.
	Reply(out json.RawMessage) json.RawMessage
}
