package secrets

import (
	"bytes"
	"encoding/json"
)

// Redact returns data with the findings of find replaced by [REDACTED:rule], and reports whether there was a finding.
// Valid JSON stays valid. Without a finding it returns data itself.
func Redact(data []byte, find func([]byte) []Finding) ([]byte, bool) {
	found := find(data)
	if len(found) == 0 {
		return data, false
	}
	out := replace(data, found)
	if json.Valid(data) && !json.Valid(out) {
		// A match crossed the end of a JSON string: redact each string separately.
		return redactStrings(data, find), true
	}
	return out, true
}

// Clean returns text with all secrets redacted, for error messages.
func Clean(text string) string {
	clean, _ := Redact([]byte(text), Find)
	return string(clean)
}

// replace returns data with each finding replaced by [REDACTED:rule].
func replace(data []byte, found []Finding) []byte {
	out := make([]byte, 0, len(data)+16*len(found))
	at := 0
	for _, f := range found {
		out = append(out, data[at:f.Offset]...)
		out = append(out, "[REDACTED:"+f.Rule+"]"...)
		at = f.Offset + f.Length
	}
	return append(out, data[at:]...)
}

// redactStrings redacts the strings of a valid JSON text one by one, in their encoded form.
func redactStrings(data []byte, find func([]byte) []Finding) []byte {
	out := make([]byte, 0, len(data))
	for at := 0; at < len(data); {
		begin := bytes.IndexByte(data[at:], '"')
		if begin < 0 {
			return append(out, data[at:]...)
		}
		begin += at + 1
		end := begin + stringEnd(data[begin:])
		out = append(out, data[at:begin]...)
		out = append(out, redactString(data[begin:end], find)...)
		at = end + copyQuote(&out, data, end)
	}
	return out
}

// copyQuote appends the byte at offset at to out. It returns the number of appended bytes, 0 at the end of data.
func copyQuote(out *[]byte, data []byte, at int) int {
	if at < len(data) {
		*out = append(*out, data[at])
		return 1
	}
	return 0
}

// redactString redacts the inside of one JSON string. If that breaks an escape, it replaces the whole string.
func redactString(inside []byte, find func([]byte) []Finding) []byte {
	found := find(inside)
	if len(found) == 0 {
		return inside
	}
	out := replace(inside, found)
	if !json.Valid([]byte(`"` + string(out) + `"`)) {
		return []byte("[REDACTED:" + found[0].Rule + "]")
	}
	return out
}

// stringEnd returns the offset of the quote that ends a JSON string.
func stringEnd(data []byte) int {
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(data)
}
