package bus

import (
	"context"
	"log/slog"
)

// heal restarts the embedded server when it has stopped writing: after a failed write, such as one on
// a full disk, JetStream answers no append any more until then, even when there is space again.
func (s *Store) heal(ctx context.Context, lost []*pending) {
	server := s.conn.target.server
	if server == nil {
		return
	}
	tries := 0
	for _, p := range lost {
		tries = max(tries, p.tries)
	}
	full := s.space.look()
	if full || tries < healAfter && !s.space.wasFull.Swap(false) {
		return
	}
	s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "the embedded server does not write; it is restarted")
	if err := server.restart(); err != nil {
		s.cfg.Logger.LogAttrs(ctx, slog.LevelError, "the embedded server does not start", slog.Any("error", err))
	}
}

// restart stops the server and starts another one on the same store and port. Connections of this
// process and of others find it by themselves.
func (s *Server) restart() error {
	s.healing.Lock()
	defer s.healing.Unlock()
	s.mu.Lock()
	ns := s.current
	s.current = nil
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return nil
	}
	stop(ns)
	return s.run()
}
