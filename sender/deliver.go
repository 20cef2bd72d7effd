package sender

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/destinations"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/hooks"
	"github.com/orch-dev/orch/internal/netguard"
)

// slow is how long an attempt may take before the next one begins beside it.
const slow = 2 * time.Second

// deliverAll delivers what is due for a busy destination, which has an id, in the order of the log, one after another, unless an attempt
// is slow.
func (s *Sender) deliverAll(ctx context.Context, name, id string) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.busy, id)
	}()
	for ctx.Err() == nil {
		i, def := s.launch(name, id)
		if i == nil {
			return
		}
		recorded := make(chan bool, 1)
		s.running.Go(func() { recorded <- s.fly(ctx, name, def, i) })
		select {
		case ok := <-recorded:
			if !ok {
				return
			}
		case <-time.After(slow):
		}
	}
}

// launch returns the first delivery that is due for a destination that has an id, nil if there is none, and marks it as flying.
func (s *Sender) launch(name, id string) (*item, definition) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.get(name)
	if d == nil || d.Definition.ID != id || !s.ready(d) {
		return nil, definition{}
	}
	return d.launch(now), d.Definition
}

// fly makes an attempt, and reports whether its result was recorded.
func (s *Sender) fly(ctx context.Context, name string, def definition, i *item) bool {
	err := s.deliver(ctx, name, def, i)
	s.mu.Lock()
	if d := s.get(name); d != nil && d.Definition.ID == def.ID {
		delete(d.flying, i.id())
	}
	s.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		s.rest(name)
		s.log.LogAttrs(ctx, slog.LevelWarn, "delivery_not_recorded", slog.String("destination", name), slog.Any("error", err))
	}
	return err == nil
}

// restTime is how long a destination gets nothing after a result could not be recorded, such as on a full disk: each attempt would be repeated.
const restTime = 30 * time.Second

// rest keeps a destination from getting deliveries for restTime.
func (s *Sender) rest(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.get(name); d != nil {
		d.restsUntil = s.now().Add(restTime)
	}
}

// deliver makes an attempt and records its result.
func (s *Sender) deliver(ctx context.Context, name string, def definition, i *item) error {
	body, hops, err := s.bodyOf(ctx, i)
	var a api.DeliveryAttempt
	var asked time.Time
	lost := s.missing(ctx, err)
	switch {
	case lost:
		a = api.DeliveryAttempt{At: s.now(), Error: "the event is no longer in the log"}
	case err != nil:
		return err
	default:
		a, asked = s.attempt(ctx, def, i.id(), body, hops)
	}
	if ctx.Err() != nil && a.Error != "" {
		return ctx.Err() // the node stops; the delivery waits as it was
	}
	r := &result{Delivery: i.id(), Attempt: a}
	switch {
	case a.Error == "" || lost:
	case i.Next.After(a.At):
		r.Next, r.Early = i.Next, true
	default:
		r.Next, _ = destinations.Next(i.Attempts+1, a.At, asked, s.cfg.Random())
	}
	s.turn.Lock()
	defer s.turn.Unlock()
	exists, err := s.record(context.WithoutCancel(ctx), name, def.ID, change{Name: name, Result: r})
	if err != nil || !exists {
		return err
	}
	s.count(r)
	return s.pauseIfDue(ctx, name, def.ID, r)
}

// pauseIfDue pauses a destination after an attempt whose receiver asks for no further deliveries, or that has made one dead letter too many.
// turn must be held.
func (s *Sender) pauseIfDue(ctx context.Context, name, id string, r *result) error {
	s.mu.RLock()
	d := s.get(name)
	paused, dead := d.Paused != nil, len(d.Dead)
	s.mu.RUnlock()
	var why string
	switch {
	case paused:
		return nil
	case destinations.Gone(r.Attempt.Status):
		why = "the receiver answered 410: it wants no further deliveries"
	case dead >= MaxDead && r.Attempt.Error != "" && r.Next.IsZero():
		why = "there are " + strconv.Itoa(dead) + " dead letters"
	default:
		return nil
	}
	s.log.LogAttrs(ctx, slog.LevelWarn, "destination_paused", slog.String("destination", name), slog.String("why", why))
	_, err := s.record(context.WithoutCancel(ctx), name, id, change{Name: name, Paused: &hooks.Pause{By: node, At: s.now(), Note: why}})
	return err
}

