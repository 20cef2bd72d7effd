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

// hold asks the store not to move histories to the archive while its streams are copied one after the
// other: one that moved meanwhile could be missing in both copies.
type hold struct {
	// Again is set to go on with a hold; it is refused when the hold has run out meanwhile.
	Again bool `json:"again,omitempty"`
	// End is set to end it.
	End bool `json:"end,omitempty"`
}

// holdFunc asks the store of a node.
type holdFunc func(ctx context.Context, h hold) error

// archivePause is the store's side of a hold.
type archivePause struct {
	moving sync.RWMutex // held for reading while a history moves
	until  time.Time    // guarded by moving
}

// hold waits for the histories that are moving right now.
func (s *Store) hold(_ context.Context, h hold) error {
	s.archivePause.moving.Lock()
	defer s.archivePause.moving.Unlock()
	now := time.Now()
	switch {
	case h.End:
		s.archivePause.until = time.Time{}
		return nil
	case h.Again && now.After(s.archivePause.until):
		return fault.New(fault.Conflict, "the hold of the backup has run out").WithHint("take the backup again")
	}
	s.archivePause.until = now.Add(holdTime)
	return nil
}

// begin begins to move a history; release ends it.
func (s *archivePause) begin(now time.Time) (release func(), err error) {
	s.moving.RLock()
	if now.Before(s.until) {
		s.moving.RUnlock()
		return nil, fault.New(fault.Unavailable, "nothing is archived while a backup is taken").
			WithHint("archive the task again later")
	}
	return s.moving.RUnlock, nil
}

// withHold runs fn under a hold. fn calls renew often; it speaks to the node when it is time.
func withHold(ctx context.Context, ask holdFunc, fn func(renew func() error) error) error {
	if err := ask(ctx, hold{}); err != nil {
		return err
	}
	defer func() { _ = ask(context.WithoutCancel(ctx), hold{End: true}) }() // else it runs out by itself
	spoke := time.Now()
	return fn(func() error {
		if time.Since(spoke) < holdRenewEvery {
			return nil
		}
		spoke = time.Now()
		return ask(ctx, hold{Again: true})
	})
}
