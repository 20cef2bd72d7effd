package bus

import (
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/fault"
)

// lookEvery is how often appends look at the free space.
const lookEvery = 500 * time.Millisecond

// space watches the free space of an embedded server's disk. JetStream stops for good when a write
// fails, so appends are refused before that.
type space struct {
	server *Server      // nil for an external server: nothing to watch
	next   atomic.Int64 // when to look again, in ns since 1970
	bytes  atomic.Int64 // appended since the last look
	full   atomic.Pointer[fault.Error]
	// wasFull is set when the disk was full since the server started.
	wasFull atomic.Bool
}

func newSpace(s *Server) *space { return &space{server: s} }

// admit is check for an append of so many bytes. A fast disk fills within lookEvery, so it also looks
// whenever a part of the watermark was written.
func (s *space) admit(size int, now time.Time) error {
	const overhead, share = 256, 16
	if s.server == nil {
		return nil
	}
	if s.bytes.Add(int64(size)+overhead) > s.server.cfg.MinFree/share {
		s.bytes.Store(0)
		s.look()
	}
	return s.check(now)
}

// check returns DISK_FULL below the watermark. It looks at the disk at most every lookEvery.
func (s *space) check(now time.Time) error {
	if s.server == nil {
		return nil
	}
	due := s.next.Load()
	if now.UnixNano() >= due && s.next.CompareAndSwap(due, now.Add(lookEvery).UnixNano()) {
		s.look()
	}
	if err := s.full.Load(); err != nil {
		return err
	}
	return nil
}

// look reads the free space now and reports whether appends are refused.
func (s *space) look() bool {
	if s.server == nil {
		return false
	}
	cfg := &s.server.cfg
	free, _, err := diskSpace(cfg.DataDir)
	if err != nil || free >= cfg.MinFree {
		s.full.Store(nil)
		return false
	}
	s.wasFull.Store(true)
	s.full.Store(diskFull(free, cfg.MinFree))
	return true
}

func diskFull(free, needed int64) *fault.Error {
	return fault.New(fault.DiskFull, "the disk of the data directory has %d bytes free, %d are needed", free, needed).
		WithHint("free some space; the node goes on by itself")
}
