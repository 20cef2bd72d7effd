package test

import (
	"context"
	"encoding/json"
	"maps"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
)

// npmTest runs the test script of package.json. If the script is a plain `node --test …`, it uses nodeTest, which
// reports every test. For any other script it parses the summary in the output of TAP, jest, vitest or mocha; without a
// summary, the script counts as one test.
func npmTest(ctx context.Context, s *suite) error {
	dir, ok := s.findAbove("package.json")
	if !ok {
		return fault.New(fault.ExecFailed, "there is no package.json in %s", s.dir)
	}
	script, err := s.testScript(dir)
	if err != nil {
		return err
	}
	if args, ok := nodeTestArgs(script); ok {
		return s.nodeTest(ctx, dir, args)
	}
	res, err := s.run(ctx, dir, "npm", "test", "--silent")
	if err != nil {
		return err
	}
	text := res.Stdout + "\n" + res.Stderr
	s.out.Passed, s.out.Failed, s.out.Skipped = parseSummary(text)
	switch {
	case res.ExitCode != 0:
		// The summary has the number of failed tests, the text their names.
		failed := s.out.Failed
		s.out.fail("npm test", text)
		s.out.Failed = max(failed, 1)
	case s.out.Passed+s.out.Skipped == 0:
		s.out.Passed = 1
	}
	s.progress("npm test")
	return nil
}

// testScript returns the test script in the package.json of a directory.
func (s *suite) testScript(dir string) (string, error) {
	rel, err := s.env.Root.Resolve(filepath.Join(dir, "package.json"))
	if err != nil {
		return "", err
	}
	data, err := s.env.Root.ReadFile(rel, maxReport)
	if err != nil {
		return "", err
	}
	var manifest struct {
		Scripts map[string]string `json:"scripts"`
	}
	if json.Unmarshal(data, &manifest) != nil {
		return "", fault.New(fault.ExecFailed, "%s is not valid JSON", filepath.Join(dir, "package.json"))
	}
	script := strings.TrimSpace(manifest.Scripts["test"])
	if script == "" || contains(script, "no test specified") {
		return "", fault.New(fault.ExecFailed, "package.json in %s has no test script", dir)
	}
	return script, nil
}

// nodeTestArgs returns the arguments after `node --test` of a script that consists of this command alone, without shell
// syntax. For other scripts it returns false.
func nodeTestArgs(script string) ([]string, bool) {
	words := strings.Fields(script)
	if len(words) < 2 || words[0] != "node" || words[1] != "--test" || strings.ContainsAny(script, "|&;<>()$`\\\"'*?[]{}#~\n") {
		return nil, false
	}
	return words[2:], true
}

// run runs a program of a framework with a private home.
func (s *suite) run(ctx context.Context, dir, name string, args ...string) (proc.Result, error) {
	return s.runWith(ctx, nil, dir, name, args...)
}

// runWith runs a program with additional environment variables.
func (s *suite) runWith(ctx context.Context, vars map[string]string, dir, name string, args ...string) (proc.Result, error) {
	temp, err := s.temp()
	if err != nil {
		return proc.Result{}, err
	}
	env := map[string]string{"HOME": s.home, "TMPDIR": temp, "CI": "1", "NO_COLOR": "1", "CARGO_TARGET_DIR": filepath.Join(temp, "target")}
	maps.Copy(env, vars)
	return s.env.Exec.Run(ctx, proc.Command{Name: name, Args: args, Dir: dir, Limit: maxReport, Env: env, Sandbox: s.sandbox(), Output: s.env.Output})
}

// parseSummary returns the numbers of passed, failed and skipped tests in the summary that a test runner prints.
func parseSummary(text string) (passed, failed, skipped int) {
	number := func(expr string) int {
		found := regexp.MustCompile(`(?m)`+expr).FindAllStringSubmatch(text, -1)
		if len(found) == 0 {
			return 0
		}
		n, err := strconv.Atoi(found[len(found)-1][1])
		if err != nil {
			return 0
		}
		return n
	}
	const jest = `^\s*Tests:?\s.*?(\d+) ` // jest and vitest
	return max(number(`^# pass (\d+)`), number(jest+`passed`), number(`^\s*(\d+) passing`)),
		max(number(`^# fail (\d+)`), number(jest+`failed`), number(`^\s*(\d+) failing`)),
		max(number(`^# skipped (\d+)`), number(jest+`skipped`), number(`^\s*(\d+) pending`))
}
