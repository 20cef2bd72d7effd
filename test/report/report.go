package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// leftOut is the beginning of the message with which package need skips a test.
const leftOut = "left out: needs "

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// test identifies a test. If name is empty, it stands for the package.
type test struct{ pkg, name string }

// report prints the relevant output of a test run and counts skipped tests.
type report struct {
	out io.Writer
	// output contains the output lines of tests that have not ended.
	output map[test][]string
	// missing counts the skipped tests by the text after leftOut: the missing program and its install command.
	missing map[string]int
}

func newReport(out io.Writer) *report {
	return &report{out: out, output: map[test][]string{}, missing: map[string]int{}}
}

// read processes the events of a run until they end. It prints lines that are not events.
func (r *report) read(events io.Reader) error {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			r.line(line)
		}
		if err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
	}
}

func (r *report) line(line []byte) {
	var e event
	if json.Unmarshal(line, &e) != nil {
		r.print(string(line))
		return
	}
	r.handle(e)
}

// handle processes an event.
func (r *report) handle(e event) {
	key := test{e.Package, e.Test}
	switch {
	case e.Action == "output" && e.Test == "", e.Action == "build-output":
		r.printOutside(e.Output)
	case e.Action == "output":
		r.output[key] = append(r.output[key], e.Output)
	case e.Test == "" && e.Action == "fail":
		r.printUnended(e.Package)
	case e.Action == "fail":
		r.print(r.output[key]...)
		delete(r.output, key)
	case e.Action == "skip":
		r.skipped(r.output[key])
		delete(r.output, key)
	case e.Action == "pass":
		delete(r.output, key)
	}
}

// printOutside prints a line that a package has printed outside of its tests. It omits PASS, which go test prints only
// with -v.
func (r *report) printOutside(line string) {
	if line != "PASS\n" {
		r.print(line)
	}
}

// printUnended prints the output of tests that had not ended when their package failed.
func (r *report) printUnended(pkg string) {
	for _, key := range slices.SortedFunc(maps.Keys(r.output), func(a, b test) int { return strings.Compare(a.name, b.name) }) {
		if key.pkg == pkg {
			r.print(r.output[key]...)
			delete(r.output, key)
		}
	}
}

// skipped counts a test that was skipped with this output, if package need skipped it.
func (r *report) skipped(output []string) {
	for _, line := range output {
		if _, lack, ok := strings.Cut(line, leftOut); ok {
			r.missing[strings.TrimSpace(lack)]++
			return
		}
	}
}

// printSummary prints the missing programs with the numbers of skipped tests, and one command that installs all of
// their packages.
func (r *report) printSummary() {
	if len(r.missing) == 0 {
		return
	}
	total, packages := 0, map[string]bool{}
	for _, n := range r.missing {
		total += n
	}
	r.print(fmt.Sprintf("\n%d tests were left out for what this machine lacks:\n", total))
	for _, lack := range slices.Sorted(maps.Keys(r.missing)) {
		r.print(fmt.Sprintf("%6d  need %s\n", r.missing[lack], lack))
		if _, names, ok := strings.Cut(lack, "(apt-get install "); ok {
			for name := range strings.FieldsSeq(strings.TrimSuffix(names, ")")) {
				packages[name] = true
			}
		}
	}
	if len(packages) > 0 {
		r.print("all of Debian's: apt-get install --no-install-recommends " + strings.Join(slices.Sorted(maps.Keys(packages)), " ") + "\n")
	}
}

func (r *report) print(lines ...string) {
	for _, line := range lines {
		_, _ = io.WriteString(r.out, line)
	}
}
