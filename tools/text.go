package tools

import "encoding/json"

// Texter is a tool with a specified text form of its results. An interface that shows results as text uses that form
// instead of the JSON.
type Texter interface {
	// Text returns the text form of a result of Call.
	Text(out json.RawMessage) string
}
