package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

const (
	// progressEvery is the least time between two heartbeats that progress has caused.
	progressEvery = 500 * time.Millisecond
	// leaseParts is how many heartbeats fit into a lease by default.
	leaseParts = 3
)

// heartbeat renews the leases of all attempts until ctx ends: one message an interval, and an early
// one when there is progress to tell.
func (w *Worker) heartbeat(ctx context.Context) {
	last, lost := time.Now(), false
	renewed := last
	timer := time.NewTimer(w.interval())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.nudge:
			timer.Reset(time.Until(last.Add(w.interval())))
			continue
		case <-timer.C:
		}
		last = time.Now()
		switch err := w.beat(ctx); {
		case err == nil:
			renewed, lost = last, false
		case ctx.Err() == nil && !lost && time.Since(renewed) > w.roster.shortestLease():
			lost = true
			w.cfg.Logger.WarnContext(ctx, "no heartbeat got through for longer than a lease; running calls go on", slog.Any("cause", err))
		}
		timer.Reset(w.interval())
	}
}

// interval is the time from one heartbeat to the next.
func (w *Worker) interval() time.Duration {
	every := w.cfg.Heartbeat
	if every == 0 {
		every = w.roster.shortestLease() / leaseParts
	}
	if w.progressed.Load() {
		return min(every, progressEvery)
	}
	return every
}

// wakeHeartbeat lets the heartbeat look at its interval again.
func (w *Worker) wakeHeartbeat() {
	select {
	case w.nudge <- struct{}{}:
	default: // it is about to look
	}
}

// beat sends one heartbeat and ends the attempts that the owner wants ended. Without attempts there
// is nothing to renew.
func (w *Worker) beat(ctx context.Context) error {
	w.progressed.Store(false)
	attempts := w.roster.all()
	if len(attempts) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, max(w.interval(), progressEvery))
	defer cancel()
	reply, err := w.owner.Beat(ctx, work.Beat{Worker: w.cfg.Name, Queues: w.cfg.Queues, Calls: w.pulses(attempts)})
	if err != nil {
		return err
	}
	for _, ref := range reply.Stop {
		if a := w.roster.find(ref); a != nil {
			a.dropped.Store(true)
			a.cancel(fault.New(fault.Cancelled, "the call was stopped"))
		}
	}
	return nil
}

func (w *Worker) pulses(attempts []*attempt) []work.Pulse {
	pulses := make([]work.Pulse, len(attempts))
	for i, a := range attempts {
		pulses[i] = work.Pulse{Ref: a.Ref, Tool: a.Tool, Effect: a.resolved()}
		if p := a.progress.Load(); p != nil {
			shown := *p
			shown.Message = w.clean(shown.Message)
			pulses[i].Progress = &shown
		}
	}
	return pulses
}
