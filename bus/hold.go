package bus

import (
	"context"
	"sync"
	"time"

	"github.com/orch-dev/orch/fault"
)

const (
	// holdTime is how long nothing is archived after the last word of a backup, holdAgain how often a
	// backup speaks. A backup whose process ends is forgotten by then.
	holdTime       = 5 * time.Minute
	holdRenewEvery = 20 * time.Second
)

// Hold asks a store not to move histories to the archive while its streams are copied one after the
// other: one that moved meanwhile could be missing in both copies.
type Hold struct {
	// Again is set to go on with a hold; it is refused when the hold has run out meanwhile.
	Again bool `json:"again,omitempty"`
	// End is set to end it.
	End bool `json:"end,omitempty"`
}

// HoldFunc asks the store of a node.
type HoldFunc func(ctx context.Context, h Hold) error

// archiveGate is the store's side of a hold.
type archiveGate struct {
	moving sync.RWMutex // held for reading while a history moves
	until  time.Time    // guarded by moving
}

// Hold begins, renews or ends a hold; beginning one waits for the histories that are moving right now. CONFLICT for one that has run out.
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

// begin begins to move a history; release ends it.
func (s *archiveGate) begin(now time.Time) (release func(), err error) {
	s.moving.RLock()
	if now.Before(s.until) {
		s.moving.RUnlock()
		return nil, fault.New(fault.Unavailable, "nothing is archived while a backup is taken").
			WithHint("archive the task again later")
	}
	return s.moving.RUnlock, nil
}

// withHold runs fn under a hold. fn calls renew often; it speaks to the node when it is time.
func withHold(ctx context.Context, ask HoldFunc, fn func(renew func() error) error) error {
	if err := ask(ctx, Hold{}); err != nil {
		return err
	}
	defer func() { _ = ask(context.WithoutCancel(ctx), Hold{End: true}) }() // else it runs out by itself
	spoke := time.Now()
	return fn(func() error {
		if time.Since(spoke) < holdRenewEvery {
			return nil
		}
		spoke = time.Now()
		return ask(ctx, Hold{Again: true})
	})
}
