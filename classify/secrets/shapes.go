package secrets

import (
	"bytes"
	"encoding/base64"
)

// shapes returns the keys of secrets that have a distinctive form but need code to find.
func shapes() []key {
	keys := []key{
		{rule: "private_key", text: "-----BEGIN", find: privateKey},
		{rule: "private_key", text: "-----END", find: endOfKey},
		{rule: "private_key", text: "LS0tLS1CRUdJTi", find: encodedPrivateKey},
		{rule: "jwt", text: "eyJ", begins: true, dotted: true, find: jwt},
		{rule: "url_password", text: "://", find: urlPassword},
		{rule: "api_key", text: "sk-", find: skKey},
	}
	for _, driver := range []string{"@tcp(", "@unix("} {
		keys = append(keys, key{rule: "url_password", text: driver, find: dsnPassword})
	}
	return keys
}

// skKey matches API keys that begin with sk-, such as those of OpenAI and Anthropic. It requires a digit, so that it
// does not match names such as sk-circle-fade-dot.
func skKey(data []byte, at int) (begin, end int, ok bool) {
	const least = 23
	end = runTo(data, at, longest, isURL64)
	text := data[at:end]
	alone := boundaryOrUnderscore(data, at) || bytes.HasPrefix(text, []byte("sk-ant-api"))
	return at, end, len(text) >= least && alone && lettersAndDigits(text) && entropy(text) > opaqueEntropy && !placeholder(text)
}

// jwt matches a JSON Web Token. A signed token has a header and a payload, which both begin with {" in base64, and a
// signature. An encrypted token has five parts.
func jwt(data []byte, at int) (begin, end int, ok bool) {
	const least, most = 10, 1 << 14
	if !boundaryOrUnderscore(data, at) {
		return 0, 0, false
	}
	end = runTo(data, at, most, isURL64)
	if end-at < least {
		return 0, 0, false
	}
	signed := bytes.HasPrefix(data[end:], []byte(".eyJ"))
	parts := 1
	for parts < 5 && end < len(data) && data[end] == '.' {
		next := runTo(data, end+1, most, isURL64)
		if signed && next-end <= least {
			return at, next, false
		}
		end = next
		parts++
	}
	ok = signed && parts >= 3 || parts == 5 && end-at > 6*least
	for ok && end+1 < len(data) && data[end] == '.' && isURL64(data[end+1]) { // one more part, perhaps of another token
		end = runTo(data, end+1, most, isURL64)
	}
	return at, end, ok
}

// Maximum lengths of a PEM block, with the escapes of its line breaks, and of its label, in bytes.
const (
	longestKey   = 20 << 10
	longestLabel = 100
)

// privateKey matches the PEM block of a private key up to its END line, or up to the first byte that cannot be part of
// it.
func privateKey(data []byte, at int) (begin, end int, ok bool) {
	const dashes = "-----"
	label := runTo(data, at+len("-----BEGIN"), longestLabel, isLabel)
	if !bytes.HasPrefix(data[label:], []byte(dashes)) || !bytes.Contains(data[at:label], []byte("PRIVATE KEY")) {
		return 0, 0, false
	}
	body := label + len(dashes)
	end = pemRun(data, body)
	if last := bytes.Index(data[body:end], []byte("-----END")); last >= 0 {
		end = runTo(data, body+last+len("-----END"), longestLabel, isLabel)
		end = runTo(data, end, len(dashes), func(c byte) bool { return c == '-' })
	}
	return at, end, holdsKey(data[body:end])
}

// endOfKey matches the end of a PEM block of a private key if the beginning of the block is missing.
func endOfKey(data []byte, at int) (begin, end int, ok bool) {
	label := runTo(data, at+len("-----END"), longestLabel, isLabel)
	if !bytes.Contains(data[at:label], []byte("PRIVATE KEY")) {
		return 0, 0, false
	}
	begin = at
	for begin > max(0, at-longestKey) && (isBase64(data[begin-1]) || bytes.IndexByte([]byte("= \t\r\n\\"), data[begin-1]) >= 0) {
		begin--
	}
	for begin < at && !isBase64(data[begin]) {
		begin++ // a backslash at the end of the remaining text would escape the next quote
	}
	if begin > 0 && data[begin-1] == '\\' {
		begin++ // the letter of an escape
	}
	return begin, at, begin < at && holdsKey(data[begin:at])
}

