package bus

import (
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// measureEvery is the minimum time between two measurements of the free space, except by checkRoom.
const measureEvery = 500 * time.Millisecond

// Below ServerConfig.MinFree, appends are refused, but the node may still archive and write marks. Archiving needs the size of
// the compressed history and then frees more than that; a mark needs almost nothing.
const (
	archiveShare = 4  // archiving is refused below MinFree/archiveShare
	markShare    = 16 // marks are not written below MinFree/markShare, at most maxForMarks
	maxForMarks  = 512 << 10
)

// minFreeForMarks returns the free space in bytes below which no mark is written.
func (c *ServerConfig) minFreeForMarks() int64 { return min(c.MinFree/markShare, maxForMarks) }

// space watches the free space on the disk of an embedded server, and the size of its store. JetStream stops permanently
// when a write fails, so space refuses appends before the disk is full.
type space struct {
	server *Server                 // nil for an external server, which is not watched
	next   atomic.Int64            // when to measure again, in ns since 1970
	bytes  atomic.Int64            // appended since the last measurement
	full   atomic.Pointer[refusal] // why appends are refused; nil if they are not
	// wasFull is set if the disk was full at some time since the server started.
	wasFull atomic.Bool
}

// refusal is why appends are refused.
type refusal struct {
	err   *fault.Error
	since time.Time
	disk  bool // the disk is short of space; otherwise the configured size is used up
}

func newSpace(s *Server) *space { return &space{server: s} }

// checkRoom is like check, before an append of size bytes. A fast disk can fill up within measureEvery. So checkRoom also
// measures whenever the bytes appended since the last measurement exceed a share of MinFree or of MaxStore.
func (s *space) checkRoom(size int, now time.Time) error {
	const overhead, share, shareOfStore = 256, 16, 64
	if s.server == nil {
		return nil
	}
	stride := s.server.cfg.MinFree / share
	if limit := s.server.cfg.MaxStore; limit > 0 {
		stride = min(stride, limit/shareOfStore)
	}
	if s.bytes.Add(int64(size)+overhead) > stride {
		s.bytes.Store(0)
		s.measure()
	}
	return s.check(now)
}

// check returns DISK_FULL if appends are refused. It measures the disk unless that was done within measureEvery.
func (s *space) check(now time.Time) error {
	if s.server == nil {
		return nil
	}
	due := s.next.Load()
	if now.UnixNano() >= due && s.next.CompareAndSwap(due, now.Add(measureEvery).UnixNano()) {
		s.measure()
	}
	if r := s.full.Load(); r != nil {
		return r.err
	}
	return nil
}

// measure measures the disk and the store now, and returns why appends are refused, or nil.
func (s *space) measure() *refusal {
	if s.server == nil {
		return nil
	}
	r := s.server.shortage()
	if was := s.full.Load(); r != nil && was != nil && was.disk == r.disk {
		r.since = was.since
	}
	s.full.Store(r)
	if r != nil && r.disk {
		s.wasFull.Store(true)
	}
	return r
}

// diskShort measures now and reports whether appends are refused because of the free space on the disk.
func (s *space) diskShort() bool {
	r := s.measure()
	return r != nil && r.disk
}

// checkArchiveRoom returns DISK_FULL if the archive has no room for size bytes now. The archive may use a part of the space
// below MinFree.
func (s *space) checkArchiveRoom(size int) error {
	if s.server == nil {
		return nil
	}
	cfg := &s.server.cfg
	free, _, err := diskSpace(cfg.DataDir)
	if needed := cfg.MinFree/archiveShare + int64(size); err == nil && free < needed {
		return diskFull(free, needed)
	}
	return nil
}

// hasRoomForMark reports whether there is room for a mark.
func (s *space) hasRoomForMark() bool {
	if s.server == nil {
		return true
	}
	cfg := &s.server.cfg
	free, _, err := diskSpace(cfg.DataDir)
	return err != nil || free >= cfg.minFreeForMarks()
}

// shortage returns why appends must be refused, or nil.
func (s *Server) shortage() *refusal {
	cfg, now := &s.cfg, events.Time(time.Now())
	if free, _, err := diskSpace(cfg.DataDir); err == nil && free < cfg.MinFree {
		return &refusal{err: diskFull(free, cfg.MinFree), since: now, disk: true}
	}
	if used := s.used(); cfg.MaxStore > 0 && used >= cfg.MaxStore {
		return &refusal{err: storeFull(used, cfg.MaxStore), since: now}
	}
	return nil
}

// used returns the bytes of all streams, before compression; 0 while the server is not running.
func (s *Server) used() int64 {
	ns := s.running()
	if ns == nil {
		return 0
	}
	info, err := ns.Jsz(nil)
	if err != nil {
		return 0
	}
	return int64(info.Store) //nolint:gosec // a store has less than 2^63 bytes
}

func diskFull(free, needed int64) *fault.Error {
	return fault.New(fault.DiskFull, "the disk of the data directory has %d bytes free, %d are needed", free, needed).
		WithHint("free some space; the node then continues by itself")
}

func storeFull(used, most int64) *fault.Error {
	return fault.New(fault.DiskFull, "the store has %d bytes, and max_store permits %d", used, most).
		WithHint("start the node again with a larger --max-store, or with 0 for no limit except the free space of the disk")
}
