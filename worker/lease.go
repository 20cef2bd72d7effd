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
	// progressEvery is the minimum interval between two messages with progress: at most 40 a second for each call.
	progressEvery = 25 * time.Millisecond
	// minHeartbeatTimeout is the minimum timeout of a heartbeat request, however short the leases are.
	minHeartbeatTimeout = 500 * time.Millisecond
	// heartbeatsPerLease is how many heartbeats fit into a lease by default.
	heartbeatsPerLease = 3
)

// leaseKeeper renews the leases of the calls that this worker holds. The same messages report their progress and output.
type leaseKeeper struct {
	*core

	cleaner *cleaner
	// wake makes the heartbeat loop compute its next time again, after new progress or a shorter lease.
	wake chan struct{}
	// hasProgress is set while there may be progress to report.
	hasProgress atomic.Bool
	// sending allows one heartbeat at a time.
	sending sync.Mutex
}

// heartbeatState holds the times of the two kinds of heartbeats: regular ones for all attempts, once per interval, and early
// ones for attempts with new progress.
type heartbeatState struct {
	// lastBeat is when all leases were last renewed, progressSent when progress was last sent.
	lastBeat, progressSent time.Time
	// renewed is when a heartbeat last succeeded. lost is set once no heartbeat has succeeded for longer than a lease.
	renewed time.Time
	lost    bool
}

// heartbeat renews the leases of all attempts and reports their progress until ctx ends.
func (k *leaseKeeper) heartbeat(ctx context.Context) {
	now := time.Now()
	p := heartbeatState{lastBeat: now, renewed: now}
	timer := time.NewTimer(k.interval())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
		case <-timer.C:
			k.sendHeartbeat(ctx, &p)
		}
		timer.Reset(k.next(p))
	}
}

// sendHeartbeat sends the heartbeat that is due.
func (k *leaseKeeper) sendHeartbeat(ctx context.Context, p *heartbeatState) {
	now := time.Now()
	if now.Before(p.lastBeat.Add(k.interval())) {
		p.progressSent = now
		k.hasProgress.Store(false)
		_ = k.renewLeases(ctx, k.changed()) // after an error, the next heartbeat reports the progress
		return
	}
	p.lastBeat, p.progressSent = now, now
	k.hasProgress.Store(false)
	switch err := k.renewLeases(ctx, k.attempts.all()); {
	case err == nil:
		p.renewed, p.lost = now, false
	case ctx.Err() == nil && !p.lost && now.Sub(p.renewed) > k.attempts.shortestLease():
		p.lost = true
		k.cfg.Logger.WarnContext(ctx, "no heartbeat got through for longer than a lease; running calls go on", slog.Any("cause", err))
	}
}

// next returns the time until the next heartbeat.
func (k *leaseKeeper) next(p heartbeatState) time.Duration {
	due := p.lastBeat.Add(k.interval())
	if early := p.progressSent.Add(progressEvery); k.hasProgress.Load() && early.Before(due) {
		due = early
	}
	return time.Until(due)
}

// interval returns the time between two heartbeats for all attempts.
func (k *leaseKeeper) interval() time.Duration {
	if k.cfg.Heartbeat != 0 {
		return k.cfg.Heartbeat
	}
	return k.attempts.shortestLease() / heartbeatsPerLease
}

// wakeHeartbeat makes the heartbeat loop compute its next time again.
func (k *leaseKeeper) wakeHeartbeat() {
	select {
	case k.wake <- struct{}{}:
	default: // it is about to check
	}
}

// changed returns the attempts with progress that was not sent to the owner.
func (k *leaseKeeper) changed() []*attempt {
	return slices.DeleteFunc(k.attempts.all(), func(a *attempt) bool { return !a.unsent() })
}

