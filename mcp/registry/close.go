package registry

import (
	"context"
	"log/slog"
	"time"

	"github.com/orch-dev/orch/fault"
)

// retire gives a connection no new calls and closes it in the background: when its last call has ended, or at the timeout of the
// server. The timeout is extended while a call is suspended until a question is answered. a may be nil.
func (r *Registry) retire(s *server, a *activeSession) {
	if a == nil {
		return
	}
	s.mu.Lock()
	if !a.retired {
		a.retired = true
		if a.calls == 0 {
			close(a.idle)
		}
	}
	s.mu.Unlock()
	r.mu.Lock()
	r.retiring[a] = true
	r.unclosed.Add(1)
	r.mu.Unlock()
	go r.finish(a)
}

// finish waits for the calls of a retired connection and closes it.
func (r *Registry) finish(a *activeSession) {
	defer r.unclosed.Done()
	timer := time.NewTimer(a.timeout)
	defer timer.Stop()
	for waiting := true; waiting; {
		select {
		case <-a.idle:
			waiting = false
		case <-timer.C:
			waiting = a.conn.pendingCalls.suspended() > 0
			timer.Reset(a.timeout)
		case <-a.conn.done:
			waiting = false
		case <-r.abortCalls:
			waiting = false
		}
	}
	a.close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.retiring, a)
}

// Close implements MCPRegistry. A second call does nothing.
func (r *Registry) Close(ctx context.Context, timeout time.Duration) error {
	unwatch, first := r.beginClose()
	if !first {
		return nil
	}
	unwatch()
	r.admin.Lock()
	defer r.admin.Unlock()
	servers := r.all()
	for _, s := range servers {
		if s.stop != nil {
			s.stop() // stop all before waiting: each may be in the middle of a handshake
		}
	}
	for _, s := range servers {
		s.stopSupervisor()
		s.mu.Lock()
		former := s.live
		s.live, s.lastError = nil, ""
		s.wake()
		s.updateHealth(func() { s.health.status = Offline })
		s.mu.Unlock()
		r.retire(s, former)
	}
	inTime := r.waitIdle(ctx, timeout)
	close(r.abortCalls)
	r.unclosed.Wait()
	if err := r.services.Close(); err != nil {
		r.log.WarnContext(ctx, "mcp_reaper_failed", slog.Any("error", err))
	}
	if !inTime {
		return fault.Wrap(fault.Timeout, ErrCloseTimeout, "calls of MCP servers were still running after "+timeout.String())
	}
	return nil
}

// beginClose makes the registry refuse new calls, and reports whether it is the first call of Close. unwatch stops the watcher; it
// must be called without r.admin, because the watcher's Reload may wait for r.admin.
func (r *Registry) beginClose() (unwatch func(), first bool) {
	r.admin.Lock()
	defer r.admin.Unlock()
	first = r.currentState() == stateRunning
	r.setState(stateClosed)
	return r.unwatch, first
}

// waitIdle waits until the retiring connections have no calls. It returns false if that takes longer than timeout, or ctx ends.
func (r *Registry) waitIdle(ctx context.Context, timeout time.Duration) bool {
	r.mu.RLock()
	var waiting []*activeSession
	for a := range r.retiring {
		waiting = append(waiting, a)
	}
	r.mu.RUnlock()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for _, a := range waiting {
		select {
		case <-a.idle:
			continue
		default:
		}
		select {
		case <-a.idle:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}
