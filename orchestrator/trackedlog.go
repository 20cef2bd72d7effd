package orchestrator

import (
	"sync"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// trackedLog is a log that knows up to which position every commit has been answered and followed up.
type trackedLog struct {
	events.Log

	mu sync.Mutex
	// newest is the newest position that was answered.
	newest uint64
	// inFlight holds, by append in flight, what newest was when it was sent: it gets a later position.
	inFlight map[uint64]uint64
	next     uint64
	// lost is what newest was when the first of the appends was sent whose fate nobody knows; they may be
	// in the log.
	lost *uint64
}

// Append implements events.Log.
func (s *trackedLog) Append(r events.Record, done func(seq uint64, err error)) {
	s.mu.Lock()
	s.next++
	flight := s.next
	s.inFlight[flight] = s.newest
	s.mu.Unlock()
	s.Log.Append(r, func(seq uint64, err error) {
		done(seq, err)
		s.completed(flight, seq, err)
	})
}

func (s *trackedLog) completed(flight, seq uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := s.inFlight[flight]
	delete(s.inFlight, flight)
	if fault.Has(err, fault.Unavailable) && (s.lost == nil || sent < *s.lost) {
		s.lost = &sent
	}
	s.newest = max(s.newest, seq)
}

// sent is the number of appends so far.
func (s *trackedLog) sent() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

// processedUpTo is the position up to which everything in the log has been followed up.
func (s *trackedLog) processedUpTo() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	low := s.newest
	for _, sent := range s.inFlight {
		low = min(low, sent)
	}
	if s.lost != nil {
		low = min(low, *s.lost)
	}
	return low
}

// start sets the position that a restart has read up to.
func (s *trackedLog) start(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest = max(s.newest, seq)
}
