package bus

import (
	"context"
	"log/slog"
)

// restartIfStuck restarts the embedded server if it no longer writes, or if the last restart has failed. After a failed
// write, such as on a full disk, JetStream acknowledges no append until a restart, even when there is space again. After a
// restart it is also certain which appends are not in the log, because no message is in flight any more.
func (s *Store) restartIfStuck(ctx context.Context, lost []*pending) {
	server := s.conn.target.server
	if server == nil || !s.stuck(server, lost) {
		return
	}
	s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "the embedded server does not write; it is restarted")
	if err := server.Restart(); err != nil {
		s.cfg.Logger.LogAttrs(ctx, slog.LevelError, "the embedded server does not start", slog.Any("error", err))
	}
}

// stuck reports whether the server must be restarted.
func (s *Store) stuck(server *Server, lost []*pending) bool {
	if server.firm.failure() != nil { // a new server would read cached data that is not on the disk
		return false
	}
	if server.running() == nil {
		return true
	}
	tries := 0
	for _, p := range lost {
		if p.incarnation == server.incarnation.Load() { // sent to the current incarnation
			tries = max(tries, p.tries)
		}
	}
	if tries == 0 {
		return false
	}
	return s.space.diskShort() || s.space.wasFull.Swap(false) || tries >= stuckAfter
}

// Restart stops the server and starts a new one on the same store and port. Connections of all
// processes reconnect by themselves.
func (s *Server) Restart() error {
	s.restartMu.Lock()
	defer s.restartMu.Unlock()
	s.mu.Lock()
	ns := s.current
	s.current = nil
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return nil
	}
	stop(ns)
	s.incarnation.Add(1)
	return s.run()
}
