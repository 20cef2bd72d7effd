// Package patch applies a unified diff of one file, strictly (S4-020 to S4-027): every hunk must match at exactly the
// line that it names, or nothing is changed. There is no search for another position and no fuzz: if the file has
// changed, the author of the patch must read it again.
//
// The package has its own parser. Parsers for git's patches ignore text after the last hunk, reorder hunks, join lines
// after a missing line end, and place insertions without context one line too high. A check for these cases would have
// to parse the patch anyway. The tests compare results with GNU patch.
//
// All errors are PATCH_FAILED with the reason PatchFailed and the field patch. They name line numbers of the patch and
// of the file, and never quote their content.
package patch

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// devNull is the name that stands for a missing file.
const devNull = "/dev/null"

// Diff is a parsed patch of one file. It is immutable.
type Diff struct {
	// names are the file names in the header, without /dev/null.
	names  []string
	create bool
	// crlf is true when every line of the patch ends with CR LF; the CR is removed from the lines of hunks.
	crlf  bool
	hunks []hunk
}

// hunk is one change.
type hunk struct {
	// number is the line of its header in the patch, from 1.
	number int
	// at is the index, from 0, of the first line of the file that the hunk covers.
	at    int
	lines []line
}

// line is a line of a hunk. op is ' ', '-' or '+'. text includes the line feed, unless it is the last line of a file
// without a final line feed.
type line struct {
	op   byte
	text string
}

// Parse parses a patch, which may be in a Markdown code fence (S4-021). It refuses a patch of several files and
// everything except changes of text: renames, modes, deletions, binary content.
func Parse(text string) (*Diff, error) {
	p, err := newParser(text)
	if err != nil {
		return nil, err
	}
	d := &Diff{crlf: p.dropCR()}
	if err := p.header(d); err != nil {
		return nil, err
	}
	for p.atHunk() {
		h, err := p.hunk()
		if err != nil {
			return nil, err
		}
		if d.create && (h.at != 0 || h.covers() > 0) {
			return nil, failed("the hunk at line %d changes lines of a file that the header calls new", h.number)
		}
		d.hunks = append(d.hunks, h)
	}
	return d, p.expectEnd()
}

// Creates reports whether a patch is meant to create its file. The patch may be invalid.
func Creates(text string) bool {
	for l := range strings.Lines(text) {
		if name, ok := fileName(strings.TrimRight(l, "\r\n"), "--- "); ok && name == devNull {
			return true
		}
	}
	return false
}

// Create reports whether the patch creates its file, because its source is /dev/null. Apply then ignores existing
// content.
func (d *Diff) Create() bool { return d.create }

// Hunks returns the number of hunks, at least one.
func (d *Diff) Hunks() int { return len(d.hunks) }

// Apply returns the result of applying the patch to source. A patch that creates the file ignores source.
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
			e.emit(e.readLine())
		}
		if e.line < h.at {
			return nil, drifted("hunk %d (line %d of the patch) starts after the end of the file, which has %d lines", i+1, h.number, e.line)
		}
		if !e.apply(h, crlf) {
			return nil, drifted("hunk %d (line %d of the patch) does not match line %d of the file", i+1, h.number, e.line)
		}
	}
	if e.emit(e.rest); e.torn {
		return nil, drifted("a line without line end would be followed by others")
	}
	return e.out, nil
}

// edit is the state of applying a patch to a file.
type edit struct {
	// rest is the unread content, line the number of lines read so far.
	rest []byte
	line int
	out  []byte
	// torn is true when text was appended to a line without line end.
	torn bool
}

// apply applies a hunk, with the line ends of the patch or with CR LF. It returns false at the first line that does not
// match.
func (e *edit) apply(h hunk, crlf bool) bool {
	for _, l := range h.lines {
		text := l.text
		if body, ended := strings.CutSuffix(text, "\n"); ended && crlf {
			text = body + "\r\n"
		}
		if l.op != '+' && string(e.readLine()) != text {
			return false
		}
		if l.op != '-' {
			e.emit([]byte(text))
		}
	}
	return true
}

// readLine returns the next line with its line feed, or an empty slice at the end of the file.
func (e *edit) readLine() []byte {
	text := firstLine(e.rest)
	e.rest = e.rest[len(text):]
	e.line++
	return text
}

// emit appends text to the result, and sets torn if the result did not end with a line end.
func (e *edit) emit(text []byte) {
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

// failed returns PATCH_FAILED with a message.
func failed(format string, args ...any) *fault.Error {
	return fault.New(fault.PatchFailed, format, args...).WithReason("PatchFailed").WithField("patch")
}

// drifted returns the error for a valid patch that does not match the file.
func drifted(format string, args ...any) *fault.Error {
	return failed(format, args...).WithHint("read the file again and make the diff from its present content")
}
