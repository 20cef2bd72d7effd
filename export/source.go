package export

import (
	"bufio"
	"crypto/sha256"
	"hash"
	"io"
)

// source reads a file and computes the digest of exactly those bytes that were consumed.
type source struct {
	buffer *bufio.Reader
	offset int64
	digest hash.Hash
	// single holds bytes that ReadByte has returned and that digest lacks.
	single []byte
}

func newSource(r io.Reader) *source {
	const size = 64 << 10
	return &source{buffer: bufio.NewReaderSize(r, size), digest: sha256.New(), single: make([]byte, 0, size)}
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.buffer.Read(p)
	s.flush()
	s.digest.Write(p[:n])
	s.offset += int64(n)
	return n, err
}

// ReadByte implements io.ByteReader.
func (s *source) ReadByte() (byte, error) {
	b, err := s.buffer.ReadByte()
	if err != nil {
		return 0, err
	}
	if len(s.single) == cap(s.single) {
		s.flush()
	}
	s.single = append(s.single, b)
	s.offset++
	return b, nil
}

func (s *source) flush() {
	s.digest.Write(s.single)
	s.single = s.single[:0]
}

// sum returns the digest of the bytes so far.
func (s *source) sum() []byte {
	s.flush()
	return s.digest.Sum(nil)
}
