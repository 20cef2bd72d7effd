package messages

import (
	"context"
	"slices"
	"time"

	"github.com/orch-dev/orch/fault"
)

// Inbox implements Broker.
func (s *Service) Inbox(ctx context.Context, who string, q Query) (Page, error) {
	if err := q.check(who); err != nil {
		return Page{}, err
	}
	timer := time.NewTimer(q.Wait)
	defer timer.Stop()
	for waited := false; ; waited = true {
		page, found, w := s.lookup(who, q)
		if len(found) > 0 || q.Wait <= 0 {
			s.stopWaiting(who, w)
			err := s.readPayloads(ctx, &page, found, q)
			return page, err
		}
		if !waited && s.stopping() {
			s.stopWaiting(who, w)
			return Page{}, fault.New(fault.Unavailable, "the node is stopping").WithHint("try again in a moment")
		}
		expired := false
		select {
		case <-w.arrived:
		case <-timer.C:
			expired = true
		case <-s.closing:
			expired = true
		case <-ctx.Done():
			s.stopWaiting(who, w)
			return Page{}, fault.From(ctx.Err())
		}
		s.stopWaiting(who, w)
		if expired {
			q.Wait = 0
		}
	}
}

// Waiting returns the number of pending messages of an identity.
func (s *Service) Waiting(who string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.projection.waiting(who, s.upTo, s.cfg.Now()))
}

// stopping reports whether StopWaits was called.
func (s *Service) stopping() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

func (q *Query) check(who string) error {
	if err := CheckIdentity(who); err != nil {
		return err
	}
	if q.Limit < 0 || q.Limit > MaxPage {
		return fault.New(fault.ValidationError, "%d is not a valid number of messages", q.Limit).WithField("limit").WithHint("use 1 to %d", MaxPage)
	}
	if q.Limit == 0 {
		q.Limit = DefaultPage
	}
	if q.Wait < 0 || q.Wait > MaxWait {
		return fault.New(fault.ValidationError, "%s is not a valid time to wait", q.Wait).WithField("wait").WithHint("wait at most %s, and ask again", MaxWait)
	}
	return q.CheckSelection()
}

// CheckSelection returns VALIDATION_ERROR or INVALID_FORMAT, with the field, for criteria that can match no message.
func (q *Query) CheckSelection() error {
	switch {
	case q.MinPriority < 0 || q.MinPriority > MaxPriority:
		return fault.New(fault.ValidationError, "%d is not a priority", q.MinPriority).WithField("min_priority").WithHint("use 0 to %d", MaxPriority)
	case q.Sender != "" && q.Sender != System && !isIdentity(q.Sender):
		return fault.New(fault.InvalidFormat, "%q sends no messages", clip(q.Sender)).WithField("sender").
			WithHint("use agent:NAME or user:NAME, or %s for the node itself", System)
	}
	if err := checkType(q.Type); err != nil {
		return err
	}
	return checkCorrelation(q.Correlation)
}

// lookup returns the messages of the page in order, without payloads, and a waiter for the next message. The caller
// must pass the waiter to stopWaiting.
func (s *Service) lookup(who string, q Query) (Page, []Message, *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.After > s.upTo { // the cursor of another store
		q.After, q.InOrder = 0, true
	}
	waiting := s.projection.waiting(who, s.upTo, s.cfg.Now())
	waiting = slices.DeleteFunc(waiting, func(it *item) bool { return !q.selects(it) })
	page := Page{Messages: []Message{}, Waiting: len(waiting), Next: s.upTo, More: len(waiting) > q.Limit}
	var found []Message
	for _, it := range q.first(waiting) {
		found = append(found, it.Message)
	}
	return page, found, s.waiters.add(who)
}

// first returns the messages of a page in the order of the page. waiting is in the order of arrival.
func (q *Query) first(waiting []*item) []*item {
	if q.ordered() {
		return waiting[:min(len(waiting), q.Limit)]
	}
	var found []*item
	for p := MaxPriority; p >= 0; p-- {
		for _, it := range waiting {
			if len(found) == q.Limit {
				return found
			}
			if it.Priority == p {
				found = append(found, it)
			}
		}
	}
	return found
}

// ordered reports whether the page is in the order of arrival.
func (q *Query) ordered() bool { return q.InOrder || q.After > 0 }

func (q *Query) selects(it *item) bool {
	return it.Position > q.After && it.Priority >= q.MinPriority &&
		(q.Type == "" || it.Type == q.Type) &&
		(q.Sender == "" || it.Sender == q.Sender) &&
		(q.Correlation == "" || it.Correlation == q.Correlation)
}

func (s *Service) stopWaiting(who string, w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiters.remove(who, w)
}

// readPayloads adds the messages with their payloads to the page until it is full, and sets its cursor.
func (s *Service) readPayloads(ctx context.Context, page *Page, found []Message, q Query) error {
	bytes := 0
	for _, m := range found {
		if !q.Heads {
			payload, err := s.payload(ctx, m.ID)
			switch {
			case fault.Has(err, fault.NotFound): // acknowledged or expired meanwhile
				page.Waiting--
				continue
			case err != nil:
				return err
			}
			m.Payload = payload
		}
		if bytes += m.Size(); bytes > MaxPageBytes && len(page.Messages) > 0 {
			page.More = true
			break
		}
		m.Digest = ""
		page.Messages = append(page.Messages, m)
	}
	if page.More {
		page.Next = 0
		if last := len(page.Messages) - 1; q.ordered() && last >= 0 {
			page.Next = page.Messages[last].Position
		}
	}
	return nil
}

func (s *Service) payload(ctx context.Context, id string) ([]byte, error) {
	r, err := s.cfg.Store.Read(ctx, id)
	if err != nil {
		return nil, err
	}
	if r.Kind != Sent {
		return nil, fault.New(fault.NotFound, "the message %s is dealt with", id)
	}
	return r.Message.Payload, nil
}
