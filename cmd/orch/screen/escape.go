// Package screen formats text for terminals: it escapes untrusted text, aligns tables, formats durations and values, and
// redraws a block of lines in place.
package screen

import (
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/orch-dev/orch/internal/unseen"
)

// Escape makes untrusted text safe for one line. It replaces control characters, line breaks, invalid bytes and
// characters that change the direction of text by visible escapes such as \n and \x1b (S0-151).
func Escape(s string) string { return escape(s, false) }

// EscapeLines is like Escape, but keeps line breaks and tabs.
func EscapeLines(s string) string { return escape(s, true) }

// escape also replaces characters that a terminal does not show, because a language model would read them.
func escape(s string, lines bool) string {
	if utf8.ValidString(s) && !unseen.In(s) && (lines || !strings.ContainsAny(s, "\n\t")) {
		return s
	}
	var b strings.Builder
	rest := s
	for r, hostile := range unseen.Runes(s) {
		_, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, rest[0])
		case hostile, !lines && (r == '\n' || r == '\t'):
			b.WriteString(visible(r))
		default:
			b.WriteRune(r)
		}
		rest = rest[size:]
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
	case r <= 0xffff:
		return fmt.Sprintf(`\u%04x`, r)
	default:
		return fmt.Sprintf(`\U%08x`, r)
	}
}

// EscapeJSON makes JSON text safe for a terminal without changing its value. In valid JSON, unsafe characters occur only
// inside strings, where they can be escaped.
func EscapeJSON(data []byte) []byte {
	text := string(data)
	if !unseen.In(text) {
		return data
	}
	var b strings.Builder
	for r, hostile := range unseen.Runes(text) {
		if !hostile || r == '\r' {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return []byte(b.String())
}

// Brief is the maximum number of characters of a text that shares a line with others.
const Brief = 160

// Line escapes a text of several lines and joins it to one line of at most Brief characters.
func Line(s string) string { return Clip(Escape(strings.Join(strings.Fields(s), " ")), Brief) }

// Clip shortens s to width characters. If it shortens s, the last character is an ellipsis.
func Clip(s string, width int) string {
	if width <= 0 || utf8.RuneCountInString(s) <= width {
		return s
	}
	runes := []rune(s)
	return string(runes[:width-1]) + "…"
}
