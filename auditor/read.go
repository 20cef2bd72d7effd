package auditor

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/audit"
	"github.com/orch-dev/orch/fault"
)

var _ api.Audits = (*Stream)(nil)

const (
	// chunk is the number of entries that are read at once: few at first, because most readers want the newest, then largeChunk.
	chunk, largeChunk = 1000, 8000
	// maxPage is the size in bytes from which a page of entries takes no further one.
	maxPage = 512 << 10
)

// Audit implements api.Audits.
func (s *Stream) Audit(ctx context.Context, r api.AuditRequest) (api.AuditReply, error) {
	if r.Limit < 0 || r.Limit > api.MaxActs {
		return api.AuditReply{}, fault.New(fault.ValidationError, "must be between 1 and %d", api.MaxActs).WithField("limit")
	}
	for _, o := range r.Outcome {
		if !slices.Contains(audit.Outcomes(), o) {
			return api.AuditReply{}, fault.New(fault.ValidationError, "must be done, refused, failed or unknown").WithField("outcome")
		}
	}
	if r.Limit == 0 {
		r.Limit = api.DefaultActs
	}
	s.settle(ctx)
	j, err := s.open(ctx)
	if err != nil || j == nil {
		return api.AuditReply{Acts: []audit.View{}}, err
	}
	begin, err := anchor(ctx, j)
	if err != nil {
		return api.AuditReply{}, err
	}
	last, err := j.Last(ctx)
	if err != nil {
		return api.AuditReply{}, err
	}
	if r.Before == 0 || r.Before > last+1 {
		r.Before = last + 1
	}
	search := search{journal: j, request: r, first: begin.First, last: last, results: map[uint64]*audit.Entry{}}
	return search.run(ctx)
}

// search looks for acts from the newest entry to the oldest.
type search struct {
	journal     Journal
	request     api.AuditRequest
	first, last uint64
	// results are the results that were read, by the number of the entry with which their acts began.
	results map[uint64]*audit.Entry
	// found are the acts, the newest first.
	found []audit.View
}

func (q *search) run(ctx context.Context) (api.AuditReply, error) {
	end := q.request.Before // exclusive
	if end <= q.last {      // the results of the newest acts may be among the entries that follow
		if _, err := q.read(ctx, end, q.lookAhead()); err != nil {
			return api.AuditReply{}, err
		}
	}
	for size := uint64(chunk); end > q.first && len(q.found) <= q.request.Limit; size = largeChunk {
		from := max(q.first, end-min(end, size))
		entries, err := q.read(ctx, from, end)
		if err != nil {
			return api.AuditReply{}, err
		}
		if q.collect(entries) {
			break
		}
		end = from
	}
	reply := api.AuditReply{Acts: []audit.View{}}
	if len(q.found) > q.request.Limit {
		q.found = q.found[:q.request.Limit]
		reply.Next = q.found[len(q.found)-1].Number
	}
	slices.Reverse(q.found)
	reply.Acts = append(reply.Acts, q.found...)
	return reply, q.complete(ctx, reply.Acts)
}

// lookAhead returns the end of the entries after the page whose results are read before it: a chunk of them, or all if the request
// selects acts by their outcome.
func (q *search) lookAhead() uint64 {
	if len(q.request.Outcome) > 0 {
		return q.last + 1
	}
	return min(q.request.Before+chunk, q.last+1)
}

// clockSlack is how far clocks may have been set back while entries were written.
const clockSlack = 24 * time.Hour

// collect adds the acts that the request selects, the newest first. It returns true if all older ones are too old.
func (q *search) collect(entries []*audit.Entry) (over bool) {
	since := q.request.Since
	over = !since.IsZero()
	for _, e := range slices.Backward(entries) {
		over = over && e.At.Before(since.Add(-clockSlack))
		if e.Of != 0 || len(q.found) > q.request.Limit {
			continue
		}
		if v := audit.ViewOf(e, q.results[e.Number]); q.request.Matches(v) {
			q.found = append(q.found, v)
		}
	}
	return over
}

