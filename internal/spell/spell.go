// Package spell suggests corrections of mistyped words.
package spell

import "strings"

// longest bounds a word, in bytes. Nearest ignores longer words.
const longest = 64

// Nearest returns the candidate that differs least from word, or "" if none is similar: a third of the word's letters,
// plus one, may differ. Case is ignored. Of equally similar candidates the first one is returned.
func Nearest(word string, candidates []string) string {
	if word == "" || len(word) > longest {
		return ""
	}
	best, least := "", len(word)/3+2
	for _, c := range candidates {
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d < least {
			best, least = c, d
		}
	}
	return best
}

// Hint returns "did you mean x?", or "" if no candidate is similar.
func Hint(word string, candidates []string) string {
	if best := Nearest(word, candidates); best != "" {
		return "did you mean " + best + "?"
	}
	return ""
}

// distance counts the inserted, deleted, replaced and swapped bytes between a and b.
func distance(a, b string) int {
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := above[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(change, row[j-1]+1, above[j]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}
