package tools

import "encoding/json"

// Texter is a tool whose results have a text form that its source document prescribes. An interface that shows
// results as text uses it instead of the JSON.
type Texter interface {
	// Text returns the text form of a result of Call.
	Text(out json.RawMessage) string
}
