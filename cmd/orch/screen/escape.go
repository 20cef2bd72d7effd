// Package screen brings text to terminals: escaping of what others wrote, aligned tables, readable
// durations and values, and a block that is redrawn in place. It knows nothing of tasks.
package screen

import (
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/orch-dev/orch/internal/unseen"
)

// Escape makes foreign text safe for one line: control characters, line breaks, invalid bytes and
// marks that change the direction of text become visible escapes such as \n and \x1b (S0-151).
func Escape(s string) string { return escape(s, false) }

// EscapeLines is Escape, but keeps line breaks and tabs, for text that may have several lines.
func EscapeLines(s string) string { return escape(s, true) }

// escape also shows what a terminal would show nothing of, although models read it.
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

// EscapeJSON makes JSON text safe for a terminal without changing its value: what is hostile and not
// white space of the format can only stand inside its strings.
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

// Brief is the most characters of a reason that stands in a line with other things.
const Brief = 160

// Line makes one line of a text that may have several, of Brief characters at most.
func Line(s string) string { return Clip(Escape(strings.Join(strings.Fields(s), " ")), Brief) }

// Clip shortens s to a number of characters; the last one is then an ellipsis.
func Clip(s string, width int) string {
	if width <= 0 || utf8.RuneCountInString(s) <= width {
		return s
	}
	runes := []rune(s)
	return string(runes[:width-1]) + "…"
}
