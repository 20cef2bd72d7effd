// Package stats counts the outcomes of tool calls, per tool and per worker. It uses only the events of the log.
//
// The count is a pure fold (Ended, Table). A Projection holds the table in memory and receives every commit after the
// log has acknowledged it. A Projector writes snapshots of the projection and, after a restart, reads the commits after
// the newest snapshot. Every position of the log is counted once, however often its commit is received (S3-007,
// S3-102).
package stats

import (
	"maps"
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// Call is one finished attempt of a call.
type Call struct {
	Tool string
	// Worker is the worker that ran it; empty if the attempt did not start.
	Worker string
	// At is the time of the commit, Took the duration of the attempt.
	At   time.Time
	Took time.Duration
	// Code is the error code; empty for a success.
	Code fault.Code
}

// Ended returns the attempt that an event ends, or false. t is the task before the event, at the time of its commit.
func Ended(t *statemachine.Task, at time.Time, e events.Event) (Call, bool) {
	c := Call{At: at}
	var step, class string
	switch d := e.Data.(type) {
	case *events.Succeeded:
		step, c.Took = d.Step, d.Duration
	case *events.StepError:
		if d.Class == fault.ClassExpired { // it never started
			return Call{}, false
		}
		step, class, c.Took, c.Code = d.Step, d.Class, d.Duration, codeOf(d.Error)
	case *events.Retrying:
		if slices.Contains([]string{fault.ClassShutdown, fault.ClassHandoff, fault.ClassExpired}, d.Class) { // not a result of the tool or the worker
			return Call{}, false
		}
		step, class, c.Took = d.Step, d.Class, d.Duration
		if d.Round == 0 {
			c.Code = codeOf(d.Error)
		}
	case *events.InDoubt:
		step, c.Code = d.Step, fault.InDoubt
	default:
		return Call{}, false
	}
	s := t.Steps[step]
	if s == nil || s.Tool == "" || !hasOpenCall(s.State) {
		return Call{}, false
	}
	c.Tool, c.Worker = s.Tool, s.Worker
	if isRefused(class) {
		c.Worker = ""
	}
	return c, true
}

// hasOpenCall reports whether a step in state s has an attempt that was not counted yet.
func hasOpenCall(s statemachine.StepState) bool {
	return s == statemachine.StepReady || s == statemachine.StepRunning || s == statemachine.StepParked
}

// isRefused reports whether a call failed before its worker could start it.
func isRefused(class string) bool {
	return class == fault.ClassDenied || class == fault.ClassInvalidArgs
}

func codeOf(err *fault.Error) fault.Code {
	if err == nil {
		return fault.Internal
	}
	return err.Code
}

// Counter counts the calls of one tool or one worker.
type Counter struct {
	// Count is the number of finished attempts, Successes the number of successful attempts.
	Count     uint64 `json:"count"`
	Successes uint64 `json:"successes"`
	// Errors counts failed attempts by code.
	Errors map[fault.Code]uint64 `json:"errors,omitempty"`
	// Took is the total duration of all attempts.
	Took time.Duration `json:"took"`
	// LastUsed is the end of the newest attempt.
	LastUsed time.Time `json:"last_used"`
	// Failing counts the failures since the last success.
	Failing uint64 `json:"failing,omitempty"`
}

// Rate returns the share of successes, from 0 to 1. It returns false without calls.
func (c Counter) Rate() (float64, bool) {
	if c.Count == 0 {
		return 0, false
	}
	return float64(c.Successes) / float64(c.Count), true
}

// Mean returns the average duration of a call; 0 without calls.
func (c Counter) Mean() time.Duration {
	if c.Count == 0 {
		return 0
	}
	return c.Took / time.Duration(c.Count) //nolint:gosec // nobody counts that far
}

func (c *Counter) add(call Call) {
	c.Count++
	c.Took += max(call.Took, 0)
	if call.At.After(c.LastUsed) {
		c.LastUsed = call.At
	}
	if call.Code == "" {
		c.Successes++
		c.Failing = 0
		return
	}
	c.Failing++
	if c.Errors == nil {
		c.Errors = map[fault.Code]uint64{}
	}
	c.Errors[call.Code]++
}

func (c *Counter) clone() Counter {
	copied := *c
	copied.Errors = maps.Clone(c.Errors)
	return copied
}

// MaxNames bounds the tools, and the workers, in a table: external MCP servers add and rename tools, and every process
// has its own worker name. The least recently used name is evicted first.
const MaxNames = 500

// Table is the fold of calls. The zero value is empty.
type Table struct {
	Tools   map[string]*Counter `json:"tools,omitempty"`
	Workers map[string]*Counter `json:"workers,omitempty"`
}

// Add counts a call.
func (t *Table) Add(c Call) {
	count(&t.Tools, c.Tool, c)
	if c.Worker != "" {
		count(&t.Workers, c.Worker, c)
	}
}

func count(in *map[string]*Counter, name string, c Call) {
	if *in == nil {
		*in = map[string]*Counter{}
	}
	counter := (*in)[name]
	if counter == nil {
		if len(*in) >= MaxNames {
			delete(*in, leastRecentlyUsed(*in))
		}
		counter = &Counter{}
		(*in)[name] = counter
	}
	counter.add(c)
}

// leastRecentlyUsed returns the least recently used name; of several names, the first in alphabetical order.
func leastRecentlyUsed(all map[string]*Counter) string {
	found := ""
	for name, c := range all {
		if f := all[found]; f == nil || c.LastUsed.Before(f.LastUsed) || c.LastUsed.Equal(f.LastUsed) && name < found {
			found = name
		}
	}
	return found
}

// Clone returns a deep copy of t.
func (t *Table) Clone() Table {
	return Table{Tools: cloned(t.Tools), Workers: cloned(t.Workers)}
}

func cloned(all map[string]*Counter) map[string]*Counter {
	copied := make(map[string]*Counter, len(all))
	for name, c := range all {
		copied[name] = new(c.clone())
	}
	return copied
}