// renewLeases renews the leases of attempts and reports their progress. It sends one message at a time, so that the owner
// receives the newest progress last. It ends the attempts that the owner wants to stop. Without attempts it does nothing.
func (k *leaseKeeper) renewLeases(ctx context.Context, attempts []*attempt) error {
	k.sending.Lock()
	defer k.sending.Unlock()
	if len(attempts) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, max(k.interval(), minHeartbeatTimeout))
	defer cancel()
	sent := k.cfg.Uptime()
	calls := k.callHeartbeats(attempts)
	reply, err := k.owner.Heartbeat(ctx, work.Heartbeat{Worker: k.cfg.Name, Queues: k.cfg.Queues, Calls: calls})
	if err != nil {
		for _, a := range attempts {
			a.sentProgress.Store(nil)
		}
		return err
	}
	for i, a := range attempts {
		a.renewed.Store(int64(sent))
		if calls[i].Output != nil {
			a.tail.markSent(calls[i].Output)
		}
	}
	k.markWatched(attempts, reply.Show)
	for _, ref := range reply.Stop {
		if a := k.attempts.find(ref); a != nil {
			a.cancel(leaseLost("the owner has given the call up"))
		}
	}
	return nil
}

// callHeartbeats returns the parts of a heartbeat for attempts: their progress, and output for their watchers up to
// maxHeartbeatOutput.
func (k *leaseKeeper) callHeartbeats(attempts []*attempt) []work.CallHeartbeat {
	heartbeats, room := make([]work.CallHeartbeat, len(attempts)), maxHeartbeatOutput
	for i, a := range attempts {
		heartbeats[i] = work.CallHeartbeat{Ref: a.Ref, Tool: a.Tool, Effect: a.resolvedEffect()}
		if room > 0 {
			heartbeats[i].Output = k.pieceOf(a, false)
			room -= sizeOf(heartbeats[i].Output)
		}
		if p := a.progress.Load(); p != nil {
			a.sentProgress.Store(p)
			shown := *p
			shown.Message = k.cleaner.clean(a, shown.Message)
			heartbeats[i].Progress = &shown
		}
	}
	return heartbeats
}

// output records output of the programs of a call.
func (k *leaseKeeper) output(a *attempt, p []byte) {
	a.tail.write(p)
	if a.tail.watched.Load() {
		k.wakeSoon()
	}
}

// wakeSoon schedules an early heartbeat for new progress or output.
func (k *leaseKeeper) wakeSoon() {
	if !k.hasProgress.Swap(true) {
		k.wakeHeartbeat()
	}
}

// pieceOf returns the piece of output for a heartbeat.
func (k *leaseKeeper) pieceOf(a *attempt, last bool) *work.Output {
	if !a.tail.watched.Load() {
		return nil
	}
	return a.tail.piece(time.Now(), last, func(data []byte) []byte {
		clean, _ := k.cleaner.redact(a, a.secrets.Load().Trim(data))
		return clean
	})
}

// markWatched records which calls of a heartbeat are being watched.
func (k *leaseKeeper) markWatched(attempts []*attempt, shown []work.Ref) {
	watched := make(map[work.Ref]bool, len(shown))
	for _, ref := range shown {
		watched[ref] = true
	}
	for _, a := range attempts {
		if on := watched[a.Ref]; on != a.tail.watched.Swap(on) && on {
			k.wakeSoon()
		}
	}
}

// sendRest sends the last output of a call to its watchers before its outcome is reported.
func (k *leaseKeeper) sendRest(ctx context.Context, a *attempt) {
	if !a.tail.watched.Load() {
		return
	}
	k.sending.Lock() // the previous piece must be sent first
	defer k.sending.Unlock()
	piece := k.pieceOf(a, true)
	if piece == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), restTime)
	defer stop()
	// If this fails, watchers miss the last lines, and nothing more.
	_, _ = k.owner.Heartbeat(ctx, work.Heartbeat{Worker: k.cfg.Name, Queues: k.cfg.Queues, Calls: []work.CallHeartbeat{{
		Ref: a.Ref, Tool: a.Tool, Effect: a.resolvedEffect(), Output: piece,
	}}})
}

// restTime limits how long the outcome of a watched call waits for its last output.
const restTime = time.Second

// maxHeartbeatOutput limits the output of all calls in one heartbeat, in bytes of text. A larger heartbeat might not renew the
// leases in time.
const maxHeartbeatOutput = 512 << 10

func sizeOf(o *work.Output) int {
	if o == nil {
		return 0
	}
	return len(o.Text)
}
