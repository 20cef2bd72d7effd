package receiver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/hooks"
	"github.com/orch-dev/orch/internal/keyring"
	"github.com/orch-dev/orch/plan"
)

// Hooks implements api.Hooks.
func (r *Receiver) Hooks(ctx context.Context, q api.HooksRequest) (api.HooksReply, error) {
	if q.Deliveries < 0 || q.Deliveries > hooks.MaxOutcomes {
		return api.HooksReply{}, fault.New(fault.ValidationError, "must be between 0 and %d", hooks.MaxOutcomes).WithField("deliveries")
	}
	chosen := r.list()
	if q.Name != "" {
		one := r.get(q.Name)
		if one == nil {
			return api.HooksReply{}, unknown(q.Name)
		}
		chosen = []*hook{one}
	}
	reply := api.HooksReply{Hooks: make([]api.HookView, len(chosen))}
	for i, h := range chosen {
		reply.Hooks[i] = r.view(h, q.Deliveries)
		if q.Brief {
			reply.Hooks[i].Definition = h.Definition.Brief()
		}
	}
	if q.Name != "" {
		reply.Hooks[0].Waiting = r.waiting(ctx, chosen[0])
	}
	return reply, nil
}

func unknown(name string) error {
	const longest = 60
	return fault.New(fault.NotFound, "there is no hook %q", fault.Clip(name, longest)).WithField("name").
		WithHint("orch hook list shows them")
}

