package orchestrator

import (
	"sync"

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
	// inFlight maps the number of each append in flight to the value of newest when it was sent. The append gets a later position.
	inFlight map[uint64]uint64
	// next is the number of the newest append, counted from 1.
	next uint64
	// lost is the value of newest when the first append with an unknown result was sent. Such appends may be in the log.
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
	before := s.inFlight[flight]
	delete(s.inFlight, flight)
	if fault.Has(err, fault.Unavailable) && (s.lost == nil || before < *s.lost) {
		s.lost = &before
	}
	s.newest = max(s.newest, seq)
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
	for _, before := range s.inFlight {
		low = min(low, before)
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
