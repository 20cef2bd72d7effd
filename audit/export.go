package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"github.com/orch-dev/orch/fault"
)

// Format is the format of export files.
const Format = "orch-audit/1"

// MaxLine is the maximum size of a line of an export file in bytes.
const MaxLine = 64 << 10

// header is the first line of an export file.
type header struct {
	Format string `json:"format"`

	Anchor
}

// trailer is the last line of an export file. It shows that the file was not cut off.
type trailer struct {
	End  bool   `json:"end"`
	Last uint64 `json:"last"`
	Head string `json:"head"`
}

// Exporter writes an export file: a header, the entries as they are stored, one a line, and a trailer.
type Exporter struct {
	w      *bufio.Writer
	from   Anchor
	verify *Verifier
}

// NewExporter writes the header of a file whose entries follow an anchor.
func NewExporter(w io.Writer, from Anchor) (*Exporter, error) {
	from.First = max(from.First, 1)
	x := &Exporter{w: bufio.NewWriter(w), from: from, verify: NewVerifier(from)}
	return x, x.line(header{Format, from})
}

func (x *Exporter) line(value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "a line of an export cannot be encoded")
	}
	return x.write(data)
}

func (x *Exporter) write(line []byte) error {
	_, err := x.w.Write(append(slices.Clip(line), '\n'))
	return err
}

// Add checks an entry and writes it.
func (x *Exporter) Add(encoded []byte) error {
	if _, err := x.verify.Add(encoded); err != nil {
		return err
	}
	return x.write(encoded)
}

// Close writes the trailer and returns what was written.
func (x *Exporter) Close() (Verified, error) {
	done := x.verify.Result(x.from)
	if err := x.line(trailer{true, done.Last, done.Head}); err != nil {
		return done, err
	}
	return done, x.w.Flush()
}

// ReadExport verifies an export file, and looks for the entry with a digest; empty for none. It returns DATA_LOSS with the number
// of the first broken entry, and INVALID_FORMAT for a file that is no export.
func ReadExport(r io.Reader, lookFor string) (Verified, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, MaxLine)
	if !lines.Scan() {
		return Verified{}, noExport(lines.Err())
	}
	var h header
	if err := json.Unmarshal(lines.Bytes(), &h); err != nil || h.Format != Format {
		return Verified{}, noExport(err)
	}
	v := NewVerifier(h.Anchor)
	v.LookFor(lookFor)
	for lines.Scan() {
		var end trailer
		if json.Unmarshal(lines.Bytes(), &end) == nil && end.End {
			return v.Result(h.Anchor), checkEnd(v, h.Anchor, end, lines.Scan())
		}
		if _, err := v.Add(lines.Bytes()); err != nil {
			return v.Result(h.Anchor), err
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, bufio.ErrTooLong) {
		return v.Result(h.Anchor), fault.Wrap(fault.Unavailable, err, "the file cannot be read")
	}
	return v.Result(h.Anchor), v.broken("the file ends after entry %d, without its last line", v.next-1)
}

func noExport(err error) error {
	return fault.Wrap(fault.InvalidFormat, err, "the file is no export of an audit stream").WithHint("orch audit export writes one")
}

func checkEnd(v *Verifier, from Anchor, end trailer, more bool) error {
	done := v.Result(from)
	switch {
	case end.Last != done.Last || end.Head != done.Head:
		return v.broken("entry %d is missing or was changed: the last line names entry %d with another digest", done.Last, end.Last)
	case more:
		return v.broken("there are lines after the last one")
	default:
		return nil
	}
}
