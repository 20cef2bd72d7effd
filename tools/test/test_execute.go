// Package test is the family of tools that run tests (S0 rules).
package test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/tools"
)

// Tools returns the tools of the family.
func Tools() []tools.Tool { return []tools.Tool{testExecute} }

// The limits of the family.
const (
	// maxFailures limits the failures in one result.
	maxFailures = 100
	// maxMessage limits the message of one failure, in bytes.
	maxMessage = 4 << 10
	// maxReport limits the size of a report file, in bytes.
	maxReport = 16 << 20
	// maxTime is the time limit of a test run.
	maxTime = 10 * time.Minute
)

type testExecuteIn struct {
	TestPath  string `json:"test_path,omitempty" jsonschema:"Absolute path of the file or directory to test; default: the project of a session, else the workspace of the task"`
	Framework string `json:"framework,omitempty" jsonschema:"go, npm (the test script of package.json), jest, vitest, node (its own runner), pytest or cargo; default: detected by go.mod, package.json, Cargo.toml or the files of pytest"`
	Coverage  bool   `json:"coverage,omitempty" jsonschema:"Generate coverage report (go, jest, node, vitest with a coverage provider, pytest with pytest-cov or coverage.py)" default:"false"`
}

type testExecuteOut struct {
	Framework string `json:"framework" jsonschema:"Framework that ran the tests"`
	Passed    int    `json:"passed" jsonschema:"Tests that passed, subtests included"`
	Failed    int    `json:"failed" jsonschema:"Tests that failed, and packages that could not be built or run"`
	Skipped   int    `json:"skipped" jsonschema:"Tests that were skipped"`
	// CoveragePercent is nil when no coverage was measured.
	CoveragePercent *float64  `json:"coverage_percent,omitempty" jsonschema:"Percentage of covered statements; absent when it was not measured"`
	Failures        []failure `json:"failures" jsonschema:"The first 100 failures"`
	Note            string    `json:"note,omitempty" jsonschema:"Why tests failed, if the cause lies outside of the tests"`
}

type failure struct {
	Name    string `json:"name" jsonschema:"Name of the test, package or script"`
	Message string `json:"message" jsonschema:"Output of the test, at most 4 KiB"`
}

// fail counts a failure, and adds it to the result up to maxFailures.
func (o *testExecuteOut) fail(name, message string) {
	o.Failed++
	if len(o.Failures) < maxFailures {
		o.Failures = append(o.Failures, failure{Name: name, Message: shorten(message)})
	}
}

func shorten(s string) string {
	if s = strings.TrimSpace(s); len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "…"
	}
	return s
}

// testExecute is TEST_EXECUTE (S0-130, A-39). It runs code of the project; the S0 rules permit that in any state of the
// task.
var testExecute = tools.Define(tools.Spec{
	Name:       "TEST_EXECUTE",
	Title:      "Run tests",
	Purpose:    "Run test suite",
	Conditions: []string{"Any task state", "Test framework configured"},
	Effect:     tools.Idempotent,
	Gate:       tools.AnyState,
	Approval:   tools.NoApproval,
	Paths:      []tools.Path{{Field: "test_path", Access: tools.ReadPath}},
	Timeout:    maxTime,
	Errors:     []string{"EXEC_FAILED", "VALIDATION_ERROR", "NOT_FOUND", "OUTSIDE_ROOT", "INVALID_PATH", "TIMEOUT"},
}, func(ctx context.Context, env *tools.Env, in testExecuteIn) (testExecuteOut, error) {
	s, err := newSuite(env, in)
	if err != nil {
		return testExecuteOut{}, err
	}
	frameworks := map[string]func(context.Context, *suite) error{
		"go": goTest, "npm": npmTest, "jest": jest, "vitest": vitest, "node": node, "pytest": pytest, "cargo": cargo,
	}
	run, ok := frameworks[s.out.Framework]
	if !ok {
		return testExecuteOut{}, fault.New(fault.ValidationError, "the framework %q is not supported; supported are go, npm, jest, vitest, node, pytest and cargo", in.Framework).
			WithField("framework")
	}
	if err := s.withHome(ctx, run); err != nil {
		return testExecuteOut{}, s.withWriteHint(err)
	}
	s.out.Note = s.note()
	return s.out, nil
})

// note explains failures that occurred because tests cannot write in the project. It returns "" if there are no such
// failures.
func (s *suite) note() string {
	if s.canWrite() || !slices.ContainsFunc(s.out.Failures, func(f failure) bool { return isWriteError(f.Message) }) {
		return ""
	}
	return s.writeHint()
}

// withWriteHint adds the explanation of note to an error.
func (s *suite) withWriteHint(err error) error {
	if e := fault.From(err); e.Hint == "" && !s.canWrite() && isWriteError(e.Message) {
		return e.WithHint("%s", s.writeHint())
	}
	return err
}

// canWrite reports whether the tests may write in the tested directory.
func (s *suite) canWrite() bool {
	return slices.ContainsFunc(s.sandbox().Write, func(dir string) bool { return strings.HasPrefix(s.dir+"/", strings.TrimSuffix(dir, "/")+"/") })
}

// isWriteError reports whether a text contains the error of a failed write.
func isWriteError(text string) bool {
	return contains(strings.ToLower(text), "read-only file system", "erofs", "permission denied", "eacces")
}

func (s *suite) writeHint() string {
	return "tests may write in the workspace, and not in " + s.dir + ": a person opens it for the session by granting a call that writes there, such as a build or bash with the command of the tests; or the setting writes does"
}

