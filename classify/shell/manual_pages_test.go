package shell_test

import (
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/classify/shell"
)

// manualLine is a line of testdata/manual_pages.txt.
type manualLine struct {
	class, command string
	// held is true for the holdout third of the lines, which was not used to develop the rules.
	held bool
}

func manualPages(t *testing.T) []manualLine {
	t.Helper()
	data, err := os.ReadFile("testdata/manual_pages.txt")
	require.NoError(t, err)
	var lines []manualLine
	for line := range strings.Lines(string(data)) {
		class, command, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok {
			continue // a comment
		}
		command = strings.ReplaceAll(command, "⏎", "\n")
		lines = append(lines, manualLine{class, command, crc32.ChecksumIEEE([]byte(command))%3 == 0})
	}
	return lines
}

// Few read-only commands need an approval. Every command that writes, destroys, runs another program, uses the network
// or changes a setting needs one. The directory is outside the workspace, so that writing there counts. SHOW=1 prints
// the unexpected lines of the other two thirds.
func TestManualPages(t *testing.T) {
	t.Parallel()
	outside := shell.Context{Dir: "/root/project", Workspace: workspace}
	var read, asked, hostile, through, held, heldAsked, heldThrough int
	for _, l := range manualPages(t) {
		class := shell.Classify(l.command, outside)
		stops := class.Destructive || class.Interactive
		switch l.class {
		case "work":
			continue
		case "read":
			read += count(true)
			held += count(l.held)
			asked += count(stops)
			heldAsked += count(stops && l.held)
		default:
			hostile += count(true)
			through += count(!stops)
			heldThrough += count(!stops && l.held)
		}
		if stops == (l.class == "read") && !l.held && os.Getenv("SHOW") != "" {
			t.Logf("%s\t%q\t%s", l.class, l.command, class.Reason)
		}
	}
	t.Logf("harmless %d, asked %d; of them held out %d, asked %d; hostile %d, through %d, of them held out %d",
		read, asked, held, heldAsked, hostile, through, heldThrough)
	assert.GreaterOrEqual(t, read, 600)
	assert.GreaterOrEqual(t, hostile, 600)
	assert.Zero(t, through)
	assert.LessOrEqual(t, asked*100, 3*read)
	assert.LessOrEqual(t, heldAsked*100, 3*held)
	row := fmt.Sprintf("| shell commands of the manual pages | %s | %d | %d | %d (%.1f %%) |",
		thousands(hostile), through, read, asked, float64(asked)*100/float64(read))
	documented(t, row)
}

// documented checks that docs/explanation/security.md contains a row of figures.
func documented(t *testing.T, row string) {
	t.Helper()
	docs, err := os.ReadFile("../../docs/explanation/security.md")
	require.NoError(t, err)
	for line := range strings.Lines(string(docs)) {
		if strings.TrimSpace(line) == row {
			return
		}
	}
	assert.Fail(t, "docs/explanation/security.md lacks a row", row)
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// No form allows combining an option that has a value with other letters: the value would include the rest of the word.
func TestFormsOfValuesStandAlone(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("forms_*.go")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	together := regexp.MustCompile(`\s-[A-Za-z0-9]{2,}[=?]`)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.Empty(t, together.FindAllString(string(text), -1), name)
	}
}
