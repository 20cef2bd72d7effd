package gateway

// Orphan ends the pending calls as if they had been without an attempt for long.
func (g *Gateway) Orphan() {
	g.pendingCalls.mu.Lock()
	defer g.pendingCalls.mu.Unlock()
	for _, f := range g.pendingCalls.byKey {
		f.abandonTimer.Reset(0)
	}
}

// Flights counts the calls that are under way.
func (g *Gateway) Flights() int {
	g.pendingCalls.mu.Lock()
	defer g.pendingCalls.mu.Unlock()
	return len(g.pendingCalls.byKey)
}
