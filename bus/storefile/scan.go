package storefile

import (
	"context"
	"errors"
	"io/fs"
	"math/bits"
	"path/filepath"
	"strconv"
)

// ErrDamaged is the error of a scan that meets a record that it cannot read.
var ErrDamaged = errors.New("a record of the stream is damaged")

// Positions are the positions of the messages in the files of a stream.
type Positions struct {
	// First is the position of the first record, Last that of the last one.
	First, Last uint64
	// Count is how many messages there are that are not deleted.
	Count uint64

	live bitset
}

// Has reports whether the files have a message with a position that is not deleted.
func (p *Positions) Has(seq uint64) bool { return p.live.has(seq) }

// bitset is a set of positions.
type bitset []uint64

func (b bitset) has(seq uint64) bool {
	return seq/64 < uint64(len(b)) && b[seq/64]&(1<<(seq%64)) != 0
}

func (b *bitset) add(seq uint64) {
	for uint64(len(*b)) <= seq/64 {
		*b = append(*b, 0)
	}
	(*b)[seq/64] |= 1 << (seq % 64)
}

// ReadPositions reads the positions of the messages in the directory of a stream. It compares no checksum, so that it is fast:
// the caller must compare the result with what the server has. A position above limit is damage.
func ReadPositions(ctx context.Context, dir string, limit uint64) (Positions, error) {
	var p Positions
	var deleted bitset
	err := eachBlock(ctx, dir, func(_ *checker, data []byte, newest bool) error {
		for at := 0; at < len(data); {
			l, ok := measure(data[at:])
			if !ok && newest {
				return nil // it may be an append in progress
			}
			seq, gone := position(data[at:])
			if !ok || seq > limit {
				return ErrDamaged
			}
			if p.First == 0 {
				p.First = seq
			}
			p.Last = max(p.Last, seq)
			if gone {
				deleted.add(seq)
			} else {
				p.live.add(seq)
			}
			at += l.record
		}
		return nil
	})
	for i := range p.live {
		if i < len(deleted) {
			p.live[i] &^= deleted[i]
		}
		p.Count += uint64(bits.OnesCount64(p.live[i])) //nolint:gosec // at most 64
	}
	return p, err
}

// Scan calls use for the messages in the directory of a stream that are among positions and come after a position, in the order
// of the log, until use returns false. It compares the checksum of each.
func Scan(ctx context.Context, dir string, positions *Positions, after uint64, use func(Record) bool) error {
	return eachBlock(ctx, dir, func(c *checker, data []byte, _ bool) error {
		for at := 0; at < len(data) && after < positions.Last; {
			l, ok := measure(data[at:])
			if !ok {
				return ErrDamaged
			}
			seq, gone := position(data[at:])
			if gone || seq <= after || !positions.Has(seq) {
				at += l.record
				continue
			}
			rec, damage := c.reader.next(data[at:])
			if damage != "" {
				return ErrDamaged
			}
			if !use(rec) {
				return fs.SkipAll
			}
			after = seq
			at += l.record
		}
		return nil
	})
}

// eachBlock calls use with the content of each block of a stream until it returns an error. fs.SkipAll ends the blocks early.
func eachBlock(ctx context.Context, dir string, use func(c *checker, data []byte, newest bool) error) error {
	c := &checker{Stream: Stream{Name: filepath.Base(dir)}, dir: dir}
	blocks, err := c.list(0)
	if err != nil {
		return err
	}
	for i, n := range blocks {
		if err := ctx.Err(); err != nil {
			return err
		}
		packed, err := c.read("msgs/" + strconv.Itoa(n) + ".blk")
		if errors.Is(err, fs.ErrNotExist) { // the server has removed the block meanwhile
			continue
		}
		if err != nil {
			return err
		}
		data, ok := inflate(packed)
		if !ok {
			return ErrDamaged
		}
		c.reader.key(c.Name + "-" + strconv.Itoa(n))
		if err := use(c, data, i == len(blocks)-1); errors.Is(err, fs.SkipAll) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}
