package rest

import (
	"context"
	"encoding/json"

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

// readTrace makes the spans of a task from its history.
func readTrace(a api.API, ctx context.Context, r TraceRequest) (Trace, error) { //nolint:revive // as method expressions of api.API
	if r.Limit < 0 || r.Limit > maxSpans {
		return Trace{}, fault.New(fault.ValidationError, "must be between 1 and %d", maxSpans).WithField("limit")
	}
	status, err := a.Status(ctx, api.StatusRequest{})
	if err != nil {
		return Trace{}, err
	}
	p := &tracePage{from: r.From, limit: r.Limit, fold: traces.NewFold(r.ID)}
	if p.limit == 0 {
		p.limit = maxSpans
	}
	if err := p.read(ctx, a, r.ID); err != nil {
		return Trace{}, err
	}
	out := Trace{Trace: p.fold.Trace().String(), Spans: len(p.spans), Next: p.next}
	if p.next == 0 {
		out.Open = new(p.fold.Open())
	}
	out.ResourceSpans, err = otlp.Source{Version: status.Version, Host: status.Host, Instance: status.Instance}.ResourceSpans(p.spans)
	return out, err
}

// tracePage is a page of spans that is being read.
type tracePage struct {
	from  uint64
	limit int
	fold  *traces.Fold
	spans []traces.Span
	// next is the first revision that did not fit.
	next uint64
}

// read reads the history of a task from its beginning to the end of the page.
func (p *tracePage) read(ctx context.Context, a api.API, id events.TaskID) error {
	for request := (api.HistoryRequest{ID: id, From: 1}); request.From > 0; {
		reply, err := a.History(ctx, request)
		if err != nil {
			return err
		}
		for _, c := range reply.Commits {
			if !p.add(c) {
				return nil
			}
		}
		request.From = reply.Next
	}
	return nil
}

// add adds the spans that have ended with a commit; false if the page is full.
func (p *tracePage) add(c api.CommitView) bool {
	if len(p.spans) >= p.limit {
		p.next = c.Rev
		return false
	}
	if ended := p.fold.Add(c.At, c.Actor, c.Events); c.Rev >= p.from {
		p.spans = append(p.spans, ended...)
	}
	return true
}
