package test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
)

// goTest runs `go test -json` for all packages below the directory, or for the package of the file.
func goTest(ctx context.Context, s *suite) error {
	temp, err := s.temp()
	if err != nil {
		return err
	}
	args, profile := []string{"test", "-json"}, ""
	if s.coverage {
		profile = filepath.Join(temp, "cover-"+rand.Text()+".out")
		args = append(args, "-coverprofile="+profile)
	}
	target := "./..."
	if s.file != "" {
		target = "."
	}
	events := &goEvents{suite: s, output: map[string]*strings.Builder{}}
	res, err := s.env.Exec.Run(ctx, proc.Command{
		Name: "go", Args: append(args, target), Dir: s.dir, Stdout: &lineWriter{line: events.handleLine},
		Env: map[string]string{"HOME": s.home, "TMPDIR": temp}, Sandbox: s.sandbox(),
	})
	if err != nil {
		return err
	}
	if res.ExitCode != 0 && s.out.Failed == 0 {
		return fault.New(fault.ExecFailed, "go test ended with status %d: %s", res.ExitCode, shorten(res.Stderr)).
			WithHint("check that %s lies in a Go module that can be loaded", s.dir)
	}
	if !s.coverage {
		return nil
	}
	data, err := s.readReport(profile)
	s.out.CoveragePercent = coverPercent(data)
	return err
}

// goEvent is one line of `go test -json`.
type goEvent struct {
	Action, Package, ImportPath, Test, Output, FailedBuild string
}

// goEvents processes the events of go test.
type goEvents struct {
	suite *suite
	// output contains the output so far of each running test, package and build.
	output map[string]*strings.Builder
	// failed contains the packages with a failed test.
	failed map[string]bool
}

// handleLine processes one line of the output of go test.
func (g *goEvents) handleLine(line []byte) {
	var e goEvent
	if json.Unmarshal(line, &e) != nil {
		return // not a line of the go command
	}
	key := e.Package + "\x00" + e.Test
	switch e.Action {
	case "output":
		g.appendOutput(key, e.Output)
		g.suite.stream(e.Output)
	case "build-output":
		g.appendOutput(e.ImportPath, e.Output)
		g.suite.stream(e.Output)
	case "pass", "skip", "fail":
		g.finish(e, key)
	}
}

// stream sends output to observers.
func (s *suite) stream(text string) {
	if s.env.Output != nil {
		s.env.Output([]byte(text))
	}
}

// appendOutput stores output, up to about maxMessage bytes for each key.
func (g *goEvents) appendOutput(key, text string) {
	b := g.output[key]
	if b == nil {
		b = &strings.Builder{}
		g.output[key] = b
	}
	if b.Len() <= maxMessage {
		b.WriteString(text)
	}
}

// finish counts a finished test, or handles a finished package.
func (g *goEvents) finish(e goEvent, key string) {
	output := g.output[key]
	delete(g.output, key)
	message := ""
	if output != nil {
		message = output.String()
	}
	switch {
	case e.Test == "":
		g.finishPackage(e, message)
		return
	case e.Action == "pass":
		g.suite.out.Passed++
	case e.Action == "skip":
		g.suite.out.Skipped++
	default:
		g.suite.out.fail(e.Package+"."+e.Test, message)
		if g.failed == nil {
			g.failed = map[string]bool{}
		}
		g.failed[e.Package] = true
	}
	g.suite.progress(e.Package + "." + e.Test)
}

// finishPackage counts a package as a failure when it failed without a failed test: it did not compile, or its test
// program crashed.
func (g *goEvents) finishPackage(e goEvent, message string) {
	if e.Action != "fail" || g.failed[e.Package] {
		return
	}
	if build := g.output[e.FailedBuild]; e.FailedBuild != "" && build != nil {
		message = build.String()
	}
	g.suite.out.fail(e.Package, message)
	g.suite.progress(e.Package)
}

// lineWriter calls line for every line written to it. Lines longer than 1 MiB are dropped.
type lineWriter struct {
	line func(line []byte)
	rest []byte
	drop bool
}

// Write implements io.Writer and never fails.
func (w *lineWriter) Write(p []byte) (int, error) {
	const longest = 1 << 20
	n := len(p)
	for {
		head, tail, found := bytes.Cut(p, []byte("\n"))
		if w.rest = append(w.rest, head...); len(w.rest) > longest {
			w.rest, w.drop = w.rest[:0], true
		}
		if !found {
			return n, nil
		}
		if !w.drop {
			w.line(w.rest)
		}
		w.rest, w.drop, p = w.rest[:0], false, tail
	}
}

// coverPercent returns the percentage of covered statements in a cover profile, nil if it has no statements. A block
// that several test programs report counts once.
func coverPercent(profile []byte) *float64 {
	type block struct {
		statements int
		covered    bool
	}
	blocks := map[string]block{}
	for line := range strings.Lines(string(profile)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue // the line with the mode
		}
		n, err := strconv.Atoi(fields[1])
		if err == nil {
			blocks[fields[0]] = block{n, blocks[fields[0]].covered || fields[2] != "0"}
		}
	}
	total, covered := 0, 0
	for _, b := range blocks {
		total += b.statements
		if b.covered {
			covered += b.statements
		}
	}
	if total == 0 {
		return nil
	}
	percent := float64(covered*1000/total) / 10
	return &percent
}
