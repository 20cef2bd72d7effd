package fs

import (
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// literal is a text that every match of an expression contains. Searching for it first is several times faster than
// running the expression.
type literal struct {
	text string
	// fold is true when text is in lower case and also matches upper case.
	fold bool
}

// requiredLiteral returns the longest literal that it finds in the syntax tree of pattern and that every match
// contains. It returns an empty literal if there is none.
func requiredLiteral(pattern string) literal {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return literal{}
	}
	return literalOf(re)
}

// literalOf returns the longest literal that every match of a syntax tree contains.
func literalOf(re *syntax.Regexp) literal {
	switch re.Op { //nolint:exhaustive // the other operators require no literal
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			return literal{longestFoldable(re.Rune), true}
		}
		if !slices.Contains(re.Rune, utf8.RuneError) { // RuneError also matches invalid bytes
			return literal{string(re.Rune), false}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return literalOf(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return literalOf(re.Sub[0])
		}
	case syntax.OpConcat:
		var longest literal
		for _, sub := range re.Sub {
			if l := literalOf(sub); len(l.text) > len(longest.text) {
				longest = l
			}
		}
		return longest
	}
	return literal{}
}

// longestFoldable returns the longest part of a text, in lower case, without characters that have upper or lower case
// forms outside of ASCII. The letters k and s have such forms: the Kelvin sign and the long s.
func longestFoldable(runes []rune) string {
	longest := ""
	for part := range strings.FieldsFuncSeq(strings.ToLower(string(runes)), func(r rune) bool {
		return r >= 0x80 || r == 'k' || r == 's'
	}) {
		if len(part) > len(longest) {
			longest = part
		}
	}
	return longest
}

// lowerASCII copies text to buf, which must be large enough, with ASCII letters in lower case.
func lowerASCII(buf, text []byte) []byte {
	buf = buf[:len(text)]
	for i, c := range text {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		buf[i] = c
	}
	return buf
}
