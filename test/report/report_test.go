package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/test/need"
)

// ran runs the report on a module with one package that has the given tests, and returns the status and the output.
func ran(t *testing.T, tests string) (status int, out string) {
	t.Helper()
	dir := t.TempDir()
	source := "package a\n\nimport \"testing\"\n\n" + tests
	for name, text := range map[string]string{"go.mod": "module example.org/a\n\ngo 1.24\n", "a_test.go": source} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	var said, wrong strings.Builder
	status = run(dir, []string{"-count=1", "./..."}, &said, &wrong)
	return status, said.String() + wrong.String()
}

func TestPassesWithoutNoise(t *testing.T) {
	t.Parallel()
	status, out := ran(t, `func TestA(t *testing.T) { t.Log("unheard") }`)
	assert.Zero(t, status)
	assert.Regexp(t, `^ok\s+example.org/a\s+[0-9.]+s\n$`, out)
}

func TestFailuresAreHeard(t *testing.T) {
	t.Parallel()
	status, out := ran(t, `
func TestA(t *testing.T) { t.Log("unheard") }
func TestB(t *testing.T) { t.Run("c", func(t *testing.T) { t.Error("heard") }) }`)
	assert.Equal(t, 1, status)
	assert.Contains(t, out, "--- FAIL: TestB/c")
	assert.Contains(t, out, "heard")
	assert.Contains(t, out, "FAIL\texample.org/a")
	assert.NotContains(t, out, "unheard")
}

func TestWhatDidNotEndIsHeard(t *testing.T) {
	t.Parallel()
	status, out := ran(t, `func TestA(t *testing.T) { t.Log("before"); panic("in the middle") }`)
	assert.Equal(t, 1, status)
	assert.Contains(t, out, "before")
	assert.Contains(t, out, "in the middle")
}

func TestWhatDoesNotCompileIsHeard(t *testing.T) {
	t.Parallel()
	status, out := ran(t, `func TestA(t *testing.T) { nothing() }`)
	assert.Equal(t, 1, status)
	assert.Contains(t, out, "undefined: nothing")
	assert.Contains(t, out, "[build failed]")
}

func TestLeftOutIsCounted(t *testing.T) {
	t.Parallel()
	status, out := ran(t, `
func TestA(t *testing.T) { t.Skip("left out: needs curl (apt-get install curl)") }
func TestB(t *testing.T) { t.Skip("for another reason") }
func TestC(t *testing.T) {
	t.Run("d", func(t *testing.T) { t.Skip("left out: needs pytest (apt-get install python3-pytest curl)") })
	t.Run("e", func(t *testing.T) { t.Skip("left out: needs mount (run the tests as root)") })
	t.Run("f", func(t *testing.T) { t.Skip("left out: needs curl (apt-get install curl)") })
}`)
	assert.Zero(t, status)
	_, summary, _ := strings.Cut(out, "\n")
	assert.Equal(t, `
4 tests were left out for what this machine lacks:
     2  need curl (apt-get install curl)
     1  need mount (run the tests as root)
     1  need pytest (apt-get install python3-pytest curl)
all of Debian's: apt-get install --no-install-recommends curl python3-pytest
`, summary)
}

func TestLineOfPackageNeed(t *testing.T) {
	t.Parallel()
	assert.Equal(t, need.LeftOut, leftOut)
}
