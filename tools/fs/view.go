package fs

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/orch-dev/orch/tools"
)

// maxLine is the number of characters of a line that FILE_READ shows.
const maxLine = 2000

// maxShown is the maximum size of maxLine characters in bytes, with a line break.
const maxShown = maxLine*utf8.UTFMax + 1

// view collects the numbered lines from..from+limit-1 of a file in one pass over the whole file. Its memory does not
// depend on the size of the file or of its lines.
type view struct {
	from, limit int64
	text        strings.Builder
	shown       int64 // number of lines in text
	lines       int64 // number of lines read so far
	truncated   bool
	hash        hash.Hash
	key         tools.KeyBlock
}

// readers are buffers for files: most files are much smaller than their buffer.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 16<<10) }} //nolint:gochecknoglobals // a cache

// scan reads the file to its end.
func (v *view) scan(ctx context.Context, r io.Reader) error {
	v.hash = sha256.New()
	in := readers.Get().(*bufio.Reader) //nolint:forcetypeassert // nothing else is put there
	defer func() {
		in.Reset(nil)
		readers.Put(in)
	}()
	in.Reset(r)
	var line []byte // the displayable beginning of the current line
	for started := false; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		part, err := in.ReadSlice('\n')
		if v.lines == 0 && v.text.Cap() == 0 { // most files fit into the first buffer
			v.text.Grow((len(part) + in.Buffered()) * 5 / 4)
		}
		v.hash.Write(part)
		line = append(line, part[:min(maxShown-len(line), len(part))]...)
		started = started || len(part) > 0
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if started {
			v.add(line, err == nil)
		}
		if errors.Is(err, io.EOF) {
			v.truncated = v.truncated || v.lines >= v.from+v.shown
			return nil
		}
		if err != nil {
			return err
		}
		line, started = line[:0], false
	}
}

// add adds the next line; hasBreak reports whether it ends with a line break.
func (v *view) add(line []byte, hasBreak bool) {
	v.lines++
	inKey := v.key.Contains(line)
	if v.lines != v.from+v.shown || v.shown == v.limit {
		return
	}
	body := bytes.TrimSuffix(line, []byte("\n"))
	if inKey {
		body = []byte(tools.HiddenLine)
	}
	text, cut := clip(body, maxLine)
	var room [24]byte
	number := append(strconv.AppendInt(room[:0], v.lines, 10), '\t')
	if v.text.Len()+len(number)+len(text)+1 > maxText {
		v.limit = v.shown
		return
	}
	v.text.Write(number)
	v.text.Write(text)
	if hasBreak {
		v.text.WriteByte('\n')
	}
	v.shown++
	v.truncated = v.truncated || cut || len(body) == maxShown
}

func (v *view) sha256() string { return hex.EncodeToString(v.hash.Sum(nil)) }

// clip returns at most limit characters of line as valid UTF-8, and whether it dropped any.
func clip(line []byte, limit int) ([]byte, bool) {
	text := line
	if !utf8.Valid(text) {
		text = bytes.ToValidUTF8(text, []byte(string(utf8.RuneError)))
	}
	if len(text) <= limit {
		return text, false
	}
	for i := range string(text) {
		if limit == 0 {
			return text[:i], true
		}
		limit--
	}
	return text, false
}
