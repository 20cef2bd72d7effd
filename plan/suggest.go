package plan

import (
	"slices"
	"strings"
)

// maxSuggest bounds the work that is spent on a name that is no typo.
const maxSuggest = 64

// suggest returns "did you mean x?" for the candidate nearest to a mistyped name, or "".
func suggest(name string, candidates []string) string {
	if len(name) > maxSuggest {
		return ""
	}
	best, distance := "", len(name)/3+1
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		if d := editDistance(strings.ToLower(name), strings.ToLower(c)); d <= distance && (best == "" || d < distance) {
			best, distance = c, d
		}
	}
	if best == "" || best == name {
		return ""
	}
	return "did you mean " + best + "?"
}

// editDistance counts the inserted, deleted and replaced bytes between a and b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
