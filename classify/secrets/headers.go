package secrets

import (
	"bytes"
	"encoding/base64"
	"unicode/utf8"
)

// headers returns the keys for secrets in HTTP requests and similar text.
func headers() []key {
	return []key{
		{rule: "authorization", text: "authorization", fold: true, find: authorization},
		{rule: "bearer", text: "bearer ", fold: true, find: bearer},
		{rule: "basic", text: "basic ", fold: true, find: basic},
		{rule: "cookie", text: "cookie", fold: true, find: cookie},
		{rule: "encoded_password", text: "auth", fold: true, find: encodedPassword},
		{rule: "curl_user", text: "-u ", find: curlUser("-u ")},
		{rule: "curl_user", text: "--user ", find: curlUser("--user ")},
	}
}

// The minimum length of an opaque token, in bytes, and its minimum entropy, in bits per byte.
const (
	shortOpaque   = 16
	opaqueEntropy = 3
)

var (
	isOpaque = oneOf("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~+/=-:|")
	isQuote  = oneOf("\\\"'`")
)

// opaque reports whether text may be a token: it looks random and is not a placeholder.
func opaque(text []byte) bool {
	return looksRandom(text, shortOpaque, opaqueEntropy) && !placeholder(text) && !reference(text)
}

// bearer matches the token after a Bearer scheme.
func bearer(data []byte, at int) (begin, end int, ok bool) {
	begin = run(data, at+len("bearer "), isBlank)
	end = runTo(data, begin, 4*longest, isOpaque)
	return begin, end, boundary(data, at) && opaque(data[begin:end])
}

// basic matches the base64-encoded user and password after a Basic scheme.
func basic(data []byte, at int) (begin, end int, ok bool) {
	begin = run(data, at+len("basic "), isBlank)
	end, ok = userPassword(data, begin)
	return begin, end, ok && boundary(data, at)
}

// userPassword returns the end of the base64 text at offset at. ok is true if the text encodes user:password.
func userPassword(data []byte, at int) (end int, ok bool) {
	const least, most = 8, 512
	end = runTo(data, at, most, isBase64)
	size := end - at
	text, err := base64.RawStdEncoding.DecodeString(string(data[at:end]))
	if size < least || err != nil || !utf8.Valid(text) || bytes.ContainsFunc(text, func(r rune) bool { return r < ' ' }) {
		return 0, false
	}
	user, password, found := bytes.Cut(text, []byte(":"))
	return runTo(data, end, 2, func(c byte) bool { return c == '=' }), found && len(user) > 0 && len(password) > 0 && !placeholder(password)
}

// encodedPassword matches a base64-encoded user and password, as in "auth": "dXNlcjpwYXNz" (Docker configurations) and
// _auth=… (npm configurations).
func encodedPassword(data []byte, at int) (begin, end int, ok bool) {
	begin, _, ok = operator(data, at+len("auth"))
	if !ok {
		return 0, 0, false
	}
	begin = runTo(data, begin, 8, isQuote)
	end, ok = userPassword(data, begin)
	return begin, end, ok
}

// authorization matches the credentials in an Authorization header with any scheme.
func authorization(data []byte, at int) (begin, end int, ok bool) {
	begin, _, ok = operator(data, at+len("authorization"))
	if !ok {
		return 0, 0, false
	}
	begin = runTo(data, begin, 8, isQuote)
	scheme := runTo(data, begin, 24, isURL64)
	if value := run(data, scheme, isBlank); value > scheme {
		if end, ok = userPassword(data, value); ok {
			return value, end, true
		}
		begin = value
	}
	end = runTo(data, begin, 4*longest, isOpaque)
	return begin, end, opaque(data[begin:end])
}

// cookie matches the value of a Cookie or Set-Cookie header, if one of its values looks random.
func cookie(data []byte, at int) (begin, end int, ok bool) {
	const least = 3.3
	begin, _, ok = operator(data, at+len("cookie"))
	if !ok {
		return 0, 0, false
	}
	begin = runTo(data, begin, 8, isQuote)
	end = runTo(data, begin, 4*longest, func(c byte) bool { return c >= ' ' && c < 0x7f && !isQuote(c) })
	for pair := range bytes.SplitSeq(data[begin:end], []byte(";")) {
		name, value, found := bytes.Cut(bytes.TrimSpace(pair), []byte("="))
		if found && run(name, 0, isCookieName) == len(name) && bytes.IndexByte(value, ' ') < 0 && looksRandom(value, shortOpaque, least) && !placeholder(value) {
			return begin, end, true
		}
	}
	return begin, end, false
}

func isCookieName(c byte) bool { return isURL64(c) || c == '.' }

// curlUser returns a matcher of the password in curl -u user:password.
func curlUser(flag string) matcher {
	return func(data []byte, at int) (begin, end int, ok bool) {
		const before = 512
		if !bytes.Contains(data[max(0, at-before):at], []byte("curl")) {
			return 0, 0, false
		}
		begin = runTo(data, at+len(flag), 8, isQuote)
		end = runTo(data, begin, 256, isUserinfo)
		colon := bytes.IndexByte(data[begin:end], ':')
		if colon <= 0 {
			return 0, 0, false
		}
		begin += colon + 1
		return begin, end, end-begin >= 3 && !placeholder(data[begin:end])
	}
}
