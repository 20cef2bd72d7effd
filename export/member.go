package export

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/orch-dev/orch/fault"
)

// gzipStart is the header of every member: deflate, no flags, no time, unknown system.
const gzipStart = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

// memberWriter compresses a text into gzip members of at most MaxMember bytes of content.
type memberWriter struct {
	to      io.Writer
	content []byte
	packed  bytes.Buffer
	total   int64
}

// Write implements io.Writer.
func (m *memberWriter) Write(p []byte) (int, error) {
	if m.total += int64(len(p)); m.total > MaxContent {
		return 0, tooLarge("the content of the file", MaxContent)
	}
	for rest := p; len(rest) > 0; {
		n := min(len(rest), MaxMember-len(m.content))
		m.content = append(m.content, rest[:n]...)
		rest = rest[n:]
		if len(m.content) == MaxMember {
			if err := m.flush(); err != nil {
				return 0, err
			}
		}
	}
	return len(p), nil
}

// flush writes the content so far as a member. Content that would shrink by more than MaxRatio is compressed less.
func (m *memberWriter) flush() error {
	if len(m.content) == 0 {
		return nil
	}
	if err := m.pack(gzip.DefaultCompression); err != nil {
		return err
	}
	if len(m.content) > MaxRatio*m.packed.Len() {
		if err := m.pack(gzip.HuffmanOnly); err != nil {
			return err
		}
	}
	m.content = m.content[:0]
	_, err := m.to.Write(m.packed.Bytes())
	return err
}

func (m *memberWriter) pack(level int) error {
	m.packed.Reset()
	z, err := gzip.NewWriterLevel(&m.packed, level)
	if err == nil {
		_, err = z.Write(m.content)
	}
	if err == nil {
		err = z.Close()
	}
	return err
}

// memberReader returns the content of consecutive members. A member begins when more content is needed, so that it stops at the end
// of a member if the caller needs no more.
type memberReader struct {
	from *source
	z    *gzip.Reader
	// open is set inside a member, which begins at start and has given inside bytes of content.
	open   bool
	start  int64
	inside int64
	total  int64
}

// Read implements io.Reader. It returns io.ErrUnexpectedEOF if the file ends, and DATA_LOSS for damage.
func (m *memberReader) Read(p []byte) (int, error) {
	for {
		if !m.open {
			if err := m.begin(); err != nil {
				return 0, err
			}
		}
		n, err := m.z.Read(p)
		m.inside += int64(n)
		m.total += int64(n)
		if m.inside > MaxMember || m.total > MaxContent {
			return 0, tooLarge("a part of the file, or its content,", min(MaxMember, MaxContent))
		}
		if errors.Is(err, io.EOF) {
			m.open = false
			if err = m.checkRatio(); err == nil && n == 0 {
				continue
			}
		}
		if err != nil {
			return 0, unpackFault(err)
		}
		return n, nil
	}
}

// begin starts the next member.
func (m *memberReader) begin() error {
	m.start, m.inside = m.from.offset, 0
	start, err := m.from.buffer.Peek(len(gzipStart))
	if err != nil {
		return io.ErrUnexpectedEOF
	}
	if string(start) != gzipStart {
		return fault.New(fault.DataLoss, "no part of the file begins where one has to")
	}
	if m.z == nil {
		m.z, err = gzip.NewReader(m.from)
	} else {
		err = m.z.Reset(m.from)
	}
	if err != nil {
		return unpackFault(err)
	}
	m.z.Multistream(false)
	m.open = true
	return nil
}

// checkRatio checks a member at its end: it is not empty, and has not shrunk too much.
func (m *memberReader) checkRatio() error {
	if packed := m.from.offset - m.start; m.inside == 0 || m.inside > MaxRatio*packed {
		return fault.New(fault.DataLoss, "a part of the file unpacks to %d times its size; at most %d times is allowed", m.inside/packed, MaxRatio)
	}
	return nil
}

// end checks that the content ends with the current member.
func (m *memberReader) end() error {
	if !m.open {
		return nil
	}
	n, err := m.z.Read(make([]byte, 1))
	switch {
	case n > 0:
		return fault.New(fault.DataLoss, "something follows the manifest")
	case errors.Is(err, io.EOF):
		m.open = false
		return m.checkRatio()
	default:
		return unpackFault(err)
	}
}

func unpackFault(err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok || errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return fault.Wrap(fault.DataLoss, err, "the compressed data is damaged")
}

// stored returns text as a gzip member without compression. There is one such member for each text.
func stored(text []byte) []byte {
	size := uint16(len(text)) //nolint:gosec // the signature is shorter
	member := append([]byte(gzipStart), 1)
	member = binary.LittleEndian.AppendUint16(member, size)
	member = binary.LittleEndian.AppendUint16(member, ^size)
	member = append(member, text...)
	member = binary.LittleEndian.AppendUint32(member, crc32.ChecksumIEEE(text))
	return binary.LittleEndian.AppendUint32(member, uint32(size))
}

// storedSize is what stored adds to a text, in bytes.
const storedSize = len(gzipStart) + 1 + 2 + 2 + 4 + 4
