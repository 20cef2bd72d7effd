package traces

import (
	"encoding/hex"
	"strings"

	"github.com/orch-dev/orch/events"
)

// Context is a position in a trace, as W3C Trace Context hands it from one program to the next.
type Context struct {
	Trace TraceID
	Span  SpanID
	// Unsampled is set if the program that began the trace records none of it.
	Unsampled bool
}

// unsampled are the flags of a trace that nobody records, and sampled those of others.
const unsampled, sampled = "-00", "-01"

// ParseContext reads the value of a traceparent. It accepts later versions than 00, as far as version 00 defines them.
func ParseContext(text string) (c Context, ok bool) {
	parts := strings.Split(text, "-")
	if len(parts) < 4 || len(parts) > 4 && parts[0] == "00" {
		return Context{}, false
	}
	var version, flags [1]byte
	for i, field := range [][]byte{version[:], c.Trace[:], c.Span[:], flags[:]} {
		if !decodeHex(field, parts[i]) {
			return Context{}, false
		}
	}
	c.Unsampled = flags[0]&1 == 0
	return c, version[0] != 0xff && c.Trace != TraceID{} && c.Span != SpanID{}
}

// IsContext reports whether a text is the value of a traceparent. Programs ignore others, since a trace matters less than what it is
// of.
func IsContext(text string) bool {
	_, ok := ParseContext(text)
	return ok
}

// decodeHex reads as many bytes as the field has, in lower case.
func decodeHex(field []byte, text string) bool {
	if len(text) != 2*len(field) || text != strings.ToLower(text) {
		return false
	}
	_, err := hex.Decode(field, []byte(text))
	return err == nil
}

// String returns the value of a traceparent.
func (c Context) String() string {
	flags := sampled
	if c.Unsampled {
		flags = unsampled
	}
	return "00-" + c.Trace.String() + "-" + hex.EncodeToString(c.Span[:]) + flags
}

// parseTrace reads a trace as Below writes it.
func parseTrace(text string) (t TraceID, isUnsampled, ok bool) {
	id, isUnsampled := strings.CutSuffix(text, unsampled)
	ok = decodeHex(t[:], id)
	return t, isUnsampled, ok
}

// isUnsampled reports whether the caller of the topmost task of a task does not record the trace.
func isUnsampled(d *events.Submitted) bool {
	if p := d.Parent; p != nil {
		_, is, ok := parseTrace(p.Trace)
		return is && ok
	}
	c, ok := ParseContext(d.TraceParent)
	return c.Unsampled && ok
}

// OfTask returns the trace of a task: that of the caller of its topmost task, or else that of the topmost task (see Of).
func OfTask(id events.TaskID, d *events.Submitted) (TraceID, error) {
	if p := d.Parent; p != nil {
		if t, _, ok := parseTrace(p.Trace); ok {
			return t, nil
		}
		return Of(p.Task)
	}
	if c, ok := ParseContext(d.TraceParent); ok {
		return c.Trace, nil
	}
	return Of(id)
}

// Below returns the value of Parent.Trace for the children of a task: the trace, with -00 behind it if its beginner does not record it. It
// is empty if their trace follows from the id of the task.
func Below(id events.TaskID, d *events.Submitted) string {
	if d.Parent == nil && d.TraceParent == "" {
		return "" // most tasks; this runs for each call
	}
	t, err := OfTask(id, d)
	if err == nil && isUnsampled(d) {
		return t.String() + unsampled
	}
	if own, _ := Of(id); err != nil || t == own {
		return ""
	}
	return t.String()
}

// OfCall returns the position of an attempt of a call, which the programs that it asks may continue. trace is the trace of the task
// as Below returns it; "" for the one that follows from its id.
func OfCall(trace string, task events.TaskID, step string, attempt int) (Context, error) {
	c := Context{Span: idOf(task, ofAttempt, step, attempt)}
	var err error
	if id, is, ok := parseTrace(trace); ok {
		c.Trace, c.Unsampled = id, is
		return c, nil
	}
	c.Trace, err = Of(task)
	return c, err
}
