package gateway

// Orphan does what is done when nobody has attended the flights for long.
func (g *Gateway) Orphan() {
	g.flights.mu.Lock()
	defer g.flights.mu.Unlock()
	for _, f := range g.flights.byKey {
		f.alone.Reset(0)
	}
}

// Flights counts the calls that are under way.
func (g *Gateway) Flights() int {
	g.flights.mu.Lock()
	defer g.flights.mu.Unlock()
	return len(g.flights.byKey)
}
