// Package patch applies a unified diff of one file, strictly (S4-020 to S4-027): every hunk has to fit
// at the very line that it names, or nothing is changed. There is no search for a better place and no
// fuzz, since a file that has drifted is for its author to look at.
//
// The parser is its own: those for git's patches pass over text behind the last hunk, put hunks into order,
// join lines behind a missing line end and put insertions without context one line too high, and what
// guards against all that has to read the patch line by line anyway. GNU patch is the judge in the tests.
//
// All errors are PATCH_FAILED with the reason PatchFailed and the field patch. They name lines of the
// patch and of the file, and never repeat what is in them.
package patch

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// devNull is the name of the file that is not there.
const devNull = "/dev/null"

// Diff is what a patch says about one file. It is immutable.
type Diff struct {
	// names are those of the header, without /dev/null.
	names  []string
	create bool
	// crlf is true when every line of the patch ends with CR LF; the lines of hunks have lost the CR.
	crlf  bool
	hunks []hunk
}

// hunk is one change.
type hunk struct {
	// number is the line of its header in the patch, from 1.
	number int
	// at is the index of the first line of the file that it covers, from 0.
	at    int
	lines []line
}

// line is a line of a hunk: op is ' ', '-' or '+', text has its line feed unless the file ends without.
type line struct {
	op   byte
	text string
}

// Parse reads a patch, which may stand in a Markdown code fence (S4-021). It refuses a patch for several
// files and everything that is more than a change of text: renames, modes, deletions, binary content.
func Parse(text string) (*Diff, error) {
	p, err := open(text)
	if err != nil {
		return nil, err
	}
	d := &Diff{crlf: p.dropCR()}
	if err := p.header(d); err != nil {
		return nil, err
	}
	for p.more() {
		h, err := p.hunk()
		if err != nil {
			return nil, err
		}
		if d.create && (h.at != 0 || h.covers() > 0) {
			return nil, failed("the hunk at line %d changes lines of a file that the header calls new", h.number)
		}
		d.hunks = append(d.hunks, h)
	}
	return d, p.onlyBlank()
}

// Creates reports whether a patch that perhaps cannot be read means to create its file.
func Creates(text string) bool {
	for l := range strings.Lines(text) {
		if name, ok := fileName(strings.TrimRight(l, "\r\n"), "--- "); ok && name == devNull {
			return true
		}
	}
	return false
}

// Create reports whether the source is /dev/null: the result then does not depend on what is there.
func (d *Diff) Create() bool { return d.create }

// Hunks returns the number of hunks, at least one.
func (d *Diff) Hunks() int { return len(d.hunks) }

// Apply returns the content that the patch makes of source. For a patch that creates the file, source
// does not count.
func (d *Diff) Apply(source []byte) ([]byte, error) {
	if d.create {
		source = nil
	}
	crlf := d.crlf && bytes.HasSuffix(firstLine(source), []byte("\r\n"))
	e := edit{rest: source, out: make([]byte, 0, len(source))}
	for i, h := range d.hunks {
		if h.at < e.line {
			return nil, failed("hunk %d (line %d of the patch) overlaps the one before it", i+1, h.number)
		}
		for e.line < h.at && len(e.rest) > 0 {
			e.keep(e.take())
		}
		if e.line < h.at {
			return nil, drifted("hunk %d (line %d of the patch) starts behind the end of the file, which has %d lines", i+1, h.number, e.line)
		}
		if !e.apply(h, crlf) {
			return nil, drifted("hunk %d (line %d of the patch) does not fit: line %d of the file is another one", i+1, h.number, e.line)
		}
	}
	if e.keep(e.rest); e.torn {
		return nil, drifted("a line without line end would be followed by others")
	}
	return e.out, nil
}

// edit is the work on one file.
type edit struct {
	// rest is what has not been read, line the number of lines that have.
	rest []byte
	line int
	out  []byte
	// torn is true when something was put behind a line without line end.
	torn bool
}

// apply does what a hunk says, with the line ends of the patch or with CR LF. It returns false at the
// first line that is another one.
func (e *edit) apply(h hunk, crlf bool) bool {
	for _, l := range h.lines {
		text := l.text
		if body, ended := strings.CutSuffix(text, "\n"); ended && crlf {
			text = body + "\r\n"
		}
		if l.op != '+' && string(e.take()) != text {
			return false
		}
		if l.op != '-' {
			e.keep([]byte(text))
		}
	}
	return true
}

// take reads a line, with its line feed; at the end of the file it is empty, as no line ever is.
func (e *edit) take() []byte {
	text := firstLine(e.rest)
	e.rest = e.rest[len(text):]
	e.line++
	return text
}

// keep adds text to the result.
func (e *edit) keep(text []byte) {
	if len(text) > 0 && len(e.out) > 0 && e.out[len(e.out)-1] != '\n' {
		e.torn = true
	}
	e.out = append(e.out, text...)
}

// firstLine returns the first line of text with its line feed, if it has one.
func firstLine(text []byte) []byte {
	return text[:cmp.Or(bytes.IndexByte(text, '\n')+1, len(text))]
}

// covers returns the number of lines of the file that the hunk covers.
func (h hunk) covers() int {
	n := 0
	for _, l := range h.lines {
		if l.op != '+' {
			n++
		}
	}
	return n
}

// failed is the error of this package.
func failed(format string, args ...any) *fault.Error {
	return fault.New(fault.PatchFailed, format, args...).WithReason("PatchFailed").WithField("patch")
}

// drifted is failed for a patch that is well formed and does not fit the file.
func drifted(format string, args ...any) *fault.Error {
	return failed(format, args...).WithHint("read the file again and make the diff from what it holds now")
}
