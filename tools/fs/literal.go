package fs

import "regexp/syntax"

// required returns the longest text that every match of the pattern contains, as far as that is easy
// to see, or nil. Looking for it first is several times faster than the expression.
func required(pattern string) []byte {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil
	}
	if text := literal(re); text != "" {
		return []byte(text)
	}
	return nil
}

func literal(re *syntax.Regexp) string {
	switch re.Op { //nolint:exhaustive // nothing is required by the other operators
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 {
			return string(re.Rune)
		}
	case syntax.OpCapture, syntax.OpPlus:
		return literal(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return literal(re.Sub[0])
		}
	case syntax.OpConcat:
		longest := ""
		for _, sub := range re.Sub {
			if text := literal(sub); len(text) > len(longest) {
				longest = text
			}
		}
		return longest
	}
	return ""
}
