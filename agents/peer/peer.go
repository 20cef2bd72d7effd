package peer

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	random "math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/work"
)

// Handler executes a call and returns the report of its outcome. The peer sets Ref, and sets Result to null if the
// report is empty. ctx is cancelled when the call is cancelled or times out, or when the agent stops. The report is
// then dropped, and on a stop the call is released.
type Handler func(ctx context.Context, a agents.Assignment, progress func(work.Progress)) agents.Report

// Config configures a Peer. Credential and Handler are required.
type Config struct {
	Credential Credential
	Handler    Handler
	// Concurrency is the number of concurrent calls. The default and the maximum is MaxTasks of the credential.
	Concurrency int
	// Drain is how long running calls may continue after a stop; default 10 s.
	Drain time.Duration
	// Cut ends a drain early: when it is closed, the running calls are released immediately. It may be nil.
	Cut <-chan struct{}
	// Save stores the credential before and after a renewal. If nil, the credential is not renewed.
	Save func(Credential) error
	// Logger receives messages for the operator. Default: nothing is logged.
	Logger *slog.Logger
}

// Peer is a running agent.
type Peer struct {
	cfg    Config
	client *client
	log    *slog.Logger
	// instance identifies this process, so that the node detects immediately which calls the previous process lost.
	instance string
	// wake wakes the heartbeat loop. slotFree wakes the claim loop.
	wake, slotFree chan struct{}
	// unreachable is set while the node does not answer.
	unreachable atomic.Bool
	// progressPending is set while progress waits for the next heartbeat.
	progressPending atomic.Bool

	mu    sync.Mutex
	calls map[work.Ref]*call
	group sync.WaitGroup
}

// call is a running call.
type call struct {
	cancel   context.CancelCauseFunc
	lease    time.Duration
	progress *work.Progress
	// known is closed, and confirmed is set, when the node knows that this process has the call. The call does not
	// start before that, because the node redelivers unconfirmed calls to the next process of the agent.
	known     chan struct{}
	confirmed bool
}

// New returns a peer. It does no I/O. It returns VALIDATION_ERROR or REQUIRED_FIELD for an invalid configuration.
func New(cfg Config) (*Peer, error) {
	switch {
	case cfg.Handler == nil:
		return nil, fault.New(fault.RequiredField, "an agent needs a handler").WithField("handler")
	case cfg.Credential.URL == "" || cfg.Credential.Secret == "":
		return nil, fault.New(fault.RequiredField, "an agent needs a credential and the address of a node").WithField("credential")
	}
	maxTasks := max(cfg.Credential.MaxTasks, 1)
	cfg.Concurrency = min(cmp.Or(cfg.Concurrency, maxTasks), maxTasks)
	cfg.Drain = cmp.Or(cfg.Drain, 10*time.Second)
	if cfg.Concurrency < 1 {
		return nil, fault.New(fault.ValidationError, "must be at least 1").WithField("concurrency")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Peer{
		cfg: cfg, log: cfg.Logger, instance: rand.Text(), client: &client{http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}, save: cfg.Save, cred: cfg.Credential},
		wake: make(chan struct{}, 1), slotFree: make(chan struct{}, 1), calls: map[work.Ref]*call{},
	}, nil
}

var (
	errStopping = errors.New("the agent is stopping")
	errStopped  = errors.New("the call is no longer assigned to this agent")
)

// Run claims and executes calls until ctx ends. It then claims no more calls, waits for running calls until Drain has
// passed or Cut is closed, and releases the rest. It returns nil after a stop, and the error of the node if the node
// rejects the agent.
func (p *Peer) Run(ctx context.Context) error {
	defer p.client.http.CloseIdleConnections()
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	run, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var beats sync.WaitGroup
	beats.Go(func() {
		if err := p.heartbeatLoop(life); err != nil {
			stop(err)
		}
	})
	beats.Go(func() { p.renewLoop(life) })
	err := p.claimLoop(run, life)
	p.drain(end)
	end(errStopping)
	beats.Wait()
	if cause := context.Cause(run); err == nil && cause != nil && ctx.Err() == nil {
		err = cause
	}
	if err == nil {
		p.reportLeaving(ctx)
	}
	return err
}

