package events

// Nesting returns how deep valid JSON is nested: 0 for a number, 1 for a list of numbers.
func Nesting(data []byte) int {
	depth, most, text := 0, 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{', c == '[':
			depth++
			most = max(most, depth)
		case c == '}', c == ']':
			depth--
		}
	}
	return most
}

// maxNesting bounds how deep a commit is nested. Whatever reads it, alone or inside of an answer, takes 10,000.
const maxNesting = 5_000

// readable reports whether a commit can be decoded again. Short ones are not deep.
func readable(commit []byte) bool {
	return len(commit) < 2*maxNesting || Nesting(commit) <= maxNesting
}
