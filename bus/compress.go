package bus

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"math/bits"
	"strings"
	"sync"

	"github.com/klauspost/compress/s2"

	"github.com/orch-dev/orch/fault"
)

// packedMark is the first byte of a commit that is compressed with the first dictionary; a block of S2 follows. A commit that is not
// compressed begins with '{'. Another dictionary needs another mark, and another version of the store.
const packedMark = 0x01

// packedVersion is the version of the store from which on commits may be compressed. New stores begin with it.
const packedVersion = 3

const (
	// maxSmall is the size of the largest commit that a packer compresses.
	maxSmall = 8 << 10
	// packedRoom is more than such a commit takes, even if nothing in it repeats.
	packedRoom = maxSmall + 64
)

// commitWords is the text of the dictionary: what commits often contain, the most frequent last, where a copy takes the fewest bytes.
// It must never change, because stores have commits that refer to it.
//
//go:embed commit1.dict
var commitWords string

// firstWords are the beginning of a commit. The first copy of a block refers to their last place in the dictionary.
const firstWords = `{"v":1,"task":"TASK_01`

var (
	commitDict = s2.MakeDict([]byte(commitWords), []byte(firstWords))
	firstCopy  = len(commitWords) - strings.LastIndex(commitWords, firstWords)
	wordIndex  = indexOf(commitWords)
)

func isPacked(stored []byte) bool { return len(stored) > 0 && stored[0] == packedMark }

// packCommit returns a commit as it is stored: compressed, in room if that suffices, or as it is if that takes less space.
func packCommit(room, commit []byte) []byte {
	var packed []byte
	if len(commit) > maxSmall {
		packed = make([]byte, 1+s2.MaxEncodedLen(len(commit)))
		packed = packed[:1+len(commitDict.Encode(packed[1:], commit))]
		packed[0] = packedMark
	} else {
		p := packers.Get().(*packer) //nolint:forcetypeassert // nothing else is put there
		packed = p.pack(append(room[:0], packedMark), commit)
		packers.Put(p)
	}
	if len(packed) >= len(commit) && !isPacked(commit) {
		return commit
	}
	return packed
}

// unpackCommit returns the commit that packCommit has stored. Errors: DATA_LOSS, also for a commit that is larger than most.
func unpackCommit(stored []byte, most int) ([]byte, error) {
	if !isPacked(stored) {
		return stored, nil
	}
	block := stored[1:]
	size, err := s2.DecodedLen(block)
	if err == nil && size > most {
		err = errors.New("it is too large")
	}
	var commit []byte
	if err == nil {
		commit, err = commitDict.Decode(nil, block)
	}
	if err != nil {
		return nil, fault.Wrap(fault.DataLoss, err, "a compressed commit of the log is damaged").WithHint("run: orch verify")
	}
	return commit, nil
}

const (
	// indexBits and localBits are the sizes of the tables of a packer, for the dictionary and for the commit.
	indexBits = 14
	localBits = 9
	// lookAhead is how many bytes are read at each position.
	lookAhead = 8
	// minCopy is the least length of a copy in a block.
	minCopy = 4
	// patience is how many times two bytes are searched one by one after the last copy; then each search goes on one byte further.
	patience = 4
)

// hashOf returns a hash of the lowest five bytes.
func hashOf(b uint64) uint64 {
	const prime, upper = 0x9e3779b185ebca87, 24
	return (b << upper * prime) >> (64 - indexBits)
}

// indexOf returns the last position of each hash.
func indexOf(words string) *[1 << indexBits]uint16 {
	index := new([1 << indexBits]uint16)
	b := []byte(words)
	for i := range len(b) - lookAhead {
		index[hashOf(binary.LittleEndian.Uint64(b[i:]))] = uint16(i)
	}
	return index
}

// packer makes the blocks of small commits. For each block the encoder of the library clears a table of 64 KiB on the stack, which the stacks of
// all goroutines that append grow by. A packer has the index of the dictionary from the start, and clears 1 KiB.
type packer struct {
	// window has the dictionary, the commit and lookAhead bytes more.
	window []byte
}

var packers = sync.Pool{New: func() any {
	return &packer{window: append([]byte(commitWords), make([]byte, maxSmall+lookAhead)...)}
}}

