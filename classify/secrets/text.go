package secrets

import (
	"bytes"
	"math"
)

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isUpper(c byte) bool  { return 'A' <= c && c <= 'Z' }
func isLower(c byte) bool  { return 'a' <= c && c <= 'z' }
func isAlnum(c byte) bool  { return isDigit(c) || isUpper(c) || isLower(c) }
func isWord(c byte) bool   { return isAlnum(c) || c == '_' }
func isURL64(c byte) bool  { return isWord(c) || c == '-' }
func isBase64(c byte) bool { return isAlnum(c) || c == '+' || c == '/' }
func isBlank(c byte) bool  { return c == ' ' || c == '\t' }
func isHex(c byte) bool    { return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }

// oneOf returns a function that accepts the bytes of set.
func oneOf(set string) func(byte) bool {
	var in [256]bool
	for _, c := range []byte(set) {
		in[c] = true
	}
	return func(c byte) bool { return in[c] }
}

// run returns the end of the run of bytes from at on that ok accepts.
func run(data []byte, at int, ok func(byte) bool) int {
	for at < len(data) && ok(data[at]) {
		at++
	}
	return at
}

// runTo is run with a limit of most bytes.
func runTo(data []byte, at, most int, ok func(byte) bool) int {
	return run(data[:min(len(data), at+most)], at, ok)
}

// boundary reports whether a token may begin at offset i: it follows a character that cannot be part of an identifier,
// or an escape sequence such as \n, \u003d or %3D.
func boundary(data []byte, i int) bool {
	switch {
	case i == 0 || !isWord(data[i-1]):
		return true
	case i >= 2 && data[i-2] == '\\' && bytes.IndexByte([]byte("nrtbf"), data[i-1]) >= 0:
		return true
	case i >= 3 && data[i-3] == '%' && isHex(data[i-2]) && isHex(data[i-1]):
		return true
	}
	return i >= 6 && data[i-6] == '\\' && data[i-5] == 'u'
}

// boundaryOrUnderscore is boundary for tokens with a distinctive prefix, which may follow an underscore.
func boundaryOrUnderscore(data []byte, i int) bool { return boundary(data, i) || data[i-1] == '_' }

// mixed reports whether text has both letters and digits, or both lower-case letters and upper-case letters after the
// first byte.
func mixed(text []byte) bool {
	var digit, upper, lower bool
	for i, c := range text {
		digit = digit || isDigit(c)
		upper = upper || isUpper(c) && i > 0
		lower = lower || isLower(c)
	}
	return digit && (upper || lower || len(text) > 0 && isUpper(text[0])) || upper && lower
}

// lettersAndDigits reports whether text has both.
func lettersAndDigits(text []byte) bool {
	var digit, letter bool
	for _, c := range text {
		digit = digit || isDigit(c)
		letter = letter || isUpper(c) || isLower(c)
	}
	return digit && letter
}

// entropy returns the Shannon entropy of text in bits per byte.
func entropy(text []byte) float64 {
	var counts [256]int
	for _, c := range text {
		counts[c]++
	}
	bits := 0.0
	for _, n := range counts {
		if n > 0 {
			p := float64(n) / float64(len(text))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}

// looksRandom reports whether text looks random: it has at least least bytes, letters and digits, and an entropy of at least
// bits.
func looksRandom(text []byte, least int, bits float64) bool {
	return len(text) >= least && lettersAndDigits(text) && entropy(text) >= bits
}
