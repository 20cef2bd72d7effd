package sender

import (
	"maps"
	"time"

	"github.com/orch-dev/orch/destinations"
)

// Figures are what a node reports about its destinations.
type Figures struct {
	Active, Paused int
	// Attempts counts what this process has sent.
	Attempts map[destinations.Result]int
	// Pending counts the deliveries that wait, Dead the dead letters. Oldest is the time of the oldest event that waits for a
	// destination that is not paused; zero for none.
	Pending, Dead int
	Oldest        time.Time
}

// Figures returns the current figures.
func (s *Sender) Figures() Figures {
	s.mu.RLock()
	defer s.mu.RUnlock()
	f := Figures{Attempts: maps.Clone(s.counted)}
	for _, d := range s.all {
		f.Pending += len(d.Pending)
		f.Dead += len(d.Dead)
		if d.Paused != nil {
			f.Paused++
			continue
		}
		f.Active++
		if len(d.Pending) > 0 && (f.Oldest.IsZero() || d.Pending[0].At.Before(f.Oldest)) {
			f.Oldest = d.Pending[0].At
		}
	}
	return f
}

// count counts an attempt.
func (s *Sender) count(r *result) {
	kind := destinations.Delivered
	switch {
	case r.Attempt.Error != "" && r.Next.IsZero():
		kind = destinations.Dead
	case r.Attempt.Error != "":
		kind = destinations.Failed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counted[kind]++
}
