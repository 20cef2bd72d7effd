// Package need skips tests that need a program that this machine lacks, and says how to install it. In strict mode such
// a test fails.
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

// Strict is the environment variable that, with the value 1, makes a test fail instead of being skipped.
const Strict = "ORCH_TEST_STRICT"

// Without is the environment variable with the names of the list that may be missing nevertheless, separated by commas.
const Without = "ORCH_TEST_WITHOUT"

// Binary is the environment variable with the path of an orch binary built from this tree, for tests that run the
// program.
const Binary = "ORCH_TEST_BINARY"

// LeftOut is the prefix of the line that reports a skipped test.
const LeftOut = "left out: needs "

//go:embed programs.txt
var list string

// Program skips a test unless all of these programs are installed.
func Program(tb testing.TB, names ...string) {
	tb.Helper()
	for _, name := range names {
		That(tb, name, Installed(name))
	}
}

// That skips a test unless has is true. name is a name of the list.
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

// find returns how to install the entry with a name.
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

// Orch returns the path of an orch binary built from this tree: that of Binary, or one that it builds in dir.
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

// Installed reports whether a program is installed. It also finds servers that Debian installs outside of the PATH.
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
