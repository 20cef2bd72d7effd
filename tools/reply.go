package tools

import "encoding/json"

// TaskMode says how a call becomes a task of an MCP client (S2-026). In every mode the call is a task of orch.
type TaskMode string

// The modes.
const (
	// MayBeTask: the caller decides if it can; otherwise a slow call becomes a task. The zero value.
	MayBeTask TaskMode = ""
	// AtOnce: a client that lets the server decide gets a task at once, because calls usually take long.
	AtOnce TaskMode = "at_once"
	// NoTask: never a task of the client.
	NoTask TaskMode = "forbidden"
	// OnlyTask: always a task of the client. Hosts without tasks cannot call such a tool.
	OnlyTask TaskMode = "required"
)

// SessionUse says what calls of a tool do with the session of an MCP client.
type SessionUse string

// The uses.
const (
	// NoSession is the zero value: the tool needs no session.
	NoSession    SessionUse = ""
	Subscribes   SessionUse = "subscribes"
	Unsubscribes SessionUse = "unsubscribes"
)

// Replier is a tool whose output represents a complete MCP result: content blocks, structured content and the error
// flag, as tools of other servers return them.
type Replier interface {
	// Reply returns the MCP result for an output of Call.
	Reply(out json.RawMessage) json.RawMessage
}
