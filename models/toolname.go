package models

import "strings"

// MaxToolName is the most bytes of the name of a tool that all providers accept.
const MaxToolName = 64

// ToolName returns the name of a tool as all providers accept it. A model may have called a tool by a name that its provider would
// refuse in the next request.
func ToolName(name string) string {
	name = strings.Map(toolNameRune, name)
	return name[:min(len(name), MaxToolName)]
}

// toolNameRune returns r, or an underscore if r may not be in the name of a tool.
func toolNameRune(r rune) rune {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
		return r
	default:
		return '_'
	}
}
