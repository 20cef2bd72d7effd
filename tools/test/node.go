package test

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"strconv"
	"strings"
)

// node runs the test runner of Node.js on the tested file or directory.
func node(ctx context.Context, s *suite) error { return s.nodeTest(ctx, s.dir, nil) }

// nodeTest runs `node --test` on s.file if that is a test file, and otherwise with args.
func (s *suite) nodeTest(ctx context.Context, dir string, args []string) error {
	temp, err := s.temp()
	if err != nil {
		return err
	}
	options, report := []string{"--test", "--test-reporter=junit"}, ""
	if s.coverage {
		report = filepath.Join(temp, "lcov-"+rand.Text()+".info")
		options = append(options, "--test-reporter-destination=stdout", "--experimental-test-coverage",
			"--test-reporter=lcov", "--test-reporter-destination="+report)
	}
	if s.file != "" && s.file != "package.json" {
		args = []string{filepath.Join(s.dir, s.file)}
	}
	res, err := s.run(ctx, dir, "node", append(options, args...)...)
	if err != nil {
		return err
	}
	if s.coverage {
		data, err := s.readReport(report)
		if err != nil {
			return err
		}
		s.out.CoveragePercent = lcovPercent(string(data))
	}
	return s.parseJUnit("node --test", res, []byte(res.Stdout))
}

// lcovPercent returns the percentage of covered lines in an lcov report, nil if it has no lines.
func lcovPercent(report string) *float64 {
	found, hit := 0, 0
	for line := range strings.Lines(report) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		n, err := strconv.Atoi(value)
		if err != nil {
			continue
		}
		switch name {
		case "LF":
			found += n
		case "LH":
			hit += n
		}
	}
	if found == 0 {
		return nil
	}
	percent := float64(hit*1000/found) / 10
	return &percent
}
