package worker

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
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

// leaseKeeper renews the leases of the calls that this worker holds, and tells their progress and output with that.
type leaseKeeper struct {
	*core

	texts *cleaner
	// nudge wakes the heartbeat early: there is progress, or a shorter lease.
	nudge chan struct{}
	// progressed is set while there may be progress to tell.
	progressed atomic.Bool
	// telling lets one heartbeat be under way at a time.
	telling sync.Mutex
}

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
func (k *leaseKeeper) heartbeat(ctx context.Context) {
	now := time.Now()
	p := heartbeatState{beat: now, renewed: now}
	timer := time.NewTimer(k.interval())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.nudge:
		case <-timer.C:
			k.sendHeartbeat(ctx, &p)
		}
		timer.Reset(k.next(p))
	}
}

// sendHeartbeat sends the heartbeat that is due.
func (k *leaseKeeper) sendHeartbeat(ctx context.Context, p *heartbeatState) {
	now := time.Now()
	if now.Before(p.beat.Add(k.interval())) {
		p.told = now
		k.progressed.Store(false)
		_ = k.renewLeases(ctx, k.changed()) // the next one says it as well
		return
	}
	p.beat, p.told = now, now
	k.progressed.Store(false)
	switch err := k.renewLeases(ctx, k.attempts.all()); {
	case err == nil:
		p.renewed, p.lost = now, false
	case ctx.Err() == nil && !p.lost && now.Sub(p.renewed) > k.attempts.shortestLease():
		p.lost = true
		k.cfg.Logger.WarnContext(ctx, "no heartbeat got through for longer than a lease; running calls go on", slog.Any("cause", err))
	}
}

// next is the time until the next heartbeat.
func (k *leaseKeeper) next(p heartbeatState) time.Duration {
	due := p.beat.Add(k.interval())
	if early := p.told.Add(progressEvery); k.progressed.Load() && early.Before(due) {
		due = early
	}
	return time.Until(due)
}

// interval is the time from one heartbeat for all attempts to the next.
func (k *leaseKeeper) interval() time.Duration {
	if k.cfg.Heartbeat != 0 {
		return k.cfg.Heartbeat
	}
	return k.attempts.shortestLease() / leaseParts
}

// wakeHeartbeat lets the heartbeat look at its times again.
func (k *leaseKeeper) wakeHeartbeat() {
	select {
	case k.nudge <- struct{}{}:
	default: // it is about to look
	}
}

// changed returns the attempts with progress that the owner does not know yet.
func (k *leaseKeeper) changed() []*attempt {
	return slices.DeleteFunc(k.attempts.all(), func(a *attempt) bool { return !a.untold() })
}

// renewLeases renews the leases of attempts and tells their progress, one message at a time, so that the owner hears the
// newest progress last. It ends the attempts that the owner wants ended. Without attempts there is nothing to say.
func (k *leaseKeeper) renewLeases(ctx context.Context, attempts []*attempt) error {
	k.telling.Lock()
	defer k.telling.Unlock()
	if len(attempts) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, max(k.interval(), beatTime))
	defer cancel()
	sent := k.cfg.Uptime()
	calls := k.callHeartbeats(attempts)
	reply, err := k.owner.Heartbeat(ctx, work.Heartbeat{Worker: k.cfg.Name, Queues: k.cfg.Queues, Calls: calls})
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
	k.watch(attempts, reply.Show)
	for _, ref := range reply.Stop {
		if a := k.attempts.find(ref); a != nil {
			a.cancel(leaseLost("the owner has given the call up"))
		}
	}
	return nil
}

func (k *leaseKeeper) callHeartbeats(attempts []*attempt) []work.CallHeartbeat {
	heartbeats, room := make([]work.CallHeartbeat, len(attempts)), maxTold
	for i, a := range attempts {
		heartbeats[i] = work.CallHeartbeat{Ref: a.Ref, Tool: a.Tool, Effect: a.resolved()}
		if room > 0 {
			heartbeats[i].Output = k.pieceOf(a, false)
			room -= sizeOf(heartbeats[i].Output)
		}
		if p := a.progress.Load(); p != nil {
			a.told.Store(p)
			shown := *p
			shown.Message = k.texts.clean(a, shown.Message)
			heartbeats[i].Progress = &shown
		}
	}
	return heartbeats
}

// output takes what programs of a call have written.
func (k *leaseKeeper) output(a *attempt, p []byte) {
	a.tail.write(p)
	if a.tail.watched.Load() {
		k.tellSoon()
	}
}

// tellSoon lets the heartbeat tell what is new.
func (k *leaseKeeper) tellSoon() {
	if !k.progressed.Swap(true) {
		k.wakeHeartbeat()
	}
}

// pieceOf is the piece of output that a heartbeat takes along.
func (k *leaseKeeper) pieceOf(a *attempt, last bool) *work.Output {
	if !a.tail.watched.Load() {
		return nil
	}
	return a.tail.piece(time.Now(), last, func(data []byte) []byte {
		clean, _ := k.texts.redact(a, a.secrets.Load().Trim(data))
		return clean
	})
}

// watch notes which of the calls of a heartbeat somebody watches.
func (k *leaseKeeper) watch(attempts []*attempt, shown []work.Ref) {
	watched := make(map[work.Ref]bool, len(shown))
	for _, ref := range shown {
		watched[ref] = true
	}
	for _, a := range attempts {
		if on := watched[a.Ref]; on != a.tail.watched.Swap(on) && on {
			k.tellSoon()
		}
	}
}

// showRest shows the end of the output of a call to those who watch, before its outcome is known.
func (k *leaseKeeper) showRest(ctx context.Context, a *attempt) {
	if !a.tail.watched.Load() {
		return
	}
	k.telling.Lock() // the piece before it is told then
	defer k.telling.Unlock()
	piece := k.pieceOf(a, true)
	if piece == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), restTime)
	defer stop()
	// That it is not heard costs those who watch the last lines, and no more.
	_, _ = k.owner.Heartbeat(ctx, work.Heartbeat{Worker: k.cfg.Name, Queues: k.cfg.Queues, Calls: []work.CallHeartbeat{{
		Ref: a.Ref, Tool: a.Tool, Effect: a.resolved(), Output: piece,
	}}})
}

// restTime bounds how long the outcome of a call that somebody watches waits for the end of its output.
const restTime = time.Second

// maxTold bounds the output of all calls that one heartbeat takes along, in bytes of text: it renews their leases as well.
const maxTold = 512 << 10

func sizeOf(o *work.Output) int {
	if o == nil {
		return 0
	}
	return len(o.Text)
}
