// Package unseen finds characters in a text that are invisible to people although programs and models read them.
package unseen

import (
	"iter"
	"strings"
	"unicode"
)

// maxMarks bounds consecutive combining marks. A longer sequence would cover neighbouring characters.
const maxMarks = 8

const (
	joiner = '\u200d'
	// emoji is the variation selector for the emoji form of the preceding symbol.
	emoji = '\ufe0f'
	// blank is the braille pattern without dots.
	blank = '\u2800'
)

// Runes yields the characters of a text. The bool is true if the character is invisible or changes the displayed order.
// Joiners count as visible only inside an emoji or a ligature. Line breaks and tabs count as visible. Invalid bytes are
// yielded as U+FFFD.
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

// In reports whether a text contains an invisible character.
func In(text string) bool {
	for _, hidden := range Runes(text) {
		if hidden {
			return true
		}
	}
	return false
}

// hidden reports whether r is invisible after the character before.
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
