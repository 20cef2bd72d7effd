package rest

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/traces"
	"github.com/orch-dev/orch/traces/otlp"
)

// TraceRequest asks for the spans of a task that have ended with revision From or later (1 is the first).
type TraceRequest struct {
	ID   events.TaskID `json:"id"`
	From uint64        `json:"from,omitempty"`
	// Limit is 1 to 1000 spans, which is the default. The spans of one revision are together.
	Limit int `json:"limit,omitempty"`
}

// Trace is a page of the spans of a task. It is also a request of OTLP in JSON, whose receivers ignore the other fields.
type Trace struct {
	// Trace is the id of the trace in hexadecimal.
	Trace string `json:"trace"`
	// Spans is the number of spans of the page.
	Spans int `json:"spans"`
	// Open is the number of spans that have not ended; 0 if the trace of the task is complete. Only the last page has it.
	Open *int `json:"open,omitempty"`
	// Next is the From of the following page; 0 in the last one.
	Next          uint64          `json:"next,omitempty"`
	ResourceSpans json.RawMessage `json:"resourceSpans"`
}

// maxSpans is the maximum number of spans of a page, and the default.
const maxSpans = 1000

// traceReader makes pages of spans from histories. It continues where it has ended a page, so that the pages of a long history together
// cost what one reading of it costs.
type traceReader struct {
	mu    sync.Mutex
	ended []*tracePage // the newest is the last
}

// maxEndedPages is the maximum number of pages that a traceReader can continue. A page keeps the open spans of its task.
const maxEndedPages = 16

// read is the action of the route.
func (t *traceReader) read(a api.API, ctx context.Context, r TraceRequest) (Trace, error) { //nolint:revive // as method expressions of api.API
	if r.Limit < 0 || r.Limit > maxSpans {
		return Trace{}, fault.New(fault.ValidationError, "must be between 1 and %d", maxSpans).WithField("limit")
	}
	status, err := a.Status(ctx, api.StatusRequest{})
	if err != nil {
		return Trace{}, err
	}
	p := t.begin(r)
	if err := p.read(ctx, a); err != nil {
		return Trace{}, err
	}
	out := Trace{Trace: p.fold.Trace().String(), Spans: len(p.spans), Next: p.next}
	if p.next == 0 {
		out.Open = new(p.fold.Open())
	}
	out.ResourceSpans, err = otlp.Source{Version: status.Version, Host: status.Host, Instance: status.Instance}.ResourceSpans(p.spans)
	t.end(p)
	return out, err
}

// begin returns the page that a request asks for: after the end of another one, or else from the beginning of the history.
func (t *traceReader) begin(r TraceRequest) *tracePage {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := &tracePage{task: r.ID, next: 1, fold: traces.NewFold(r.ID)}
	follows := func(e *tracePage) bool { return e.task == r.ID && e.next == r.From }
	if i := slices.IndexFunc(t.ended, follows); i >= 0 {
		p = t.ended[i]
		t.ended = slices.Delete(t.ended, i, i+1)
	}
	p.from, p.limit = r.From, cmp.Or(r.Limit, maxSpans)
	return p
}

// end keeps a page that others follow.
func (t *traceReader) end(p *tracePage) {
	if p.next == 0 {
		return
	}
	p.spans = nil
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = append(t.ended, p)
	if len(t.ended) > maxEndedPages {
		t.ended = slices.Delete(t.ended, 0, 1)
	}
}

// tracePage is a page of spans that is being read.
type tracePage struct {
	task  events.TaskID
	from  uint64
	limit int
	// fold has the history before the revision next, which is 0 at the end of the history.
	fold  *traces.Fold
	next  uint64
	spans []traces.Span
}

// read reads the history of the task to the end of the page.
func (p *tracePage) read(ctx context.Context, a api.API) error {
	for p.next > 0 {
		reply, err := a.History(ctx, api.HistoryRequest{ID: p.task, From: p.next})
		if err != nil {
			return err
		}
		for _, c := range reply.Commits {
			if len(p.spans) >= p.limit {
				p.next = c.Rev
				return nil
			}
			p.add(c)
		}
		p.next = reply.Next
	}
	return nil
}

// add adds the spans that have ended with a commit.
func (p *tracePage) add(c api.CommitView) {
	if ended := p.fold.Add(c.At, c.Actor, c.Events); c.Rev >= p.from {
		p.spans = append(p.spans, ended...)
	}
}
