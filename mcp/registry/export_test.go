package registry

// InFlight counts the calls of a server that are not over.
func (r *Registry) InFlight(name string) int {
	s, ok := r.server(name)
	if !ok {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil {
		return 0
	}
	return s.live.calls
}
