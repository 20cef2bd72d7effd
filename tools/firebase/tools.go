package firebase

import (
	"context"
	"encoding/json"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// Config is what the family needs of the node. The zero value works: the tools then say that there is no database.
type Config struct {
	// Realtime and Firestore are the databases.
	Realtime, Firestore Backend
	// Subscriptions keeps the subscriptions of sessions.
	Subscriptions Subscriptions
}

// Subscriptions keeps the subscriptions of the sessions of MCP clients.
type Subscriptions interface {
	// Subscribe begins a subscription of a session and returns what is there now. The same call may begin it again.
	// Errors: CONFLICT for an id that the session has already, QUOTA_EXCEEDED, NOT_FOUND for a session that is over, and
	// those of Backend.Watch.
	Subscribe(ctx context.Context, session string, s Subscription) (Snapshot, error)
	// Unsubscribe ends a subscription of a session; NOT_FOUND when it has none with that id, GONE when that one has ended,
	// as far as that is remembered.
	Unsubscribe(ctx context.Context, session, id string) error
}

// Subscription is what a session wants to hear of.
type Subscription struct {
	ID       string    `json:"id"`
	Database Database  `json:"database"`
	Path     string    `json:"path"`
	Events   EventType `json:"events"`
	// Call is the same for every attempt of the call that begins it.
	Call string `json:"call"`
}

// Tools returns the family.
func Tools(cfg Config) []tools.Tool {
	return []tools.Tool{readTool(cfg), writeTool(cfg), subscribeTool(cfg), unsubscribeTool(cfg)}
}

// callTime bounds a call.
const callTime = time.Minute

// backend returns a database of the node.
func (c Config) backend(name Database) (Backend, error) {
	b := c.Realtime
	if name == Firestore {
		b = c.Firestore
	}
	if b == nil {
		return nil, fault.New(fault.ToolUnavailable, "this node has no database %s", name).WithField("database")
	}
	return b, nil
}

// refusals are the names of errors that any call may end with.
func refusals(more ...string) []string {
	return append([]string{
		"PERMISSION_DENIED", "INVALID_PATH", "QUOTA_EXCEEDED", "CONNECTION_ERROR", "VALIDATION_ERROR", "INVALID_FORMAT",
		"TIMEOUT", "TOOL_UNAVAILABLE",
	}, more...)
}

// shown returns what a path holds as an output: a scalar has no place of its own there.
func shown(s Snapshot) (json.RawMessage, error) {
	data := s.Data
	switch data.(type) {
	case nil, map[string]any, []any:
	default:
		data = map[string]any{".value": data}
	}
	return encoded(data)
}

func encoded(data any) (json.RawMessage, error) {
	text, err := json.Marshal(data)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the data has no form in JSON")
	}
	return text, nil
}

// stamp is a time as outputs have it.
func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// decoded returns data of an input as backends take it.
func decoded(field string, text json.RawMessage) (value any, err error) {
	if len(text) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(text, &value); err != nil {
		return nil, refusal.New(refusal.InvalidDataType, "a number is too large: %w", err).WithField(field)
	}
	return value, nil
}
