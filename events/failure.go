package events

import (
	"time"

	"github.com/orch-dev/orch/fault"
)

// This file holds what is said of calls that went wrong, or may have.

// StepError is the data of step.failed: the last word on the step.
type StepError struct {
	Step     string        `json:"step"`
	Attempt  int           `json:"attempt,omitempty"`
	Error    *fault.Error  `json:"error"`
	Class    string        `json:"class,omitempty"`
	Duration time.Duration `json:"duration,omitempty"`
	// Tool, Args and Purpose are those of a call that was denied before it was ready; no step.ready says them.
	Tool    string `json:"tool,omitempty"`
	Args    Value  `json:"args,omitzero"`
	Purpose string `json:"purpose,omitempty"`
}

// Retrying is the data of step.retrying: this attempt failed, or its result is not yet what the plan waits for; the next one
// begins at At.
type Retrying struct {
	Step    string `json:"step"`
	Attempt int    `json:"attempt"`
	// Counts is false when the attempt is not to be counted against the limit (worker shut down).
	Counts   bool          `json:"counts"`
	Error    *fault.Error  `json:"error,omitempty"`
	Class    string        `json:"class,omitempty"`
	Duration time.Duration `json:"duration,omitempty"`
	At       time.Time     `json:"at"`
	// For are the agents that the one that had the call has handed it to.
	For *Agents `json:"for,omitempty"`
	// Handed is what it hands over to them.
	Handed Value `json:"handed,omitzero"`
	// KeepsGrant is true when the grant of this attempt lets the next one through: it is known how this one ended.
	KeepsGrant bool `json:"keeps_grant,omitempty"`
	// Round counts, from 1, the results that were not what the plan waits for, and Output is this one; 0 when the attempt failed.
	Round  int   `json:"round,omitempty"`
	Output Value `json:"output,omitzero"`
}

// InDoubt is the data of step.in_doubt: a call with effects began, its end is unknown.
type InDoubt struct {
	Step    string `json:"step"`
	Attempt int    `json:"attempt"`
	Reason  string `json:"reason"`
	// Gone is true when what the call has begun elsewhere cannot be found any more: its note is dropped.
	Gone bool `json:"gone,omitempty"`
	// Until is until when the call may still run, because nobody has heard of its end; zero when it has ended.
	Until time.Time `json:"until,omitzero"`
}

// Resolved is the data of step.resolved: a person or the verify tool decided about an in-doubt call.
type Resolved struct {
	Step string `json:"step"`
	// As is succeeded, failed or retry.
	As     string `json:"as"`
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
	Output Value  `json:"output,omitzero"`
}

func (*StepError) payload() {}
func (*Retrying) payload()  {}
func (*InDoubt) payload()   {}
func (*Resolved) payload()  {}
