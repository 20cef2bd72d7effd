package bus

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

const (
	// pageCount and pageBytes bound one answer of the server to a reader.
	pageCount = 2000
	pageBytes = 4 << 20
	// readWithin is how long one page may take when the caller sets no earlier deadline.
	readWithin = 20 * time.Second
)

// entry is one message of a stream.
type entry struct {
	events.Stored
	subject string
	header  nats.Header
	// pending is the number of messages that the store counts after this one.
	pending string
}

// getRequest asks for the messages from a position on, directly from the store, without a consumer.
type getRequest struct {
	Seq      uint64 `json:"seq"`
	Next     string `json:"next_by_subj,omitempty"`
	Batch    int    `json:"batch"`
	MaxBytes int    `json:"max_bytes"`
}

// page fetches up to count messages of a stream whose subject matches, from position from on. An
// empty page is the end.
func (c *Conn) page(ctx context.Context, stream, subject string, from uint64, count int) ([]entry, error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	request, err := json.Marshal(getRequest{Seq: max(from, 1), Next: subject, Batch: count, MaxBytes: pageBytes})
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "a read request cannot be encoded")
	}
	inbox := c.nc.NewInbox()
	sub, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, readFault(err)
	}
	defer func() { _ = sub.Unsubscribe() }() // only fails on a closed connection
	if err := c.nc.PublishRequest("$JS.API.DIRECT.GET."+stream, inbox, request); err != nil {
		return nil, readFault(err)
	}
	return collect(ctx, sub)
}

// collect takes messages until the server says that the page ends.
func collect(ctx context.Context, sub *nats.Subscription) ([]entry, error) {
	var page []entry
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil, readFault(err)
		}
		switch status := m.Header.Get("Status"); status {
		case "":
			e, err := asEntry(m)
			if err != nil {
				return nil, err
			}
			page = append(page, e)
		case "204", "404":
			return page, nil
		case "503":
			return nil, readFault(nats.ErrNoResponders)
		default:
			return nil, readFault(errors.New(status + " " + m.Header.Get("Description")))
		}
	}
}

func asEntry(m *nats.Msg) (entry, error) {
	seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return entry{}, readFault(err)
	}
	return entry{
		Stored:  events.Stored{Seq: seq, Data: m.Data},
		subject: m.Header.Get("Nats-Subject"), header: m.Header, pending: m.Header.Get("Nats-Num-Pending"),
	}, nil
}

func readFault(err error) error {
	if errors.Is(err, context.Canceled) {
		return fault.From(err)
	}
	return fault.Wrap(fault.Unavailable, err, "the log cannot be reached now").WithHint("try again in a moment")
}

// errHole is what walk yields where the store counts a message that it cannot read.
func errHole(after uint64) *fault.Error {
	return fault.New(fault.DataLoss, "a commit after position %d cannot be read", after).WithHint("run: orch verify")
}

// walk yields the messages of a stream on a subject from position from to position to. While a page is
// being used, the next one is on its way.
func (c *Conn) walk(ctx context.Context, stream, subject string, from, to uint64) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		if from > to {
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		next := c.ahead(ctx, stream, subject, from, pageCount/40) // most histories are short
		defer func() { cancel(); <-next }()
		for pending := ""; ; {
			got := <-next
			if got.err != nil {
				yield(entry{}, got.err)
				return
			}
			if len(got.page) == 0 {
				if pending != "" {
					yield(entry{}, errHole(from-1))
				}
				return
			}
			last := &got.page[len(got.page)-1]
			pending, from = last.pending, last.Seq+1
			ends := pending == "0" || pending == "" || from > to
			if !ends {
				next = c.ahead(ctx, stream, subject, from, pageCount)
			}
			for _, e := range got.page {
				if e.Seq > to || !yield(e, nil) {
					return
				}
			}
			if ends {
				return
			}
		}
	}
}

// fetched is the outcome of a request for a page.
type fetched struct {
	page []entry
	err  error
}

// ahead asks for a page; the channel is closed after the answer.
func (c *Conn) ahead(ctx context.Context, stream, subject string, from uint64, count int) <-chan fetched {
	answer := make(chan fetched, 1)
	go func() {
		defer close(answer)
		page, err := c.page(ctx, stream, subject, from, count)
		answer <- fetched{page, err}
	}()
	return answer
}

// following returns the commit of a task that follows position after.
func (s *Store) following(ctx context.Context, task events.TaskID, after uint64) (events.Stored, bool, error) {
	page, err := s.conn.page(ctx, liveStream, liveSubject(task), after+1, 1)
	if err != nil || len(page) == 0 {
		return events.Stored{}, false, err
	}
	return page[0].Stored, true, nil
}
