package shell

import (
	"unicode/utf8"

	"github.com/orch-dev/orch/internal/proc"
)

// fitJSON returns the longest beginning of text whose JSON string is at most 1 MiB long with its
// quotes, and whether something was cut. Control characters grow to six bytes there.
func fitJSON(text string) (string, bool) {
	size := len(`""`)
	for i, r := range text {
		if size += jsonSize(r); size > proc.DefaultLimit {
			return text[:i], true
		}
	}
	return text, false
}

// jsonSize returns how many bytes encoding/json writes for a character of a string.
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
