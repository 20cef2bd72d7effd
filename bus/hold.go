package bus

import (
	"context"
	"sync"
	"time"

	"github.com/orch-dev/orch/fault"
)

const (
	// holdTime is how long archiving stays paused after the last request of a backup, holdRenewEvery how often a
	// backup renews the pause. The pause expires if the process of the backup ends.
	holdTime       = 5 * time.Minute
	holdRenewEvery = 20 * time.Second
)

// Hold asks a store not to move histories to the archive while its streams are copied one after the
// other: a history that moved in the meantime could be missing in both copies.
type Hold struct {
	// Again is set to renew a hold; an expired one cannot be renewed.
	Again bool `json:"again,omitempty"`
	// End is set to end it.
	End bool `json:"end,omitempty"`
}

// HoldFunc sends a Hold to the store of a node.
type HoldFunc func(ctx context.Context, h Hold) error

// archiveGate is the store's side of a hold.
type archiveGate struct {
	moving sync.RWMutex // read-locked while a history moves
	until  time.Time    // guarded by moving
}

// Hold starts, renews or ends a hold. To start one it waits for the histories that are moving. CONFLICT for an expired one.
func (ar *archive) Hold(_ context.Context, h Hold) error {
	ar.gate.moving.Lock()
	defer ar.gate.moving.Unlock()
	now := time.Now()
	switch {
	case h.End:
		ar.gate.until = time.Time{}
		return nil
	case h.Again && now.After(ar.gate.until):
		return fault.New(fault.Conflict, "the hold of the backup has run out").WithHint("take the backup again")
	}
	ar.gate.until = now.Add(holdTime)
	return nil
}

// begin is called before a history moves, and release after it.
func (s *archiveGate) begin(now time.Time) (release func(), err error) {
	s.moving.RLock()
	if now.Before(s.until) {
		s.moving.RUnlock()
		return nil, fault.New(fault.Unavailable, "nothing is archived while a backup is taken").
			WithHint("archive the task again later")
	}
	return s.moving.RUnlock, nil
}

// withHold runs fn under a hold. fn must call renew often; renew sends a request only when it is due.
func withHold(ctx context.Context, ask HoldFunc, fn func(renew func() error) error) error {
	if err := ask(ctx, Hold{}); err != nil {
		return err
	}
	defer func() { _ = ask(context.WithoutCancel(ctx), Hold{End: true}) }() // otherwise it expires
	spoke := time.Now()
	return fn(func() error {
		if time.Since(spoke) < holdRenewEvery {
			return nil
		}
		spoke = time.Now()
		return ask(ctx, Hold{Again: true})
	})
}