// leaveTimeout bounds the request that reports the exit of the agent.
const leaveTimeout = 2 * time.Second

// reportLeaving reports that the agent exits, so that it is offline immediately. If the request fails, the node marks
// the agent offline later.
func (p *Peer) reportLeaving(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if _, err := p.client.heartbeat(ctx, agents.Heartbeat{Instance: p.instance, Leaving: true}); err != nil {
		p.log.DebugContext(ctx, "agent_goodbye_lost", slog.Any("error", err))
	}
}

// drain waits for the running calls, and stops those that have not started or take too long.
func (p *Peer) drain(end context.CancelCauseFunc) {
	p.stopCalls(func(c *call) bool { return !c.confirmed })
	finished := make(chan struct{})
	go func() {
		p.group.Wait()
		close(finished)
	}()
	if !waitUntil(finished, p.cfg.Drain, p.cfg.Cut) {
		p.stopCalls(func(*call) bool { return true })
		if !waitUntil(finished, p.cfg.Drain, p.cfg.Cut) && p.isCut() { // else the node cannot be reached
			_ = waitUntil(finished, cutTimeout, nil)
		}
	}
	end(errStopping)
	<-finished
}

// isCut reports whether Config.Cut is closed.
func (p *Peer) isCut() bool {
	select {
	case <-p.cfg.Cut:
		return true
	default:
		return false
	}
}

// cutTimeout is how long releasing the calls may take after the drain was cut.
const cutTimeout = 5 * time.Second

// waitUntil waits until finished is closed and returns true. It returns false after timeout, or when cut is closed.
func waitUntil(finished <-chan struct{}, timeout time.Duration, cut <-chan struct{}) bool {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-finished:
		return true
	case <-timer.C:
	case <-cut:
	}
	return false
}

// stopCalls cancels the selected calls, because the agent stops.
func (p *Peer) stopCalls(which func(*call) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.calls {
		if which(c) {
			c.cancel(errStopping)
		}
	}
}

// claimWait is how long the node may wait for work before it answers a claim.
const claimWait = 20 * time.Second

// claimLoop claims calls and starts them until ctx ends. The calls are cancelled when life ends.
func (p *Peer) claimLoop(ctx, life context.Context) error {
	for failures, empty := 0, 0; ctx.Err() == nil; {
		free, has := p.capacity()
		start := time.Now()
		claimCtx, stop := p.whileFull(ctx, free)
		w, err := p.client.claim(claimCtx, agents.Claim{Free: free, Wait: claimWait, Has: has, Instance: p.instance})
		freed := claimCtx.Err() != nil && ctx.Err() == nil
		stop()
		switch {
		case err == nil:
			failures = 0
			p.logReachable(ctx)
		case freed: // a slot became free
			continue
		case ctx.Err() == nil && !temporary(err):
			return err
		case ctx.Err() == nil:
			p.unreachable.Store(true)
			p.log.WarnContext(ctx, "agent_claim_failed", slog.Any("error", err))
			_ = pause.For(ctx, backoff(failures))
			failures++
			continue
		}
		p.stop(w.Stop)
		for _, a := range w.Calls {
			p.start(life, a)
		}
		if len(w.Calls)+len(w.Stop) > 0 || time.Since(start) > claimWait/2 {
			empty = 0
			continue
		}
		_ = pause.For(ctx, backoff(min(empty, 3))) // another process uses the same credential: the two processes end each other's claims
		empty++
	}
	return nil
}