// bodyOf makes the body of a delivery from the log. hops is how many deliveries, this one included, have led to it.
func (s *Sender) bodyOf(ctx context.Context, i *item) (body []byte, hops int, err error) {
	c, err := s.read(ctx, i.Task, i.Rev)
	if err != nil {
		return nil, 0, err
	}
	f, err := s.readFacts(ctx, c)
	if err != nil {
		return nil, 0, err
	}
	e, ok := destinations.New(c, i.Index, f, s.cfg.Redact)
	if !ok {
		return nil, 0, fault.New(fault.NotFound, "revision %d of task %s has no such event", i.Rev, i.Task)
	}
	if hops, err = s.hopsOf(ctx, f); err != nil {
		return nil, 0, err
	}
	body, err = s.encode(e)
	return body, hops + 1, err
}

// maxParents bounds how far up the parents of a task are looked at.
const maxParents = 32

// hopsOf returns how many deliveries of destinations have led to a task: what the hook of the task, or of one of its parents, has recorded.
func (s *Sender) hopsOf(ctx context.Context, f destinations.Facts) (int, error) {
	for range maxParents {
		if f.Hops > 0 || f.Parent == "" {
			break
		}
		first, err := s.read(ctx, f.Parent, 1)
		if isGone(err) {
			break
		}
		if err != nil {
			return 0, err
		}
		f = destinations.FactsOf(first)
	}
	return f.Hops, nil
}

// encode returns the body of an event, with the URL of its page.
func (s *Sender) encode(e destinations.Event) ([]byte, error) {
	switch {
	case e.Data.Approval != nil:
		e.Data.URL = s.cfg.Page("approvals", e.Data.Approval.ID)
	case e.Data.Question != nil:
		e.Data.URL = s.cfg.Page("questions", e.Data.Question.ID)
	case e.Data.Task != "":
		e.Data.URL = s.cfg.Page("tasks", e.Data.Task)
	}
	return e.Encode()
}

// attempt sends a delivery, with the number of those that have led to it; 0 for none. It returns what became of it,
// and the earliest time of the next attempt that the receiver has asked for.
func (s *Sender) attempt(ctx context.Context, def definition, id string, body []byte, hops int) (api.DeliveryAttempt, time.Time) {
	at := s.now()
	a := api.DeliveryAttempt{At: at}
	client, u, err := s.clientFor(def.URL)
	if err != nil {
		a.Error = reasonOf(err)
		return a, time.Time{}
	}
	secrets := s.keys.Get(def.ID).Valid(at)
	header := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"orch-webhooks"}}
	for name, value := range destinations.Sign(secrets, id, body, at) {
		header.Set(name, value)
	}
	if hops > 0 {
		header.Set(hooks.HeaderHops, strconv.Itoa(hops))
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	answer, err := client.Stream(ctx, netguard.Request{Method: http.MethodPost, URL: u, Header: header, Body: string(body), Stay: true})
	if err != nil {
		a.Error = reasonOf(err)
		return a, time.Time{}
	}
	_ = answer.Body.Close() // the status is the answer; nothing of the body is read
	a.Status = answer.Status
	if !destinations.Accepted(a.Status) {
		a.Error = "the receiver answered " + strconv.Itoa(a.Status)
	}
	return a, destinations.RetryAfter(answer.Header.Get("Retry-After"), at)
}

// reasonOf returns the message of an error. Those of netguard contain no URL but scheme, host and port.
func reasonOf(err error) string { return fault.From(err).Message }
