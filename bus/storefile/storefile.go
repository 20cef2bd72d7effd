// Package storefile reads the files of a JetStream file store (nats-server 2.15) without the server, and
// finds damage in them.
//
// The server itself does not detect all damage. It does not check every checksum when it starts, truncates a
// block at the first record that it cannot read, and allocates memory according to positions that it has not checked.
// So package bus checks the files with this package before it starts the server. This package never writes.
package storefile

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/s2"
)

// Damage is a damaged part of the files of a stream.
type Damage struct {
	// File is the path of the file, relative to the directory of the stream. Offset is the offset of the damage in the
	// decompressed file.
	File   string
	Offset int
	// After is the newest position read before the damage.
	After uint64
	// Subject and Header are the subject and the header block of the damaged record, as far as they are readable.
	Subject, Header string
	// What describes the damage, as the end of a sentence that begins with "the stream has" or "a record has".
	What string
	// Tail is set if the damage is in the newest block and no undamaged record follows. It may then be an interrupted
	// write.
	Tail bool
	// Meta is set if the description of the stream is damaged. The server ignores such a stream.
	Meta bool
}

// Stream is the result of the check of one stream.
type Stream struct {
	Name string
	// Last is the newest position of a message or of a deletion. Records counts messages and deletions.
	Last    uint64
	Records uint64
	Damage  []Damage
	// Strays are the paths of the other files in the directory of the stream, relative to it, with slashes. These files
	// cannot be checked. Some of them can be removed (see Derived).
	Strays []string
	// Blocks are the blocks without damage that nobody has written to for a while. Trusted counts those of them that were not
	// read, because they are known.
	Blocks  []Block
	Trusted int
}

// Derived reports whether a stray file can be removed without a loss. It is then an index without a checksum, which the
// server rebuilds, or a temporary file of an interrupted write.
func Derived(stray string) bool {
	switch stray {
	case "msgs/thw.db", "msgs/sched.db", "sources.db":
		return true
	default:
		return strings.HasSuffix(stray, ".tmp") || strings.HasSuffix(stray, ".new")
	}
}

// Believable reports whether a record is possible in a stream. This test is needed because the checksum does not cover the
// lengths that separate subject and message.
type Believable func(stream string, r Record) bool

// Dir returns the directory of the streams below the store directory of a server with one account.
func Dir(store string) string { return filepath.Join(store, "jetstream", "$G", "streams") }

// Check is CheckNew without known blocks: it reads every record.
func Check(ctx context.Context, dir string, good Believable) ([]Stream, error) {
	return CheckNew(ctx, dir, good, nil)
}

// CheckNew checks all streams in dir, except the blocks that are known and have not changed, and returns the results, ordered by name. It returns nil for a missing directory. It
// ignores files that vanish meanwhile, because a running server removes blocks. The error is not nil only if files
// cannot be read; damage is in the results.
func CheckNew(ctx context.Context, dir string, good Believable, known Known) ([]Stream, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var streams []Stream
	var buf []byte
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") { // the server removes such directories itself
			continue
		}
		c := checker{Stream: Stream{Name: e.Name()}, dir: filepath.Join(dir, e.Name()), good: good, buf: buf, known: known[e.Name()]}
		if err := c.check(ctx); err != nil {
			return nil, err
		}
		streams, buf = append(streams, c.Stream), c.buf
	}
	return streams, nil
}

// checker checks one stream.
type checker struct {
	Stream

	dir    string
	good   Believable
	known  map[int]Block
	reader reader
	// blockLast is the newest position in the current block.
	blockLast uint64
	buf       []byte // the buffer of the last file, to be reused
}

func (c *checker) check(ctx context.Context) error {
	if err := c.checkMeta(); err != nil {
		return err
	}
	if err := c.findStrays(); err != nil {
		return err
	}
	for last := 0; ; { // repeated until there are no new blocks, because a running server may create some
		blocks, err := c.list(last)
		if err != nil || len(blocks) == 0 {
			return err
		}
		for i, n := range blocks {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := c.checkUnlessKnown(n, i == len(blocks)-1); err != nil {
				return err
			}
			last = n
		}
	}
}

