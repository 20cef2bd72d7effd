package sender

import "context"

// Step looks at the log once, and waits until what is due was tried.
func (s *Sender) Step(ctx context.Context) {
	s.step(ctx)
	s.running.Wait()
}
