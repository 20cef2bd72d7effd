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

// leftOut begins the line of a test that package need left out.
const leftOut = "left out: needs "

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// test names a test of a package; without a test it is the package.
type test struct{ pkg, name string }

// report prints what matters of a run of tests and counts what was left out.
type report struct {
	out io.Writer
	// said is what tests have said that have not ended.
	said map[test][]string
	// lacks counts the tests by what they needed and how to get it.
	lacks map[string]int
}

func newReport(out io.Writer) *report {
	return &report{out: out, said: map[test][]string{}, lacks: map[string]int{}}
}

// read takes the events of a run until they end. A line that is none is printed.
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
	r.take(e)
}

func (r *report) take(e event) {
	key := test{e.Package, e.Test}
	switch {
	case e.Action == "output" && e.Test == "", e.Action == "build-output":
		r.outside(e.Output)
	case e.Action == "output":
		r.said[key] = append(r.said[key], e.Output)
	case e.Test == "" && e.Action == "fail":
		r.unended(e.Package)
	case e.Action == "fail":
		r.print(r.said[key]...)
		delete(r.said, key)
	case e.Action == "skip":
		r.skipped(r.said[key])
		delete(r.said, key)
	case e.Action == "pass":
		delete(r.said, key)
	}
}

// outside prints what a package says outside of its tests, less what go test says only with -v.
func (r *report) outside(line string) {
	if line != "PASS\n" {
		r.print(line)
	}
}

// unended prints what the tests said that had not ended when their package did.
func (r *report) unended(pkg string) {
	for _, key := range slices.SortedFunc(maps.Keys(r.said), func(a, b test) int { return strings.Compare(a.name, b.name) }) {
		if key.pkg == pkg {
			r.print(r.said[key]...)
			delete(r.said, key)
		}
	}
}

func (r *report) skipped(said []string) {
	for _, line := range said {
		if _, lack, ok := strings.Cut(line, leftOut); ok {
			r.lacks[strings.TrimSpace(lack)]++
			return
		}
	}
}

// end prints what was left out, and one command for all packages.
func (r *report) end() {
	if len(r.lacks) == 0 {
		return
	}
	total, packages := 0, map[string]bool{}
	for _, n := range r.lacks {
		total += n
	}
	r.print(fmt.Sprintf("\n%d tests were left out for what this machine lacks:\n", total))
	for _, lack := range slices.Sorted(maps.Keys(r.lacks)) {
		r.print(fmt.Sprintf("%6d  need %s\n", r.lacks[lack], lack))
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
