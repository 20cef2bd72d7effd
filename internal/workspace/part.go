package workspace

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/orch-dev/orch/classify/secrets"
)

// Margin is how many bytes before and after a part are searched for secrets that reach into it.
const Margin = 32 << 10

// Part is a part of a file, with its secrets replaced.
type Part struct {
	Data []byte
	// Next is the offset of the following part; 0 at the end of the file.
	Next int64
	// Redacted is how many secrets were replaced.
	Redacted int
}

// ReadPart reads at most limit bytes of a file from an offset, and replaces the secrets that find finds in them or in their
// surroundings. The part ends after a whole character and after a whole secret, so it may be a little shorter or longer.
func ReadPart(file io.ReaderAt, offset int64, limit int, find func([]byte) []secrets.Finding) (Part, error) {
	from := max(offset-Margin, 0)
	data := make([]byte, int(offset-from)+limit+Margin)
	n, err := file.ReadAt(data, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return Part{}, err
	}
	data = data[:n]
	w := window{data: data, begin: min(int(offset-from), n), end: min(int(offset-from)+limit, n)}
	if w.end < n {
		w.end = wholeRunes(data, w.begin, w.end)
	}
	w.found = merged(find(data))
	part := w.cut()
	if w.end < n || n == cap(data) { // there may be more
		part.Next = from + int64(w.end)
	}
	return part, nil
}

// wholeRunes returns the end of a part before a character that it would cut in two.
func wholeRunes(data []byte, begin, end int) int {
	for at := end - 1; at > begin && at >= end-utf8.UTFMax; at-- {
		if utf8.RuneStart(data[at]) {
			if r, size := utf8.DecodeRune(data[at:]); r != utf8.RuneError && at+size > end {
				return at
			}
			return end
		}
	}
	return end
}

// window is a part between begin and end with its surroundings.
type window struct {
	data       []byte
	begin, end int
	found      []secrets.Finding
}

// cut returns the part with its secrets replaced. It moves the end behind a secret that the end would cut in two.
func (w *window) cut() Part {
	part := Part{Data: make([]byte, 0, w.end-w.begin)}
	at := w.begin
	for _, f := range w.found {
		last := f.Offset + f.Length
		if last <= w.begin || f.Offset >= w.end {
			continue
		}
		part.Data = append(part.Data, w.data[at:max(f.Offset, at)]...)
		part.Data = append(part.Data, "[REDACTED:"+f.Rule+"]"...)
		part.Redacted++
		at, w.end = last, max(w.end, last)
	}
	part.Data = append(part.Data, w.data[at:w.end]...)
	return part
}

// merged returns findings in order, with overlapping ones joined.
func merged(found []secrets.Finding) []secrets.Finding {
	slices.SortFunc(found, func(a, b secrets.Finding) int { return cmp.Compare(a.Offset, b.Offset) })
	var out []secrets.Finding
	for _, f := range found {
		if n := len(out); n > 0 && f.Offset < out[n-1].Offset+out[n-1].Length {
			out[n-1].Length = max(out[n-1].Length, f.Offset+f.Length-out[n-1].Offset)
			continue
		}
		out = append(out, f)
	}
	return out
}
