package index

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"

	"github.com/orch-dev/orch/fault"
)

// The file begins with a line that names its version and the log. Chunks follow: a header and records. A chunk adds the
// finished tasks and other changes of some time. Its digest covers the digest of the chunk before it, so a file is believed up to
// the first chunk that is damaged or incomplete.

// fileVersion is the version of the format. Files of other versions are ignored.
const fileVersion = 1

type fileHeader struct {
	Version int    `json:"v"`
	Log     string `json:"log"`
}

// chunkHeader precedes the records of a chunk.
type chunkHeader struct {
	Size uint32
	// Complete is 1 if the file contains all that the log had up to the positions of the chunk.
	Complete uint32
	Position
	Digest [sha256.Size]byte
}

// Position says how much of the log an index contains.
type Position struct {
	// Past and Live are positions of the archive and of the live log.
	Past, Live uint64
}

// file is the state of the file of an index.
type file struct {
	path, log string
	// out is open for appending; nil if the file must be written anew.
	out *os.File
	// wasRead is set by Load.
	wasRead bool
	digest  [sha256.Size]byte
	// at is the position of the newest chunk, loaded that of the newest complete one when the file was read.
	at, loaded Position
	// numbers maps texts to their numbers in the file, or 0. texts is the number of texts in the file.
	numbers []uint32
	texts   uint32
	// records counts the records of tasks and archivings, including those that later ones replace.
	records int
}

// belongs reports whether the first line of a file is that of this index.
func (f *file) belongs(line []byte) bool {
	var h fileHeader
	f.digest = sha256.Sum256(bytes.TrimSuffix(line, []byte("\n")))
	return json.Unmarshal(line, &h) == nil && h == fileHeader{fileVersion, f.log}
}

// reopen opens the file for appending after its good part.
func (f *file) reopen(size int64) {
	out, err := os.OpenFile(f.path, os.O_RDWR, 0o600)
	if err != nil {
		return
	}
	_, err = out.Seek(size, io.SeekStart)
	if err := errors.Join(err, out.Truncate(size)); err != nil {
		_ = out.Close()
		return
	}
	f.out = out
}

// digestOf returns the digest of a chunk.
func (f *file) digestOf(h chunkHeader, body []byte) [sha256.Size]byte {
	h.Digest = f.digest
	head, err := binary.Append(nil, binary.LittleEndian, h)
	if err != nil {
		panic(err) // the header has a fixed size
	}
	sum := sha256.New()
	sum.Write(head)
	sum.Write(body)
	return [sha256.Size]byte(sum.Sum(nil))
}

// setNumber records that a text has the next number in the file, counted from 1.
func (f *file) setNumber(text uint32) {
	if missing := int(text) + 1 - len(f.numbers); missing > 0 {
		f.numbers = append(f.numbers, make([]uint32, missing)...)
	}
	f.texts++
	f.numbers[text] = f.texts
}

// create begins a new file beside the old one.
func (f *file) create() error {
	line, err := json.Marshal(fileHeader{fileVersion, f.log})
	if err == nil {
		f.out, err = os.OpenFile(f.path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	}
	if err != nil {
		return fileFault(err)
	}
	f.numbers, f.texts, f.records, f.digest = nil, 0, 0, sha256.Sum256(line)
	if _, err := f.out.Write(append(line, '\n')); err != nil {
		f.close()
		return fileFault(err)
	}
	return nil
}

// replace replaces the old file by the one that create has begun.
func (f *file) replace() error {
	if err := os.Rename(f.path+".new", f.path); err != nil {
		f.close()
		return fileFault(err)
	}
	return nil
}

// maxChunk is about how long a chunk may be.
const maxChunk = 1 << 20

// writeFull writes the encoded records if they are enough for a chunk, after which others follow.
func (f *file) writeFull(e *encoder) error {
	if len(e.data) < maxChunk {
		return nil
	}
	return f.write(e, false)
}

// write appends a chunk with the encoded records. After an error, the next Save writes the whole file.
func (f *file) write(e *encoder, complete bool) error {
	h := chunkHeader{Size: uint32(len(e.data)), Position: f.at} //nolint:gosec // see maxChunk
	if complete {
		h.Complete = 1
	}
	h.Digest = f.digestOf(h, e.data)
	data, err := binary.Append(nil, binary.LittleEndian, h)
	if err == nil {
		_, err = f.out.Write(append(data, e.data...))
	}
	e.data = e.data[:0]
	if err != nil {
		f.close()
		return fileFault(err)
	}
	f.digest = h.Digest
	return nil
}

// empty empties a file that will be written anew, so that it does not bring back removed tasks.
func (f *file) empty() error {
	out, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err == nil {
		err = errors.Join(out.Sync(), out.Close())
	}
	return fileFault(err)
}

func (f *file) close() {
	if f.out != nil {
		_ = f.out.Close()
		f.out = nil
	}
}

// fileFault returns the error of a file that cannot be written, or nil without one.
func fileFault(err error) error {
	if err == nil {
		return nil
	}
	return fault.Wrap(fault.Unavailable, err, "the index of lists cannot be written")
}
