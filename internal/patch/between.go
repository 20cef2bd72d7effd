package patch

import (
	"bytes"
	"fmt"
	"strings"
)

// contextLines is the number of unchanged lines before and after a change.
const contextLines = 3

// Between returns a unified diff from before to after, the contents of a file. It is empty when they are equal. The
// diff has a single hunk: the changes of one call are usually close together.
func Between(file string, before, after []byte) string {
	if bytes.Equal(before, after) {
		return ""
	}
	a, b := lines(before), lines(after)
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	start, below := max(0, head-contextLines), min(tail, contextLines)
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n@@ -%s +%s @@\n", file, file,
		extent(start, len(a)-tail+below), extent(start, len(b)-tail+below))
	write(&out, " ", a[start:head])
	writeChanges(&out, a[head:len(a)-tail], b[head:len(b)-tail])
	write(&out, " ", a[len(a)-tail:len(a)-tail+below])
	return out.String()
}

// maxCells bounds the table of commonLengths. Longer changes are written as all removed and all added lines.
const maxCells = 1 << 20

// writeChanges writes the removed, added and common lines of a and b, by their longest common subsequence.
func writeChanges(out *strings.Builder, a, b []string) {
	if len(a)*len(b) > maxCells {
		write(out, "-", a)
		write(out, "+", b)
		return
	}
	common := commonLengths(a, b)
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			write(out, " ", a[i:i+1])
			i, j = i+1, j+1
		case i < len(a) && (j == len(b) || common[i+1][j] >= common[i][j+1]):
			write(out, "-", a[i:i+1])
			i++
		default:
			write(out, "+", b[j:j+1])
			j++
		}
	}
}

// commonLengths returns a table: element [i][j] is the length of the longest common subsequence of a[i:] and b[j:].
func commonLengths(a, b []string) [][]int {
	common := make([][]int, len(a)+1)
	common[len(a)] = make([]int, len(b)+1)
	for i := len(a) - 1; i >= 0; i-- {
		common[i] = make([]int, len(b)+1)
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	return common
}

// extent formats the lines [from, to) for a hunk header: the number of the first line, counted from 1, and the number
// of lines.
func extent(from, to int) string {
	if from == to {
		return fmt.Sprintf("%d,0", from)
	}
	return fmt.Sprintf("%d,%d", from+1, to-from)
}

// write writes lines, each after a sign: ' ', '-' or '+'.
func write(out *strings.Builder, sign string, lines []string) {
	for _, line := range lines {
		out.WriteString(sign + line)
		if !strings.HasSuffix(line, "\n") {
			out.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// lines splits text after each newline.
func lines(text []byte) []string {
	all := strings.SplitAfter(string(text), "\n")
	if all[len(all)-1] == "" {
		return all[:len(all)-1]
	}
	return all
}
