package secrets

import (
	"bytes"
	"slices"
	"strings"
)

// Lengths in bytes. The first five are minimum lengths of secret values: shorter for passwords, longer for values that
// may be plain words. longName and longValue bound how much of a name and of a value is read.
const (
	shortPassword = 6
	shortSecret   = 8
	shortComma    = 12
	shortLoose    = 16
	shortWeak     = 20
	longName      = 24
	longValue     = 512
)

// word is a keyword at the end of a name, such as db_password. A value assigned to such a name is a secret.
type word struct {
	text string
	// least is the minimum length of a value.
	least int
	// mixed is true if a value must have letters and digits, or both cases.
	mixed bool
	// whole is true if the word must be a separate part of the name, as in DB_PASS but not in compass.
	whole bool
}

// words returns the keywords that are searched for.
func words() []word {
	return []word{
		{text: "password", least: shortPassword},
		{text: "passwd", least: shortPassword},
		{text: "passphrase", least: shortPassword},
		{text: "secret", least: shortSecret},
		{text: "token", least: shortSecret, mixed: true},
		{text: "api_key", least: shortSecret},
		{text: "apikey", least: shortSecret},
		{text: "api-key", least: shortSecret},
		{text: "pass", least: shortPassword, mixed: true, whole: true},
		{text: "pwd", least: shortPassword, mixed: true, whole: true},
		{text: "credential", least: shortLoose, mixed: true},
		{text: "credentials", least: shortLoose, mixed: true},
	}
}

// assignments returns keys that find literals assigned to a name, as in db_password = "…", "apiKey": "…", export
// TOKEN=…, X-Api-Key: … or --password ….
func assignments() []key {
	var keys []key
	for _, w := range words() {
		keys = append(keys, key{rule: "assignment", text: w.text, fold: true, find: w.find})
	}
	return append(keys, key{rule: "assignment", text: "key", fold: true, find: weakKey})
}

// find is the matcher of the word.
func (w word) find(data []byte, at int) (begin, end int, ok bool) {
	if w.whole && !startsWord(data, at) {
		return 0, 0, false
	}
	name := nameEnd(data, at+len(w.text))
	if name < 0 {
		return 0, 0, false
	}
	v, ok := valueAt(data, at, name)
	if !ok || v.folder || !v.secret(w) {
		return 0, 0, false
	}
	return v.begin, v.end, true
}

// startsWord reports whether a part of a name begins at offset i: no letter or digit precedes it, or an upper-case
// letter follows a lower-case one.
func startsWord(data []byte, i int) bool {
	return i == 0 || boundary(data, i) || data[i-1] == '_' || isUpper(data[i]) && !isUpper(data[i-1])
}

// nameEnd returns the end of the name that contains a keyword ending at i. It returns -1 when the keyword is not the
// last part of the name: tokenizer and secret_name do not name secrets. secret_key does, because key and some other
// last parts are ignored.
func nameEnd(data []byte, i int) int {
	end := runTo(data, i, longName+1, isURL64)
	switch strings.ToLower(strings.ReplaceAll(string(data[i:end]), "-", "_")) {
	case "", "key", "_key", "_value", "_access_key", "accesskey", "_key_base":
		return end
	}
	return -1
}

// weakKey matches a value assigned to a name that ends with key. The name must denote a secret kind of key, and the
// value must look random.
func weakKey(data []byte, at int) (begin, end int, ok bool) {
	name := at + len("key")
	if name < len(data) && isURL64(data[name]) || !isSecretKind(data, at) {
		return 0, 0, false
	}
	v, ok := valueAt(data, at, name)
	return v.begin, v.end, ok && v.closed && !v.unsigned && looksRandom(v.text, shortWeak, 3.5) && literal(v.text) && !v.number() && !v.isReference()
}