// suite is one run of tests.
type suite struct {
	env *tools.Env
	// dir is the real path of the directory to test, file the name of a single file in it, or "".
	dir, file string
	// home is the absolute path of the HOME directory of the tests.
	home     string
	coverage bool
	out      testExecuteOut
}

func newSuite(env *tools.Env, in testExecuteIn) (*suite, error) {
	path := in.TestPath
	if path == "" {
		path = env.Start()
	}
	rel, err := env.Root.Resolve(path)
	if err != nil {
		return nil, fault.From(err).WithField("test_path")
	}
	info, err := env.Root.Stat(rel)
	if err != nil {
		return nil, fault.From(err).WithField("test_path")
	}
	s := &suite{env: env, dir: env.Root.Abs(rel), coverage: in.Coverage}
	s.out = testExecuteOut{Framework: in.Framework, Failures: []failure{}}
	if !info.IsDir() {
		s.dir, s.file = filepath.Split(s.dir)
		s.dir = filepath.Clean(s.dir)
	}
	if s.out.Framework == "" {
		s.out.Framework, err = s.detect()
	}
	return s, err
}

// markers returns the files that identify the framework of their directory.
func markers() []struct{ file, framework string } {
	return []struct{ file, framework string }{
		{"go.mod", "go"},
		{"package.json", "npm"},
		{"Cargo.toml", "cargo"},
		{"pytest.ini", "pytest"},
		{"conftest.py", "pytest"},
		{"pyproject.toml", "pytest"},
		{"tox.ini", "pytest"},
		{"setup.cfg", "pytest"},
	}
}

// detect returns the framework of the nearest marker. It searches the directory and those above it, up to the
// workspace when the directory lies in it, and up to the root otherwise.
func (s *suite) detect() (string, error) {
	for dir := s.dir; ; dir = filepath.Dir(dir) {
		for _, m := range markers() {
			if s.exists(filepath.Join(dir, m.file)) {
				return m.framework, nil
			}
		}
		if dir == s.env.Root.Name() || dir == s.env.Workspace || dir == "/" {
			return "", fault.New(fault.ExecFailed, "no test framework is configured in %s", s.dir).
				WithHint("supported are go (go.mod), npm (package.json with a test script), cargo (Cargo.toml) and pytest (pytest.ini, pyproject.toml …); jest, vitest and node by name")
		}
	}
}

func (s *suite) exists(path string) bool {
	rel, err := s.env.Root.Resolve(path)
	if err != nil {
		return false
	}
	_, err = s.env.Root.Stat(rel)
	return err == nil
}

// findAbove returns the nearest directory, from the tested one up to the root, that contains a file.
func (s *suite) findAbove(file string) (string, bool) {
	for dir := s.dir; ; dir = filepath.Dir(dir) {
		if s.exists(filepath.Join(dir, file)) {
			return dir, true
		}
		if dir == s.env.Root.Name() || dir == "/" {
			return "", false
		}
	}
}

// temp returns the absolute path of the directory for temporary files, and creates it when necessary.
func (s *suite) temp() (string, error) {
	temp := filepath.Join(s.env.Workspace, "temp")
	rel, err := s.env.Own(temp)
	if err != nil {
		return "", err
	}
	return temp, s.env.Root.MkdirAll(rel, 0o755)
}

// withHome runs tests with a new directory as HOME and then removes the directory. npm, go and Python run programs that
// files in HOME configure, and the task could have written such files in an existing home.
func (s *suite) withHome(ctx context.Context, run func(context.Context, *suite) error) error {
	temp, err := s.temp()
	if err != nil {
		return err
	}
	s.home = filepath.Join(temp, "home-"+rand.Text())
	rel, err := s.env.Own(s.home)
	if err != nil {
		return err
	}
	if err := s.env.Root.Mkdir(rel, 0o700); err != nil {
		return err
	}
	if err := s.withoutTelemetry(rel); err != nil {
		return err
	}
	return errors.Join(run(ctx, s), s.env.Root.RemoveAll(rel))
}

// withoutTelemetry turns off the telemetry of the go command in a new home. In a home without a setting, go starts a process
// that outlives it, in a session of its own, and writes to the home while that is removed.
func (s *suite) withoutTelemetry(home string) error {
	dir := filepath.Join(home, ".config", "go", "telemetry")
	if err := s.env.Root.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return s.env.Root.Create(filepath.Join(dir, "mode"), 0o600, func(w io.Writer) error {
		_, err := io.WriteString(w, "off\n")
		return err
	})
}

// readReport reads and removes a file that a framework wrote. It returns nil if there is no regular file: it does not
// follow a link, which the tests could have created.
func (s *suite) readReport(path string) ([]byte, error) {
	rel, err := s.env.Own(path)
	if err != nil {
		return nil, err
	}
	info, err := s.env.Root.Lstat(rel)
	if fault.Has(err, fault.NotFound) || (err == nil && !info.Mode().IsRegular()) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	data, err := s.env.Root.ReadFile(rel, maxReport)
	if err != nil {
		return nil, err
	}
	return data, s.env.Root.RemoveFile(rel)
}

// sandbox returns the confinement of the tests. They may write only in the workspace of the task and where the
// operator lets programs write: nobody has approved the tests, and the task may have written them.
func (s *suite) sandbox() proc.Sandbox { return s.env.Sandbox() }

// progress reports the number of finished tests.
func (s *suite) progress(name string) {
	s.env.Progress(float64(s.out.Passed+s.out.Failed+s.out.Skipped), 0, name)
}

// contains reports whether text contains one of the words.
func contains(text string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}
