package git

import (
	"context"
	"strings"

	"github.com/orch-dev/orch/tools"
)

// allContext are so many lines of context that a diff has both versions of each file as a whole.
const allContext = "--unified=1000000"

// withoutKeys returns a diff with the lines of private keys hidden. A hunk may have neither the first nor the last line of a key, so these
// are looked for in the whole files. If these are too large, each line that may be one of a key is hidden.
func (r *repository) withoutKeys(ctx context.Context, diff string, comparison, excluded []string) (string, error) {
	lines := strings.SplitAfter(diff, "\n")
	if !hasKeyLine(lines) {
		return diff, nil
	}
	whole, truncated, err := r.diff(ctx, comparison, excluded, "--patch", allContext)
	if err != nil {
		return "", err
	}
	keys := keyLines(whole)
	if len(keys) == 0 && !truncated {
		return diff, nil
	}
	for i, line := range lines {
		switch content := contentOf(line); {
		case keys[content], truncated && mayBeKey(content):
			lines[i] = line[:1] + tools.HiddenLine + "\n"
		case strings.HasPrefix(line, "@@ "): // after the numbers git names a line before the hunk
			numbers, _, _ := strings.Cut(line[len("@@ "):], " @@")
			lines[i] = "@@ " + numbers + " @@\n"
		}
	}
	return strings.Join(lines, ""), nil
}

func hasKeyLine(lines []string) bool {
	for _, line := range lines {
		if mayBeKey(contentOf(line)) {
			return true
		}
	}
	return false
}

// contentOf returns a line of a hunk without its mark; "" for other lines.
func contentOf(line string) string {
	if line == "" || strings.IndexByte(" +-", line[0]) < 0 {
		return ""
	}
	return strings.TrimRight(line[1:], "\r\n")
}

// mayBeKey reports whether a line looks like one of the body of a private key in PEM, whose lines have 64 characters or more.
func mayBeKey(line string) bool {
	const least = 40
	return len(line) >= least && strings.Trim(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") == ""
}

// keyLines returns the lines of private keys in the versions before and after a diff with the whole files.
func keyLines(whole string) map[string]bool {
	keys := map[string]bool{}
	var before, after tools.KeyBlock
	for line := range strings.SplitSeq(whole, "\n") {
		content := contentOf(line)
		switch {
		case strings.HasPrefix(line, "diff "):
			before, after = tools.KeyBlock{}, tools.KeyBlock{}
		case content == "":
		case line[0] != '+' && before.Contains([]byte(content)), line[0] != '-' && after.Contains([]byte(content)):
			keys[content] = true
		}
	}
	return keys
}