// isSecretKind reports whether the part of a name before the word key, which is at offset at, denotes a secret kind of
// key.
func isSecretKind(data []byte, at int) bool {
	before := strings.ToLower(strings.TrimRight(string(data[max(0, at-12):at]), "_-"))
	return slices.ContainsFunc([]string{
		"private", "signing", "encryption", "access", "account", "storage", "master", "auth", "service", "deploy", "license",
		"session", "app", "shared", "ssh", "hmac", "aes", "jwt", "webhook", "admin", "consumer", "crypt", "primary", "root",
	}, func(kind string) bool { return strings.HasSuffix(before, kind) })
}

// value is a value that is assigned to a name.
type value struct {
	text       []byte
	begin, end int
	quoted     bool
	// spaced is true if there are blanks around the operator. colon and comma are true if the operator contains them.
	spaced, colon, comma bool
	// unsigned is true if only blanks separate name and value, as in .netrc and after options.
	unsigned bool
	// upper is true if the name is in upper case, header if it looks like an HTTP header, flag if it looks like an
	// option.
	upper, header, flag bool
	// folder is true for a path in PWD or OLDPWD: the name of a folder may look random.
	folder bool
	// name is the name to which the value is assigned; resource is true if it is part of an ARN or a URN.
	name     []byte
	resource bool
	// line is true if name and value are alone on their line. closed is true if the text after the value ends it
	// properly, as a quote or a blank does.
	line, closed bool
}

// valueAt parses the value assigned to a name. The name contains a keyword at offset at and ends at offset name.
// valueAt returns false if no value follows.
func valueAt(data []byte, at, name int) (value, bool) {
	start := nameStart(data, at)
	v := value{
		name: data[start:name], resource: inResource(data, start),
		upper: upperCase(data[start:name]), flag: bytes.HasPrefix(data[start:], []byte("--")),
		header: bytes.HasPrefix(bytes.ToLower(data[start:name]), []byte("x-")),
	}
	place, spaced, ok := operator(data, name)
	if !ok && name < len(data) && data[name] == ' ' {
		place, ok, v.unsigned = runTo(data, name, 64, isBlank), true, true
	}
	if !ok || place >= len(data) {
		return v, false
	}
	sign := data[name:place]
	v.spaced, v.colon, v.comma = spaced, bytes.IndexByte(sign, ':') >= 0, bytes.IndexByte(sign, ',') >= 0
	if depth, quote := quoteAt(data, place); depth >= 0 {
		v.quoted = true
		v.begin = place + depth + 1
		v.end = quotedEnd(data, v.begin, depth, quote)
		v.closed = v.end == len(data) || data[v.end] != '\n' && data[v.end] != '\r'
	} else {
		v.begin, v.end = place, runTo(data, place, longValue, isBare)
		v.closed = bareEnd(data, v.end)
		v.line = alone(data, start, v.end)
	}
	v.text = data[v.begin:v.end]
	v.folder = shellFolder(data[start:name]) && bytes.HasPrefix(v.text, []byte("/"))
	return v, true
}

// shellFolder reports whether name is a variable that the shell sets to a folder.
func shellFolder(name []byte) bool { return string(name) == "PWD" || string(name) == "OLDPWD" }

// nameStart returns the start of the name that contains a keyword at offset at.
func nameStart(data []byte, at int) int {
	start := at
	for start > max(0, at-2*longName) && isURL64(data[start-1]) {
		start--
	}
	if start >= 1 && start < at && data[start-1] == '\\' && bytes.IndexByte([]byte("nrt"), data[start]) >= 0 {
		start++ // the letter is part of an escaped line break
	}
	return start
}

func upperCase(name []byte) bool {
	return bytes.IndexFunc(name, func(r rune) bool { return 'a' <= r && r <= 'z' }) < 0
}

// alone reports whether the text from start to end is alone on its line. Only blanks, a list marker and the prefixes of
// tools (a line number, a diff sign) may precede the text. Only blanks and a comment may follow.
func alone(data []byte, start, end int) bool {
	before := start
	for before > 0 && (isBlank(data[before-1]) || data[before-1] == '-' || data[before-1] == '+') {
		before--
	}
	end = run(data, end, isBlank)
	return beginsLine(data, before) && (end == len(data) || bytes.IndexByte([]byte("\n\r#\\\""), data[end]) >= 0)
}

