package plan

import (
	"math"
	"slices"
	"time"

	"github.com/orch-dev/orch/fault"
)

// The defaults of a retry block, and of the automatic retries of a step without one.
const (
	defaultAttempts = 3
	defaultInitial  = Duration(time.Second)
	defaultMax      = Duration(time.Minute)
	defaultFactor   = 2.0
	defaultJitter   = 0.2
	maxAttempts     = 100
)

// Retry decides when and how often a failed call is retried.
//
// Without a retry block (nil), a call that never reached its tool or whose answer was lost (transport, heartbeat_lost,
// worker_lost) has up to 3 attempts if its effect is read or idempotent. A rate_limited call has up to 3 attempts
// whatever its effect. Any other failure is not retried. In particular a timeout is not, because without a retry block
// the timeout limits the whole step.
//
// With a block, each attempt has the timeout of the step. On lists the classes to retry; empty means all except those
// that another attempt cannot fix (denied, expired, invalid_args, tool_not_found, budget). NotOn excludes classes. A
// call with effect write or destructive is never repeated when it is unknown whether it happened: declare `effect:
// idempotent` if repeating it is harmless. When restricts the rule further; see [Node.RetryWhen].
type Retry struct {
	MaxAttempts int      `json:"max_attempts"` // the first one included; default 3
	Initial     Duration `json:"initial"`      // delay after the first attempt; default 1s
	Max         Duration `json:"max"`          // longest delay; default 1m
	Factor      float64  `json:"factor"`       // growth of the delay; default 2
	Jitter      float64  `json:"jitter"`       // share of the delay that is random, 0 to 1; default 0.2
	On          []string `json:"on,omitempty"`
	NotOn       []string `json:"not_on,omitempty"`
	When        string   `json:"when,omitempty"` // bare expression over `error`, `output` and `attempt`
}

func retryClasses() []string {
	return []string{
		fault.ClassTimeout, fault.ClassTransport, fault.ClassToolError, fault.ClassUnexpected, fault.ClassRateLimited, fault.ClassHeartbeatLost, fault.ClassWorkerLost,
		fault.ClassDenied, fault.ClassExpired, fault.ClassInvalidArgs, fault.ClassToolNotFound, fault.ClassBudget,
		fault.ClassChild,
	}
}

// LeavesDoubt reports whether it is unknown, after a failure of the class, whether the call happened.
func LeavesDoubt(class string) bool {
	return slices.Contains([]string{fault.ClassTimeout, fault.ClassTransport, fault.ClassHeartbeatLost, fault.ClassWorkerLost}, class)
}

// isPermanent reports whether another attempt would fail in the same way.
func isPermanent(class string) bool {
	return slices.Contains([]string{fault.ClassDenied, fault.ClassExpired, fault.ClassInvalidArgs, fault.ClassToolNotFound, fault.ClassBudget}, class)
}

func repeatable(e Effect) bool { return e == EffectRead || e == EffectIdempotent }

// Allows reports whether a call is retried after attempt number attempt (from 1) failed with class.
func (r *Retry) Allows(class string, attempt int, effect Effect) bool {
	if LeavesDoubt(class) && !repeatable(effect) {
		return false
	}
	if r == nil {
		return attempt < defaultAttempts && class != fault.ClassTimeout && (LeavesDoubt(class) || class == fault.ClassRateLimited)
	}
	if attempt >= r.MaxAttempts || slices.Contains(r.NotOn, class) {
		return false
	}
	if len(r.On) > 0 {
		return slices.Contains(r.On, class)
	}
	return !isPermanent(class)
}

// Delay returns how long to wait after attempt number attempt (from 1). rnd is a random number in [0,1) that reduces
// the delay by up to the share Jitter.
func (r *Retry) Delay(attempt int, rnd float64) time.Duration {
	if r == nil {
		r = newRetry()
	}
	delay := float64(r.Initial) * math.Pow(r.Factor, float64(max(attempt, 1)-1))
	delay = min(delay, float64(r.Max))
	return time.Duration(delay * (1 - r.Jitter*rnd))
}

// NewRetry returns a rule with a number of attempts, an initial delay, and defaults for the rest.
func NewRetry(attempts int, initial time.Duration) *Retry {
	r := newRetry()
	r.MaxAttempts, r.Initial, r.Max = attempts, Duration(initial), max(r.Max, Duration(initial))
	return r
}

func newRetry() *Retry {
	return &Retry{
		MaxAttempts: defaultAttempts, Initial: defaultInitial, Max: defaultMax,
		Factor: defaultFactor, Jitter: defaultJitter,
	}
}
