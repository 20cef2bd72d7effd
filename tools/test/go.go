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

// goTest runs `go test -json`: all packages below the directory, or the package of the one file.
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
		Name: "go", Args: append(args, target), Dir: s.dir, Stdout: &lineWriter{line: events.line},
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
	data, err := s.report(profile)
	s.out.CoveragePercent = coverPercent(data)
	return err
}

// goEvent is a line of `go test -json`.
type goEvent struct {
	Action, Package, ImportPath, Test, Output, FailedBuild string
}

// goEvents folds the events of go test.
type goEvents struct {
	suite *suite
	// output is what running tests, packages and builds have said so far.
	output map[string]*strings.Builder
	// failed holds the packages with a failed test.
	failed map[string]bool
}

func (g *goEvents) line(line []byte) {
	var e goEvent
	if json.Unmarshal(line, &e) != nil {
		return // a line that the go command has not made
	}
	key := e.Package + "\x00" + e.Test
	switch e.Action {
	case "output":
		g.say(key, e.Output)
		g.suite.show(e.Output)
	case "build-output":
		g.say(e.ImportPath, e.Output)
		g.suite.show(e.Output)
	case "pass", "skip", "fail":
		g.ended(e, key)
	}
}

// show shows output to those who watch.
func (s *suite) show(text string) {
	if s.env.Output != nil {
		s.env.Output([]byte(text))
	}
}

// say keeps what is said, up to the size of a message.
func (g *goEvents) say(key, text string) {
	b := g.output[key]
	if b == nil {
		b = &strings.Builder{}
		g.output[key] = b
	}
	if b.Len() <= maxMessage {
		b.WriteString(text)
	}
}

func (g *goEvents) ended(e goEvent, key string) {
	said := g.output[key]
	delete(g.output, key)
	message := ""
	if said != nil {
		message = said.String()
	}
	switch {
	case e.Test == "":
		g.packageEnded(e, message)
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

// packageEnded counts a package as a failure when it failed without a failed test: it could not be
// built, or its test program died.
func (g *goEvents) packageEnded(e goEvent, message string) {
	if e.Action != "fail" || g.failed[e.Package] {
		return
	}
	if build := g.output[e.FailedBuild]; e.FailedBuild != "" && build != nil {
		message = build.String()
	}
	g.suite.out.fail(e.Package, message)
	g.suite.progress(e.Package)
}

// lineWriter calls line for every line written to it. Lines beyond a mebibyte are dropped.
type lineWriter struct {
	line func(line []byte)
	rest []byte
	drop bool
}

// Write never fails.
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

// coverPercent returns the share of covered statements of a cover profile, nil without a statement. A
// block that several test programs report counts once.
func coverPercent(profile []byte) *float64 {
	type block struct {
		statements int
		covered    bool
	}
	blocks := map[string]block{}
	for line := range strings.Lines(string(profile)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue // the mode
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
