package secrets

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// isBare accepts the bytes of an unquoted literal. Calls and variable expansions contain other bytes.
var isBare = oneOf("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+/=~!@#%^.:*?|$")

// isPathLetter accepts the bytes of a file path in a secret source.
var isPathLetter = oneOf("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+/.@~")

// bareEnd reports whether an unquoted literal may end at offset i.
func bareEnd(data []byte, i int) bool {
	return i == len(data) || bytes.IndexByte([]byte(" \t\r\n\"';&\\`"), data[i]) >= 0
}

// number reports whether the value may be a number, an address or a time. These are never secrets.
func (v value) number() bool {
	return run(v.text, 0, oneOf("0123456789+-.:eE")) == len(v.text)
}

// path reports whether the value is a URL, or a file path without an element that looks random.
func (v value) path() bool {
	if bytes.Contains(v.text, []byte("://")) {
		return true
	}
	if !slices.ContainsFunc([]string{"/", "./", "../", "~/"}, func(start string) bool { return bytes.HasPrefix(v.text, []byte(start)) }) {
		return false
	}
	return !slices.ContainsFunc(bytes.Split(v.text, []byte("/")), func(part []byte) bool { return looksRandom(part, shortLoose, 3.5) })
}

// isSource reports whether the value is only a reference to a secret, as in plans and settings: env:NAME or file:/PATH.
func (v value) isSource() bool {
	if name, ok := bytes.CutPrefix(v.text, []byte("env:")); ok {
		return isIdentifier(name)
	}
	path, ok := bytes.CutPrefix(v.text, []byte("file:/"))
	return ok && run(path, 0, isPathLetter) == len(path)
}

// inResource reports whether the text at offset i is part of a resource name, as in
// arn:aws:secretsmanager:us-east-1:123456789012:secret:NAME.
func inResource(data []byte, i int) bool {
	const longestName = 128
	if i == 0 || data[i-1] != ':' {
		return false
	}
	words := bytes.FieldsFunc(data[max(0, i-longestName):i], func(r rune) bool { return strings.ContainsRune(" \t\r\n\"'`", r) })
	return len(words) > 0 && (bytes.HasPrefix(words[len(words)-1], []byte("arn:")) || bytes.HasPrefix(words[len(words)-1], []byte("urn:")))
}

// repeatsName reports whether the value repeats the name or a part of it, as in debugToken = debugtoken. It also
// returns true for the name PublicKeyToken, because such a value is public.
func (v value) repeatsName() bool {
	name, text := bytes.ToLower(v.name), bytes.ToLower(v.text)
	return bytes.Contains(name, text) && !bytes.ContainsAny(text, "0123456789") || bytes.Equal(name, text) || bytes.HasSuffix(name, []byte("publickeytoken"))
}

// pattern reports whether the value is a wildcard pattern, such as projects/*/secrets/*, or a type, such as *uint16.
func (v value) pattern() bool {
	return bytes.Contains(v.text, []byte("/*/")) || v.unsigned && v.text[0] == '*' && isIdentifier(v.text[1:])
}

// literal reports whether text can be a secret itself: it is a single word, and neither a placeholder nor the name of a
// secret.
func literal(text []byte) bool {
	return !bytes.ContainsAny(text, " \t") && !placeholder(text) && !namesSecret(text)
}

// placeholderParts returns strings that occur in placeholders, in lower case.
func placeholderParts() []string {
	return []string{
		"${", "$(", "{{", "}}", "<", "[redacted", "process.env", "os.environ", "getenv", "secret://", "secrets.", "your-", "your_",
		"convertto-securestring", "changeme", "change-me", "change_me", "placeholder", "xxxx", "****", "....", "example.com", "examplekey",
	}
}

// placeholder reports whether text is a placeholder for a value defined elsewhere.
func placeholder(text []byte) bool {
	lower := strings.ToLower(string(text))
	for _, part := range placeholderParts() {
		if strings.Contains(lower, part) {
			return true
		}
	}
	if strings.HasPrefix(lower, "$") || strings.HasPrefix(lower, "%") || strings.HasPrefix(lower, "{") || len(lower) > 1 && lower == strings.Repeat(lower[:1], len(lower)) {
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

// identifier matches an identifier in which digits occur only at the end of words.
var identifier = regexp.MustCompile(`\A[A-Za-z_$]+(?:[0-9]+(?:[A-Z_][A-Za-z_$]*|\z))*\z`)

// isIdentifier reports whether text may be an identifier and does not look random.
func isIdentifier(text []byte) bool {
	return identifier.Match(text) && !looksRandom(text, shortLoose, 4.2)
}

// reference reports whether text is a path of identifiers, such as config.Token or app::secret, and not a value.
func reference(text []byte) bool {
	if bytes.IndexByte(text, '.') < 0 && bytes.IndexByte(text, ':') < 0 {
		return false
	}
	parts := bytes.FieldsFunc(text, func(r rune) bool { return r == '.' || r == ':' })
	return !slices.ContainsFunc(parts, func(part []byte) bool { return !isIdentifier(part) })
}

// isReference reports whether the value is code that refers to a value: a path of identifiers, or an unquoted
// identifier after an operator with blanks.
func (v value) isReference() bool {
	return reference(v.text) || !v.quoted && v.spaced && isIdentifier(v.text)
}
