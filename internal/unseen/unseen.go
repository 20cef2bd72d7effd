// Package unseen finds the characters of a text that people do not see although programs and models read them.
package unseen

import (
	"iter"
	"strings"
	"unicode"
)

// maxMarks is how many marks in a row a character may carry; more of them cover what is beside it.
const maxMarks = 8

const (
	joiner = '\u200d'
	// emoji asks for the colourful form of the symbol before it.
	emoji = '\ufe0f'
	// blank is a symbol of no dots.
	blank = '\u2800'
)

// Runes returns the characters of a text, each with whether people do not see it, or see others in another order because
// of it. What joins the parts of an emoji or of a ligature is seen there and nowhere else. Line breaks and tabs are seen,
// invalid bytes are U+FFFD.
func Runes(text string) iter.Seq2[rune, bool] {
	return func(yield func(rune, bool) bool) {
		before, marks := rune(0), 0
		for _, r := range text {
			if marks++; !unicode.In(r, unicode.Mn, unicode.Me) {
				marks = 0
			}
			if !yield(r, marks > maxMarks || hidden(before, r)) {
				return
			}
			before = r
		}
	}
}

// In reports whether a text has a character that people do not see.
func In(text string) bool {
	for _, hidden := range Runes(text) {
		if hidden {
			return true
		}
	}
	return false
}

func hidden(before, r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case r <= unicode.MaxASCII:
		return unicode.IsControl(r)
	case r == joiner:
		return before != emoji && !unicode.In(before, unicode.Mn, unicode.Mc, unicode.So, unicode.Sk)
	case r == emoji:
		return !unicode.In(before, unicode.So, unicode.Sm) && !strings.ContainsRune("0123456789#*‼⁉〰〽", before)
	case r == '\u2028', r == '\u2029', r == blank, unicode.IsControl(r):
		return true
	default:
		return unicode.In(r, unicode.Cf, unicode.Co, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point,
			unicode.Noncharacter_Code_Point)
	}
}
