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

// Handler makes a call. Its report says how that ended; the reference is filled in, and a result of null when it says nothing. The context ends when the call is
// cancelled, its time is over, or the agent stops: what it reports then is dropped, and a stop gives the call back.
type Handler func(ctx context.Context, a agents.Assignment, progress func(work.Progress)) agents.Report

// Config configures a Peer. Credential and Handler are required.
type Config struct {
	Credential Credential
	Handler    Handler
	// Concurrency is how many calls it has at the same time; default, and at most, MaxTasks of the credential.
	Concurrency int
	// Drain is how long running calls may go on after a stop; default 10 s.
	Drain time.Duration
	// Cut, when it is closed, ends the Drain of a stop: what runs then is given back at once. Nil never does.
	Cut <-chan struct{}
	// Save keeps a credential with its next secret, before it is renewed and after; nil renews none.
	Save func(Credential) error
	// Logger gets what an operator should see. Default: nothing is logged.
	Logger *slog.Logger
}

// Peer is an agent that works.
type Peer struct {
	cfg    Config
	client *client
	log    *slog.Logger
	// instance names this process, so that the node misses at once what the one before it had.
	instance string
	// soon wakes the heartbeat, done the claims when a slot is free.
	soon, done chan struct{}
	// missed is set while the node does not answer.
	missed atomic.Bool
	// showing is set while progress waits for the next heartbeat.
	showing atomic.Bool

	mu    sync.Mutex
	calls map[work.Ref]*call
	group sync.WaitGroup
}

// call is a call in work.
type call struct {
	cancel   context.CancelCauseFunc
	lease    time.Duration
	progress *work.Progress
	// known is closed when the node has heard that this agent has the call, and confirmed is set then: before that it is not
	// begun, because what the node has not heard of comes again to the next process of the agent.
	known     chan struct{}
	confirmed bool
}

// New returns a peer. It does no I/O. VALIDATION_ERROR, REQUIRED_FIELD for a configuration that is none.
func New(cfg Config) (*Peer, error) {
	switch {
	case cfg.Handler == nil:
		return nil, fault.New(fault.RequiredField, "an agent needs a handler").WithField("handler")
	case cfg.Credential.URL == "" || cfg.Credential.Secret == "":
		return nil, fault.New(fault.RequiredField, "an agent needs a credential and the address of a node").WithField("credential")
	}
	most := max(cfg.Credential.MaxTasks, 1)
	cfg.Concurrency = min(cmp.Or(cfg.Concurrency, most), most)
	cfg.Drain = cmp.Or(cfg.Drain, 10*time.Second)
	if cfg.Concurrency < 1 {
		return nil, fault.New(fault.ValidationError, "must be at least 1").WithField("concurrency")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Peer{
		cfg: cfg, log: cfg.Logger, instance: rand.Text(), client: &client{http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}, save: cfg.Save, cred: cfg.Credential},
		soon: make(chan struct{}, 1), done: make(chan struct{}, 1), calls: map[work.Ref]*call{},
	}, nil
}

var (
	errStopping = errors.New("the agent is stopping")
	errStopped  = errors.New("the call is no longer this agent's")
)

// Run works until ctx ends: then it claims no more, running calls have Drain to finish, unless that is cut, and what is left
// is given back.
// It returns nil after a stop, and the error of the node that does not let this agent in.
func (p *Peer) Run(ctx context.Context) error {
	defer p.client.http.CloseIdleConnections()
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	run, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var beats sync.WaitGroup
	beats.Go(func() {
		if err := p.heartbeats(life); err != nil {
			stop(err)
		}
	})
	beats.Go(func() { p.renewals(life) })
	err := p.claims(run, life)
	p.drain(end)
	end(errStopping)
	beats.Wait()
	if cause := context.Cause(run); err == nil && cause != nil && ctx.Err() == nil {
		err = cause
	}
	if err == nil {
		p.goodbye(ctx)
	}
	return err
}

// farewell is how long the node may take to hear that the agent ends.
const farewell = 2 * time.Second

// goodbye says that the agent ends, so that it is offline at once. A node that does not hear of it misses it later.
func (p *Peer) goodbye(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	if _, err := p.client.heartbeat(ctx, agents.Heartbeat{Instance: p.instance, Leaving: true}); err != nil {
		p.log.DebugContext(ctx, "agent_goodbye_lost", slog.Any("error", err))
	}
}

