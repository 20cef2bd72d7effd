package embedded

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase/memory"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// resolveTime is the time limit for reading the journal after an unconfirmed append.
const resolveTime = 10 * time.Second

// entry is one entry of a journal.
type entry struct {
	// ID distinguishes entries with the same content.
	ID string `json:"id"`
	memory.Change
}

// persister stores the changes of a database in a journal. The methods that append or apply entries run under the write
// lock of the projection; save runs concurrently.
type persister struct {
	cfg        Config
	journal    Journal
	projection projection

	// stop stops the follower. stale is set when entries of other processes can no longer be followed.
	stop  context.CancelFunc
	stale atomic.Bool

	// snapshotPosition is the position of the restored snapshot, position that of the latest entry in the projection.
	// entries and bytes count the entries since the last snapshot, and lastSize is the size of that snapshot. They are
	// changed under the write lock of the projection.
	snapshotPosition         uint64
	position                 atomic.Uint64
	entries, bytes, lastSize int

	// saves runs the snapshots of the database.
	saves     *saves
	mu        sync.Mutex // guards the following fields
	saving    bool       // a snapshot of this persister is being saved
	savedSize int        // size of a snapshot that was just saved
}

// restore loads the snapshot and the entries after it into the projection.
func (p *persister) restore(ctx context.Context) error {
	data, position, err := p.journal.Snapshot(ctx)
	if err != nil {
		return err
	}
	if data != nil {
		var state memory.State
		if err := json.Unmarshal(data, &state); err != nil {
			return dataLoss(err)
		}
		if err := p.projection.Load(state); err != nil {
			return dataLoss(err)
		}
	}
	p.snapshotPosition, p.lastSize = position, len(data)
	p.position.Store(position)
	return p.replay(ctx, nil)
}

// outdated reports whether there is a newer snapshot than the restored one. The entries before the newer snapshot may be
// deleted.
func (p *persister) outdated(ctx context.Context) bool {
	_, position, err := p.journal.Snapshot(ctx)
	return err == nil && position > p.snapshotPosition
}

func dataLoss(err error) error {
	return fault.Wrap(fault.DataLoss, err, "the stored data cannot be read")
}

// replay applies the entries of the journal that are not in the projection yet. own, if not nil, is an entry of this
// persister, and it is unknown whether it was appended. If replay finds it, replay stops there and returns errFound.
func (p *persister) replay(ctx context.Context, own []byte) error {
	return p.journal.Read(ctx, p.position.Load(), func(position uint64, data []byte) error {
		if own != nil && bytes.Equal(data, own) {
			p.advance(position, data)
			return errFound
		}
		var e entry
		if err := json.Unmarshal(data, &e); err != nil {
			return dataLoss(err)
		}
		if err := p.projection.Replay(e.Change); err != nil {
			return dataLoss(err)
		}
		p.advance(position, data)
		return nil
	})
}

// errFound is the result of replay if it finds the entry own.
var errFound = fault.New(fault.Conflict, "the entry is there")

// advance sets the position to that of an entry that the projection contains or is about to contain, and counts the entry.
func (p *persister) advance(position uint64, data []byte) {
	p.position.Store(position)
	p.entries++
	p.bytes += len(data)
}

// persist implements memory.Config.Persist.
func (p *persister) persist(ctx context.Context, c memory.Change) error {
	p.snapshotIfDue(ctx)
	data, err := json.Marshal(entry{ID: rand.Text(), Change: c})
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the change has no form in JSON")
	}
	if largest := p.journal.Largest(); len(data) > largest {
		return refusal.New(refusal.SizeLimitExceeded, "the change has %d bytes, at most %d", len(data), largest).WithField("data").
			WithHint("write it in parts")
	}
	position, err := p.journal.Append(ctx, p.position.Load(), data)
	if err == nil {
		p.advance(position, data)
		return nil
	}
	return p.resolveAppend(ctx, data, err)
}

// resolveAppend reads the journal to learn whether an unconfirmed entry was appended, and returns nil if it was. failed is the
// error of the append. If the journal has another entry at that position, the entry was not appended and never will be.
func (p *persister) resolveAppend(ctx context.Context, data []byte, failed error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveTime)
	defer cancel()
	before := p.position.Load()
	err := p.catchUp(ctx, data)
	switch {
	case err == errFound && fault.Has(failed, fault.Unavailable) && fault.From(failed).Reason == "": //nolint:errorlint // replay returns errFound itself
		return nil
	case err == errFound: //nolint:errorlint // replay returns errFound itself; the entry may not be durable
		p.cfg.Logger.LogAttrs(ctx, slog.LevelError, "firebase_not_durable", slog.Any("error", failed))
		return databaseError(failed)
	case p.stale.Load() && fault.Has(failed, fault.Conflict):
		return errStale
	case p.position.Load() != before:
		return memory.ErrOvertaken
	case err != nil:
		return databaseError(err)
	default:
		return databaseError(failed)
	}
}

// snapshotIfDue starts a snapshot of the projection when the journal has grown enough.
func (p *persister) snapshotIfDue(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.savedSize > 0 {
		p.lastSize, p.savedSize = p.savedSize, 0
	}
	if p.saving || p.entries < p.cfg.Entries && p.bytes < max(p.cfg.Bytes, p.lastSize) {
		return
	}
	p.entries, p.bytes = 0, 0
	state, position := p.projection.Capture(), p.position.Load()
	p.saving = p.saves.start(func() { p.save(context.WithoutCancel(ctx), state, position) })
}

// saves runs the snapshots of a database, including those of retired persisters.
type saves struct {
	mu     sync.Mutex // guards closed; group must not grow during Wait
	closed bool
	group  sync.WaitGroup
}

// start runs save in the background; it returns false when the database is closed.
func (s *saves) start(save func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.group.Go(save)
	}
	return !s.closed
}

// close waits for running snapshots and prevents new ones.
func (s *saves) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.group.Wait()
}

// save saves a snapshot of a state. After a failure, the journal still contains all entries, and a later snapshot
// replaces them.
func (p *persister) save(ctx context.Context, state func() memory.State, position uint64) {
	data, err := json.Marshal(state())
	if err == nil {
		err = p.journal.SaveSnapshot(ctx, position, data)
	}
	if err != nil {
		p.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "firebase_snapshot_failed", slog.Any("error", err))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.saving, p.savedSize = false, len(data)
}
