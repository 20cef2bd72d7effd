package events

import (
	"bytes"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/orch-dev/orch/fault"
)

// writable is a payload with its own encoder, for the kinds that occur in nearly every commit. write appends exactly
// the bytes that encoding/json would produce.
type writable interface{ write(w *writer) }

// writer appends JSON to a buffer. After an error its content must not be used.
type writer struct {
	b   []byte
	err error
}

// writers contains the writers of commits that were encoded before.
var writers = sync.Pool{New: func() any { return &writer{b: make([]byte, 0, 1024)} }} // most commits fit

// release makes the writer available for the next commit, unless its buffer is large.
func (w *writer) release() {
	const large = 64 << 10
	if cap(w.b) <= large {
		w.b, w.err = w.b[:0], nil
		writers.Put(w)
	}
}

// payload writes the data of an event.
func (w *writer) payload(p Payload) {
	if own, ok := p.(writable); ok {
		w.b = append(w.b, '{')
		own.write(w)
		w.b = append(w.b, '}')
		return
	}
	w.any(p)
}

// any writes whatever encoding/json can encode.
func (w *writer) any(v any) {
	b := bytes.NewBuffer(w.b)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		w.fail(err)
		return
	}
	w.b = b.Bytes()[:b.Len()-1] // the encoder ends every value with a line break
}

func (w *writer) fail(err error) {
	if w.err == nil {
		w.err = fault.Wrap(fault.Internal, err, "an event cannot be encoded")
	}
}

// name writes the key of an object member.
func (w *writer) name(name string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(append(append(w.b, '"'), name...), `":`...)
}

func (w *writer) text(name, s string) {
	w.name(name)
	w.string(s)
}

// textIf writes a string member unless s is empty.
func (w *writer) textIf(name, s string) {
	if s != "" {
		w.text(name, s)
	}
}

// string writes s as JSON. Anything but plain ASCII goes through encoding/json.
func (w *writer) string(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			w.any(s)
			return
		}
	}
	w.b = append(append(append(w.b, '"'), s...), '"')
}

func (w *writer) number(name string, n int64) {
	w.name(name)
	w.b = strconv.AppendInt(w.b, n, 10)
}

// numberIf writes a number member unless n is 0.
func (w *writer) numberIf(name string, n int64) {
	if n != 0 {
		w.number(name, n)
	}
}

func (w *writer) time(name string, t time.Time) {
	w.name(name)
	text, err := t.MarshalText()
	if err != nil {
		w.fail(err)
		return
	}
	w.b = append(append(append(w.b, '"'), text...), '"')
}

// anyIf writes a member of any type if present is true.
func (w *writer) anyIf(name string, present bool, v any) {
	if present {
		w.name(name)
		w.any(v)
	}
}

func (w *writer) valueIf(name string, v Value) {
	if !v.IsZero() {
		w.value(name, v)
	}
}

func (w *writer) value(name string, v Value) {
	w.name(name)
	if v.IsZero() || v.Ref() != "" || looksLikeRef(v.Raw) {
		w.any(v)
		return
	}
	b := bytes.NewBuffer(w.b)
	if err := json.Compact(b, v.Raw); err != nil {
		w.fail(err)
		return
	}
	w.b = b.Bytes()
}

func (d *Submitted) write(w *writer) {
	w.text("name", d.Name)
	w.textIf("summary", d.Summary)
	w.value("plan", d.Plan)
	w.text("plan_sha256", d.PlanSHA256)
	w.valueIf("inputs", d.Inputs)
	w.anyIf("labels", len(d.Labels) > 0, d.Labels)
	w.text("priority", d.Priority)
	w.textIf("queue", d.Queue)
	w.textIf("idempotency_key", d.IdempotencyKey)
	w.textIf("key_scope", d.KeyScope)
	w.textIf("request", string(d.Request))
	w.textIf("request_sha256", d.RequestSHA256)
	w.anyIf("concurrency", d.Concurrency != nil, d.Concurrency)
	w.anyIf("parent", d.Parent != nil, d.Parent)
	w.anyIf("depends_on", len(d.DependsOn) > 0, d.DependsOn)
	w.anyIf("not_before", d.NotBefore != nil, d.NotBefore)
	w.anyIf("created", d.Created != nil, d.Created)
	w.anyIf("schedule", d.Schedule != nil, d.Schedule)
	w.anyIf("hook", d.Hook != nil, d.Hook)
	w.anyIf("deadline", d.Deadline != nil, d.Deadline)
	w.numberIf("max_steps", int64(d.MaxSteps))
	w.anyIf("tools", len(d.Tools) > 0, d.Tools)
	w.anyIf("allow", d.Allow != nil, d.Allow)
	w.anyIf("within", len(d.Within) > 0, d.Within)
	w.textIf("retry_of", string(d.RetryOf))
	w.textIf("fork_of", string(d.ForkOf))
	w.numberIf("fork_at", int64(d.ForkAt)) //nolint:gosec // revisions are far below 1<<63
	w.textIf("key_of", string(d.KeyOf))
	w.anyIf("client", d.Client != nil, d.Client)
	w.textIf("via", d.Via)
	w.textIf("traceparent", d.TraceParent)
	w.textIf("tracestate", d.TraceState)
	w.textIf("session", string(d.Session))
	w.anyIf("shares", d.Shares, d.Shares)
	w.textIf("writes", d.Writes)
	w.textIf("share", d.Share)
	w.textIf("root", d.Root)
	w.anyIf("limited", d.Limited, d.Limited)
	w.textIf("limit_key", d.LimitKey)
}

func (d *Moved) write(w *writer) {
	w.textIf("reason", d.Reason)
	w.textIf("block", d.Block)
	w.valueIf("output", d.Output)
	w.anyIf("error", d.Error != nil, d.Error)
}

func (d *Ready) write(w *writer) {
	w.text("step", d.Step)
	w.number("attempt", int64(d.Attempt))
	w.text("tool", d.Tool)
	w.valueIf("args", d.Args)
	w.text("effect", d.Effect)
	w.textIf("queue", d.Queue)
	w.numberIf("timeout", int64(d.Timeout))
	w.textIf("purpose", d.Purpose)
	w.textIf("approval", d.Approval)
	w.textIf("by", d.By)
	w.anyIf("for", d.For != nil, d.For)
}

func (d *Called) write(w *writer) {
	w.text("step", d.Step)
	w.number("attempt", int64(d.Attempt))
	w.text("worker", d.Worker)
	w.time("at", d.At)
	w.textIf("effect", d.Effect)
	w.numberIf("timeout", int64(d.Timeout))
}

func (d *Succeeded) write(w *writer) {
	w.text("step", d.Step)
	w.numberIf("attempt", int64(d.Attempt))
	w.valueIf("output", d.Output)
	w.numberIf("duration", int64(d.Duration))
	w.numberIf("calls", int64(d.Calls))
}
