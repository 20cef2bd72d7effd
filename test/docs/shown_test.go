package docs_test

import (
	"regexp"
	"slices"
	"strings"
)

// varying matches what differs from run to run in any output: ids, times and durations.
const varying = `\b[A-Z]{3,10}_[0-9A-Z]{26}\w*|\b\d{4}-\d\d-\d\dT[0-9:.]+Z|\b(?:\d+(?:\.\d+)?(?:h|ms|m|s|µs|ns))+\b`

// shows reports whether an output has the lines that a page shows. "…" stands for any text, alone on a line for any number of lines.
// varies are texts that stand for any word.
func shows(output, text string, varies []string) bool {
	var lines strings.Builder
	lines.WriteString(`(?m)^`)
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		if line = strings.TrimRight(line, " \n"); strings.TrimSpace(line) == "…" {
			lines.WriteString(`(?:.*\n)*?`)
		} else {
			lines.WriteString(pattern(line, varies) + `[ \t]*\n`)
		}
	}
	return regexp.MustCompile(lines.String()).MatchString(output + "\n")
}

// says reports whether a line of an output has a text.
func says(output, text string, varies []string) bool {
	return regexp.MustCompile(pattern(text, varies)).MatchString(output)
}

// pattern returns the pattern for a line that a page shows.
func pattern(line string, varies []string) string {
	varies = slices.Clone(varies)
	for i, one := range varies {
		varies[i] = word(one)
	}
	free := regexp.MustCompile(strings.Join(append(varies, varying, `…`, `\s+`), "|"))
	var out strings.Builder
	last := 0
	for _, found := range free.FindAllStringIndex(line, -1) {
		out.WriteString(regexp.QuoteMeta(line[last:found[0]]))
		out.WriteString(standIn(line[found[0]:found[1]]))
		last = found[1]
	}
	return out.String() + regexp.QuoteMeta(line[last:])
}

// standIn returns the pattern for a part of a line that need not be the same.
func standIn(found string) string {
	switch {
	case found == "…", strings.Contains(strings.TrimSpace(found), " "):
		return `.*`
	case strings.TrimSpace(found) == "":
		return `[ \t]+`
	default:
		return `\S+`
	}
}
