package bus

import (
	"context"
	"log/slog"
)

// restartIfStuck restarts the embedded server if it has stopped writing, and tries again if that failed:
// after a failed write, such as one on a full disk, JetStream answers no append until a restart,
// even when there is space again. A restart also decides which appends are not in the log: no message to the
// previous incarnation is in flight any more.
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

func (s *Store) stuck(server *Server, lost []*pending) bool {
	if server.barrier.failure() != nil { // a new server would read what is not on the disk
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
	s.incarnation.Add(1)
	return s.run()
}
