package agents

import (
	"time"

	"github.com/orch-dev/orch/work"
)

// Status is the status of an agent (M-2).
type Status string

// The statuses, in order of precedence: if several apply, the first one counts. Active and Idle exclude each other.
const (
	Offline Status = "offline"
	Error   Status = "error"
	Busy    Status = "busy"
	Active  Status = "active"
	Idle    Status = "idle"
)

const (
	// Interval is the time between two heartbeats of an agent (M-2).
	Interval = 30 * time.Second
	// OfflineAfter is how long an agent without requests counts as online (M-2).
	OfflineAfter = work.AgentLease
	// maxStreak is the number of consecutive failures that makes the status Error.
	maxStreak = 5
)

// Load is the input from which the status of an agent is derived.
type Load struct {
	// Silence is the time since the agent's last request.
	Silence time.Duration
	// Failing is true when the agent has reported an error, Streak counts its failures since the last success.
	Failing bool
	Streak  int
	// Current counts its calls, Max is how many it can have.
	Current, Max int
}

// Status returns the status (M-2).
func (l Load) Status() Status {
	switch {
	case l.Silence >= OfflineAfter:
		return Offline
	case l.Failing || l.Streak >= maxStreak:
		return Error
	case l.Current >= l.Max:
		return Busy
	case l.Current > 0:
		return Active
	default:
		return Idle
	}
}
