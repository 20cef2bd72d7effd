package orchestrator

import (
	"sync"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// trackedLog wraps a log and tracks the position up to which all commits have been processed: the log has acknowledged them,
// and their consequences have been applied.
type trackedLog struct {
	events.Log

	mu sync.Mutex
	// newest is the newest position that was acknowledged.
	newest uint64
	// inFlight contains the appends in flight by number.
	inFlight map[uint64]flight
	// next is the number of the newest append, counted from 1. No append before oldest is in flight.
	next, oldest uint64
	// lost is the value of newest when the first append with an unknown result was sent. Such appends may be in the log.
	lost *uint64
}

// flight is an append in flight.
type flight struct {
	// before is the value of newest when it was sent. The append gets a later position.
	before uint64
	since  time.Time
}

// Append implements events.Log.
func (s *trackedLog) Append(r events.Record, done func(seq uint64, err error)) {
	s.mu.Lock()
	s.next++
	number := s.next
	s.inFlight[number] = flight{before: s.newest, since: time.Now()}
	s.mu.Unlock()
	s.Log.Append(r, func(seq uint64, err error) {
		done(seq, err)
		s.completed(number, seq, err)
	})
}

func (s *trackedLog) completed(number, seq uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.inFlight[number].before
	delete(s.inFlight, number)
	if fault.Has(err, fault.Unavailable) && !fault.IsOverloaded(err) && (s.lost == nil || before < *s.lost) {
		s.lost = &before
	}
	s.newest = max(s.newest, seq)
}

// lag returns how long the oldest append has been in flight.
func (s *trackedLog) lag() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; s.oldest <= s.next; s.oldest++ {
		if f, found := s.inFlight[s.oldest]; found {
			return time.Since(f.since)
		}
	}
	return 0
}

// sent returns the number of appends so far.
func (s *trackedLog) sent() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

// processedUpTo returns the position up to which all commits have been processed.
func (s *trackedLog) processedUpTo() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	low := s.newest
	for _, f := range s.inFlight {
		low = min(low, f.before)
	}
	if s.lost != nil {
		low = min(low, *s.lost)
	}
	return low
}

// start sets the position up to which a restart has read.
func (s *trackedLog) start(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest = max(s.newest, seq)
}
