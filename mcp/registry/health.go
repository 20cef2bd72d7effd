package registry

import (
	"math/rand/v2"
	"time"
)

// The figures of the health monitor (S1-083…S1-085, A-70).
const (
	healthInterval  = 30 * time.Second
	openFor         = 15 * time.Second
	firstDelay      = time.Second
	longestDelay    = 30 * time.Second
	jitter          = 0.2
	opensAfter      = 5
	closesAfter     = 2
	silencesAllowed = 1
)

// health is how a server is doing: its status and its circuit breaker. It computes; its user has the clock.
type health struct {
	status  Status
	breaker CircuitBreaker
	// opensAfter failures in a row the breaker opens.
	opensAfter int
	// fixed keeps the delays from growing.
	fixed bool
	// login says that only a person can help, by logging in.
	login bool
	// missedPings counts pings in a row without an answer.
	missedPings int
}

// newHealth returns that of a server that is about to be connected.
func newHealth(policy *RetryPolicy) health {
	h := health{status: Degraded, opensAfter: opensAfter}
	h.breaker.State = BreakerClosed
	if policy != nil {
		const usual = 3
		h.opensAfter = usual
		if policy.MaxAttempts > 0 {
			h.opensAfter = policy.MaxAttempts
		}
		h.fixed = policy.Backoff == "fixed"
	}
	return h
}

// connected notes a handshake. A breaker that was open lets the server be used, and watches.
func (h *health) connected(complete bool) {
	h.missedPings, h.login = 0, false
	h.status = Ready
	if !complete {
		h.status = Degraded
	}
	if h.breaker.State == BreakerOpen {
		h.breaker.State, h.breaker.Successes = BreakerHalfOpen, 0
	}
	h.breaker.Successes++
	h.closeBreaker()
}

// answered notes a sign of life of a connected server.
func (h *health) answered() {
	h.missedPings = 0
	h.breaker.Successes++
	if h.breaker.State == BreakerClosed {
		h.breaker.Failures = 0
	}
	h.closeBreaker()
}

// closeBreaker closes a breaker that was half open for long enough.
func (h *health) closeBreaker() {
	if h.breaker.State == BreakerHalfOpen && h.breaker.Successes >= closesAfter {
		h.breaker.State, h.breaker.Failures = BreakerClosed, 0
	}
}

// unanswered notes a ping without an answer, and reports whether the connection is to be given up.
func (h *health) unanswered(now time.Time) bool {
	if h.missedPings++; h.missedPings <= silencesAllowed {
		return false
	}
	h.failed(now)
	return true
}

// failed notes that the server could not be connected, or that the connection was lost.
func (h *health) failed(now time.Time) {
	h.missedPings, h.login = 0, false
	h.breaker.Failures++
	h.breaker.Successes, h.breaker.LastFailure = 0, now
	h.status = Degraded
	if h.breaker.State != BreakerClosed || h.breaker.Failures >= h.opensAfter {
		h.status, h.breaker.State = Offline, BreakerOpen
	}
}

// loginRequired notes that the server demands a login. That is no failure: the server answers, and is not to be left alone.
func (h *health) loginRequired() { h.missedPings, h.login, h.status = 0, true, Degraded }

// hasFailed tells whether an attempt has failed since all was well.
func (h *health) hasFailed() bool { return h.login || h.breaker.Failures > 0 }

// delay is how long to wait before the next attempt. random is in [0,1).
func (h *health) delay(random float64) time.Duration {
	switch {
	case h.login:
		return longestDelay
	case h.breaker.State == BreakerOpen:
		return openFor
	}
	delay := firstDelay
	for i := 1; i < h.breaker.Failures && !h.fixed && delay < longestDelay; i++ {
		delay *= 2
	}
	delay = min(delay, longestDelay)
	return time.Duration(float64(delay) * (1 - jitter + 2*jitter*random))
}

// randomFraction is a random number in [0,1).
func randomFraction() float64 {
	return rand.Float64() //nolint:gosec // it only spreads attempts
}
