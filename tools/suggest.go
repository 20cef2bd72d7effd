package tools

import "strings"

// nearest returns the candidate closest to word, ignoring case, or "" when none is close.
func nearest(word string, candidates []string) string {
	best, bound := "", len(word)/3+2
	for _, c := range candidates {
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d < bound {
			best, bound = c, d
		}
	}
	return best
}

// distance returns the number of bytes to insert, delete or replace to get from a to b.
func distance(a, b string) int {
	const longest = 200 // names are short; anything longer is not worth the quadratic work
	if len(a) > longest || len(b) > longest {
		return longest
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
