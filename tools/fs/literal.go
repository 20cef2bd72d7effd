package fs

import (
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// literal is a text that every match of an expression contains. Looking for it first is several times
// faster than the expression.
type literal struct {
	text string
	// fold tells that text is in lower case and stands for upper case as well.
	fold bool
}

// required returns the longest such text that is easy to see, an empty one if there is none.
func required(pattern string) literal {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return literal{}
	}
	return literalOf(re)
}

func literalOf(re *syntax.Regexp) literal {
	switch re.Op { //nolint:exhaustive // nothing is required by the other operators
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			return literal{foldable(re.Rune), true}
		}
		if !slices.Contains(re.Rune, utf8.RuneError) { // which also stands for invalid bytes
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

// foldable returns the longest part of a text, in lower case, whose letters have no upper or lower
// case outside of ASCII: k and s have one, the Kelvin sign and the long s.
func foldable(runes []rune) string {
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

// lower writes text with ASCII letters in lower case to buf, which is large enough.
func lower(buf, text []byte) []byte {
	buf = buf[:len(text)]
	for i, c := range text {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		buf[i] = c
	}
	return buf
}
