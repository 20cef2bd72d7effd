package worker

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/orch-dev/orch/work"
)

const (
	// progressEvery is the least time between two messages with progress: 40 a second for each call.
	progressEvery = 25 * time.Millisecond
	// beatTime bounds one heartbeat from below, however short the leases are.
	beatTime = 500 * time.Millisecond
	// leaseParts is how many heartbeats fit into a lease by default.
	leaseParts = 3
)

// heartbeatState keeps the time of the two kinds of heartbeats: one for all attempts an interval, and an early one for those
// that have progress to tell.
type heartbeatState struct {
	// beat is when all were last renewed, told when progress was last sent.
	beat, told time.Time
	// renewed is when a heartbeat last got through, lost is set once that is too long ago.
	renewed time.Time
	lost    bool
}

// heartbeat renews the leases of all attempts and tells their progress until ctx ends.
func (w *Worker) heartbeat(ctx context.Context) {
	now := time.Now()
	p := heartbeatState{beat: now, renewed: now}
	timer := time.NewTimer(w.interval())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.nudge:
		case <-timer.C:
			w.sendHeartbeat(ctx, &p)
		}
		timer.Reset(w.next(p))
	}
}

// sendHeartbeat sends the heartbeat that is due.
func (w *Worker) sendHeartbeat(ctx context.Context, p *heartbeatState) {
	now := time.Now()
	if now.Before(p.beat.Add(w.interval())) {
		p.told = now
		w.progressed.Store(false)
		_ = w.renewLeases(ctx, w.changed()) // the next one says it as well
		return
	}
	p.beat, p.told = now, now
	w.progressed.Store(false)
	switch err := w.renewLeases(ctx, w.attempts.all()); {
	case err == nil:
		p.renewed, p.lost = now, false
	case ctx.Err() == nil && !p.lost && now.Sub(p.renewed) > w.attempts.shortestLease():
		p.lost = true
		w.cfg.Logger.WarnContext(ctx, "no heartbeat got through for longer than a lease; running calls go on", slog.Any("cause", err))
	}
}

// next is the time until the next heartbeat.
func (w *Worker) next(p heartbeatState) time.Duration {
	due := p.beat.Add(w.interval())
	if early := p.told.Add(progressEvery); w.progressed.Load() && early.Before(due) {
		due = early
	}
	return time.Until(due)
}

// interval is the time from one heartbeat for all attempts to the next.
func (w *Worker) interval() time.Duration {
	if w.cfg.Heartbeat != 0 {
		return w.cfg.Heartbeat
	}
	return w.attempts.shortestLease() / leaseParts
}

// wakeHeartbeat lets the heartbeat look at its times again.
func (w *Worker) wakeHeartbeat() {
	select {
	case w.nudge <- struct{}{}:
	default: // it is about to look
	}
}

// changed returns the attempts with progress that the owner does not know yet.
func (w *Worker) changed() []*attempt {
	return slices.DeleteFunc(w.attempts.all(), func(a *attempt) bool { return !a.untold() })
}

// untold reports whether there is progress that the owner does not know yet.
func (a *attempt) untold() bool {
	return a.progress.Load() != a.told.Load() || a.tail.watched.Load()
}

// renewLeases renews the leases of attempts and tells their progress, one message at a time, so that the owner hears the
// newest progress last. It ends the attempts that the owner wants ended. Without attempts there is nothing to say.
func (w *Worker) renewLeases(ctx context.Context, attempts []*attempt) error {
	w.telling.Lock()
	defer w.telling.Unlock()
	if len(attempts) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, max(w.interval(), beatTime))
	defer cancel()
	sent := w.cfg.Uptime()
	calls := w.callHeartbeats(attempts)
	reply, err := w.owner.Heartbeat(ctx, work.Heartbeat{Worker: w.cfg.Name, Queues: w.cfg.Queues, Calls: calls})
	if err != nil {
		for _, a := range attempts {
			a.told.Store(nil)
		}
		return err
	}
	for i, a := range attempts {
		a.renewed.Store(int64(sent))
		if calls[i].Output != nil {
			a.tail.told(calls[i].Output)
		}
	}
	w.watch(attempts, reply.Show)
	for _, ref := range reply.Stop {
		if a := w.attempts.find(ref); a != nil {
			a.cancel(leaseLost("the owner has given the call up"))
		}
	}
	return nil
}

func (w *Worker) callHeartbeats(attempts []*attempt) []work.CallHeartbeat {
	heartbeats, room := make([]work.CallHeartbeat, len(attempts)), maxTold
	for i, a := range attempts {
		heartbeats[i] = work.CallHeartbeat{Ref: a.Ref, Tool: a.Tool, Effect: a.resolved()}
		if room > 0 {
			heartbeats[i].Output = w.pieceOf(a, false)
			room -= sizeOf(heartbeats[i].Output)
		}
		if p := a.progress.Load(); p != nil {
			a.told.Store(p)
			shown := *p
			shown.Message = w.clean(a, shown.Message)
			heartbeats[i].Progress = &shown
		}
	}
	return heartbeats
}
