package policy

import "bytes"

// boundary reports whether a token may begin at offset i: nothing of an identifier stands before it,
// or what does is the end of a JSON escape such as \n or \u003d.
func boundary(data []byte, i int) bool {
	if i == 0 || !isWord(data[i-1]) {
		return true
	}
	if i >= 2 && data[i-2] == '\\' && bytes.IndexByte([]byte("nrtbf"), data[i-1]) >= 0 {
		return true
	}
	return i >= 6 && data[i-6] == '\\' && data[i-5] == 'u'
}

// run returns the end of the longest run of bytes from at on that ok accepts.
func run(data []byte, at int, ok func(byte) bool) int {
	for at < len(data) && ok(data[at]) {
		at++
	}
	return at
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isAlnum(c byte) bool { return isDigit(c) || isUpper(c) || isLower(c) }
func isWord(c byte) bool  { return isAlnum(c) || c == '_' }
func isURL64(c byte) bool { return isWord(c) || c == '-' }

// prefixed matches a token of a fixed prefix and at least least bytes that ok accepts.
func prefixed(data []byte, at, prefix, least int, ok func(byte) bool) (begin, end int, found bool) {
	end = run(data, at+prefix, ok)
	return at, end, boundary(data, at) && end-at-prefix >= least
}

func awsKey(data []byte, at int) (begin, end int, ok bool) {
	begin, end, ok = prefixed(data, at, 4, 16, func(c byte) bool { return isUpper(c) || isDigit(c) })
	return begin, end, ok && end-begin == 20 && (end == len(data) || !isWord(data[end]))
}

func githubToken(data []byte, at int) (begin, end int, ok bool) {
	return prefixed(data, at, 4, 36, isAlnum)
}

func githubPAT(data []byte, at int) (begin, end int, ok bool) {
	return prefixed(data, at, 11, 22, isWord)
}

func orchToken(data []byte, at int) (begin, end int, ok bool) {
	return prefixed(data, at, 5, 40, isAlnum)
}

// skKey wants a digit, which names such as sk-circle-fade-dot have not.
func skKey(data []byte, at int) (begin, end int, ok bool) {
	begin, end, ok = prefixed(data, at, 3, 20, isURL64)
	return begin, end, ok && bytes.ContainsAny(data[begin:end], "0123456789")
}

// jwt matches header and payload, which both begin with {" in base64, and a signature.
func jwt(data []byte, at int) (begin, end int, ok bool) {
	header := run(data, at, isURL64)
	if !boundary(data, at) || header-at < 10 || !bytes.HasPrefix(data[header:], []byte(".eyJ")) {
		return 0, 0, false
	}
	payload := run(data, header+1, isURL64)
	if payload-header < 10 || payload >= len(data) || data[payload] != '.' {
		return 0, 0, false
	}
	end = run(data, payload+1, isURL64)
	return at, end, end-payload > 8
}

// privateKey matches a PEM block of a private key, up to its last line or as far as it goes.
func privateKey(data []byte, at int) (begin, end int, ok bool) {
	const dashes = "-----"
	label := run(data, at+len("-----BEGIN"), func(c byte) bool { return isUpper(c) || isDigit(c) || c == ' ' })
	if !bytes.HasPrefix(data[label:], []byte(dashes)) || !bytes.Contains(data[at:label], []byte("PRIVATE KEY")) {
		return 0, 0, false
	}
	end = pemRun(data, label+len(dashes))
	if last := bytes.Index(data[label:end], []byte("-----END")); last >= 0 {
		last += label + len("-----END")
		last = run(data, last, func(c byte) bool { return isUpper(c) || isDigit(c) || c == ' ' })
		return at, min(run(data, last, func(c byte) bool { return c == '-' }), last+len(dashes)), true
	}
	return at, end, true
}

// pemRun returns the end of the bytes that a PEM block may hold, with line breaks as such or as JSON
// escapes. A backslash is taken only together with what it escapes.
func pemRun(data []byte, at int) int {
	for at < len(data) {
		c := data[at]
		switch {
		case isAlnum(c) || bytes.IndexByte([]byte("+/=:,-() \t\r\n."), c) >= 0:
			at++
		case c == '\\' && at+1 < len(data) && bytes.IndexByte([]byte(`\nrtu/`), data[at+1]) >= 0:
			at += 2
		default:
			return at
		}
	}
	return at
}

// urlPassword matches the password of scheme://user:password@host.
func urlPassword(data []byte, at int) (begin, end int, ok bool) {
	const longest = 256
	stop := func(c byte) bool { return c > ' ' && c < 0x7f && bytes.IndexByte([]byte(`/@"'<>\?#`+"`"), c) < 0 }
	area := data[at+3 : min(len(data), at+3+longest)]
	end = run(area, 0, stop)
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

// dsnPassword matches what stands before the address in user:password@tcp(host:port)/name, as drivers of
// MySQL write it.
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
