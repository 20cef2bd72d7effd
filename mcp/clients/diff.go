package clients

import (
	"bytes"
	"fmt"
	"strings"
)

// around is the number of lines that a diff shows before and after a change.
const around = 3

// Diff returns a unified diff of two contents of a file, empty when they are equal. A change of an entry is one
// piece of the file, so that one hunk shows it.
func Diff(file string, before, after []byte) string {
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
	start, below := max(0, head-around), min(tail, around)
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n@@ -%s +%s @@\n", file, file,
		span(start, len(a)-tail+below), span(start, len(b)-tail+below))
	write(&out, " ", a[start:head])
	write(&out, "-", a[head:len(a)-tail])
	write(&out, "+", b[head:len(b)-tail])
	write(&out, " ", a[len(a)-tail:len(a)-tail+below])
	return out.String()
}

// span is the place of a hunk: its first line, from 1, and how many they are.
func span(from, to int) string {
	if from == to {
		return fmt.Sprintf("%d,0", from)
	}
	return fmt.Sprintf("%d,%d", from+1, to-from)
}

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