// view returns the view of a hook, with what only this process knows.
func (r *Receiver) view(h *hook, deliveries int) api.HookView {
	v := h.view(deliveries)
	v.Limits = api.HookLimits{PerSecond: rate, AtOnce: burst, MaxBody: MaxBody}
	if v.URL = r.cfg.URL(h.Name); h.Definition.NATS != nil {
		v.URL = ""
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if v.Problem = r.problems[h.Name]; h.Definition.NATS != nil && r.cfg.Feeds == nil {
		v.Problem = fault.From(errNoFeeds()).Message
	}
	if k := r.keys.Get(h.Definition.ID); k != nil {
		v.HasSecret, v.PreviousUntil = true, k.PreviousUntil(r.now())
	}
	if s := r.seen[h.Name]; s != nil {
		for result, n := range map[hooks.Result]int{hooks.Rejected: s.rejected, hooks.Limited: s.limited, hooks.Failed: s.failed} {
			if n > 0 {
				v.Counts[result] = n
			}
		}
		if s.rejected > 0 {
			last := s.last
			v.LastRejected = &last
		}
	}
	return v
}

// PutHook implements api.Hooks.
func (r *Receiver) PutHook(ctx context.Context, q api.PutHookRequest) (api.HookView, error) {
	if err := hooks.CheckName(q.Name); err != nil {
		return api.HookView{}, err
	}
	if err := r.checkDefinition(ctx, q); err != nil {
		return api.HookView{}, err
	}
	q.Definition.Note = r.cfg.Redact(q.Definition.Note)
	r.turn.Lock()
	defer r.turn.Unlock()
	if err := r.state.Reload(ctx); err != nil {
		return api.HookView{}, err
	}
	was := r.get(q.Name)
	put, err := r.defined(ctx, q)
	if err != nil {
		return api.HookView{}, err
	}
	k, err := r.keysFor(q, put.ID)
	if err != nil {
		return api.HookView{}, err
	}
	if was == nil || !sameDefinition(was.Definition, put) {
		if err := r.state.Record(ctx, change{Name: q.Name, By: q.Actor, Put: &put}); err != nil {
			return api.HookView{}, err
		}
		r.openFeed(ctx, r.get(q.Name), was)
	}
	if k != nil { // after the definition: a crash leaves a hook without a secret, which takes nothing, and never a secret without a hook
		if err := r.keys.Set(ctx, put.ID, k); err != nil {
			return api.HookView{}, err
		}
	}
	if h := r.get(q.Name); q.Paused && h.Paused == nil {
		if err := r.state.Record(ctx, change{Name: q.Name, By: q.Actor, Paused: &hooks.Pause{By: q.Actor, At: r.now()}}); err != nil {
			return api.HookView{}, err
		}
	}
	return r.view(r.get(q.Name), 0), nil
}

// keysFor returns the secrets to store for a request; nil if they stay as they are.
func (r *Receiver) keysFor(q api.PutHookRequest, id string) (*keyring.Keys, error) {
	p, has := q.Definition.Provider, r.keys.Get(id)
	switch {
	case q.Secret == "" && (!p.Signs() || has != nil):
		if has != nil && p.Signs() { // of another provider, perhaps
			return nil, hooks.CheckSecret(p, has.Current)
		}
		return nil, nil //nolint:nilnil // as documented
	case has != nil && q.Secret != "" && has.Current != q.Secret:
		return nil, fault.New(fault.Conflict, "the hook %s has another secret", q.Name).WithField("secret").
			WithHint("orch hook rotate %s --secret-file FILE replaces it", q.Name)
	}
	if err := hooks.CheckSecret(p, q.Secret); err != nil {
		return nil, err
	}
	if has != nil {
		return nil, nil //nolint:nilnil // as documented
	}
	return &keyring.Keys{Current: q.Secret}, nil
}

// checkDefinition checks a definition as far as that is possible without a delivery.
func (r *Receiver) checkDefinition(ctx context.Context, q api.PutHookRequest) error {
	d := q.Definition
	if err := d.Check(); err != nil {
		return err
	}
	computed, err := computedOf(d)
	if err != nil {
		return err
	}
	if err := plan.CheckHook(d.When, computed); err != nil {
		return err
	}
	if err := r.checkSecrets(d); err != nil {
		return err
	}
	if d.Signal != nil {
		return nil
	}
	trial := &hook{Name: q.Name, Definition: definition{Definition: d, Root: q.Root, By: q.Actor}}
	err = r.cfg.Tasks.Check(ctx, trial.submission(plan.HookInfo{Delivery: "trial"}, d.Inputs))
	if err == nil {
		return nil
	}
	f := fault.From(err)
	if isComputed(d.Inputs, f.Field) || f.Code == fault.ValidationError && f.Field == "" { // it depends on the delivery
		return nil
	}
	return err
}

// checkSecrets returns SECRET_DETECTED for a secret in a text that the journal and the views contain. Submit finds those in plans.
func (r *Receiver) checkSecrets(d hooks.Definition) error {
	texts := map[string]string{"when": d.When, "inputs": string(d.Inputs)}
	if s := d.Signal; s != nil {
		texts["signal.task"], texts["signal.name"], texts["signal.data"] = s.Task, s.Name, string(s.Data)
	}
	for _, field := range slices.Sorted(maps.Keys(texts)) {
		if r.cfg.Redact(texts[field]) != texts[field] {
			return fault.New(fault.SecretDetected, "contains a secret").WithField(field).WithHint("it would be stored in the journal of the hooks; a plan may name secrets of the node instead")
		}
	}
	return nil
}

// isComputed reports whether a field of the inputs depends on the delivery.
func isComputed(inputs json.RawMessage, field string) bool {
	path, found := strings.CutPrefix(field, "inputs")
	if !found {
		return false
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(inputs, &fields) != nil {
		return false
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(path, "."), ".")
	value := inputs
	if path != "" {
		value = fields[name]
	}
	return bytes.Contains(value, []byte("${{"))
}

// defined returns the definition of a request. It keeps the id of an existing hook.
func (r *Receiver) defined(ctx context.Context, q api.PutHookRequest) (definition, error) {
	was, now := r.get(q.Name), r.now()
	since, err := r.since(ctx, q.Definition, was)
	if err != nil {
		return definition{}, err
	}
	put := definition{Definition: q.Definition, Since: since, ID: events.NewHookID(now), Root: cmp.Or(q.Root, r.cfg.Root), By: q.Actor, CreatedAt: now, UpdatedAt: now}
	switch {
	case was == nil && len(r.list()) >= MaxHooks:
		return put, fault.New(fault.QuotaExceeded, "there are %d hooks", MaxHooks).WithHint("delete some: orch hook delete NAME")
	case was == nil:
		return put, nil
	case !q.Replace && !sameDefinition(was.Definition, put):
		return put, fault.New(fault.Conflict, "there is a hook %s with another definition", q.Name).WithField("name").
			WithHint("choose another name, or replace its definition: --replace")
	}
	put.ID, put.CreatedAt = was.Definition.ID, was.Definition.CreatedAt
	return put, nil
}

// SteerHook implements api.Hooks.
func (r *Receiver) SteerHook(ctx context.Context, q api.SteerHookRequest) (api.HookView, error) {
	if len(q.Note) > hooks.MaxNote {
		return api.HookView{}, fault.New(fault.ValidationError, "has %d bytes, the limit is %d", len(q.Note), hooks.MaxNote).WithField("note")
	}
	r.turn.Lock()
	defer r.turn.Unlock()
	if err := r.state.Reload(ctx); err != nil {
		return api.HookView{}, err
	}
	h := r.get(q.Name)
	if h == nil {
		return api.HookView{}, unknown(q.Name)
	}
	var err error
	switch q.Act {
	case api.ActPause:
		if h.Paused == nil {
			err = r.state.Record(ctx, change{Name: h.Name, By: q.Actor, Paused: &hooks.Pause{By: q.Actor, At: r.now(), Note: r.cfg.Redact(q.Note)}})
		}
	case api.ActResume:
		if h.Paused != nil {
			err = r.state.Record(ctx, change{Name: h.Name, By: q.Actor, Resumed: true})
		}
	case api.ActRotate:
		err = r.rotate(ctx, h, q)
	case api.ActDelete:
		return r.view(h, 0), r.erase(ctx, h, q)
	default:
		err = fault.New(fault.ValidationError, "%q is not an act", clip(q.Act)).WithField("act").
			WithHint("use %s", strings.Join([]string{api.ActPause, api.ActResume, api.ActRotate, api.ActDelete}, ", "))
	}
	if err != nil {
		return api.HookView{}, err
	}
	return r.view(r.get(h.Name), 0), nil
}

// rotate sets another secret. The one before stays valid for a while.
func (r *Receiver) rotate(ctx context.Context, h *hook, q api.SteerHookRequest) error {
	p := h.Definition.Provider
	if !p.Signs() {
		return fault.New(fault.ValidationError, "the hook %s has no secret: its provider is %s", h.Name, p).WithField("name")
	}
	if err := hooks.CheckSecret(p, q.Secret); err != nil {
		return err
	}
	changed, err := r.keys.Rotate(ctx, h.Definition.ID, q.Secret, (*time.Duration)(q.Keep), r.now())
	if err != nil || !changed {
		return err
	}
	return r.state.Record(ctx, change{Name: h.Name, By: q.Actor, Rotated: true})
}

// erase deletes a hook. Its secret goes first: a crash leaves a hook that takes nothing. So does its consumer: if the hook stays, it
// makes another one at the same place.
func (r *Receiver) erase(ctx context.Context, h *hook, q api.SteerHookRequest) error {
	if err := r.keys.Set(ctx, h.Definition.ID, nil); err != nil {
		return err
	}
	r.closeFeed(ctx, h)
	return r.state.Record(ctx, change{Name: h.Name, By: q.Actor, Deleted: true})
}

// TestHook implements api.Hooks.
func (r *Receiver) TestHook(ctx context.Context, q api.TestHookRequest) (api.TestHookReply, error) {
	if len(q.Body) > MaxBody {
		return api.TestHookReply{}, fault.New(fault.ValidationError, "has %d bytes, the limit is %d", len(q.Body), MaxBody).WithField("body")
	}
	h, err := r.tested(ctx, q)
	if err != nil {
		return api.TestHookReply{}, err
	}
	v, rejected := r.trial(h, q)
	switch {
	case rejected != nil:
		v.Result, v.Reason = hooks.Rejected, rejected.Error()
	case h.Paused != nil && v.Result != hooks.Filtered:
		v.refuse("the hook is paused")
	case v.Result == "":
		if err := r.foresee(ctx, h, &v); err != nil {
			return api.TestHookReply{}, err
		}
	}
	return api.TestHookReply{Outcome: v.Outcome, Inputs: v.values.Inputs, Signal: v.values.Signal, Headers: v.info.Headers}, nil
}

// tested returns the hook that a test is about: one that exists, or one of a definition that nobody has stored.
func (r *Receiver) tested(ctx context.Context, q api.TestHookRequest) (*hook, error) {
	if q.Definition == nil {
		if h := r.get(q.Name); h != nil {
			return h, nil
		}
		return nil, unknown(q.Name)
	}
	put := api.PutHookRequest{Name: q.Name, Definition: *q.Definition, Root: cmp.Or(q.Root, r.cfg.Root), Actor: q.Actor}
	if err := hooks.CheckName(q.Name); err != nil {
		return nil, err
	}
	if err := r.checkDefinition(ctx, put); err != nil {
		return nil, err
	}
	rules, err := compile(put.Definition)
	return &hook{Name: put.Name, Definition: definition{Definition: put.Definition, Root: put.Root, By: put.Actor}, rules: rules}, err
}

// trial judges the delivery of a test. It returns an error if it would be rejected; a definition that is not stored has no secret, and rejects nothing.
func (r *Receiver) trial(h *hook, q api.TestHookRequest) (verdict, error) {
	headers := hooks.Headers{"content-type": "application/json"}
	for name, value := range q.Headers {
		headers[strings.ToLower(name)] = value
	}
	id := cmp.Or(q.Delivery, "test-"+events.NewRequestID())
	if s := h.Definition.NATS; s != nil {
		subject := cmp.Or(q.Subject, s.Literal())
		v := r.judge(h, arrival{headers: headers, raw: []byte(q.Body), id: id, subject: subject})
		if q.Subject != "" && !s.Takes(subject) {
			v.Result, v.Reason = hooks.Filtered, "the hook does not take this subject"
		}
		return v, nil
	}
	p, valid := h.Definition.Provider, r.keys.Get(h.Definition.ID).Valid(r.now())
	maps.Copy(headers, hooks.Sign(p, valid[0], id, []byte(q.Body), r.now()))
	if q.Definition != nil {
		return r.judge(h, arrival{headers: headers, raw: []byte(q.Body)}), nil
	}
	err := r.verify(h, Delivery{Name: h.Name, Headers: headers, Body: []byte(q.Body), Operator: func() bool { return true }})
	if err != nil && valid[0] == "" {
		err = hooks.RejectionError("the secret of the hook is missing: orch hook rotate")
	}
	return r.judge(h, arrival{headers: headers, raw: []byte(q.Body)}), err
}

// foresee sets the result that a delivery would have.
func (r *Receiver) foresee(ctx context.Context, h *hook, v *verdict) error {
	v.Result = hooks.Accepted
	var err error
	if s := v.values.Signal; s != nil {
		err = r.foreseeSignal(ctx, v, s)
	} else {
		id := h.taskOf(v.Delivery)
		if v.Task = string(id); r.exists(ctx, id) {
			v.Result = hooks.Duplicate
			return nil
		}
		err = r.cfg.Tasks.Check(ctx, h.submission(v.info, v.values.Inputs))
	}
	if err != nil && isTransient(err) {
		return err
	}
	if err != nil {
		v.refuse(r.cfg.Redact(err.Error()))
	}
	return nil
}

func (r *Receiver) foreseeSignal(ctx context.Context, v *verdict, s *hooks.Signal) error {
	id, err := events.ParseTaskID(strings.TrimSpace(s.Task))
	if err != nil {
		return fault.New(fault.InvalidFormat, "is not the id of a task").WithField("signal.task")
	}
	view, err := r.cfg.Tasks.Get(ctx, api.GetRequest{ID: id})
	if err == nil && view.State.Terminal() {
		err = fault.New(fault.StateNotAllowed, "task %s is %s", id, view.State)
	}
	v.Task = string(id)
	return err
}
