package tools

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"
)

// member is a member of a JSON object. Its parts are parts of the text of the object, except a name with escapes.
type member struct {
	name  []byte
	value json.RawMessage
}

// appendMembers appends the members of an object to a list, in their order. The object must be valid JSON. It is several times
// faster than json.Unmarshal into a map.
func appendMembers(list []member, object json.RawMessage) []member {
	if len(object) == 0 || object[0] != '{' {
		return list
	}
	for at := skipTo(object, 1, '"'); at < len(object); at = skipTo(object, at, '"') {
		end := textEnd(object, at)
		name := nameIn(object[at:end])
		at = skipSpace(object, skipTo(object, end, ':')+1)
		end = valueEnd(object, at)
		if at >= end {
			return list // not valid JSON
		}
		list = append(list, member{name, object[at:end]})
		at = end
	}
	return list
}

// Member returns the value of a member of a JSON object, nil if the object has no such member. Of members with the same name it
// returns the last one, like package json. The object must be valid JSON.
func Member(object json.RawMessage, name string) json.RawMessage {
	var room [8]member
	return valueOf(appendMembers(room[:0], object), name)
}

// valueOf returns the value of the last member with this name, or nil.
func valueOf(list []member, name string) json.RawMessage {
	for _, m := range slices.Backward(list) {
		if string(m.name) == name {
			return m.value
		}
	}
	return nil
}

// nameIn returns the name that a JSON string contains.
func nameIn(text []byte) []byte {
	inside := bytes.Trim(text, `"`)
	if bytes.IndexByte(text, '\\') < 0 && utf8.Valid(text) {
		return inside
	}
	var name string
	if json.Unmarshal(text, &name) != nil {
		return inside
	}
	return []byte(name)
}

// skipTo returns the offset of the next byte c from an offset on, or the end of the text.
func skipTo(text []byte, at int, c byte) int {
	if at >= len(text) {
		return len(text)
	}
	if i := bytes.IndexByte(text[at:], c); i >= 0 {
		return at + i
	}
	return len(text)
}

// skipSpace returns the offset of the next byte that is no white space, or the end of the text.
func skipSpace(text []byte, at int) int {
	for at < len(text) && isSpace(text[at]) {
		at++
	}
	return min(at, len(text))
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// textEnd returns the offset after the JSON string that begins at an offset.
func textEnd(text []byte, at int) int {
	for i := at + 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// valueEnd returns the offset after the JSON value that begins at an offset of an object.
func valueEnd(text []byte, at int) int {
	depth := 0
	for i := at; i < len(text); {
		switch c := text[i]; {
		case c == '"':
			i = textEnd(text, i)
			if depth == 0 {
				return i
			}
			continue
		case c == '{', c == '[':
			depth++
		case depth == 0 && (c == ',' || c == '}' || isSpace(c)):
			return i
		case c == '}', c == ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return len(text)
}

// Text returns the text of a JSON string. It returns false for another value, except null, which is the empty text.
func Text(value json.RawMessage) (string, bool) {
	if n := len(value); n > 1 && value[0] == '"' && bytes.IndexByte(value, '\\') < 0 && utf8.Valid(value) {
		return string(value[1 : n-1]), true
	}
	var text string
	ok := len(value) > 0 && json.Unmarshal(value, &text) == nil
	return text, ok
}
