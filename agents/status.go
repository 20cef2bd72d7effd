package agents

import (
	"time"

	"github.com/orch-dev/orch/work"
)

// Status is how an agent is (M-2).
type Status string

// The statuses. An earlier one goes before a later one when both would do, but Active and Idle, which exclude each
// other.
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
	// OfflineAfter is how long an agent may be silent (M-2).
	OfflineAfter = work.AgentLease
	// maxStreak is how many failures in a row are an error.
	maxStreak = 5
)

// Load is what the status of an agent follows from.
type Load struct {
	// Silence is how long ago the agent was heard of.
	Silence time.Duration
	// Failing is true when the agent has reported an error, Streak counts its failures since the last success.
	Failing bool
	Streak  int
	// Current counts its calls, Max is how many it takes.
	Current, Max int
}

// Status derives the status (M-2).
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
