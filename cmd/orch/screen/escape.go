// Package screen brings text to terminals: escaping of what others wrote, aligned tables, readable
// durations and values, and a block that is redrawn in place. It knows nothing of tasks.
package screen

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escape makes foreign text safe for one line: control characters, line breaks, invalid bytes and
// marks that change the direction of text become visible escapes such as \n and \x1b (S0-151).
func Escape(s string) string { return escape(s, false) }

// EscapeLines is Escape, but keeps line breaks and tabs, for text that may have several lines.
func EscapeLines(s string) string { return escape(s, true) }

func escape(s string, lines bool) string {
	if !strings.ContainsFunc(s, hostile) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case lines && (r == '\n' || r == '\t'):
			b.WriteRune(r)
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !hostile(r):
			b.WriteRune(r)
		default:
			b.WriteString(visible(r))
		}
	}
	return b.String()
}

func visible(r rune) string {
	switch {
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case r <= 0xff:
		return fmt.Sprintf(`\x%02x`, r)
	default:
		return fmt.Sprintf(`\u%04x`, r)
	}
}

// hostile reports whether a terminal might obey r instead of showing it.
func hostile(r rune) bool {
	switch {
	case unicode.IsControl(r), r == '\u2028', r == '\u2029', r == '\u061c':
		return true
	default:
		return r == '\u200e' || r == '\u200f' || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
	}
}

// EscapeJSON makes JSON text safe for a terminal without changing its value: what is hostile and not
// white space of the format can only stand inside its strings.
func EscapeJSON(data []byte) []byte {
	text := string(data)
	inside := func(r rune) bool { return hostile(r) && r != '\n' && r != '\t' && r != '\r' }
	if !strings.ContainsFunc(text, inside) {
		return data
	}
	var b strings.Builder
	for _, r := range text {
		if inside(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return []byte(b.String())
}

// Clip shortens s to a number of characters; the last one is then an ellipsis.
func Clip(s string, width int) string {
	if width <= 0 || utf8.RuneCountInString(s) <= width {
		return s
	}
	runes := []rune(s)
	return string(runes[:width-1]) + "…"
}
