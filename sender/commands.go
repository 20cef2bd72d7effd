package sender

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/destinations"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/follow"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/hooks"
	"github.com/orch-dev/orch/internal/keyring"
	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/plan"
)

// Destinations implements api.Destinations.
func (s *Sender) Destinations(_ context.Context, q api.DestinationsRequest) (api.DestinationsReply, error) {
	if q.Deliveries < 0 || q.Deliveries > MaxPending {
		return api.DestinationsReply{}, fault.New(fault.ValidationError, "must be between 0 and %d", MaxPending).WithField("deliveries")
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	chosen := s.sorted()
	if q.Name != "" {
		one := s.get(q.Name)
		if one == nil {
			return api.DestinationsReply{}, unknown(q.Name)
		}
		chosen = []*destination{one}
	}
	reply := api.DestinationsReply{Destinations: make([]api.DestinationView, len(chosen))}
	for i, d := range chosen {
		reply.Destinations[i] = s.view(d, q.Deliveries)
	}
	return reply, nil
}

// longest bounds a text of a request in an error, in bytes.
const longest = 60

func unknown(name string) error {
	return fault.New(fault.NotFound, "there is no destination %q", fault.Clip(name, longest)).WithField("name").
		WithHint("orch destination list shows them")
}

// view returns the view of a destination with what is known of its secret. mu must be held.
func (s *Sender) view(d *destination, deliveries int) api.DestinationView {
	v := d.view(deliveries)
	if k := s.keys.Get(d.Definition.ID); k != nil {
		v.HasSecret, v.PreviousUntil = true, k.PreviousUntil(s.now())
	}
	return v
}

// viewOf returns the view of a destination, NOT_FOUND if there is none.
func (s *Sender) viewOf(name string) (api.DestinationView, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	d := s.get(name)
	if d == nil {
		return api.DestinationView{}, unknown(name)
	}
	return s.view(d, 0), nil
}

// PutDestination implements api.Destinations.
func (s *Sender) PutDestination(ctx context.Context, q api.PutDestinationRequest) (api.DestinationView, error) {
	if err := s.check(q); err != nil {
		return api.DestinationView{}, err
	}
	q.Definition.Note = s.cfg.Redact(q.Definition.Note)
	s.turn.Lock()
	defer s.turn.Unlock()
	if err := s.state.Reload(ctx); err != nil {
		return api.DestinationView{}, err
	}
	put, changes, err := s.defined(ctx, q)
	if err != nil {
		return api.DestinationView{}, err
	}
	k, err := s.keysFor(q, put.ID)
	if err != nil {
		return api.DestinationView{}, err
	}
	if len(changes) > 0 {
		if err := s.state.Record(ctx, changes...); err != nil {
			return api.DestinationView{}, err
		}
	}
	if k != nil { // after the definition: a crash leaves a destination without a secret, which gets nothing, and never a secret without one
		if err := s.keys.Set(ctx, put.ID, k); err != nil {
			return api.DestinationView{}, err
		}
	}
	return s.viewOf(q.Name)
}

// check checks a request as far as that is possible without the other destinations.
func (s *Sender) check(q api.PutDestinationRequest) error {
	if err := destinations.CheckName(q.Name); err != nil {
		return err
	}
	if err := q.Definition.Check(); err != nil {
		return err
	}
	if err := plan.CheckHook(q.Definition.When, nil); err != nil {
		return err
	}
	if _, _, err := s.clientFor(q.Definition.URL); err != nil {
		return err
	}
	d := q.Definition
	d.Note = ""
	if data, err := json.Marshal(d); err != nil || s.cfg.Redact(string(data)) != string(data) {
		return fault.New(fault.SecretDetected, "contains a secret").WithField("definition").
			WithHint("it would be stored in the journal of the destinations and shown; the secret that signs is no part of it")
	}
	return nil
}

// clientFor returns the client for a URL, and the parsed URL. Errors: INVALID_FORMAT, and FORBIDDEN for an address that is not allowed.
func (s *Sender) clientFor(raw string) (*netguard.Client, *url.URL, error) {
	if given, err := url.Parse(raw); err == nil && given.User != nil {
		return nil, nil, fault.New(fault.InvalidFormat, "must not contain a user name or password").WithField("url").
			WithHint("the receiver knows deliveries by their signatures")
	}
	u, err := s.client.Parse(raw)
	if err != nil {
		return nil, nil, fault.From(err).WithField("url")
	}
	if u.Scheme != "https" && !netguard.IsLoopback(u.Hostname()) {
		return nil, nil, fault.New(fault.InvalidFormat, "must be https, or http at a loopback address").WithField("url")
	}
	return s.client, u, nil
}

// defined returns the definition of a request, and the changes that it makes. It keeps the id of an existing destination. turn must be
// held.
func (s *Sender) defined(ctx context.Context, q api.PutDestinationRequest) (definition, []change, error) {
	now := s.now()
	put := definition{Definition: q.Definition, ID: events.NewDestinationID(now), By: q.Actor, CreatedAt: now, UpdatedAt: now}
	s.mu.RLock()
	was, number := s.get(q.Name), len(s.all)
	s.mu.RUnlock()
	var changes []change
	switch {
	case was == nil && number >= MaxDestinations:
		return put, nil, fault.New(fault.QuotaExceeded, "there are %d destinations", MaxDestinations).WithHint("delete some: orch destination delete NAME")
	case was == nil:
		newest, err := follow.Newest(ctx, s.cfg.Log)
		if err != nil {
			return put, nil, err
		}
		changes = []change{{Name: q.Name, By: q.Actor, Put: &put, Cursor: &newest}}
	case same(was.Definition, put):
		put = was.Definition
	case !q.Replace:
		return put, nil, fault.New(fault.Conflict, "there is a destination %s with another definition", q.Name).WithField("name").
			WithHint("choose another name, or replace its definition: --replace")
	default:
		put.ID, put.CreatedAt = was.Definition.ID, was.Definition.CreatedAt
		changes = []change{{Name: q.Name, By: q.Actor, Put: &put}}
	}
	if q.Paused && (was == nil || was.Paused == nil) {
		changes = append(changes, change{Name: q.Name, By: q.Actor, Paused: &hooks.Pause{By: q.Actor, At: now}})
	}
	return put, changes, nil
}

// same reports whether two definitions mean the same.
func same(a, b definition) bool {
	left, errLeft := json.Marshal(a.Definition)
	right, errRight := json.Marshal(b.Definition)
	return errLeft == nil && errRight == nil && string(left) == string(right) && a.By == b.By
}

// keysFor returns the secrets to store for a request; nil if they stay as they are.
func (s *Sender) keysFor(q api.PutDestinationRequest, id string) (*keyring.Keys, error) {
	has := s.keys.Get(id)
	switch {
	case q.Secret == "" && has != nil, has != nil && has.Current == q.Secret:
		return nil, nil //nolint:nilnil // as documented
	case has != nil:
		return nil, fault.New(fault.Conflict, "the destination %s has another secret", q.Name).WithField("secret").
			WithHint("orch destination rotate %s --secret-file FILE replaces it", q.Name)
	}
	return &keyring.Keys{Current: q.Secret}, checkSecret(q.Secret)
}

// checkSecret returns why a secret cannot sign deliveries.
func checkSecret(secret string) error {
	if secret == "" {
		return fault.New(fault.RequiredField, "is missing").WithField("secret").WithHint("it signs the deliveries: --secret-file FILE, or - for stdin")
	}
	return destinations.CheckSecret(secret)
}

// SteerDestination implements api.Destinations.
func (s *Sender) SteerDestination(ctx context.Context, q api.SteerDestinationRequest) (api.DestinationView, error) {
	if len(q.Note) > hooks.MaxNote {
		return api.DestinationView{}, fault.New(fault.ValidationError, "has %d bytes, the limit is %d", len(q.Note), hooks.MaxNote).WithField("note")
	}
	if q.Act == api.ActTest {
		return s.test(ctx, q.Name)
	}
	s.turn.Lock()
	defer s.turn.Unlock()
	if err := s.state.Reload(ctx); err != nil {
		return api.DestinationView{}, err
	}
	was, err := s.viewOf(q.Name)
	if err != nil {
		return was, err
	}
	c := change{Name: q.Name, By: q.Actor}
	switch q.Act {
	case api.ActPause:
		if was.Paused != nil {
			return was, nil
		}
		c.Paused = &hooks.Pause{By: q.Actor, At: s.now(), Note: s.cfg.Redact(q.Note)}
	case api.ActResume:
		if was.Paused == nil {
			return was, nil
		}
		c.Resumed = true
	case api.ActRotate:
		c.Rotated, err = s.rotate(ctx, was.ID, q)
	case api.ActRedeliver:
		c.At = s.now()
		c.Again, err = s.again(q)
	case api.ActDiscard:
		c.Discard, err = s.discarded(q)
	case api.ActDelete:
		c.Deleted = true
		err = s.keys.Set(ctx, was.ID, nil) // before: a crash leaves a destination that gets nothing
	default:
		err = fault.New(fault.ValidationError, "%q is not an act", fault.Clip(q.Act, longest)).WithField("act").WithHint("use %s",
			strings.Join([]string{api.ActPause, api.ActResume, api.ActRotate, api.ActRedeliver, api.ActDiscard, api.ActTest, api.ActDelete}, ", "))
	}
	if err != nil {
		return api.DestinationView{}, err
	}
	if err := s.state.Record(ctx, c); err != nil {
		return api.DestinationView{}, err
	}
	if c.Deleted {
		return was, nil
	}
	return s.viewOf(q.Name)
}

// rotate sets another secret. Deliveries are also signed with the one before for a while. It reports whether the secret has changed.
func (s *Sender) rotate(ctx context.Context, id string, q api.SteerDestinationRequest) (bool, error) {
	if err := checkSecret(q.Secret); err != nil {
		return false, err
	}
	_, err := s.keys.Rotate(ctx, id, q.Secret, (*time.Duration)(q.Keep), s.now())
	return err == nil, err
}

// again returns the ids of the deliveries that a request makes due: dead letters, and what waits after a failure.
func (s *Sender) again(q api.SteerDestinationRequest) ([]string, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var failed []string
	d := s.get(q.Name)
	for _, i := range slices.Concat(d.Dead, d.Pending) {
		if i.Attempts > 0 {
			failed = append(failed, i.id())
		}
	}
	return named(q, failed, "no delivery %q has failed")
}

// discarded returns the ids of the dead letters that a request forgets.
func (s *Sender) discarded(q api.SteerDestinationRequest) ([]string, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var dead []string
	for _, i := range s.get(q.Name).Dead {
		dead = append(dead, i.id())
	}
	return named(q, dead, "there is no dead letter %q")
}

// named returns the deliveries that a request names, all of which must be among some; without names, it returns those.
func named(q api.SteerDestinationRequest, all []string, missing string) ([]string, error) {
	for _, id := range q.Deliveries {
		if !slices.Contains(all, id) {
			return nil, fault.New(fault.NotFound, missing, fault.Clip(id, longest)).WithField("deliveries").
				WithHint("orch destination deliveries %s shows them", q.Name)
		}
	}
	if len(q.Deliveries) > 0 {
		return q.Deliveries, nil
	}
	return all, nil
}

// test delivers an event that says nothing, once.
func (s *Sender) test(ctx context.Context, name string) (api.DestinationView, error) {
	s.mu.RLock()
	d := s.get(name)
	if d == nil {
		s.mu.RUnlock()
		return api.DestinationView{}, unknown(name)
	}
	def, v := d.Definition, s.view(d, 0)
	s.mu.RUnlock()
	if !v.HasSecret {
		return v, fault.New(fault.StateNotAllowed, "the secret of the destination is missing").WithHint("orch destination rotate %s --secret-file FILE", name)
	}
	body, err := destinations.Event{Type: destinations.Test, Timestamp: s.now()}.Encode()
	if err != nil {
		return v, err
	}
	a, _ := s.attempt(ctx, def, "test-"+events.NewRequestID(), body, 0)
	v.Tested = &a
	return v, nil
}
