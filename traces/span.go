// Package traces derives the spans of a distributed trace from the history of a task. The same history always gives the same spans, with
// the same ids, so a run can be traced after it has ended, and once more if a collector has lost it.
package traces

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// TraceID identifies a trace in OpenTelemetry and in W3C Trace Context.
type TraceID [16]byte

// String returns the id in hexadecimal.
func (t TraceID) String() string { return hex.EncodeToString(t[:]) }

// SpanID identifies a span of a trace. The zero id stands for no span.
type SpanID [8]byte

// String returns the id in hexadecimal; "" for no span.
func (s SpanID) String() string {
	if s == (SpanID{}) {
		return ""
	}
	return hex.EncodeToString(s[:])
}

// Of returns the trace of a task without a parent and of all its descendants: the 16 bytes of the ULID in the id of the task.
func Of(root events.TaskID) (TraceID, error) {
	_, text, _ := strings.Cut(string(root), "_")
	id, err := ulid.ParseStrict(text)
	if err != nil {
		return TraceID{}, fault.New(fault.InvalidFormat, "%q is not the id of a task", string(root))
	}
	return TraceID(id), nil
}

// Kind is the relation of a span to what is around it.
type Kind int

// The kinds, with the numbers of OpenTelemetry.
const (
	Internal Kind = 1
	Client   Kind = 3
)

// Span is a piece of work of a task: the task, a step, an attempt of its call, an approval, or a request to a model.
type Span struct {
	Trace TraceID
	// State is the tracestate of the trace; "" for none.
	State      string
	ID, Parent SpanID
	Name       string
	Kind       Kind
	Start, End time.Time
	Attributes []Attribute
	// Events are the newest events, at most 128, and Dropped is the number of older ones.
	Events  []Event
	Dropped int
	// Links are spans of the same trace that made this one possible, such as the approval of a call.
	Links []SpanID
	// Failed is set if the work has failed, and Message says why.
	Failed  bool
	Message string
}

// Attribute describes a span or an event. Value is a string, an int64 or a bool.
type Attribute struct {
	Key   string
	Value any
}

// Event is something that happened at one time during a span.
type Event struct {
	At         time.Time
	Name       string
	Attributes []Attribute
}

// set adds an attribute, unless its value is empty.
func (s *Span) set(key string, value any) {
	switch v := value.(type) {
	case int:
		value = int64(v)
	case string:
		if v == "" {
			return
		}
	}
	if value != int64(0) && value != false {
		s.Attributes = append(s.Attributes, Attribute{key, value})
	}
}

// maxEvents is the number of events of a span, which is the limit of the SDKs of OpenTelemetry.
const maxEvents = 128

// note adds an event. The oldest ones give way: the newest say how it ended.
func (s *Span) note(at time.Time, name string, attributes ...Attribute) {
	if len(s.Events) == maxEvents {
		s.Events = slices.Delete(s.Events, 0, 1)
		s.Dropped++
	}
	s.Events = append(s.Events, Event{at, name, attributes})
}

// fail marks the span as failed.
func (s *Span) fail(err *fault.Error) {
	s.Failed = true
	if err != nil {
		s.Message = err.Message
		s.set("error.type", string(err.Code))
	}
}

// The parts of a task that have spans of their own.
const (
	ofTask     = "task"
	ofStep     = "step"
	ofAttempt  = "attempt"
	ofApproval = "approval"
	ofTurn     = "turn"
)

// idOf returns the id of the span of a part of a task.
func idOf(task events.TaskID, part, key string, n int) (id SpanID) {
	sum := sha256.Sum256([]byte(strings.Join([]string{string(task), part, key, strconv.Itoa(n)}, "\x00")))
	copy(id[:], sum[:])
	return id
}