// keyLines returns the further lines of a private key after its beginning at offset at. Each line may be a separate
// string, as in the results of a line search.
func keyLines(data []byte, at int) []Finding {
	const apart, least = 512, 40
	var found []Finding
	for begin, i := at, at; i < len(data) && i-begin < apart; {
		end := run(data, i, func(c byte) bool { return isBase64(c) || c == '=' })
		switch {
		case end-i >= least && lettersAndDigits(data[i:end]):
			found = append(found, Finding{Rule: "private_key", Offset: i, Length: end - i})
			begin, i = end, end
		case bytes.HasPrefix(data[i:], []byte("-----END")), beginsKey(data, i):
			return found
		default:
			i = max(end, i+1)
		}
	}
	return found
}

// beginsKey reports whether a PEM block of a private key begins at offset i.
func beginsKey(data []byte, i int) bool {
	if !bytes.HasPrefix(data[i:], []byte("-----BEGIN")) {
		return false
	}
	_, _, ok := privateKey(data, i)
	return ok
}

func isLabel(c byte) bool { return isUpper(c) || isDigit(c) || c == ' ' }

// holdsKey reports whether the text after the first line of a PEM block contains key data.
func holdsKey(text []byte) bool {
	length := 0
	for _, c := range text {
		if isBase64(c) {
			if length++; length >= 16 {
				return true
			}
			continue
		}
		length = 0
	}
	return false
}

// pemRun returns the end of the run of bytes from at that may belong to a PEM block. Line breaks may be plain or
// escaped as in JSON. A backslash is accepted only with the character that it escapes. The beginning of another block
// ends the run.
func pemRun(data []byte, at int) int {
	data = data[:min(len(data), at+longestKey)]
	for at < len(data) {
		c := data[at]
		switch {
		case c == '-' && bytes.HasPrefix(data[at:], []byte("-----BEGIN")):
			return at
		case isBase64(c) || bytes.IndexByte([]byte("=:,-() \t\r\n."), c) >= 0:
			at++
		case c == '\\' && at+1 < len(data) && bytes.IndexByte([]byte(`\nrtu/`), data[at+1]) >= 0:
			at += 2
		default:
			return at
		}
	}
	return at
}

// encodedPrivateKey matches a base64-encoded PEM block of a private key, as in Kubernetes configurations.
func encodedPrivateKey(data []byte, at int) (begin, end int, ok bool) {
	end = runTo(data, at, 64, isBase64)
	start, _ := base64.StdEncoding.DecodeString(string(data[at : at+(end-at)/4*4]))
	if !boundary(data, at) || !bytes.Contains(start, []byte("PRIVATE KEY")) {
		return 0, 0, false
	}
	end = run(data, end, isBase64)
	return at, run(data, end, func(c byte) bool { return c == '=' }), true
}

// urlPassword matches the password of scheme://user:password@host.
func urlPassword(data []byte, at int) (begin, end int, ok bool) {
	const longest = 256
	area := data[at+3 : min(len(data), at+3+longest)]
	end = run(area, 0, isUserinfo)
	colon := bytes.IndexByte(area[:end], ':')
	if at == 0 || !isAlnum(data[at-1]) || colon < 0 || end+1 >= len(area) || area[end] != '@' || !isAlnum(area[end+1]) && area[end+1] != '[' {
		return 0, 0, false
	}
	password := area[colon+1 : end]
	if len(password) == 0 || placeholder(password) {
		return 0, 0, false
	}
	return at + 3 + colon + 1, at + 3 + end, true
}

// isUserinfo accepts the bytes of a user name and password in a URL.
func isUserinfo(c byte) bool {
	return c > ' ' && c < 0x7f && bytes.IndexByte([]byte(`/@"'<>\?#`+"`"), c) < 0
}

// dsnPassword matches the password in user:password@tcp(host:port)/name, the format of MySQL drivers.
func dsnPassword(data []byte, at int) (begin, end int, ok bool) {
	const longest = 256
	begin = at
	for begin > max(0, at-longest) && data[begin-1] > ' ' && bytes.IndexByte([]byte("\"'`\\<>"), data[begin-1]) < 0 {
		begin--
	}
	_, password, found := bytes.Cut(data[begin:at], []byte(":"))
	if !found || len(password) == 0 || placeholder(password) {
		return 0, 0, false
	}
	return at - len(password), at, true
}