// drain waits for the running calls, and ends those that have not begun, or take too long.
func (p *Peer) drain(end context.CancelCauseFunc) {
	p.stopCalls(func(c *call) bool { return !c.confirmed })
	over := make(chan struct{})
	go func() {
		p.group.Wait()
		close(over)
	}()
	if !ends(over, p.cfg.Drain, p.cfg.Cut) {
		p.stopCalls(func(*call) bool { return true })
		if !ends(over, p.cfg.Drain, p.cfg.Cut) && p.cut() { // else the node is not there to be told
			_ = ends(over, hurry, nil)
		}
	}
	end(errStopping)
	<-over
}

// cut reports whether the drain was cut.
func (p *Peer) cut() bool {
	select {
	case <-p.cfg.Cut:
		return true
	default:
		return false
	}
}

// hurry is how long the calls may take to be given back when the drain was cut.
const hurry = 5 * time.Second

// ends waits until something is over, and reports whether it is: not after so long, or when the wait is cut.
func ends(over <-chan struct{}, most time.Duration, cut <-chan struct{}) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-over:
		return true
	case <-timer.C:
	case <-cut:
	}
	return false
}

// stopCalls ends the calls that are selected, because the agent stops.
func (p *Peer) stopCalls(which func(*call) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.calls {
		if which(c) {
			c.cancel(errStopping)
		}
	}
}

// wait is how long the node may hold a claim open.
const wait = 20 * time.Second

// claims asks for calls and makes them, until ctx ends; the calls end with life.
func (p *Peer) claims(ctx, life context.Context) error {
	for failures, empty := 0, 0; ctx.Err() == nil; {
		free, has := p.capacity()
		asked := time.Now()
		asking, stop := p.whileFull(ctx, free)
		w, err := p.client.claim(asking, agents.Claim{Free: free, Wait: wait, Has: has, Instance: p.instance})
		freed := asking.Err() != nil && ctx.Err() == nil
		stop()
		switch {
		case err == nil:
			failures = 0
			p.answered(ctx)
		case freed: // there is more to claim
			continue
		case ctx.Err() == nil && !passing(err):
			return err
		case ctx.Err() == nil:
			p.missed.Store(true)
			p.log.WarnContext(ctx, "agent_claim_failed", slog.Any("error", err))
			_ = pause.For(ctx, backoff(failures))
			failures++
			continue
		}
		p.end(w.Stop)
		for _, a := range w.Calls {
			p.begin(life, a)
		}
		if len(w.Calls)+len(w.Stop) > 0 || time.Since(asked) > wait/2 {
			empty = 0
			continue
		}
		_ = pause.For(ctx, backoff(min(empty, 3))) // another process speaks with the credential, and each ends the claims of the other
		empty++
	}
	return nil
}

// whileFull returns a context for a claim, which ends when a slot becomes free of an agent that has none.
func (p *Peer) whileFull(ctx context.Context, free int) (context.Context, context.CancelFunc) {
	asking, stop := context.WithCancel(ctx)
	if free > 0 {
		return asking, stop
	}
	over := make(chan struct{})
	go func() {
		select {
		case <-p.done:
			stop()
		case <-over:
		}
	}()
	return asking, func() { close(over); stop() }
}

// answered says once that the node answers again, as loudly as that it did not: who has read the one shall read the other.
func (p *Peer) answered(ctx context.Context) {
	if p.missed.Swap(false) {
		p.log.WarnContext(ctx, "agent_node_back", slog.String("url", p.client.credential().URL))
	}
}

// capacity is how many calls may be added to those that there are.
func (p *Peer) capacity() (free int, has []work.Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ref := range p.calls {
		has = append(has, ref)
	}
	return max(p.cfg.Concurrency-len(has), 0), has
}

// begin makes a call, unless it is made already.
func (p *Peer) begin(life context.Context, a agents.Assignment) {
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
		p.make(ctx, life, a, c)
	})
	poke(p.soon)
}

