package test

import (
	"context"
	"crypto/rand"
	"encoding/xml"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
)

// pytest runs pytest in the project directory, with a JUnit report. The caches of pytest and coverage.py are written to
// the home of the run, not to the project.
func pytest(ctx context.Context, s *suite) error {
	temp, err := s.temp()
	if err != nil {
		return err
	}
	report := filepath.Join(temp, "junit-"+rand.Text()+".xml")
	p := &pytestRun{
		suite: s, dir: s.pythonProject(), cover: filepath.Join(temp, "cover-"+rand.Text()+".xml"),
		args: []string{"-q", "--color=no", "--junit-xml=" + report, "-o", "cache_dir=" + filepath.Join(s.home, "pytest")},
	}
	if target := filepath.Join(s.dir, s.file); target != p.dir {
		p.args = append(p.args, target)
	}
	res, err := p.run(ctx)
	if err != nil {
		return err
	}
	data, err := s.readReport(report)
	if err != nil {
		return err
	}
	measured, err := s.readReport(p.cover)
	if err != nil {
		return err
	}
	s.out.CoveragePercent = coberturaPercent(measured)
	const noTests = 5 // exit status of pytest when it collected no tests
	if res.ExitCode == noTests {
		return nil
	}
	return s.parseJUnit("pytest", res, data)
}

// pythonProject returns the nearest directory, from the tested one up to the root, with a configuration of pytest.
// Without one it returns the tested directory.
func (s *suite) pythonProject() string {
	for dir := s.dir; ; dir = filepath.Dir(dir) {
		for _, file := range []string{"pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg", "setup.py"} {
			if s.exists(filepath.Join(dir, file)) {
				return dir
			}
		}
		if dir == s.env.Root.Name() || dir == s.env.Workspace || dir == "/" {
			return s.dir
		}
	}
}

// pytestRun is one run of pytest in a project.
type pytestRun struct {
	suite *suite
	// dir is the project directory, cover the file for the coverage report.
	dir, cover string
	args       []string
}

// run runs pytest. If requested and possible it measures coverage: with pytest-cov, else with coverage.py.
func (p *pytestRun) run(ctx context.Context) (proc.Result, error) {
	if !p.suite.coverage {
		return p.python(ctx, "pytest", p.args...)
	}
	res, err := p.python(ctx, "pytest", append(p.covArgs(), p.args...)...)
	const wrongUsage = 4 // exit status of pytest for an unknown option
	if err != nil || res.ExitCode != wrongUsage || !strings.Contains(res.Stderr, "unrecognized arguments: --cov") {
		return res, err
	}
	return p.coveragePy(ctx)
}

// covArgs returns the arguments that make pytest-cov measure the configured sources, or else the whole project. Without
// a source, pytest-cov would measure every loaded module, including those of pytest.
func (p *pytestRun) covArgs() []string {
	args := []string{"--cov-report=xml:" + p.cover}
	switch {
	case p.configures(`--cov\b`, "pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"):
		return args
	case p.configures(coverageSource, coverageFiles()...):
		return append(args, "--cov")
	default:
		return append(args, "--cov="+p.dir)
	}
}

// coveragePy runs pytest under coverage.py, or without coverage if that is not installed.
func (p *pytestRun) coveragePy(ctx context.Context) (proc.Result, error) {
	args := []string{"run"}
	if !p.configures(coverageSource, coverageFiles()...) {
		args = append(args, "--source="+p.dir)
	}
	res, err := p.python(ctx, "python3", slices.Concat([]string{"-m", "coverage"}, args, []string{"-m", "pytest"}, p.args)...)
	if fault.Has(err, fault.ExecFailed) || strings.Contains(res.Stderr, "No module named") {
		return p.python(ctx, "pytest", p.args...)
	}
	if err != nil {
		return res, err
	}
	_, err = p.python(ctx, "python3", "-m", "coverage", "xml", "-q", "-o", p.cover)
	return res, err
}

// coverageSource matches a configuration that selects the sources to measure.
const coverageSource = `(?m)^\[(tool\.coverage\.run|coverage:run|run)\][^\[]*^\s*(source|source_pkgs|source_dirs|include)\s*=`

// coverageFiles returns the files in which coverage.py searches for its configuration.
func coverageFiles() []string {
	return []string{".coveragerc", "setup.cfg", "tox.ini", "pyproject.toml"}
}

// configures reports whether the content of one of the files of the project matches expr.
func (p *pytestRun) configures(expr string, files ...string) bool {
	text := regexp.MustCompile(expr)
	for _, name := range files {
		rel, err := p.suite.env.Root.Resolve(filepath.Join(p.dir, name))
		if err != nil {
			continue
		}
		if data, err := p.suite.env.Root.ReadFile(rel, maxReport); err == nil && text.Match(data) {
			return true
		}
	}
	return false
}

// python runs a program in the project directory: that of the virtual environment (.venv, venv) if it exists there, or
// else that of the system.
func (p *pytestRun) python(ctx context.Context, name string, args ...string) (proc.Result, error) {
	for _, venv := range []string{".venv", "venv"} {
		if own := filepath.Join(p.dir, venv, "bin", name); p.suite.exists(own) {
			name = own
			break
		}
	}
	return p.suite.runWith(ctx, map[string]string{
		"COVERAGE_FILE": filepath.Join(p.suite.home, "coverage"), "PYTHONDONTWRITEBYTECODE": "1",
	}, p.dir, name, args...)
}

// coberturaPercent returns the percentage of covered lines and branches in a report of coverage.py, nil if it has no
// lines.
func coberturaPercent(report []byte) *float64 {
	var total struct {
		Lines           int `xml:"lines-valid,attr"`
		LinesCovered    int `xml:"lines-covered,attr"`
		Branches        int `xml:"branches-valid,attr"`
		BranchesCovered int `xml:"branches-covered,attr"`
	}
	if err := xml.Unmarshal(report, &total); err != nil || total.Lines == 0 {
		return nil
	}
	percent := float64((total.LinesCovered+total.BranchesCovered)*1000/(total.Lines+total.Branches)) / 10
	return &percent
}
