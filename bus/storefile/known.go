package storefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// Block is a block that was read without damage: which file it was then, and what it contains.
type Block struct {
	Number int   `json:"n"`
	Size   int64 `json:"size"`
	// Modified and Changed are the times of the last changes of the content and of the file, in nanoseconds. A program can set
	// the first to any time, the second only by changing the clock.
	Modified int64  `json:"modified"`
	Changed  int64  `json:"changed"`
	Inode    uint64 `json:"inode"`
	// Last and Records are what the block adds to those of Stream.
	Last    uint64 `json:"last"`
	Records uint64 `json:"records"`
}

// Known holds the blocks that an earlier check has read without damage, by stream and number.
type Known map[string]map[int]Block

// quiet is how long nobody must have written to a block before it can be known: the file system counts times in ticks of some
// milliseconds, so a second write in the same tick would go unnoticed.
const quiet = time.Second

// identify returns a block with what identifies its file; false if the file has changed just now.
func identify(path string, number int) (b Block, ok bool, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return b, false, err
	}
	st, isStat := info.Sys().(*syscall.Stat_t)
	if !isStat {
		return b, false, nil
	}
	b = Block{Number: number, Size: info.Size(), Modified: st.Mtim.Nano(), Changed: st.Ctim.Nano(), Inode: st.Ino}
	age := time.Since(time.Unix(0, max(b.Modified, b.Changed)))
	return b, age > quiet, nil
}

// sameFile reports whether two blocks are the same file, unchanged.
func (b Block) sameFile(other Block) bool {
	b.Last, b.Records = other.Last, other.Records
	return b == other
}

// checkUnlessKnown checks a block, unless it is known and has not changed.
func (c *checker) checkUnlessKnown(n int, newest bool) error {
	path := filepath.Join(c.dir, "msgs", strconv.Itoa(n)+".blk")
	b, isQuiet, err := identify(path, n)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if known, ok := c.known[n]; ok && isQuiet && known.sameFile(b) {
		c.Last, c.Records = max(c.Last, known.Last), c.Records+known.Records
		c.Blocks = append(c.Blocks, known)
		c.Trusted++
		return nil
	}
	records, damage := c.Records, len(c.Damage)
	c.blockLast = 0
	err = c.checkBlock(n, newest)
	b.Last, b.Records = c.blockLast, c.Records-records
	if isQuiet && err == nil && len(c.Damage) == damage {
		c.Blocks = append(c.Blocks, b)
	}
	return err
}

// CheckTrusted reads known blocks of the streams in dir, and calls damaged for the damage in those that have not changed while
// they were read. It calls between after each block, and ends with its error.
func CheckTrusted(dir string, known Known, good Believable, damaged func(stream string, d Damage), between func() error) error {
	for name, blocks := range known {
		for n, b := range blocks {
			if err := between(); err != nil {
				return err
			}
			c := checker{Stream: Stream{Name: name}, dir: filepath.Join(dir, name), good: good}
			if err := c.checkBlock(n, false); err != nil {
				return err
			}
			now, _, err := identify(filepath.Join(c.dir, "msgs", strconv.Itoa(n)+".blk"), n)
			if err != nil || !b.sameFile(now) {
				continue // the server has changed or removed it
			}
			for _, d := range c.Damage {
				damaged(name, d)
			}
		}
	}
	return nil
}

// TrustedBlocks returns the known blocks that a check has not read.
func TrustedBlocks(streams []Stream, known Known) Known {
	trusted := Known{}
	for _, s := range streams {
		for _, b := range s.Blocks {
			if before, ok := known[s.Name][b.Number]; ok && before == b {
				if trusted[s.Name] == nil {
					trusted[s.Name] = map[int]Block{}
				}
				trusted[s.Name][b.Number] = b
			}
		}
	}
	return trusted
}