// read returns the entries from one number up to another, exclusive, and notes the results among them.
func (q *search) read(ctx context.Context, from, end uint64) ([]*audit.Entry, error) {
	var entries []*audit.Entry
	err := q.journal.Read(ctx, from-1, func(position uint64, data []byte) error {
		if position >= end {
			return errStop
		}
		e, err := audit.Decode(data)
		if err != nil {
			return err
		}
		if e.Of != 0 {
			q.results[e.Of] = &e
		}
		entries = append(entries, &e)
		return nil
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return entries, err
}

// complete looks for the results of acts without one among all later entries: an import may have taken long.
func (q *search) complete(ctx context.Context, acts []audit.View) error {
	read := q.lookAhead()
	i := slices.IndexFunc(acts, func(v audit.View) bool { return v.Outcome == audit.Unknown })
	if i < 0 || read > q.last {
		return nil
	}
	if _, err := q.read(ctx, read, q.last+1); err != nil {
		return err
	}
	for i := range acts {
		if result := q.results[acts[i].Number]; acts[i].Outcome == audit.Unknown && result != nil {
			began := audit.Entry{Number: acts[i].Number, At: acts[i].At, Act: acts[i].Act, Outcome: audit.Begun}
			acts[i] = audit.ViewOf(&began, result)
		}
	}
	return nil
}

// AuditEntries implements api.Audits.
func (s *Stream) AuditEntries(ctx context.Context, r api.AuditEntriesRequest) (api.AuditEntriesReply, error) {
	reply := api.AuditEntriesReply{Anchor: audit.Anchor{First: 1}, Entries: []json.RawMessage{}}
	if r.Limit < 0 || r.Limit > api.MaxActs {
		return reply, fault.New(fault.ValidationError, "must be between 1 and %d", api.MaxActs).WithField("limit")
	}
	if r.Limit == 0 {
		r.Limit = api.MaxActs
	}
	s.settle(ctx)
	j, err := s.open(ctx)
	if err != nil || j == nil {
		return reply, err
	}
	if reply.Anchor, err = anchor(ctx, j); err != nil {
		return reply, err
	}
	after, size := max(r.After, reply.First-1), 0
	last, err := j.Last(ctx)
	if err != nil || after >= last {
		return reply, err
	}
	err = j.Read(ctx, after, func(position uint64, data []byte) error {
		if size += len(data); len(reply.Entries) == r.Limit || size > maxPage && len(reply.Entries) > 0 {
			reply.Next = position - 1
			return errStop
		}
		reply.Entries = append(reply.Entries, slices.Clone(data))
		return nil
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return reply, err
}

// ActCut is the name of the act that removes old entries.
const ActCut = "audit.cut"

// Cut removes the entries from before a time, but never the newest one, and returns how many there were. What stays begins with an
// anchor, so that it can be verified. The removal is an act itself.
func (s *Stream) Cut(ctx context.Context, before time.Time, actor string) (int, error) {
	j, err := s.open(ctx)
	if err != nil || j == nil {
		return 0, err
	}
	old, err := anchor(ctx, j)
	if err != nil {
		return 0, err
	}
	kept := old
	err = j.Read(ctx, old.First-1, func(_ uint64, data []byte) error {
		e, err := audit.Decode(data)
		if err != nil {
			return err
		}
		kept = audit.Anchor{First: e.Number, Prev: e.Prev}
		if !e.At.Before(before) {
			return errStop
		}
		return nil
	})
	if err != nil && !errors.Is(err, errStop) {
		return 0, err
	}
	if kept.First == old.First {
		return 0, nil
	}
	data, err := json.Marshal(kept)
	if err != nil {
		return 0, fault.Wrap(fault.Internal, err, "the beginning of the audit stream cannot be encoded")
	}
	act := audit.Act{Actor: actor, Face: audit.FaceNode, Name: ActCut, Params: map[string]string{
		"before": before.UTC().Format(time.RFC3339), "first": strconv.FormatUint(kept.First, 10), "prev": kept.Prev,
		"entries": strconv.FormatUint(kept.First-old.First, 10),
	}}
	p, err := s.Begin(ctx, act)
	if err != nil {
		return 0, err
	}
	err = j.SaveSnapshot(ctx, kept.First, data)
	p.End(err, "", nil)
	return int(kept.First - old.First), err //nolint:gosec // a count of entries
}
