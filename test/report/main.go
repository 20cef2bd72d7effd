// Command report runs go test with its arguments and prints the relevant output. Then it lists the programs that
// skipped tests need, with the commands that install them. Its exit status is that of go test.
package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
)

func main() {
	os.Exit(run(".", os.Args[1:], os.Stdout, os.Stderr)) //nolint:forbidigo // this is main
}

// run runs go test in dir and returns the exit status.
func run(dir string, args []string, stdout, stderr io.Writer) int {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...) //nolint:gosec,noctx // the user chooses the arguments and may interrupt it
	cmd.Dir, cmd.Stderr = dir, stderr
	events, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		_, _ = io.WriteString(stderr, err.Error()+"\n")
		return 1
	}
	r := newReport(stdout)
	readErr := r.read(events)
	err = cmd.Wait()
	r.printSummary()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1)
	}
	if errors.Join(err, readErr) != nil {
		return 1
	}
	return 0
}
