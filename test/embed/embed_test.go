package embed_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/test/need"
)

const root = "../.."

// program returns the Go program of a page.
func program(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "\n```go\n")
	require.True(t, found, "%s has a program", page)
	code, rest, found := strings.Cut(rest, "\n```\n")
	require.True(t, found)
	require.NotContains(t, rest, "```go", "further programs of the page have no test")
	return code + "\n"
}

// build builds a program in a module of its own that requires this one, without any network.
func build(t *testing.T, code string) (binary string) {
	t.Helper()
	need.Program(t, "go")
	dir := t.TempDir()
	here, err := filepath.Abs(root)
	require.NoError(t, err)
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		if name == "go.mod" { // the same versions, so that nothing has to be looked up
			text = []byte(strings.Replace(string(text), "module github.com/orch-dev/orch\n", "module example.com/photos\n", 1) +
				"\nrequire github.com/orch-dev/orch v0.0.0\n\nreplace github.com/orch-dev/orch => " + here + "\n")
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(code), 0o600))
	binary = filepath.Join(dir, "photos")
	cmd := exec.Command("go", "build", "-o", binary, ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod -trimpath", "GOPROXY=off", "GOWORK=off")
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	return binary
}

// The program of the page is killed in the middle of its task. Started again it finishes the task; only the calls that were in
// progress are made twice.
func TestProgramOfThePageSurvivesAKill(t *testing.T) {
	t.Parallel()
	need.Long(t)
	binary := build(t, program(t, "docs/how-to/embed-orch.md"))
	dir := filepath.Join(t.TempDir(), "data")

	first := exec.Command(binary, dir)
	output, err := first.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, first.Start())
	t.Cleanup(func() { _ = first.Process.Kill() }) // it has ended, unless the test failed
	before := lines(t, output, 60)
	require.NoError(t, first.Process.Kill())
	rest, err := io.ReadAll(output)
	require.NoError(t, err)
	before = append(before, strings.FieldsFunc(string(rest), newline)...)
	require.Error(t, first.Wait(), "it was killed")

	after, err := exec.Command(binary, dir).CombinedOutput()
	require.NoError(t, err, "%s", after)
	said := strings.FieldsFunc(string(after), newline)
	assert.Equal(t, "DONE 200", said[len(said)-1])

	calls := map[string]int{}
	for _, line := range append(before, said[:len(said)-1]...) {
		file, _, _ := strings.Cut(strings.TrimPrefix(line, "resize "), " ")
		calls[file]++
	}
	assert.Len(t, calls, 200)
	twice := 0
	for file, n := range calls {
		assert.LessOrEqual(t, n, 2, file)
		twice += n - 1
	}
	assert.LessOrEqual(t, twice, 8, "only what was in progress is made again")
}

func newline(r rune) bool { return r == '\n' }

// lines reads a number of lines.
func lines(t *testing.T, r io.Reader, n int) (read []string) {
	t.Helper()
	for scanner := bufio.NewScanner(&oneByte{r}); len(read) < n; {
		require.True(t, scanner.Scan(), "the program has ended after %d lines", len(read))
		read = append(read, scanner.Text())
	}
	return read
}

// oneByte reads a byte at a time, so that a scanner takes no more than its lines.
type oneByte struct{ io.Reader }

func (b *oneByte) Read(p []byte) (int, error) { return b.Reader.Read(p[:1]) }
