package models

import "regexp"

// MaxToolName is the most bytes of the name of a tool that all providers accept.
const MaxToolName = 64

var notInToolNames = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// ToolName returns the name of a tool as all providers accept it. A model may have called a tool by a name that its provider would
// refuse in the next request.
func ToolName(name string) string {
	name = notInToolNames.ReplaceAllString(name, "_")
	return name[:min(len(name), MaxToolName)]
}
