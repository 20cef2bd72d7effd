package shell

import (
	"unicode/utf8"

	"github.com/orch-dev/orch/internal/proc"
)

// truncateJSON returns the longest prefix of text that takes at most 1 MiB as a JSON string, with its quotes, and
// whether it dropped anything. A control character takes six bytes in JSON.
func truncateJSON(text string) (string, bool) {
	size := len(`""`)
	for i, r := range text {
		if size += jsonSize(r); size > proc.DefaultLimit {
			return text[:i], true
		}
	}
	return text, false
}

// jsonSize returns the number of bytes that encoding/json writes for a character of a string.
func jsonSize(r rune) int {
	switch r {
	case '"', '\\', '\b', '\f', '\n', '\r', '\t':
		return 2
	case '<', '>', '&', '\u2028', '\u2029':
		return len(`\u0000`)
	}
	if r < ' ' {
		return len(`\u0000`)
	}
	return utf8.RuneLen(r)
}
