// Package breaker keeps requests away from providers of models that fail. After some failures in a row a provider is not asked for a
// while: its requests fail at once, so that an agent waits or asks its next model. Then one request is a probe, and its success lets
// all others through.
package breaker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/orch-dev/orch/models"
)

const (
	// opensAfter is how many failures in a row open a breaker. All of them are within failuresWithin of the first one.
	opensAfter     = 5
	failuresWithin = 2 * time.Minute
	// openFor is how long an open breaker refuses requests before each probe.
	openFor = 15 * time.Second
)

// State is the state of a breaker.
type State string

// The states.
const (
	Closed   State = "closed"    // requests are sent
	Open     State = "open"      // requests are refused
	HalfOpen State = "half_open" // a probe was sent, other requests are refused
)

// Status describes a breaker.
type Status struct {
	State State
	// Failures counts the failures in a row. Error is the last of them; "" for none.
	Failures int
	Error    string
	// Until is when the next probe may be sent; zero if the breaker is closed.
	Until time.Time
}

// circuit is the state of a breaker. It has no clock: methods get the time as an argument.
type circuit struct {
	Status

	// since is when the first of the failures was.
	since time.Time
}

// allow reports whether a request may be sent. An open breaker lets one request through in each openFor: a probe that never ends
// does not keep it open.
func (c *circuit) allow(now time.Time) bool {
	if c.State == Closed {
		return true
	}
	if now.Before(c.Until) {
		return false
	}
	c.State, c.Until = HalfOpen, now.Add(openFor)
	return true
}

// answered records that the provider works.
func (c *circuit) answered() { *c = circuit{Status: Status{State: Closed}} }

// failed records that the provider could not answer.
func (c *circuit) failed(now time.Time, why string) {
	if c.State == Closed && now.Sub(c.since) > failuresWithin {
		c.Failures = 0
	}
	if c.Failures == 0 {
		c.since = now
	}
	c.Failures++
	c.Error = why
	if c.State != Closed || c.Failures >= opensAfter {
		c.State, c.Until = Open, now.Add(openFor)
	}
}

// Provider is a provider with a breaker. It is safe for concurrent use.
type Provider struct {
	next models.Provider
	now  func() time.Time

	mu      sync.Mutex // guards circuit
	circuit circuit
}

// New returns a provider that asks next. now is the clock.
func New(next models.Provider, now func() time.Time) *Provider {
	return &Provider{next: next, now: now, circuit: circuit{Status: Status{State: Closed}}}
}

// Status returns the state of the breaker.
func (p *Provider) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.circuit.Status
}

// Stream implements models.Provider. While the breaker is open it returns an error of kind models.Overloaded that says when to ask again.
func (p *Provider) Stream(ctx context.Context, r models.Request, hear func(models.Delta)) (models.Answer, error) {
	if err := p.refusal(); err != nil {
		return models.Answer{}, err
	}
	begun := false
	answer, err := p.next.Stream(ctx, r, func(d models.Delta) {
		if !begun { // a long answer must not keep the others waiting
			begun = true
			p.reached()
		}
		if hear != nil {
			hear(d)
		}
	})
	p.note(ctx, err)
	return answer, err
}

// refusal returns why a request is not sent; nil if it is.
func (p *Provider) refusal() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if p.circuit.allow(now) {
		return nil
	}
	c := p.circuit.Status
	return &models.Error{
		Kind: models.Overloaded, After: c.Until.Sub(now),
		Message: fmt.Sprintf("its provider has failed %d times in a row and is not asked until %s; the last time: %s", c.Failures, c.Until.UTC().Format("15:04:05Z"), c.Error),
	}
}

// reached ends the waiting of other requests: the provider has begun to answer. Only a whole answer makes the failures forgotten.
func (p *Provider) reached() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.circuit.State == HalfOpen {
		p.circuit.State, p.circuit.Until = Closed, time.Time{}
	}
}

// note records how a request has ended. A rate limit is that of a model or a key, and a request that was given up says nothing about the
// provider. Any other refusal shows that it works.
func (p *Provider) note(ctx context.Context, err error) {
	failure, known := errors.AsType[*models.Error](err)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.circuit.answered()
	case ctx.Err() != nil, !known, failure.Kind == models.RateLimited:
	case failure.Temporary():
		p.circuit.failed(p.now(), failure.Message)
	default:
		p.circuit.answered()
	}
}