// whileFull returns a context for a claim. If no slot is free, the context is cancelled when a slot becomes free.
func (p *Peer) whileFull(ctx context.Context, free int) (context.Context, context.CancelFunc) {
	asking, stop := context.WithCancel(ctx)
	if free > 0 {
		return asking, stop
	}
	done := make(chan struct{})
	go func() {
		select {
		case <-p.slotFree:
			stop()
		case <-done:
		}
	}()
	return asking, func() { close(done); stop() }
}

// logReachable logs once that the node answers again. It uses the level of the message about the failure, so that
// either both messages are visible or none.
func (p *Peer) logReachable(ctx context.Context) {
	if p.unreachable.Swap(false) {
		p.log.WarnContext(ctx, "agent_node_back", slog.String("url", p.client.credential().URL))
	}
}

// capacity returns how many more calls can be claimed, and the current calls.
func (p *Peer) capacity() (free int, has []work.Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ref := range p.calls {
		has = append(has, ref)
	}
	return max(p.cfg.Concurrency-len(has), 0), has
}

// start starts a call, unless it is already running.
func (p *Peer) start(life context.Context, a agents.Assignment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls[a.Ref] != nil {
		return
	}
	ctx, cancel := context.WithCancelCause(life)
	c := &call{cancel: cancel, lease: a.Lease, known: make(chan struct{})}
	p.calls[a.Ref] = c
	p.group.Go(func() {
		defer cancel(nil)
		p.makeCall(ctx, life, a, c)
	})
	signal(p.wake)
}

// makeCall runs the handler of a call and reports the outcome.
func (p *Peer) makeCall(ctx, life context.Context, a agents.Assignment, c *call) {
	defer p.remove(a.Ref)
	limited, cancel := context.WithTimeoutCause(ctx, timeLimit(a), fault.New(fault.Timeout, "the call took too long"))
	defer cancel()
	r, started := agents.Report{}, false
	select {
	case <-c.known:
		if started = limited.Err() == nil; !started {
			break
		}
		r = p.cfg.Handler(limited, a, func(done work.Progress) {
			p.mu.Lock()
			c.progress = &done
			p.mu.Unlock()
			p.scheduleProgress()
		})
	case <-limited.Done():
	}
	switch cause := context.Cause(limited); {
	case errors.Is(cause, errStopped):
		return
	case errors.Is(cause, errStopping) && !started:
		r = agents.Report{HandTo: &events.Agents{}, Error: errStopping.Error()}
	case errors.Is(cause, errStopping):
		r = agents.Report{Release: true, Unsure: true, Error: errStopping.Error()}
	case fault.Has(cause, fault.Timeout):
		r = agents.Report{Error: cause.Error()}
	}
	if r.Ref = a.Ref; len(r.Result) == 0 && r.Error == "" && !r.Release && r.HandTo == nil {
		r.Result = json.RawMessage("null")
	}
	p.sendReport(life, r)
}

// progressInterval is the minimum interval between reports of progress.
const progressInterval = time.Second

// scheduleProgress schedules a heartbeat that reports progress. Progress within progressInterval is reported together.
func (p *Peer) scheduleProgress() {
	if p.progressPending.Swap(true) {
		return
	}
	time.AfterFunc(progressInterval, func() {
		p.progressPending.Store(false)
		signal(p.wake)
	})
}

// timeLimit returns how long a call may take. If the node does not report the remaining time, the clocks are assumed to
// agree.
func timeLimit(a agents.Assignment) time.Duration { return cmp.Or(a.Remaining, time.Until(a.Deadline)) }

// sendReport sends a report until the node accepts or refuses it. If the node rejects its content, sendReport reports
// that as an error of the call.
func (p *Peer) sendReport(life context.Context, r agents.Report) {
	refused := false
	for failures := 0; ; failures++ {
		err := p.client.report(life, r)
		switch {
		case err == nil, fault.Has(err, fault.Conflict):
			return
		case life.Err() != nil:
			p.log.WarnContext(life, "agent_report_lost", slog.String("task", string(r.Task)), slog.Any("error", err))
			return
		case !temporary(err) && !refused:
			refused, r = true, agents.Report{Ref: r.Ref, Error: "the report was refused: " + err.Error()}
		case !temporary(err):
			p.log.ErrorContext(life, "agent_report_refused", slog.String("task", string(r.Task)), slog.Any("error", err))
			return
		}
		_ = pause.For(life, backoff(failures))
	}
}

