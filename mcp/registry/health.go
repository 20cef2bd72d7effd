package registry

import (
	"math/rand/v2"
	"time"
)

// The parameters of the health monitor (S1-083…S1-085, A-70).
const (
	// healthInterval is the default interval between pings.
	healthInterval = 30 * time.Second
	// openFor is how long the circuit breaker stays open before the next attempt to connect.
	openFor = 15 * time.Second
	// firstDelay and longestDelay are the first and the longest delay between attempts to connect. jitter is the fraction by
	// which delays vary randomly.
	firstDelay   = time.Second
	longestDelay = 30 * time.Second
	jitter       = 0.2
	// opensAfter is the default number of consecutive failures that open the breaker, closesAfter the number of consecutive
	// successes that close a half-open one.
	opensAfter  = 5
	closesAfter = 2
	// allowedMisses is the number of consecutive unanswered pings after which a connection is still kept.
	allowedMisses = 1
)

// health is the status of a server and its circuit breaker. It has no clock: methods get the time as an argument.
type health struct {
	status  Status
	breaker CircuitBreaker
	// opensAfter is the number of consecutive failures after which the breaker opens.
	opensAfter int
	// fixed disables the growth of delays.
	fixed bool
	// login is set if a person must log in.
	login bool
	// missedPings counts consecutive unanswered pings.
	missedPings int
}

// newHealth returns the health of a server before the first attempt to connect.
func newHealth(policy *RetryPolicy) health {
	h := health{status: Degraded, opensAfter: opensAfter}
	h.breaker.State = BreakerClosed
	if policy != nil {
		const defaultAttempts = 3
		h.opensAfter = defaultAttempts
		if policy.MaxAttempts > 0 {
			h.opensAfter = policy.MaxAttempts
		}
		h.fixed = policy.Backoff == "fixed"
	}
	return h
}

// connected records a successful handshake; complete is set if no required capability is missing. An open breaker becomes half
// open.
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

// answered records an answer of a connected server.
func (h *health) answered() {
	h.missedPings = 0
	h.breaker.Successes++
	if h.breaker.State == BreakerClosed {
		h.breaker.Failures = 0
	}
	h.closeBreaker()
}

// closeBreaker closes a half-open breaker after enough successes.
func (h *health) closeBreaker() {
	if h.breaker.State == BreakerHalfOpen && h.breaker.Successes >= closesAfter {
		h.breaker.State, h.breaker.Failures = BreakerClosed, 0
	}
}

// unanswered records a ping without an answer, and reports whether to close the connection.
func (h *health) unanswered(now time.Time) bool {
	if h.missedPings++; h.missedPings <= allowedMisses {
		return false
	}
	h.failed(now)
	return true
}

// failed records that the server could not be connected, or that the connection was lost.
func (h *health) failed(now time.Time) {
	h.missedPings, h.login = 0, false
	h.breaker.Failures++
	h.breaker.Successes, h.breaker.LastFailure = 0, now
	h.status = Degraded
	if h.breaker.State != BreakerClosed || h.breaker.Failures >= h.opensAfter {
		h.status, h.breaker.State = Offline, BreakerOpen
	}
}

// loginRequired records that the server requires a login. It does not count as a failure and does not open the breaker.
func (h *health) loginRequired() { h.missedPings, h.login, h.status = 0, true, Degraded }

// hasFailed reports whether an attempt has failed since the last success.
func (h *health) hasFailed() bool { return h.login || h.breaker.Failures > 0 }

// delay returns how long to wait before the next attempt. random is in [0,1).
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

// randomFraction returns a random number in [0,1).
func randomFraction() float64 {
	return rand.Float64() //nolint:gosec // only spreads retries; need not be unpredictable
}