// beginsLine reports whether a line begins at offset i: after a line break, after an escaped one in JSON, or after a
// line number.
func beginsLine(data []byte, i int) bool {
	switch {
	case i == 0 || data[i-1] == '\n' || data[i-1] == '"':
		return true
	case i > 1 && data[i-2] == '\\' && (data[i-1] == 'n' || data[i-1] == 't'):
		return true
	}
	return i > 1 && isDigit(data[i-1]) || i > 1 && data[i-1] == ':' && isDigit(data[i-2])
}

// secret reports whether a value that is assigned to a name ending with w is a secret.
func (v value) secret(w word) bool {
	if !v.closed || v.resource || v.isSource() || v.repeatsName() || v.pattern() || !literal(v.text) || w.mixed && !mixed(v.text) || len(v.text) < w.least {
		return false
	}
	switch {
	case v.comma:
		return looksRandom(v.text, shortComma, opaqueEntropy) && run(v.text, 0, isBare) == len(v.text)
	case v.unsigned && !v.flag:
		return v.line && w.least == shortPassword && lettersAndDigits(v.text)
	case v.quoted:
		return !bytes.HasPrefix(v.text, []byte(`\u`)) && !bytes.HasPrefix(v.text, []byte(`\x`))
	case !mixed(v.text) || v.number() || v.path() || w.whole && v.colon && v.upper:
		return false
	}
	password := w.least == shortPassword
	switch {
	case !v.spaced && !v.colon && v.upper, v.header:
		return lettersAndDigits(v.text) || len(v.text) >= shortLoose
	case reference(v.text):
		return false
	case !v.spaced && !v.colon:
		return true
	case v.line && v.colon && password:
		return lettersAndDigits(v.text)
	}
	return len(v.text) >= shortLoose && (lettersAndDigits(v.text) || entropy(v.text) > 3.5)
}

// operator skips the text between a name and its value: a closing quote or bracket, blanks and an operator. Operators
// are =, :, := and =>, and between quotes also a comma. It returns the offset of the value. spaced is true if there
// were blanks around the operator.
func operator(data []byte, at int) (value int, spaced, ok bool) {
	closed := runTo(data, at, 16, func(c byte) bool { return isQuote(c) || c == ']' })
	blanks := runTo(data, closed, 64, isBlank)
	op := runTo(data, blanks, 4, isSign)
	value = runTo(data, op, 64, isBlank)
	switch string(data[blanks:op]) {
	case "=", ":", ":=", "=>":
	case ",":
		if closed == at || value >= len(data) || !isQuote(data[value]) {
			return 0, false, false
		}
	default:
		return 0, false, false
	}
	return value, blanks > closed || value > op, true
}

var isSign = oneOf("=:>,")

// quoteAt returns the quote at i. It skips the backslashes of 0 to 3 levels of JSON encoding. depth is the number of
// these backslashes, or -1 if there is no quote.
func quoteAt(data []byte, i int) (depth int, quote byte) {
	end := runTo(data, i, 8, func(c byte) bool { return c == '\\' })
	depth = end - i
	if end >= len(data) || bytes.IndexByte([]byte("\"'`"), data[end]) < 0 || !slices.Contains([]int{0, 1, 3, 7}, depth) {
		return -1, 0
	}
	return depth, data[end]
}

// quotedEnd returns the end of a quoted string that has depth backslashes before its quotes: the closing quote, the end
// of an enclosing JSON string, a line break or the end of data.
func quotedEnd(data []byte, begin, depth int, quote byte) int {
	limit := min(len(data), begin+longValue)
	for i := begin; i < limit; {
		slashes := runTo(data, i, longValue, func(c byte) bool { return c == '\\' }) - i
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
