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

// settleWithin is how long the journal is asked for the fate of an entry.
const settleWithin = 10 * time.Second

// entry is an entry of a journal.
type entry struct {
	// ID tells the entry from all others with the same content.
	ID string `json:"id"`
	memory.Change
}

// persister keeps the changes of a database in a journal. But for saving, one write after the other uses it.
type persister struct {
	cfg        Config
	journal    Journal
	projection projection

	// stop ends that the persister follows the others, stale is set when what they wrote can be followed no more.
	stop  context.CancelFunc
	stale atomic.Bool

	// began is the position of the snapshot that was restored, position that of the newest entry in the projection; entries
	// and bytes are what came since the last snapshot, whose size is last. Whoever writes changes them.
	began                uint64
	position             atomic.Uint64
	entries, bytes, last int

	// saves are the snapshots of the database; busy is true while one of this persister is being taken.
	saves *saves
	mu    sync.Mutex // guards what follows
	busy  bool
	done  int // the size of the snapshot that was taken last
}

// restore makes the projection of the snapshot and of the entries behind it.
func (k *persister) restore(ctx context.Context) error {
	data, position, err := k.journal.Snapshot(ctx)
	if err != nil {
		return err
	}
	if data != nil {
		var state memory.State
		if err := json.Unmarshal(data, &state); err != nil {
			return damaged(err)
		}
		if err := k.projection.Load(state); err != nil {
			return damaged(err)
		}
	}
	k.began, k.last = position, len(data)
	k.position.Store(position)
	return k.catchUp(ctx, nil)
}

// outdated reports whether the snapshot that was restored is the newest no longer: entries behind it may be gone.
func (k *persister) outdated(ctx context.Context) bool {
	_, position, err := k.journal.Snapshot(ctx)
	return err == nil && position > k.began
}

func damaged(err error) error {
	return fault.Wrap(fault.DataLoss, err, "what was kept cannot be read")
}

// catchUp takes over what is in the journal and not in the projection, but for an entry of this persister whose fate was
// unknown. It returns found when that one is next.
func (k *persister) catchUp(ctx context.Context, mine []byte) error {
	return k.journal.Read(ctx, k.position.Load(), func(position uint64, data []byte) error {
		if mine != nil && bytes.Equal(data, mine) {
			k.note(position, data)
			return errMine
		}
		var e entry
		if err := json.Unmarshal(data, &e); err != nil {
			return damaged(err)
		}
		if err := k.projection.Replay(e.Change); err != nil {
			return damaged(err)
		}
		k.note(position, data)
		return nil
	})
}

// errMine ends the reading of a journal at the entry that was looked for.
var errMine = fault.New(fault.Conflict, "the entry is there")

// note counts an entry that is in the journal and in the projection, or about to be.
func (k *persister) note(position uint64, data []byte) {
	k.position.Store(position)
	k.entries++
	k.bytes += len(data)
}

// keep implements memory.Config.Keep.
func (k *persister) keep(ctx context.Context, c memory.Change) error {
	k.snapshotIfDue(ctx)
	data, err := json.Marshal(entry{ID: rand.Text(), Change: c})
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the change has no form in JSON")
	}
	if largest := k.journal.Largest(); len(data) > largest {
		return refusal.New(refusal.SizeLimitExceeded, "the change has %d bytes, at most %d", len(data), largest).WithField("data").
			WithHint("write it in parts")
	}
	position, err := k.journal.Append(ctx, k.position.Load(), data)
	if err == nil {
		k.note(position, data)
		return nil
	}
	return k.settle(ctx, data, err)
}

// settle finds out what became of an entry that was not confirmed. It is not there if another follows, because then it
// cannot be appended any more.
func (k *persister) settle(ctx context.Context, data []byte, failed error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
	defer cancel()
	before := k.position.Load()
	err := k.takeOver(ctx, data)
	switch {
	case err == errMine && fault.Has(failed, fault.Unavailable) && fault.From(failed).Reason == "": //nolint:errorlint // the very one
		return nil
	case err == errMine: //nolint:errorlint // it is there, and nobody may rely on it
		k.cfg.Logger.LogAttrs(ctx, slog.LevelError, "firebase_not_durable", slog.Any("error", failed))
		return unreached(failed)
	case k.stale.Load() && fault.Has(failed, fault.Conflict):
		return errStale
	case k.position.Load() != before:
		return memory.ErrOvertaken
	case err != nil:
		return unreached(err)
	default:
		return unreached(failed)
	}
}

// snapshotIfDue begins a snapshot of what the projection holds when the journal has grown enough.
func (k *persister) snapshotIfDue(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.done > 0 {
		k.last, k.done = k.done, 0
	}
	if k.busy || k.entries < k.cfg.Entries && k.bytes < max(k.cfg.Bytes, k.last) {
		return
	}
	k.entries, k.bytes = 0, 0
	state, position := k.projection.Capture(), k.position.Load()
	k.busy = k.saves.begin(func() { k.save(context.WithoutCancel(ctx), state, position) })
}

// saves are the snapshots of a database that are being taken, also those of persisters that were replaced.
type saves struct {
	mu    sync.Mutex // guards over, and that group does not grow once somebody waits for it
	over  bool
	group sync.WaitGroup
}

// begin lets a snapshot be taken; false when the database is closed.
func (s *saves) begin(save func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.group.Go(save)
	}
	return !s.over
}

// end waits for the snapshots that are being taken and lets no other begin.
func (s *saves) end() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.group.Wait()
}

// save takes a snapshot. One that fails is taken later: the journal has it all.
func (k *persister) save(ctx context.Context, state func() memory.State, position uint64) {
	data, err := json.Marshal(state())
	if err == nil {
		err = k.journal.SaveSnapshot(ctx, position, data)
	}
	if err != nil {
		k.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "firebase_snapshot_failed", slog.Any("error", err))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.busy, k.done = false, len(data)
}