// pack appends the block of a small commit to dst.
func (p *packer) pack(dst, commit []byte) []byte {
	s := len(commitWords)
	w := p.window[:s+copy(p.window[s:], commit)+lookAhead]
	dst = binary.AppendUvarint(dst, uint64(len(commit)))
	var local [1 << localBits]uint16
	done, last, end := s, firstCopy, len(w)-lookAhead
	for s+lookAhead <= end {
		v := binary.LittleEndian.Uint64(w[s:])
		h := hashOf(v)
		l := h >> (indexBits - localBits)
		from, length := s-last, 0
		if begins(w[from:], v) {
			length = common(w, from, s)
		}
		if c := int(local[l]); begins(w[c:], v) {
			from, length = better(w, from, length, c, s)
		}
		if c := int(wordIndex[h]); begins(w[c:], v) {
			from, length = better(w, from, length, c, s)
		}
		local[l] = uint16(s) //nolint:gosec // the window is smaller
		if length < minCopy {
			s += 1 + (s-done)>>patience
			continue
		}
		for s > done && from > 0 && from != len(commitWords) && w[from-1] == w[s-1] {
			s, from, length = s-1, from-1, length+1
		}
		dst = appendCopy(appendLiteral(dst, w[done:s]), s-from, length, last)
		last, s = s-from, s+length
		done = s
	}
	return appendLiteral(dst, w[done:end])
}

// begins reports whether a window begins with the lowest minCopy bytes of v.
func begins(w []byte, v uint64) bool { return binary.LittleEndian.Uint32(w) == uint32(v) } //nolint:gosec // four of eight bytes

// better returns the place and the length of the better copy for position s: of the one that was found, and of one from c. Another offset than the
// previous one takes a byte more.
func better(w []byte, from, length, c, s int) (int, int) {
	if n := common(w, c, s); n > length+1 {
		return c, n
	}
	return from, length
}

// common returns how many bytes are the same at two positions of a window, the first minCopy of which are. Those at from are all in the
// dictionary or all in the commit.
func common(w []byte, from, s int) int {
	most := len(w) - lookAhead - s
	if from < len(commitWords) {
		most = min(most, len(commitWords)-from)
	}
	for n := minCopy; n < most; n += 8 {
		if x := binary.LittleEndian.Uint64(w[from+n:]) ^ binary.LittleEndian.Uint64(w[s+n:]); x != 0 {
			return min(n+bits.TrailingZeros64(x)/8, most)
		}
	}
	return most
}

// The kinds of elements of a block, in the two lowest bits of the first byte: 0 is a literal.
const (
	tagShortCopy = 1
	tagCopy      = 2
)

// low returns the lowest byte.
func low(n int) byte { return byte(n) } //nolint:gosec // the others are written separately

// appendLiteral appends the element for bytes that are not copied.
func appendLiteral(dst, b []byte) []byte {
	switch n := len(b) - 1; {
	case n < 0:
		return dst
	case n < 60:
		dst = append(dst, low(n<<2))
	case n < 1<<8:
		dst = append(dst, 60<<2, low(n))
	default:
		dst = append(dst, 61<<2, low(n), low(n>>8))
	}
	return append(dst, b...)
}

// appendCopy appends the elements for length bytes that are copied from offset bytes before; last is the offset of the previous copy.
func appendCopy(dst []byte, offset, length, last int) []byte {
	const most = 64
	switch {
	case offset == last:
		return appendRepeat(dst, length)
	case offset < 1<<11 && length < minCopy+8:
		return append(dst, low(offset>>8<<5|(length-minCopy)<<2|tagShortCopy), low(offset))
	case length <= most:
		return append(dst, low((length-1)<<2|tagCopy), low(offset), low(offset>>8))
	default:
		const first = most - minCopy
		return appendRepeat(append(dst, low((first-1)<<2|tagCopy), low(offset), low(offset>>8)), length-first)
	}
}

// appendRepeat appends the element for a copy with the offset of the previous one.
func appendRepeat(dst []byte, length int) []byte {
	switch n := length - minCopy; {
	case n < 5:
		return append(dst, low(n<<2|tagShortCopy), 0)
	case n-4 < 1<<8:
		return append(dst, 5<<2|tagShortCopy, 0, low(n-4))
	default:
		n -= 1 << 8
		return append(dst, 6<<2|tagShortCopy, 0, low(n), low(n>>8))
	}
}