// make makes a call and reports its end.
func (p *Peer) make(ctx, life context.Context, a agents.Assignment, c *call) {
	defer p.leave(a.Ref)
	limited, cancel := context.WithTimeoutCause(ctx, within(a), fault.New(fault.Timeout, "the call took too long"))
	defer cancel()
	r, begun := agents.Report{}, false
	select {
	case <-c.known:
		if begun = limited.Err() == nil; !begun {
			break
		}
		r = p.cfg.Handler(limited, a, func(done work.Progress) {
			p.mu.Lock()
			c.progress = &done
			p.mu.Unlock()
			p.showSoon()
		})
	case <-limited.Done():
	}
	switch cause := context.Cause(limited); {
	case errors.Is(cause, errStopped):
		return
	case errors.Is(cause, errStopping) && !begun:
		r = agents.Report{HandTo: &events.Agents{}, Error: errStopping.Error()}
	case errors.Is(cause, errStopping):
		r = agents.Report{Release: true, Unsure: true, Error: errStopping.Error()}
	case fault.Has(cause, fault.Timeout):
		r = agents.Report{Error: cause.Error()}
	}
	if r.Ref = a.Ref; len(r.Result) == 0 && r.Error == "" && !r.Release && r.HandTo == nil {
		r.Result = json.RawMessage("null")
	}
	p.tell(life, r)
}

// showEvery is how often the node hears of progress at most.
const showEvery = time.Second

// showSoon brings the progress of calls to the node, all that comes in a while at once.
func (p *Peer) showSoon() {
	if p.showing.Swap(true) {
		return
	}
	time.AfterFunc(showEvery, func() {
		p.showing.Store(false)
		poke(p.soon)
	})
}

// within is how long a call may take. A node that does not say it has the same clock.
func within(a agents.Assignment) time.Duration { return cmp.Or(a.Left, time.Until(a.Deadline)) }

// tell reports an end until the node has taken or refused it. When the node does not take what the agent says, it is
// told that.
func (p *Peer) tell(life context.Context, r agents.Report) {
	refused := false
	for failures := 0; ; failures++ {
		err := p.client.report(life, r)
		switch {
		case err == nil, fault.Has(err, fault.Conflict):
			return
		case life.Err() != nil:
			p.log.WarnContext(life, "agent_report_lost", slog.String("task", string(r.Task)), slog.Any("error", err))
			return
		case !passing(err) && !refused:
			refused, r = true, agents.Report{Ref: r.Ref, Error: "the report was refused: " + err.Error()}
		case !passing(err):
			p.log.ErrorContext(life, "agent_report_refused", slog.String("task", string(r.Task)), slog.Any("error", err))
			return
		}
		_ = pause.For(life, backoff(failures))
	}
}

func (p *Peer) leave(ref work.Ref) {
	p.mu.Lock()
	delete(p.calls, ref)
	p.mu.Unlock()
	poke(p.done)
}

// end ends calls that are no longer this agent's.
func (p *Peer) end(refs []work.Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, ref := range refs {
		if c := p.calls[ref]; c != nil {
			c.cancel(errStopped)
		}
	}
}

// heartbeats says that the agent is there, until ctx ends. It returns the error of a node that does not let it in.
func (p *Peer) heartbeats(ctx context.Context) error {
	for failures := 0; ; {
		beat, next := p.nextHeartbeat()
		w, err := p.client.heartbeat(ctx, beat)
		switch {
		case err == nil:
			failures = 0
			p.answered(ctx)
			p.end(w.Stop)
			p.confirm(beat)
		case ctx.Err() == nil && !passing(err):
			return err
		case ctx.Err() == nil:
			p.missed.Store(true)
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
		case <-p.soon:
			timer.Stop()
		}
	}
}

// confirm lets the calls begin of which the node knows now that this agent has them.
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

// nextHeartbeat is the next heartbeat, and how long the one after it may take.
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

// renewals renews the credential in time, until ctx ends. What fails is tried again, soon where that may help.
func (p *Peer) renewals(ctx context.Context) {
	const hopeless = 5 * time.Minute
	for failures := 0; p.cfg.Save != nil && ctx.Err() == nil; {
		cred := p.client.credential()
		next := due(cred)
		if next <= 0 {
			err := p.client.renew(ctx, cred, events.Time(time.Now()))
			switch {
			case err == nil:
				failures, next = 0, agents.Interval // whatever the clocks say
			case passing(err):
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

// due is when four fifths of the life of a credential are over, from now on.
func due(cred Credential) time.Duration {
	if cred.ExpiresAt.IsZero() {
		return agents.Interval
	}
	return time.Until(cred.IssuedAt.Add(cred.ExpiresAt.Sub(cred.IssuedAt) * 4 / 5))
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// backoff is 0.1 s, doubled with each failure up to 10 s, ±20 %.
func backoff(failures int) time.Duration {
	d := min(100*time.Millisecond<<min(failures, 10), 10*time.Second)
	return time.Duration(float64(d) * (0.8 + 0.4*random.Float64())) //nolint:gosec // it is no secret
}