// checkMeta compares the description of the stream with its checksum, as the server does.
func (c *checker) checkMeta() error {
	var sums [2]string
	for i, name := range []string{"meta.inf", "meta.sum"} {
		data, err := c.read(name)
		if errors.Is(err, fs.ErrNotExist) {
			c.addDamage(Damage{File: name, What: "lost its description", Meta: true})
			return nil
		}
		if err != nil {
			return err
		}
		sums[i] = string(data)
	}
	c.reader.key(c.Name)
	if hex.EncodeToString(c.reader.checksum([]byte(sums[0]))) != sums[1] {
		c.addDamage(Damage{File: "meta.inf", What: "a description that does not match its checksum", Meta: true})
	}
	return nil
}

// findStrays finds the files that are checked neither by this package nor, like the index of the blocks, by the server.
func (c *checker) findStrays() error {
	return fs.WalkDir(os.DirFS(c.dir), ".", func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !e.IsDir() && !isChecked(name) {
			c.Strays = append(c.Strays, name)
		}
		return err
	})
}

// isChecked reports whether this package or the server checks a file.
func isChecked(name string) bool {
	switch name {
	case "meta.inf", "meta.sum", "msgs/index.db":
		return true
	}
	_, ok := blockNumber(strings.CutPrefix(name, "msgs/"))
	return ok
}

// blockNumber returns the number in the name of a block; false if the name is not that of a block or inBlocks is false.
func blockNumber(name string, inBlocks bool) (int, bool) {
	digits, isBlock := strings.CutSuffix(name, ".blk")
	n, err := strconv.Atoi(digits)
	return n, inBlocks && isBlock && err == nil && n > 0 && strconv.Itoa(n) == digits
}

func (c *checker) addDamage(d Damage) {
	d.After = c.Last
	c.Damage = append(c.Damage, d)
}

// list returns the numbers of the blocks after a number, in ascending order.
func (c *checker) list(after int) ([]int, error) {
	entries, err := os.ReadDir(filepath.Join(c.dir, "msgs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var numbers []int
	for _, e := range entries {
		if n, ok := blockNumber(e.Name(), true); ok && n > after {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

func (c *checker) checkBlock(n int, newest bool) error {
	name := "msgs/" + strconv.Itoa(n) + ".blk"
	packed, err := c.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	data, ok := inflate(packed)
	if !ok {
		c.addDamage(Damage{File: name, What: "compressed data that cannot be read"})
		return nil
	}
	c.reader.key(c.Name + "-" + strconv.Itoa(n))
	for at := 0; at < len(data); {
		rec, what := c.reader.next(data[at:])
		if what == "" && !rec.Deleted && !c.good(c.Name, rec) {
			what = "a subject that does not match its message"
		}
		if what == "" {
			c.Last, c.blockLast = max(c.Last, rec.Seq), max(c.blockLast, rec.Seq)
			c.Records++
			at += rec.size
			continue
		}
		next := c.search(data, at+1)
		c.addDamage(Damage{File: name, Offset: at, Subject: readable(rec.Subject), Header: string(rec.Header), What: what, Tail: newest && next == len(data)})
		at = next
	}
	return nil
}

// search returns the offset of the next undamaged record in data, or the length of data.
func (c *checker) search(data []byte, from int) int {
	for at := from; at < len(data); at++ {
		if !plausible(data[at:]) {
			continue
		}
		if _, what := c.reader.next(data[at:]); what == "" {
			return at
		}
	}
	return len(data)
}

// inflate returns the decompressed content of a block; false if it cannot be decompressed. The server compresses full
// blocks of some streams, except for the last checksum.
func inflate(data []byte) ([]byte, bool) {
	body, compressed := bytes.CutPrefix(data, []byte("cmp\x01"))
	if !compressed || len(body) < sumSize {
		return data, true
	}
	_, n := binary.Uvarint(body) // the size of the content, which is not needed
	if n <= 0 || n > len(body)-sumSize {
		return nil, false
	}
	end := len(body) - sumSize
	out, err := io.ReadAll(s2.NewReader(bytes.NewReader(body[n:end])))
	return append(out, body[end:]...), err == nil
}

// readable removes characters that no subject has.
func readable(subject string) string {
	return strings.Map(func(c rune) rune {
		if c <= ' ' || c > '~' {
			return -1
		}
		return c
	}, subject)
}

// read returns the content of a file; it is valid until the next call.
func (c *checker) read(name string) ([]byte, error) {
	f, err := os.Open(filepath.Join(c.dir, filepath.FromSlash(name)))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b := bytes.NewBuffer(slices.Grow(c.buf[:0], int(info.Size())+bytes.MinRead))
	_, err = b.ReadFrom(f)
	c.buf = b.Bytes()
	return c.buf, err
}
