// Package need leaves out the tests for which this machine lacks a program, and says how to get it. Where
// nothing may be left out, such a test fails.
package need

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Strict is the variable by which a test fails for what it needs, with the value 1.
const Strict = "ORCH_TEST_STRICT"

// Without is the variable with what may be missing all the same: names of the list, with commas.
const Without = "ORCH_TEST_WITHOUT"

// Binary is the variable that names an orch built from this tree, for tests that run the program.
const Binary = "ORCH_TEST_BINARY"

// LeftOut begins the line of a test that is left out.
const LeftOut = "left out: needs "

//go:embed programs.txt
var list string

// Program leaves a test out unless all these programs are installed.
func Program(tb testing.TB, names ...string) {
	tb.Helper()
	for _, name := range names {
		That(tb, name, Installed(name))
	}
}

// That leaves a test out unless it has what it needs, which is a name of the list.
func That(tb testing.TB, name string, has bool) {
	tb.Helper()
	how, known := find(name)
	switch {
	case !known:
		tb.Fatalf("test/need/programs.txt has no line for %s", name)
	case has:
	case os.Getenv(Strict) == "1" && !slices.Contains(strings.Split(os.Getenv(Without), ","), name):
		tb.Fatalf("needs %s (%s); %s=1 lets nothing be left out", name, how, Strict)
	default:
		tb.Skipf("%s%s (%s)", LeftOut, name, how)
	}
}

// find returns how to get what has a name.
func find(name string) (how string, known bool) {
	for line := range strings.Lines(list) {
		fields := strings.Fields(line)
		switch {
		case len(fields) < 2 || fields[0] != name:
		case fields[1] == "=":
			return strings.Join(fields[2:], " "), true
		default:
			return "apt-get install " + strings.Join(fields[1:], " "), true
		}
	}
	return "", false
}

// Orch returns the path of an orch built from this tree: that of Binary, or one that it builds in a folder.
func Orch(dir string) (string, error) {
	if path := os.Getenv(Binary); path != "" {
		return path, nil
	}
	path := filepath.Join(dir, "orch")
	said, err := exec.Command("go", "build", "-o", path, "github.com/orch-dev/orch/cmd/orch").CombinedOutput() //nolint:noctx // go ends by itself
	if err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, said)
	}
	return path, nil
}

// Installed reports whether a program is there. Servers count that Debian puts beside the path.
func Installed(name string) bool {
	if _, err := exec.LookPath(name); err == nil {
		return true
	}
	for _, pattern := range []string{"/usr/sbin/", "/usr/lib/postgresql/*/bin/"} {
		if found, err := filepath.Glob(pattern + name); err == nil && len(found) > 0 {
			return true
		}
	}
	return false
}