func (p *Peer) remove(ref work.Ref) {
	p.mu.Lock()
	delete(p.calls, ref)
	p.mu.Unlock()
	signal(p.slotFree)
}

// stop cancels calls that are no longer assigned to this agent.
func (p *Peer) stop(refs []work.Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, ref := range refs {
		if c := p.calls[ref]; c != nil {
			c.cancel(errStopped)
		}
	}
}

// heartbeatLoop sends heartbeats until ctx ends. It returns the error of the node if the node rejects the agent.
func (p *Peer) heartbeatLoop(ctx context.Context) error {
	for failures := 0; ; {
		beat, next := p.nextHeartbeat()
		w, err := p.client.heartbeat(ctx, beat)
		switch {
		case err == nil:
			failures = 0
			p.logReachable(ctx)
			p.stop(w.Stop)
			p.confirm(beat)
		case ctx.Err() == nil && !temporary(err):
			return err
		case ctx.Err() == nil:
			p.unreachable.Store(true)
			p.log.WarnContext(ctx, "agent_heartbeat_failed", slog.Any("error", err))
			next = min(next, backoff(failures))
			failures++
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		case <-p.wake:
			timer.Stop()
		}
	}
}

// confirm marks the calls of an answered heartbeat as confirmed, so that they can start.
func (p *Peer) confirm(b agents.Heartbeat) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pulse := range b.Calls {
		if c := p.calls[pulse.Ref]; c != nil && !c.confirmed {
			c.confirmed = true
			close(c.known)
		}
	}
}

// nextHeartbeat returns the next heartbeat, and the time until the one after it.
func (p *Peer) nextHeartbeat() (agents.Heartbeat, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := agents.Heartbeat{Instance: p.instance}
	next := agents.Interval
	for ref, c := range p.calls {
		b.Calls = append(b.Calls, work.CallHeartbeat{Ref: ref, Progress: c.progress})
		if c.lease > 0 {
			next = min(next, c.lease/3)
		}
	}
	return b, max(next, 50*time.Millisecond)
}

// renewLoop renews the credential in time, until ctx ends. It retries a failed renewal: soon if the error may be
// temporary, else after five minutes.
func (p *Peer) renewLoop(ctx context.Context) {
	const hopeless = 5 * time.Minute
	for failures := 0; p.cfg.Save != nil && ctx.Err() == nil; {
		cred := p.client.credential()
		next := renewalDelay(cred)
		if next <= 0 {
			err := p.client.renew(ctx, cred, events.Time(time.Now()))
			switch {
			case err == nil:
				failures, next = 0, agents.Interval // even if the clocks disagree
			case temporary(err):
				next = backoff(failures)
				failures++
			default:
				next = hopeless
			}
			if err != nil && ctx.Err() == nil {
				p.log.WarnContext(ctx, "agent_credential_not_renewed", slog.Any("error", err))
			}
		}
		_ = pause.For(ctx, min(next, agents.Interval*10))
	}
}

// renewalDelay returns the time until four fifths of a credential's lifetime have passed.
func renewalDelay(cred Credential) time.Duration {
	if cred.ExpiresAt.IsZero() {
		return agents.Interval
	}
	return time.Until(cred.IssuedAt.Add(cred.ExpiresAt.Sub(cred.IssuedAt) * 4 / 5))
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// backoff returns 0.1 s, doubled with each failure up to 10 s, ±20 %.
func backoff(failures int) time.Duration {
	d := min(100*time.Millisecond<<min(failures, 10), 10*time.Second)
	return time.Duration(float64(d) * (0.8 + 0.4*random.Float64())) //nolint:gosec // jitter needs no secure random numbers
}
