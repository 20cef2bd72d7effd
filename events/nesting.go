package events

import "github.com/go-json-experiment/json/jsontext"

// Valid is json.Valid, several times faster.
func Valid(data []byte) bool {
	return jsontext.Value(data).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// Nesting returns how deep valid JSON is nested: 0 for a number, 1 for a list of numbers.
func Nesting(data []byte) int {
	depth, deepest, text := 0, 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{', c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}', c == ']':
			depth--
		}
	}
	return deepest
}

// maxNesting bounds the nesting of a commit. JSON decoders accept 10,000 levels, and an answer that contains a commit
// adds levels.
const maxNesting = 5_000

// readable reports whether a commit can be decoded again. A short commit cannot be nested too deeply, so it is not
// scanned.
func readable(commit []byte) bool {
	return len(commit) < 2*maxNesting || Nesting(commit) <= maxNesting
}
