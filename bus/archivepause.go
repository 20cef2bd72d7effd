package bus

import (
	"context"
	"sync"
	"time"

	"github.com/orch-dev/orch/fault"
)

const (
	// pauseTime is how long archiving stays paused after the last request of a backup, pauseRenewEvery how often a
	// backup renews the pause. So the pause expires if the process of the backup dies.
	pauseTime       = 5 * time.Minute
	pauseRenewEvery = 20 * time.Second
)

// ArchivePause is a request to pause archiving during a backup. The backup copies the live log and the archive one after the
// other: a history that is archived in the meantime could be missing in both copies.
type ArchivePause struct {
	// Renew is set to renew a pause; an expired pause cannot be renewed.
	Renew bool `json:"again,omitempty"`
	// End is set to end the pause.
	End bool `json:"end,omitempty"`
}

// ArchivePauseFunc sends a request to pause archiving to the store of a node.
type ArchivePauseFunc func(ctx context.Context, h ArchivePause) error

// archiveGate stops operations on the archive during a pause.
type archiveGate struct {
	moving sync.RWMutex // read-locked while the archive changes
	until  time.Time    // when the pause expires; guarded by moving
}

// PauseArchive starts, renews or ends a pause of archiving. It first waits until no change of the archive is in progress.
// CONFLICT if the pause to be renewed has expired.
func (ar *archive) PauseArchive(_ context.Context, h ArchivePause) error {
	ar.gate.moving.Lock()
	defer ar.gate.moving.Unlock()
	now := time.Now()
	switch {
	case h.End:
		ar.gate.until = time.Time{}
		return nil
	case h.Renew && now.After(ar.gate.until):
		return fault.New(fault.Conflict, "the pause of the backup has expired").WithHint("take the backup again")
	}
	ar.gate.until = now.Add(pauseTime)
	return nil
}

// begin must be called before a change of the archive, and release after it. UNAVAILABLE during a pause.
func (s *archiveGate) begin(now time.Time) (release func(), err error) {
	s.moving.RLock()
	if now.Before(s.until) {
		s.moving.RUnlock()
		return nil, fault.New(fault.Unavailable, "nothing is archived while a backup is taken").
			WithHint("archive the task again later")
	}
	return s.moving.RUnlock, nil
}

// withArchivePause runs fn while archiving is paused. fn must call renew often; renew sends a request at most every
// pauseRenewEvery.
func withArchivePause(ctx context.Context, request ArchivePauseFunc, fn func(renew func() error) error) error {
	if err := request(ctx, ArchivePause{}); err != nil {
		return err
	}
	defer func() { _ = request(context.WithoutCancel(ctx), ArchivePause{End: true}) }() // otherwise it expires
	renewed := time.Now()
	return fn(func() error {
		if time.Since(renewed) < pauseRenewEvery {
			return nil
		}
		renewed = time.Now()
		return request(ctx, ArchivePause{Renew: true})
	})
}
