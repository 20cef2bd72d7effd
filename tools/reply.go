package tools

import "encoding/json"

// TaskMode says how a call becomes a task of an MCP client (S2-026). Whatever it says, the call is a task of orch.
type TaskMode string

// The modes.
const (
	// MayBeTask: the caller decides where it can, else a call that takes long becomes a task. The zero value.
	MayBeTask TaskMode = ""
	// AtOnce: a client that lets the server decide is given a task at once, because calls usually take long.
	AtOnce TaskMode = "at_once"
	// NoTask: never a task of the client.
	NoTask TaskMode = "forbidden"
	// OnlyTask: always a task of the client. Hosts without tasks cannot call such a tool.
	OnlyTask TaskMode = "required"
)

// SessionUse says what calls of a tool do to the session of an MCP client.
type SessionUse string

// The uses.
const (
	// NoSession is the zero value: the tool needs no session.
	NoSession    SessionUse = ""
	Subscribes   SessionUse = "subscribes"
	Unsubscribes SessionUse = "unsubscribes"
)

// Replier is a tool whose output stands for a whole result of MCP: blocks of content, structured content and the
// mark of an error, as tools of other servers return it.
type Replier interface {
	// Reply returns the result of MCP for a result of Call.
	Reply(out json.RawMessage) json.RawMessage
}
