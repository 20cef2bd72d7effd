package messages

import "time"

// Takes returns the number of stored acknowledgements.
func (s *Service) Takes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.projection.acks
}

// Live is how many messages live.
func (s *Service) Live() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.projection.items)
}

// Waiting returns the ids of the pending messages of who, in the order of arrival.
func (p *Projection) Waiting(who string, now time.Time) (ids []string) {
	for _, it := range p.waiting(who, ^uint64(0), now) {
		ids = append(ids, it.ID)
	}
	return ids
}

// Weakest returns the id of the oldest of the least urgent messages of an address, "" when none is less urgent.
func (p *Projection) Weakest(address string, priority int) string {
	if it := p.leastUrgent(address, priority); it != nil {
		return it.ID
	}
	return ""
}

// Queued is how many messages wait at an address.
func (p *Projection) Queued(address string) int { return p.queued(address) }
