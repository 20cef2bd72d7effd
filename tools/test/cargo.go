package test

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// cargo runs `cargo test` for the package of the directory, or for the integration test in the file.
func cargo(ctx context.Context, s *suite) error {
	args := []string{"test", "--no-fail-fast", "--color=never"}
	if s.file != "" && filepath.Base(s.dir) == "tests" {
		args = append(args, "--test="+strings.TrimSuffix(s.file, ".rs"))
	}
	res, err := s.run(ctx, s.dir, "cargo", args...)
	if err != nil {
		return err
	}
	s.parseLibtest(res.Stdout)
	switch {
	case res.ExitCode == 0 || s.out.Failed > 0:
	case contains(res.Stderr, "could not compile", "test failed", "tests failed", "target failed", "targets failed"):
		s.out.fail("cargo test", res.Stderr)
	default:
		return fault.New(fault.ExecFailed, "cargo test ended with status %d: %s", res.ExitCode, shorten(res.Stderr))
	}
	s.progress("cargo test")
	return nil
}

// parseLibtest counts the tests in the output of Rust's test programs. The output of each failed test follows in a
// separate section.
func (s *suite) parseLibtest(output string) {
	result := regexp.MustCompile(`^test (.+) \.\.\. (ok|FAILED|ignored)(,.*)?$`)
	section := regexp.MustCompile(`^---- (.+) stdout ----$`)
	var failed []string
	outputs, current := map[string]*strings.Builder{}, ""
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\r\n")
		if found := result.FindStringSubmatch(line); found != nil && current == "" {
			switch found[2] {
			case "ok":
				s.out.Passed++
			case "ignored":
				s.out.Skipped++
			default:
				failed = append(failed, strings.TrimSuffix(found[1], " - should panic"))
			}
			continue
		}
		if found := section.FindStringSubmatch(line); found != nil {
			current = found[1]
			outputs[current] = &strings.Builder{}
			continue
		}
		if line == "failures:" || strings.HasPrefix(line, "test result: ") || strings.HasPrefix(line, "running ") {
			current = ""
		}
		if b := outputs[current]; current != "" && b.Len() <= maxMessage {
			b.WriteString(line + "\n")
		}
	}
	for _, name := range failed {
		message := ""
		if b := outputs[name]; b != nil {
			message = b.String()
		}
		s.out.fail(name, message)
	}
}
