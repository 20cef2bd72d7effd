package bus

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/histogram"
)

// SyncFailed is the reason in UNAVAILABLE errors after a failed sync: every durable operation then returns that error.
const SyncFailed = "SYNC_FAILED"

// barrier makes the writes of the embedded server durable. The server writes a message to the newest
// block file of its stream before it acknowledges the message, and syncs the file much later. So before this package
// acknowledges anything, the barrier syncs the files that have grown. Concurrent callers
// share the next sync. StartServer tests at every start whether the server still works like this.
//
// A sync that failed is never repeated: the kernel forgets what it could not write, and the next sync
// would say that all is well. From then on every sync fails with the same error.
//
// All methods of a nil barrier do nothing: the server then syncs as configured.
type barrier struct {
	root  string // the directory with one directory per stream
	fsync syncFunc
	// took counts how long the rounds took; nil to count nothing.
	took *histogram.Histogram
	// onFailure is called once, with the first failure.
	onFailure func(*fault.Error)
	failed    atomic.Pointer[fault.Error]

	mu      sync.Mutex
	streams map[string]*blockFiles
}

// syncFunc makes the data of a file durable.
type syncFunc func(*os.File) error

func newBarrier(root string, fsync syncFunc, onFailure func(*fault.Error)) *barrier {
	return &barrier{root: root, fsync: fsync, took: histogram.New(), onFailure: onFailure, streams: map[string]*blockFiles{}}
}

func fdatasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }

// watch adds a stream to the barrier. The caller must make the existing content of the stream durable in another way.
func (b *barrier) watch(stream string) error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	known := b.streams[stream] != nil
	b.mu.Unlock()
	if known {
		return nil
	}
	files := &blockFiles{dir: filepath.Join(b.root, stream, blockDir), fsync: b.fsync, took: b.took}
	files.roundDone.L = &files.mu
	if err := files.openNew(); err != nil { // without b.mu, so that callers for other streams do not wait for this one
		return b.fail(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.streams[stream] != nil { // another call was first
		files.close()
		return nil
	}
	b.streams[stream] = files
	return nil
}

// wait returns nil once all writes to a stream before the call are durable. If a sync has failed, it returns the
// error of that sync, as all later calls do.
func (b *barrier) wait(stream string) error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	files := b.streams[stream]
	b.mu.Unlock()
	if err := b.err(); err != nil {
		return err
	}
	if files == nil { // the log is lost, or the server is closed
		return fault.New(fault.Unavailable, "nothing makes the stream %s durable now", stream)
	}
	if err := files.wait(); err != nil {
		return b.fail(err)
	}
	return nil
}

// failure returns the first failure, or nil.
func (b *barrier) failure() *fault.Error {
	if b == nil {
		return nil
	}
	return b.failed.Load()
}

// err returns the first failure as an error, nil if there is none.
func (b *barrier) err() error {
	if f := b.failure(); f != nil {
		return f
	}
	return nil
}

// fail records the first failure and returns it.
func (b *barrier) fail(cause error) error {
	f := fault.Wrap(fault.Unavailable, cause, "the disk did not confirm that everything is written; nothing more is acknowledged").
		WithReason(SyncFailed).WithHint("check the disk, then restart the node: it reads everything again")
	if b.failed.CompareAndSwap(nil, f) {
		b.onFailure(f)
	}
	return b.failed.Load()
}

func (b *barrier) close() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, files := range b.streams {
		files.close()
	}
	clear(b.streams)
}

// blockFiles are the block files of one stream. The server appends only to the newest file. It may replace a full
// file by a compressed or compacted one, which it syncs first, and it removes files that have become empty.
type blockFiles struct {
	dir   string
	fsync syncFunc
	took  *histogram.Histogram

	mu        sync.Mutex // guards the fields below
	roundDone sync.Cond  // signals the end of a round
	rounds    uint64     // rounds started
	done      uint64     // rounds ended
	err       error      // the error of the failed round, after which there are no others

	// Only the running round uses the fields below.
	newest     uint32
	open       []*os.File // the newest block of the last round, and those created since
	dirChanged bool       // the directory has changed since its last sync
}

// wait returns after the first round that starts after the call. It runs the round itself if no other call does.
func (b *blockFiles) wait() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	round := b.rounds + 1
	for b.err == nil && b.done < round {
		if b.rounds > b.done {
			b.roundDone.Wait()
			continue
		}
		b.rounds++
		b.mu.Unlock()
		began := time.Now()
		err := b.syncRound()
		b.took.Observe(time.Since(began))
		b.mu.Lock()
		b.done, b.err = b.rounds, err
		b.roundDone.Broadcast()
	}
	return b.err
}

// syncRound syncs all open files. It syncs older files first, because later messages must not survive a power loss without
// earlier ones.
func (b *blockFiles) syncRound() error {
	if err := b.openNew(); err != nil {
		return err
	}
	for _, f := range b.open {
		if err := b.fsync(f); err != nil {
			return err
		}
	}
	if b.dirChanged {
		if err := syncDir(b.dir); err != nil {
			return err
		}
		b.dirChanged = false
	}
	for len(b.open) > 1 {
		if err := b.open[0].Close(); err != nil {
			return err
		}
		b.open = b.open[1:]
	}
	return nil
}

// openNew opens the blocks created since the last round. The newest file stays open between rounds, so that this
// process sees every write error: the kernel may report an error only once.
func (b *blockFiles) openNew() error {
	if len(b.open) > 0 && b.isNewest(b.open[len(b.open)-1]) {
		return nil
	}
	indexes, err := blockIndexes(b.dir)
	if err != nil {
		return err
	}
	b.dirChanged = true
	first := len(b.open) == 0
	for i, index := range indexes {
		newest := i == len(indexes)-1 // always opened, even with a lower index than b.newest: a restart may drop an empty block
		if !newest && (first || index <= b.newest) {
			continue
		}
		if err := b.openBlock(index); err != nil {
			return err
		}
	}
	return nil
}

// isNewest reports whether the server still writes to a file: it still has its name, and no newer one exists.
func (b *blockFiles) isNewest(f *os.File) bool {
	have, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(f.Name())
	if err != nil || !os.SameFile(have, named) {
		return false
	}
	_, err = os.Stat(blockPath(b.dir, b.newest+1))
	return errors.Is(err, fs.ErrNotExist)
}

func (b *blockFiles) openBlock(index uint32) error {
	f, err := os.OpenFile(blockPath(b.dir, index), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) { // emptied and removed in the meantime
		return nil
	}
	if err != nil {
		return err
	}
	b.newest = index
	b.open = append(b.open, f)
	return nil
}

func (b *blockFiles) close() {
	for _, f := range b.open {
		_ = f.Close() // the file was synced, or the failure is recorded
	}
	b.open = nil
}

// The server stores blocks as <store>/jetstream/<account>/streams/<stream>/msgs/<index>.blk.
const (
	streamsDir  = "jetstream/$G/streams"
	blockDir    = "msgs"
	blockSuffix = ".blk"
)

func blockPath(dir string, index uint32) string {
	return filepath.Join(dir, strconv.FormatUint(uint64(index), 10)+blockSuffix)
}

// blockIndexes returns the indexes of the blocks in a directory, in ascending order.
func blockIndexes(dir string) ([]uint32, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var indexes []uint32
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), blockSuffix); ok {
			if index, err := strconv.ParseUint(name, 10, 32); err == nil {
				indexes = append(indexes, uint32(index))
			}
		}
	}
	slices.Sort(indexes)
	return indexes, nil
}
