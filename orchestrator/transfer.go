package orchestrator

import (
	"context"
	"crypto/ed25519"
	"io"
	"sync"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
)

// Exports are what export files need. Without Key or Spool, the orchestrator exports nothing.
type Exports struct {
	// Version is the version of the program, for the manifest.
	Version string
	// Key returns the key that signs files.
	Key func(ctx context.Context) (ed25519.PrivateKey, error)
	// Spool returns an empty temporary file.
	Spool func() (Spool, error)
	// FindSecret returns a function that reports whether data contains a secret of the node, and the rule or the name of the secret.
	// Default: the FindSecret of Config.
	FindSecret func() func(data []byte) (rule string, found bool)
}

// Spool is a temporary file. Close removes it.
type Spool interface {
	io.Writer
	io.ReaderAt
	io.Closer
}

func (x *Exports) setDefaults() {
	none := fault.New(fault.Unavailable, "this node exports nothing")
	if x.Key == nil {
		x.Key = func(context.Context) (ed25519.PrivateKey, error) { return nil, none }
	}
	if x.Spool == nil {
		x.Spool = func() (Spool, error) { return nil, none }
	}
}

const (
	// maxTransfers is how many files are exported at the same time, and how many are imported.
	maxTransfers = 4
	// maxKept limits the files with those that have arrived, which are kept for a short time, in case an answer was lost.
	maxKept = 16
	// transferIdle is how long a file is kept after the last request for it.
	transferIdle = time.Minute
	// transferPart limits the data of one answer, in bytes.
	transferPart = api.ImportPart
)

// transfers are the files that clients are fetching or sending, by their ids.
type transfers[F interface{ settled() bool }] struct {
	mu  sync.Mutex
	all map[string]F
}

// add adds a file: RATE_LIMITED if there are too many.
func (t *transfers[F]) add(id string, f F) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	moving := 0
	for _, other := range t.all {
		if !other.settled() {
			moving++
		}
	}
	if moving >= maxTransfers || len(t.all) >= maxKept {
		return fault.New(fault.RateLimited, "%d files are on their way", moving).WithRetryAt(time.Now().Add(5 * time.Second)).WithHint("try again when they have arrived")
	}
	t.all[id] = f
	return nil
}

// get returns a file: NOT_FOUND.
func (t *transfers[F]) get(id string) (F, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f, ok := t.all[id]
	if !ok {
		return f, fault.New(fault.NotFound, "the node does not have this file, or not any more").WithField("file").WithHint("begin again")
	}
	return f, nil
}

func (t *transfers[F]) remove(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, id)
}

// transfer is a temporary file that grows while a client fetches or sends it. It implements io.Writer.
type transfer struct {
	spool Spool
	// touched receives a value with each request.
	touched chan struct{}

	mu   sync.Mutex
	size int64
	done bool
	// fetched is set when the client has got the last part.
	fetched bool
	err     error
	// changed is closed at the next change, and replaced.
	changed chan struct{}
	// dropped is closed when the file is not needed any more.
	dropped chan struct{}
	drop    sync.Once
}

func newTransfer(spool Spool) *transfer {
	return &transfer{spool: spool, touched: make(chan struct{}, 1), changed: make(chan struct{}), dropped: make(chan struct{})}
}

// forget ends idle.
func (f *transfer) forget() { f.drop.Do(func() { close(f.dropped) }) }

// Write implements io.Writer.
func (f *transfer) Write(p []byte) (int, error) {
	n, err := f.spool.Write(p)
	f.change(func() { f.size += int64(n) })
	return n, err
}

// finish records that the file is complete, or why it will not be.
func (f *transfer) finish(err error) { f.change(func() { f.done, f.err = true, err }) }

// settled reports whether the file has arrived, or never will.
func (f *transfer) settled() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err != nil || f.fetched
}

func (f *transfer) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	close(f.changed)
	f.changed = make(chan struct{})
}

// state returns the state of the file and a channel that is closed when it changes.
func (f *transfer) state() (size int64, done bool, changed <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.size, f.done, f.changed, f.err
}

// touch records a request.
func (f *transfer) touch() {
	select {
	case f.touched <- struct{}{}:
	default:
	}
}

// idle returns when nobody has asked for the file for transferIdle, when it is not needed any more, or ctx ends.
func (f *transfer) idle(ctx context.Context) {
	timer := time.NewTimer(transferIdle)
	defer timer.Stop()
	for {
		select {
		case <-f.touched:
			timer.Reset(transferIdle)
		case <-timer.C:
			return
		case <-f.dropped:
			return
		case <-ctx.Done():
			return
		}
	}
}

// await waits until the file has more than offset bytes, or is complete, at most wait.
func (f *transfer) await(ctx context.Context, offset int64, wait time.Duration) error {
	timer := time.NewTimer(max(min(wait, maxWait), 0))
	defer timer.Stop()
	for {
		size, done, changed, err := f.state()
		if err != nil || done || size > offset {
			return err
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return fault.From(ctx.Err())
		}
	}
}

// part returns the bytes from offset on, and whether the file ends after them.
func (f *transfer) part(offset int64) (data []byte, last bool, err error) {
	size, done, _, err := f.state()
	if err != nil {
		return nil, false, err
	}
	if offset < 0 || offset > size {
		return nil, false, fault.New(fault.ValidationError, "the file has %d bytes", size).WithField("offset")
	}
	data = make([]byte, min(size-offset, transferPart))
	if n, err := f.spool.ReadAt(data, offset); n < len(data) { // a reader may report the end with the last bytes
		return nil, false, fault.Wrap(fault.Unavailable, err, "the file cannot be read")
	}
	last = done && offset+int64(len(data)) == size
	if last {
		f.change(func() { f.fetched = true })
	}
	return data, last, nil
}
