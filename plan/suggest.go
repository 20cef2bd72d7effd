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
	best, distance := "", (len(name)+1)/3
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

// suggestOr returns the suggestion, or the other hint when there is none.
func suggestOr(name string, candidates []string, otherwise string) string {
	if hint := suggest(name, candidates); hint != "" {
		return hint
	}
	return otherwise
}

// editDistance counts the inserted, deleted, replaced and swapped bytes between a and b.
func editDistance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
