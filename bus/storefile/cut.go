package storefile

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/s2"
)

// Region is a damaged part of a block.
type Region struct {
	// Offset is the offset of the region in the decompressed block.
	Offset int
	// After is the newest position read before the region.
	After uint64
	// What describes the damage, as the end of a sentence that begins with "the record has".
	What string
	// Data is the content of the region.
	Data []byte
	// Pieces are the records in Data, in order.
	Pieces []Piece
	// Unsure is set if there may have been more records than Pieces: the lengths of the records are inconsistent, and more
	// positions are missing than there are Pieces.
	Unsure bool
}

// Piece is a damaged record, or a record that cannot be found because the record before it is damaged.
type Piece []byte

// Subject returns the subject of the record, which may be damaged; "" if the record is too short.
func (p Piece) Subject() string {
	if len(p) < emptySize {
		return ""
	}
	size := int(binary.LittleEndian.Uint16(p[20:]))
	if size > maxSubject || headSize+size > len(p) {
		return ""
	}
	return readable(string(p[headSize : headSize+size]))
}

// Message returns the body of the record, which may be damaged; nil if its lengths contradict each other.
func (p Piece) Message() []byte {
	l, ok := measure(p)
	if !ok {
		return nil
	}
	return p[headSize+l.subject+l.heads : l.record-sumSize]
}

// RemoveDamage returns the content of a block without its damaged records, and the removed regions. It changes no file. The
// content is like that of a block that the server has compacted, and is not compressed. keepSeq is a position that must not
// be used again, 0 for none: if the content would end before keepSeq, RemoveDamage appends an erased message with that
// position.
func RemoveDamage(dir, file string, keepSeq uint64, good Believable) (content []byte, removed []Region, err error) {
	packed, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file)))
	if err != nil {
		return nil, nil, err
	}
	c := checker{Stream: Stream{Name: filepath.Base(dir)}, good: good}
	number, _ := blockNumber(filepath.Base(file), true)
	c.reader.key(c.Name + "-" + strconv.Itoa(number))
	data := inflateAll(packed)
	for at := 0; at < len(data); {
		rec, what := c.reader.next(data[at:])
		if what == "" && !rec.Deleted && !good(c.Name, rec) {
			what = "a subject that does not match its message"
		}
		if what == "" {
			content = append(content, data[at:at+rec.size]...)
			c.Last = max(c.Last, rec.Seq)
			at += rec.size
			continue
		}
		next := c.search(data, at+1)
		r := Region{Offset: at, After: c.Last, What: what, Data: data[at:next]}
		c.split(&r, data[next:], keepSeq)
		removed = append(removed, r)
		at = next
	}
	if keepSeq > c.Last {
		content = append(content, c.reader.erasedRecord(keepSeq)...)
	}
	return content, removed, nil
}

// split finds the records in a region: by their lengths if these are consistent, otherwise by searching for possible record
// heads. rest is the part of the block after the region, keepSeq as for RemoveDamage.
func (c *checker) split(r *Region, rest []byte, keepSeq uint64) {
	if r.Pieces = byLengths(r.Data); r.Pieces != nil {
		return
	}
	before, last := uint64(math.MaxUint64), keepSeq
	if seq := c.firstSeq(rest); seq > 0 {
		before, last = seq, seq-1
	}
	from := 0
	for at := 1; at < len(r.Data); at++ {
		if c.isHead(r.Data[at:], r.After, before) {
			r.Pieces, from = append(r.Pieces, r.Data[from:at]), at
		}
	}
	r.Pieces = append(r.Pieces, r.Data[from:])
	r.Unsure = last == 0 || last > r.After && last-r.After > uint64(len(r.Pieces))
}

// byLengths splits data into records by their lengths. It returns nil if these do not add up to the length of data.
func byLengths(data []byte) (all []Piece) {
	for at := 0; at < len(data); {
		l, ok := measure(data[at:])
		if !ok {
			return nil
		}
		all = append(all, data[at:at+l.record])
		at += l.record
	}
	return all
}

// firstSeq returns the position of the first undamaged message in data, 0 if there is none. It skips erased messages, which may
// have any position.
func (c *checker) firstSeq(data []byte) uint64 {
	for at := 0; at < len(data); {
		rec, what := c.reader.next(data[at:])
		if what != "" {
			at = c.search(data, at+1)
			continue
		}
		if !rec.Deleted && c.good(c.Name, rec) {
			return rec.Seq
		}
		at += rec.size
	}
	return 0
}

// isHead reports whether buf begins with a possible record head with a position between after and before. It ignores the
// length of the record. Such a head cannot occur in a message, because messages are text.
func (c *checker) isHead(buf []byte, after, before uint64) bool {
	if len(buf) < emptySize {
		return false
	}
	rec := Record{Seq: binary.LittleEndian.Uint64(buf[4:]), Subject: Piece(buf).Subject()}
	return rec.Seq > after && rec.Seq < before && rec.Subject != "" && c.good(c.Name, rec)
}

// erasedRecord returns the record of an erased message at a position.
func (r *reader) erasedRecord(seq uint64) []byte {
	b := binary.LittleEndian.AppendUint32(nil, emptySize)
	b = binary.LittleEndian.AppendUint64(b, seq|erased)
	b = binary.LittleEndian.AppendUint64(b, uint64(time.Now().UnixNano()))
	b = binary.LittleEndian.AppendUint16(b, 0)
	return append(b, r.checksum(b[4:20])...)
}

// inflateAll is like inflate for a damaged block. It ignores the checksums of the compressed data, because the checksums of
// the records show which records are undamaged.
func inflateAll(data []byte) []byte {
	if out, ok := inflate(data); ok {
		return out
	}
	body, _ := bytes.CutPrefix(data, []byte("cmp\x01"))
	_, n := binary.Uvarint(body)
	end := len(body) - sumSize
	var out []byte
	for at := max(n, 0); at+chunkHead <= end; {
		kind := body[at]
		size := int(body[at+1]) | int(body[at+2])<<8 | int(body[at+3])<<16
		at += chunkHead
		chunk := body[at:min(at+size, end)]
		at += size
		out = append(out, decodeChunk(kind, chunk)...)
	}
	return append(out, body[end:]...)
}

// The sizes in bytes of the head of a chunk of compressed data, of the checksum in a chunk, and the maximum size of its
// content.
const (
	chunkHead = 4
	chunkSum  = 4
	maxChunk  = 4 << 20
)

// decodeChunk returns the content of a chunk, zeros of the same length if it cannot be decompressed, or nil if the length
// is unknown.
func decodeChunk(kind byte, chunk []byte) []byte {
	const compressed, plain = 0, 1
	if kind > plain || len(chunk) < chunkSum {
		return nil
	}
	chunk = chunk[chunkSum:]
	if kind == plain {
		return chunk
	}
	size, err := s2.DecodedLen(chunk)
	if err != nil || size > maxChunk {
		return nil
	}
	if out, err := s2.Decode(nil, chunk); err == nil && kind == compressed {
		return out
	}
	return make([]byte, size)
}

// Newest reports whether a block is the newest one of a stream.
func Newest(dir, file string) (bool, error) {
	c := checker{dir: dir}
	blocks, err := c.list(0)
	if err != nil || len(blocks) == 0 {
		return false, err
	}
	return strings.TrimPrefix(file, "msgs/") == strconv.Itoa(blocks[len(blocks)-1])+".blk", nil
}
