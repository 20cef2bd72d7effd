// Package need skips tests that need a program that is not installed on this machine. The message of a skipped test
// contains the command that installs the program. In strict mode such a test fails. The file programs.txt lists the
// programs.
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

// Strict is the environment variable for strict mode: with the value 1, tests fail that would otherwise be skipped.
const Strict = "ORCH_TEST_STRICT"

// Without is the environment variable with exceptions from strict mode: names from programs.txt that may be missing,
// separated by commas.
const Without = "ORCH_TEST_WITHOUT"

// Binary is the environment variable with the path of an orch binary for tests that run the program. The binary must be
// built from this source tree.
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

// Long skips a test under -short: it computes for many seconds, mostly to reach a bound. `make test` and `make nightly` run it.
func Long(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("long: left out by -short")
	}
}

// That skips a test unless has is true. name must be a name in programs.txt.
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

// find returns the install command of a name in programs.txt.
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

// Orch returns the path of an orch binary: the value of the variable Binary if it is set, otherwise a binary that Orch
// builds in dir.
func Orch(dir string) (string, error) {
	if path := os.Getenv(Binary); path != "" {
		return path, nil
	}
	path := filepath.Join(dir, "orch")
	output, err := exec.Command("go", "build", "-o", path, "github.com/orch-dev/orch/cmd/orch").CombinedOutput() //nolint:noctx // go build needs no timeout
	if err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, output)
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
