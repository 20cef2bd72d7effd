package storefile

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"github.com/minio/highwayhash"
)

// A record consists of its length (uint32; the highest bit is set if there are headers), position (uint64), time
// (int64), length of the subject (uint16), subject, length of the headers (uint32) and headers if
// there are any, message, and checksum (8 bytes). All numbers are little endian. The checksum covers
// everything but the three lengths.
const (
	headSize  = 22
	sumSize   = 8
	emptySize = headSize + sumSize
	maxRecord = 32 << 20
	withHeads = uint32(1) << 31
	erased    = uint64(1) << 63
	tombstone = uint64(1) << 62
	// maxSubject is the maximum length of a plausible subject. The server allows longer subjects, but orch uses none.
	maxSubject = 1024
)

// Record is one undamaged record.
type Record struct {
	// Seq is the position of the message; in a tombstone, that of the deleted message.
	Seq uint64
	// Deleted is set for tombstones and erased messages; they have neither subject nor message.
	Deleted bool
	Subject string
	// Header is the header block. It is only valid until the next record is read, like Message.
	Header []byte
	// Message is the body without headers. It is only valid until the next record is read.
	Message []byte
	size    int // the length of the record
}

// reader reads records from a block.
type reader struct {
	hash *highwayhash.Digest64
	sum  [sumSize]byte
}

// key sets the key of the checksums. Each block has a different key, so that a record is only valid in its block.
func (r *reader) key(name string) {
	key := sha256.Sum256([]byte(name))
	r.hash, _ = highwayhash.NewDigest64(key[:]) // only fails for a key of the wrong length
}

// lengths are the lengths of the parts of a record.
type lengths struct {
	record, subject, heads int // heads includes the length field; 0 without headers
}

// measure returns the lengths of the record at the beginning of buf. It returns false if they are inconsistent or exceed
// buf.
func measure(buf []byte) (l lengths, ok bool) {
	if len(buf) < emptySize {
		return l, false
	}
	size := binary.LittleEndian.Uint32(buf)
	l.record, l.subject = int(size&^withHeads), int(binary.LittleEndian.Uint16(buf[20:]))
	room := l.record - emptySize - l.subject
	if room < 0 || l.record > len(buf) || l.record > maxRecord || l.subject > maxSubject {
		return l, false
	}
	if size&withHeads == 0 {
		return l, true
	}
	const field = 4
	if room < field {
		return l, false
	}
	heads := binary.LittleEndian.Uint32(buf[headSize+l.subject:])
	l.heads = field + int(heads)
	return l, l.heads <= room
}

// next decodes the record at the beginning of buf. problem describes its damage; "" if it is undamaged.
func (r *reader) next(buf []byte) (rec Record, problem string) {
	l, ok := measure(buf)
	if !ok {
		return rec, "lengths that contradict each other"
	}
	subject := buf[headSize : headSize+l.subject]
	rest := buf[headSize+l.subject : l.record-sumSize]
	rec = Record{Seq: binary.LittleEndian.Uint64(buf[4:]), Subject: string(subject), Message: rest[l.heads:], size: l.record}
	body := rest
	if l.heads > 0 {
		const field = 4
		body = rest[field:]
		if rec.Header = rest[field:l.heads]; !isHeader(rec.Header) {
			return rec, "damaged headers"
		}
	}
	if !bytes.Equal(r.checksum(buf[4:20], subject, body), buf[l.record-sumSize:l.record]) {
		return rec, "a wrong checksum"
	}
	rec.Deleted = rec.Seq&(erased|tombstone) != 0
	rec.Seq &^= erased | tombstone
	return rec, ""
}

// position returns the position of the record at the beginning of buf, and whether it is one of a deletion. The record must have
// consistent lengths.
func position(buf []byte) (seq uint64, deleted bool) {
	if len(buf) < emptySize {
		return 0, true
	}
	seq = binary.LittleEndian.Uint64(buf[4:])
	return seq &^ (erased | tombstone), seq&(erased|tombstone) != 0
}

func (r *reader) checksum(parts ...[]byte) []byte {
	r.hash.Reset()
	for _, p := range parts {
		_, _ = r.hash.Write(p) // a hash never fails
	}
	return r.hash.Sum(r.sum[:0])
}

// isHeader reports whether b begins and ends like a header block, because the checksum does not cover the length of the
// headers.
func isHeader(b []byte) bool {
	return len(b) == 0 || bytes.HasPrefix(b, []byte("NATS/1.0")) && bytes.HasSuffix(b, []byte("\r\n\r\n"))
}

// plausible reports whether buf could begin with a record. It is a cheap test for the search after damage.
func plausible(buf []byte) bool {
	l, ok := measure(buf)
	if !ok {
		return false
	}
	if l.subject == 0 {
		return l.record == emptySize
	}
	for _, c := range buf[headSize : headSize+l.subject] {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}
