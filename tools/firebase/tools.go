package firebase

import (
	"context"
	"encoding/json"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// Config configures the firebase.* tools. With the zero value the tools return TOOL_UNAVAILABLE.
type Config struct {
	// Realtime and Firestore are the databases.
	Realtime, Firestore Backend
	// Subscriptions stores the subscriptions of sessions.
	Subscriptions Subscriptions
}

// Subscriptions manages the subscriptions of the sessions of MCP clients.
type Subscriptions interface {
	// Subscribe starts a subscription of a session and returns the current data. The same call may start it again.
	// Errors: CONFLICT for an id that the session already uses, QUOTA_EXCEEDED, NOT_FOUND for a closed session, and
	// those of Backend.Watch.
	Subscribe(ctx context.Context, session string, s Subscription) (Snapshot, error)
	// Unsubscribe ends a subscription of a session. Errors: GONE for a subscription that the session remembers as ended,
	// NOT_FOUND for any other id that is not that of an open subscription.
	Unsubscribe(ctx context.Context, session, id string) error
}

// Subscription is a request for the events at a path.
type Subscription struct {
	ID       string    `json:"id"`
	Database Database  `json:"database"`
	Path     string    `json:"path"`
	Events   EventType `json:"events"`
	// Call identifies the call that starts the subscription; it is the same for every attempt.
	Call string `json:"call"`
}

// Tools returns the firebase.* tools.
func Tools(cfg Config) []tools.Tool {
	return []tools.Tool{readTool(cfg), writeTool(cfg), subscribeTool(cfg), unsubscribeTool(cfg)}
}

// callTime is the time limit of a call.
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

// errorNames returns the names of the errors that any call may return, followed by more.
func errorNames(more ...string) []string {
	return append([]string{
		"PERMISSION_DENIED", "INVALID_PATH", "QUOTA_EXCEEDED", "CONNECTION_ERROR", "VALIDATION_ERROR", "INVALID_FORMAT",
		"TIMEOUT", "TOOL_UNAVAILABLE",
	}, more...)
}

// outputData returns the data of a snapshot as output. The output cannot be a scalar, so a scalar is wrapped in an
// object.
func outputData(s Snapshot) (json.RawMessage, error) {
	data := s.Data
	switch data.(type) {
	case nil, map[string]any, []any:
	default:
		data = map[string]any{".value": data}
	}
	return encode(data)
}

func encode(data any) (json.RawMessage, error) {
	text, err := json.Marshal(data)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the data has no form in JSON")
	}
	return text, nil
}

// timestamp formats a time for outputs.
func timestamp(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// decodeInput decodes data of an input for a backend.
func decodeInput(field string, text json.RawMessage) (value any, err error) {
	if len(text) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(text, &value); err != nil {
		return nil, refusal.New(refusal.InvalidDataType, "a number is too large: %w", err).WithField(field)
	}
	return value, nil
}
