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

// oneOf returns what accepts the bytes of set.
func oneOf(set string) func(byte) bool {
	var in [256]bool
	for _, c := range []byte(set) {
		in[c] = true
	}
	return func(c byte) bool { return in[c] }
}

// run returns the end of the longest run of bytes from at on that ok accepts.
func run(data []byte, at int, ok func(byte) bool) int {
	for at < len(data) && ok(data[at]) {
		at++
	}
	return at
}

// runTo is run over at most most bytes.
func runTo(data []byte, at, most int, ok func(byte) bool) int {
	return run(data[:min(len(data), at+most)], at, ok)
}

// boundary reports whether a token may begin at offset i: nothing of an identifier stands before it, or what does is
// the end of an escape such as \n, \u003d or %3D.
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

// apart is boundary for tokens that are known by how they begin: an underscore before them belongs to something else.
func apart(data []byte, i int) bool { return boundary(data, i) || data[i-1] == '_' }

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

// lettersAndDigits reports whether text has both.
func lettersAndDigits(text []byte) bool {
	var digit, letter bool
	for _, c := range text {
		digit = digit || isDigit(c)
		letter = letter || isUpper(c) || isLower(c)
	}
	return digit && letter
}

// entropy returns how many bits a byte of text carries, by Shannon.
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

// random reports whether text looks made by chance: long enough, letters and digits, and few repetitions.
func random(text []byte, least int, bits float64) bool {
	return len(text) >= least && lettersAndDigits(text) && entropy(text) >= bits
}
