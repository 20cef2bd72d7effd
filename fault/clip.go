package fault

import "strings"

// Clip shortens a text for a message to a number of bytes, and marks that it did so. It cuts no character in two.
func Clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
