package test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
)

// jest runs the jest that is installed in the project.
func jest(ctx context.Context, s *suite) error {
	return s.runJestLike(ctx, "jest", func(report, coverage string) []string {
		args := []string{"--ci", "--json", "--outputFile=" + report}
		if s.coverage {
			args = append(args, "--coverage", "--coverageReporters=json-summary", "--coverageDirectory="+coverage)
		}
		if s.file != "" {
			return append(args, "--runTestsByPath", filepath.Join(s.dir, s.file))
		}
		return append(args, regexp.QuoteMeta(s.dir)+"/")
	})
}

// vitest runs the vitest that is installed in the project.
func vitest(ctx context.Context, s *suite) error {
	return s.runJestLike(ctx, "vitest", func(report, coverage string) []string {
		args := []string{"run", "--reporter=json", "--outputFile=" + report}
		if s.coverage {
			args = append(args, "--coverage.enabled", "--coverage.reporter=json-summary", "--coverage.reportsDirectory="+coverage)
		}
		return append(args, filepath.Join(s.dir, s.file))
	})
}

// runJestLike runs a program of node_modules/.bin that writes a report in the format of jest.
func (s *suite) runJestLike(ctx context.Context, name string, arguments func(report, coverage string) []string) error {
	program := filepath.Join("node_modules", ".bin", name)
	dir, ok := s.findAbove(program)
	if !ok {
		return fault.New(fault.ExecFailed, "%s is not installed: there is no %s in %s or above", name, program, s.dir).
			WithHint("install it, for example with PACKAGE_INSTALL")
	}
	temp, err := s.temp()
	if err != nil {
		return err
	}
	id := rand.Text()
	report, coverage := filepath.Join(temp, name+"-"+id+".json"), filepath.Join(temp, "cover-"+id)
	res, err := s.run(ctx, dir, filepath.Join(dir, program), arguments(report, coverage)...)
	if err != nil {
		return err
	}
	data, err := s.readReport(report)
	if err != nil {
		return err
	}
	if s.coverage {
		if s.out.CoveragePercent, err = s.coverageSummary(coverage); err != nil {
			return err
		}
	}
	return s.jestReport(name, res, data)
}

// jestFiles is the report of jest or vitest.
type jestFiles struct {
	TestResults []struct {
		Name             string
		Status           string
		Message          string
		AssertionResults []struct {
			FullName        string
			Status          string
			FailureMessages []string
		}
	}
}

// jestReport counts the tests of a report. A file that could not be run counts as a failure.
func (s *suite) jestReport(name string, res proc.Result, report []byte) error {
	var files jestFiles
	if json.Unmarshal(report, &files) != nil {
		return fault.New(fault.ExecFailed, "%s ended with status %d and no report: %s", name, res.ExitCode, shorten(res.Stderr+res.Stdout))
	}
	for _, file := range files.TestResults {
		for _, test := range file.AssertionResults {
			switch test.Status {
			case "passed":
				s.out.Passed++
			case "failed":
				s.out.fail(test.FullName, strings.Join(test.FailureMessages, "\n"))
			default: // pending, skipped, todo, disabled
				s.out.Skipped++
			}
		}
		if len(file.AssertionResults) == 0 && file.Status == "failed" {
			s.out.fail(file.Name, file.Message)
		}
		s.progress(file.Name)
	}
	if res.ExitCode != 0 && s.out.Failed == 0 && len(files.TestResults) > 0 {
		s.out.fail(name, res.Stderr)
	}
	return nil
}

// coverageSummary returns the percentage of covered statements, nil if none was measured, and removes the report in
// dir.
func (s *suite) coverageSummary(dir string) (*float64, error) {
	data, err := s.readReport(filepath.Join(dir, "coverage-summary.json"))
	if err != nil {
		return nil, err
	}
	rel, err := s.env.Own(dir)
	if err != nil {
		return nil, err
	}
	if err := s.env.Root.RemoveAll(rel); err != nil {
		return nil, err
	}
	var summary struct {
		Total struct {
			Statements struct {
				Total int     `json:"total"`
				Pct   float64 `json:"pct"`
			} `json:"statements"`
		} `json:"total"`
	}
	_ = json.Unmarshal(data, &summary) // without statements Pct is the string "Unknown"
	if summary.Total.Statements.Total == 0 {
		return nil, nil //nolint:nilnil // nil means that nothing was measured
	}
	return &summary.Total.Statements.Pct, nil
}
