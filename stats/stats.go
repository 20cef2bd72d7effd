// Package stats counts how the calls of tools ended: per tool and per worker, from the events of the log alone.
//
// The counting is a pure fold (Ended, Table). A Projection holds the table in memory and is fed with every commit
// once the log has acknowledged it; a Projector writes snapshots of it and, after a restart, reads the commits that the
// snapshot does not know. Every position of the log is counted once, however often it is offered (S3-007, S3-102).
package stats

import (
	"maps"
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// Call is one attempt of a call that has come to its end.
type Call struct {
	Tool string
	// Worker is who ran it; empty when nobody had begun.
	Worker string
	// At is the time of the commit, Took how long the attempt ran.
	At   time.Time
	Took time.Duration
	// Code is why it failed, empty for a success.
	Code fault.Code
}

// Ended returns the end of a call that an event tells of; false when it tells of none. t is the task before the event,
// at the time of its commit.
func Ended(t *statemachine.Task, at time.Time, e events.Event) (Call, bool) {
	c := Call{At: at}
	var step, class string
	switch d := e.Data.(type) {
	case *events.Succeeded:
		step, c.Took = d.Step, d.Duration
	case *events.StepError:
		if d.Class == fault.ClassExpired { // nobody has begun it
			return Call{}, false
		}
		step, class, c.Took, c.Code = d.Step, d.Class, d.Duration, codeOf(d.Error)
	case *events.Retrying:
		if slices.Contains([]string{fault.ClassShutdown, fault.ClassHandoff, fault.ClassExpired}, d.Class) { // it says nothing about the tool, nor about who had the call
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
	if s == nil || s.Tool == "" || !underWay(s.State) {
		return Call{}, false
	}
	c.Tool, c.Worker = s.Tool, s.Worker
	if refused(class) {
		c.Worker = ""
	}
	return c, true
}

// underWay reports whether a step in the state has a call that may end: one whose last attempt was counted has not.
func underWay(s statemachine.StepState) bool {
	return s == statemachine.StepReady || s == statemachine.StepRunning || s == statemachine.StepParked
}

// refused reports whether a call failed before whoever had it could do anything.
func refused(class string) bool { return class == fault.ClassDenied || class == fault.ClassInvalidArgs }

func codeOf(err *fault.Error) fault.Code {
	if err == nil {
		return fault.Internal
	}
	return err.Code
}

// Counter is what is known of the calls of one tool, or of one worker.
type Counter struct {
	// Count is the number of attempts that have ended, Successes those that ended well.
	Count     uint64 `json:"count"`
	Successes uint64 `json:"successes"`
	// Errors counts the others by their code.
	Errors map[fault.Code]uint64 `json:"errors,omitempty"`
	// Took is the time of all of them together.
	Took time.Duration `json:"took"`
	// LastUsed is when the newest one ended.
	LastUsed time.Time `json:"last_used"`
	// Failing counts those that failed since the last success.
	Failing uint64 `json:"failing,omitempty"`
}

// Rate is the share of successes, from 0 to 1; false when there was no call.
func (c Counter) Rate() (float64, bool) {
	if c.Count == 0 {
		return 0, false
	}
	return float64(c.Successes) / float64(c.Count), true
}

// Mean is the time of a call on average; 0 when there was none.
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

// MaxNames bounds the tools, and the workers, that a table keeps: outside tools come and go, and every process has a
// worker of its own name. The one that was used least recently goes first.
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
			delete(*in, oldest(*in))
		}
		counter = &Counter{}
		(*in)[name] = counter
	}
	counter.add(c)
}

// oldest is the name that was used least recently, and of several the first.
func oldest(all map[string]*Counter) string {
	found := ""
	for name, c := range all {
		if f := all[found]; f == nil || c.LastUsed.Before(f.LastUsed) || c.LastUsed.Equal(f.LastUsed) && name < found {
			found = name
		}
	}
	return found
}

// Clone returns a copy that shares nothing with t.
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
