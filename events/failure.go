package events

import (
	"time"

	"github.com/orch-dev/orch/fault"
)

// This file holds the payloads about calls that failed, or may have failed.

// StepError is the data of step.failed: no further attempt follows.
type StepError struct {
	Step     string        `json:"step"`
	Attempt  int           `json:"attempt,omitempty"`
	Error    *fault.Error  `json:"error"`
	Class    string        `json:"class,omitempty"`
	Duration time.Duration `json:"duration,omitempty"`
	// Tool, Args and Purpose are set for a call that was denied before its step.ready, which would have recorded them.
	Tool    string `json:"tool,omitempty"`
	Args    Value  `json:"args,omitzero"`
	Purpose string `json:"purpose,omitempty"`
	// Calls is how many calls a part of a for_each has made.
	Calls int `json:"calls,omitempty"`
	// Output is the result of a call that the plan did not expect.
	Output Value `json:"output,omitzero"`
}

// Retrying is the data of step.retrying: this attempt failed, or its result does not yet satisfy the plan. The next
// attempt starts at At.
type Retrying struct {
	Step    string `json:"step"`
	Attempt int    `json:"attempt"`
	// Counts is false when the attempt does not count against the retry limit (the worker was shut down).
	Counts   bool          `json:"counts"`
	Error    *fault.Error  `json:"error,omitempty"`
	Class    string        `json:"class,omitempty"`
	Duration time.Duration `json:"duration,omitempty"`
	At       time.Time     `json:"at"`
	// For selects the agents to which the previous agent handed the call.
	For *Agents `json:"for,omitempty"`
	// Handed is the data that the previous agent passes to them.
	Handed Value `json:"handed,omitzero"`
	// KeepsGrant is true when the next attempt may use the grant of this attempt, because the outcome of this attempt
	// is known.
	KeepsGrant bool `json:"keeps_grant,omitempty"`
	// Round counts, from 1, the results that did not satisfy the plan; it is 0 when the attempt failed. Output is the
	// result of this round, or of a call that the plan did not expect.
	Round  int   `json:"round,omitempty"`
	Output Value `json:"output,omitzero"`
}

// InDoubt is the data of step.in_doubt: a call with effects started, and its outcome is unknown.
type InDoubt struct {
	Step    string `json:"step"`
	Attempt int    `json:"attempt"`
	Reason  string `json:"reason"`
	// DropsNote is true when the outside operation that the call started can no longer be found. The note of the call
	// is dropped.
	DropsNote bool `json:"gone,omitempty"`
	// Until is the time up to which the call may still be running, because nobody has reported its end. It is zero when
	// the call has ended.
	Until time.Time `json:"until,omitzero"`
}

// Resolved is the data of step.resolved: a person or the verify tool decided whether a call in doubt happened.
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
