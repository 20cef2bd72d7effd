package policy

import (
	"bytes"
	"slices"
	"strings"
)

// Shortest literals that count, in bytes: a password is taken sooner than what may be a plain word.
const (
	shortPassword = 6
	shortSecret   = 8
	shortLoose    = 16
	longName      = 24
	longValue     = 512
)

// assignmentOf returns the matcher of literals that are assigned to a name ending with keyword, as in
// db_password = "…", "apiKey": "…", export TOKEN=… or --password=….
func assignmentOf(keyword string) func(data []byte, at int) (begin, end int, ok bool) {
	return func(data []byte, at int) (begin, end int, ok bool) {
		least := shortSecret
		if strings.HasPrefix(keyword, "pass") {
			least = shortPassword
		}
		name := nameEnd(data, at+len(keyword))
		if name < 0 {
			return 0, 0, false
		}
		value, spaced, ok := operator(data, name)
		if !ok || value >= len(data) {
			return 0, 0, false
		}
		if depth, quote := quoteAt(data, value); depth >= 0 {
			begin = value + depth + 1
			end = quotedEnd(data, begin, depth, quote)
			text := data[begin:end]
			return begin, end, len(text) >= least && literal(text) && (keyword != "token" || mixed(text))
		}
		end = run(data, value, bare)
		if spaced || data[name] == ':' {
			least = shortLoose
		}
		return value, end, end-value >= least && bareEnd(data, end) && mixed(data[value:end]) && literal(data[value:end]) && !number(data[value:end])
	}
}

// nameEnd returns the end of the name that holds a keyword ending at i, or -1 when the keyword is not
// the last part of the name: tokenizer and secret_name name no secrets, secret_key does.
func nameEnd(data []byte, i int) int {
	end := run(data, i, isURL64)
	if end-i > longName {
		return -1
	}
	switch strings.ToLower(strings.ReplaceAll(string(data[i:end]), "-", "_")) {
	case "", "key", "_key", "_value", "_access_key", "accesskey", "_key_base":
		return end
	}
	return -1
}

// operator skips what may stand between a name and its value: a closing quote or bracket, blanks and
// one of = : := =>. It tells whether there were blanks.
func operator(data []byte, at int) (value int, spaced, ok bool) {
	at = run(data, at, func(c byte) bool { return c == '\\' || c == '"' || c == '\'' || c == '`' || c == ']' })
	blanks := run(data, at, isBlank)
	op := run(data, blanks, func(c byte) bool { return c == '=' || c == ':' || c == '>' })
	switch string(data[blanks:min(op, blanks+4)]) {
	case "=", ":", ":=", "=>":
	default:
		return 0, false, false
	}
	value = run(data, op, isBlank)
	return value, blanks > at || value > op, true
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// quoteAt tells whether a quote stands at i, behind the backslashes that 0 to 3 encodings as JSON put
// before it; depth is their number, -1 when there is none.
func quoteAt(data []byte, i int) (depth int, quote byte) {
	end := run(data, i, func(c byte) bool { return c == '\\' })
	depth = end - i
	if end >= len(data) || bytes.IndexByte([]byte("\"'`"), data[end]) < 0 || !slices.Contains([]int{0, 1, 3, 7}, depth) {
		return -1, 0
	}
	return depth, data[end]
}

// quotedEnd returns the end of a quoted text whose quotes have depth backslashes: its closing quote,
// the end of an encoding around it, a line break or the end of data.
func quotedEnd(data []byte, begin, depth int, quote byte) int {
	limit := min(len(data), begin+longValue)
	for i := begin; i < limit; {
		slashes := run(data, i, func(c byte) bool { return c == '\\' }) - i
		at := i + slashes
		switch {
		case at >= len(data) || data[at] == '\n' || data[at] == '\r':
			return i
		case data[at] != quote && (data[at] != '"' || slashes >= depth):
			i = at + 1
		case slashes < depth:
			return i
		case (slashes-depth)/(depth+1)%2 == 0:
			return at - depth
		default:
			i = at + 1
		}
	}
	return limit
}

// bare accepts the bytes of a literal without quotes. Calls, paths of identifiers and expansions have
// others.
func bare(c byte) bool { return isURL64(c) || bytes.IndexByte([]byte("+/=~!@#%^"), c) >= 0 }

func bareEnd(data []byte, i int) bool {
	return i == len(data) || bytes.IndexByte([]byte(" \t\r\n\"';&\\`"), data[i]) >= 0
}

// mixed reports whether text has both letters and digits, or letters of both cases beyond a capital.
func mixed(text []byte) bool {
	var digit, upper, lower bool
	for i, c := range text {
		digit = digit || isDigit(c)
		upper = upper || isUpper(c) && i > 0
		lower = lower || isLower(c)
	}
	return digit && (upper || lower || len(text) > 0 && isUpper(text[0])) || upper && lower
}

// number reports whether text may be a JSON number, which is never replaced.
func number(text []byte) bool {
	return run(text, 0, func(c byte) bool { return isDigit(c) || bytes.IndexByte([]byte("+-.eE"), c) >= 0 }) == len(text)
}

// literal reports whether a quoted value can be a secret itself: one word that is no placeholder and
// does not merely name one.
func literal(text []byte) bool {
	return !bytes.ContainsAny(text, " \t") && !placeholder(text) && !namesSecret(text)
}

// placeholder reports whether text stands for a value that is elsewhere.
func placeholder(text []byte) bool {
	lower := strings.ToLower(string(text))
	for _, part := range []string{
		"${", "$(", "{{", "}}", "<", "[redacted", "process.env", "os.environ", "getenv", "secret://", "secrets.", "your-", "your_",
		"changeme", "change-me", "change_me", "placeholder", "xxxx", "****", "....", "example.com",
	} {
		if strings.Contains(lower, part) {
			return true
		}
	}
	if strings.HasPrefix(lower, "$") || strings.HasPrefix(lower, "%") || strings.HasPrefix(lower, "{") || lower == strings.Repeat(lower[:min(1, len(lower))], len(lower)) && len(lower) > 1 {
		return true
	}
	switch lower {
	case "password", "passwd", "pass", "secret", "token", "string", "boolean", "integer", "undefined", "required", "optional", "redacted", "hidden", "example":
		return true
	}
	return false
}

// namesSecret reports whether text is the name of a field or variable, such as user_password or
// csrfToken, and not a value.
func namesSecret(text []byte) bool {
	if bytes.ContainsAny(text, "0123456789") || run(text, 0, func(c byte) bool { return isURL64(c) || c == '.' }) < len(text) {
		return false
	}
	s := string(text)
	for _, word := range []string{"password", "passwd", "secret", "token", "key"} {
		head, ok := strings.CutSuffix(strings.ToLower(s), word)
		if ok && head != "" && (strings.ContainsAny(head[len(head)-1:], "_-.") || isUpper(s[len(head)])) {
			return true
		}
	}
	return false
}
