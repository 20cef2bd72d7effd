package test

import (
	"bytes"
	"encoding/xml"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
)

// junitSuite is a testsuite element, or the testsuites element around them.
type junitSuite struct {
	Name   string       `xml:"name,attr"`
	Suites []junitSuite `xml:"testsuite"`
	Cases  []junitCase  `xml:"testcase"`
}

type junitCase struct {
	Name      string        `xml:"name,attr"`
	ClassName string        `xml:"classname,attr"`
	Failure   *junitMessage `xml:"failure"`
	Error     *junitMessage `xml:"error"`
	Skipped   *junitMessage `xml:"skipped"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// parseJUnit counts the tests of a report. A program that failed without a failed test counts as a failure itself.
func (s *suite) parseJUnit(program string, res proc.Result, report []byte) error {
	var all junitSuite
	if err := xml.Unmarshal(bytes.Map(replaceControl, report), &all); err != nil {
		return fault.New(fault.ExecFailed, "%s ended with status %d and no report: %s", program, res.ExitCode, shorten(res.Stderr+res.Stdout))
	}
	s.countJUnit(all, "")
	if res.ExitCode != 0 && s.out.Failed == 0 {
		s.out.fail(program, res.Stderr)
	}
	return nil
}

// replaceControl replaces control characters, which tests may print but XML does not permit.
func replaceControl(r rune) rune {
	if r < ' ' && r != '\t' && r != '\n' && r != '\r' {
		return ' '
	}
	return r
}

// countJUnit counts the tests of a suite and of those in it.
func (s *suite) countJUnit(in junitSuite, prefix string) {
	for _, inner := range in.Suites {
		s.countJUnit(inner, prefix+inner.Name+" › ")
	}
	for _, c := range in.Cases {
		name := prefix + c.Name
		if c.ClassName != "" && c.ClassName != "test" {
			name = c.ClassName + "." + c.Name
		}
		switch {
		case c.Failure != nil:
			s.out.fail(name, c.Failure.Message+"\n"+c.Failure.Text)
		case c.Error != nil:
			s.out.fail(name, c.Error.Message+"\n"+c.Error.Text)
		case c.Skipped != nil:
			s.out.Skipped++
		default:
			s.out.Passed++
		}
		s.progress(name)
	}
}
