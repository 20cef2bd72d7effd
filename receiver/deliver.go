package receiver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"mime"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/hooks"
	"github.com/orch-dev/orch/plan"
)

// Delivery is a request to a hook.
type Delivery struct {
	// Name is the name in the path, as the sender wrote it.
	Name string
	// Headers are the headers, by their names in lower case. Body is the body as it arrived.
	Headers hooks.Headers
	Body    []byte
	// Operator reports whether the request has the token of an operator. It is called for hooks without signatures.
	Operator func() bool
}

// Answer is the answer to a delivery.
type Answer struct {
	Result   hooks.Result `json:"result"`
	Delivery string       `json:"delivery,omitempty"`
	Task     string       `json:"task,omitempty"`
	// Challenge is what the sender expects to get back; then nothing else is answered.
	Challenge string `json:"challenge,omitempty"`
	// Silent is set for senders that take nothing but an empty answer with the status 200, and show others to their users.
	Silent bool `json:"-"`
}

// The reasons of errors of Receive.
const (
	// ReasonPaused is that of UNAVAILABLE for a paused hook.
	ReasonPaused = "HOOK_PAUSED"
	// ReasonRefused is that of VALIDATION_ERROR for a delivery that was refused; hooks.ReasonLoop for one of a loop.
	ReasonRefused = "DELIVERY_REFUSED"
)

// errUnsigned is the error for a request without a valid signature, and for one to a hook that does not exist.
func errUnsigned() error {
	return fault.New(fault.Unauthorized, "there is no such hook, or the request is not signed with its secret").
		WithHint("orch hook get NAME shows, on the machine of the node, why the last request was rejected")
}

// Receive handles a delivery. It returns when what the delivery does is durable. Errors: UNAUTHORIZED without a valid signature or for
// an unknown hook, RATE_LIMITED, VALIDATION_ERROR with ReasonRefused if it can do nothing, however often it is repeated, and
// UNAVAILABLE and others if it should be repeated.
func (r *Receiver) Receive(ctx context.Context, d Delivery) (Answer, error) {
	h := r.get(d.Name)
	if err := r.verify(h, d); err != nil {
		r.reject(ctx, h, err)
		return Answer{}, errUnsigned()
	}
	if err := r.admit(h); err != nil {
		r.count(h, hooks.Outcome{Result: hooks.Limited})
		return Answer{}, err
	}
	v := r.judge(h, arrival{headers: d.Headers, raw: d.Body})
	if h.Paused != nil && v.Result != hooks.Filtered {
		v.refuse("the hook is paused")
		_ = r.conclude(ctx, h, v.Outcome)
		return Answer{}, fault.New(fault.Unavailable, "the hook is paused").WithReason(ReasonPaused).WithRetryAt(r.now().Add(5 * time.Minute))
	}
	if v.Result == "" {
		if err := r.perform(ctx, h, &v); err != nil {
			r.count(h, hooks.Outcome{Result: hooks.Failed})
			r.log.LogAttrs(ctx, slog.LevelWarn, "hook_delayed", slog.String("name", h.Name), slog.String("delivery", v.Delivery), slog.Any("error", err))
			return Answer{}, err
		}
	}
	_ = r.conclude(ctx, h, v.Outcome) // what cannot be recorded has had its effect all the same, and its repetition finds the task
	if v.Result == hooks.Refused {
		return Answer{}, fault.New(fault.ValidationError, "the delivery was refused").WithReason(cmp.Or(v.code, ReasonRefused)).
			WithHint("orch hook deliveries %s shows why", h.Name)
	}
	return Answer{Result: v.Result, Delivery: v.Delivery, Task: v.Task, Challenge: v.challenge, Silent: h.Definition.Provider == hooks.Slack}, nil
}

// verify returns a hooks.RejectionError for a request without a valid signature.
func (r *Receiver) verify(h *hook, d Delivery) error {
	if h == nil {
		return hooks.Verify("", [2]string{}, d.Headers, d.Body, r.now())
	}
	p := h.Definition.Provider
	switch {
	case p.Signs():
		return hooks.Verify(p, r.keys.Get(h.Definition.ID).Valid(r.now()), d.Headers, d.Body, r.now())
	case p == hooks.NATS:
		_ = hooks.Verify(p, [2]string{}, d.Headers, d.Body, r.now())
		return hooks.RejectionError("the hook takes the messages of a stream, and no requests")
	}
	_ = hooks.Verify(p, [2]string{}, d.Headers, d.Body, r.now()) // always an error, but it takes as long as for other hooks
	if d.Operator != nil && d.Operator() {
		return nil
	}
	return hooks.RejectionError("the request does not have the token of an operator")
}

// reject counts a request without a valid signature. Nothing of it is stored.
func (r *Receiver) reject(ctx context.Context, h *hook, err error) {
	o := hooks.Outcome{At: r.now(), Result: hooks.Rejected}
	if why, known := errors.AsType[hooks.RejectionError](err); known {
		o.Reason = string(why)
	}
	r.count(h, o)
	name := ""
	if h != nil {
		name = h.Name
	}
	r.log.LogAttrs(ctx, slog.LevelDebug, "hook_rejected", slog.String("name", name), slog.String("reason", o.Reason))
}

// verdict is what a delivery does. Its result is empty if it starts or signals a task.
type verdict struct {
	hooks.Outcome

	info      plan.HookInfo
	values    values
	challenge string
	// hops is how many deliveries of destinations have led to this one. code is the reason of the error for the sender, if it is a special one.
	hops int
	code string
}

func (v *verdict) refuse(reason string) { v.Result, v.Reason = hooks.Refused, clip(reason) }

// maxReason bounds the reason of an outcome, in bytes.
const maxReason = 300

func clip(text string) string { return fault.Clip(text, maxReason) }

// arrival is what has arrived: a request, or a message of a stream.
type arrival struct {
	headers hooks.Headers
	raw     []byte
	// id and subject are those of a message.
	id, subject string
}

// judge decides what a delivery that was let in does, from its text alone.
func (r *Receiver) judge(h *hook, a arrival) verdict {
	p, headers := h.Definition.Provider, a.headers
	v := verdict{Outcome: hooks.Outcome{At: r.now()}}
	data, err := r.identify(h, a, &v)
	if err != nil {
		v.refuse(r.cfg.Redact(err.Error()))
		return v
	}
	if challenge, is := hooks.Greeting(p, headers, data); is {
		v.Result, v.Reason, v.challenge = hooks.Filtered, "it only asks whether the hook is there", challenge
		return v
	}
	v.info = plan.HookInfo{Name: h.Name, Delivery: v.Delivery, Subject: a.subject, Headers: h.Definition.Visible(headers), Body: json.RawMessage(r.cfg.Redact(string(data)))}
	for name, value := range v.info.Headers {
		v.info.Headers[name] = r.cfg.Redact(value)
	}
	if h.rules == nil {
		v.refuse("this version of orch cannot use the expressions of the hook")
		return v
	}
	chosen, err := h.rules.Chooses(v.info)
	switch {
	case err != nil:
		v.refuse(r.cfg.Redact(fault.From(err).Message))
	case !chosen:
		v.Result, v.Reason = hooks.Filtered, "when is false"
	default:
		if v.hops, err = hooks.HopsOf(headers); err != nil {
			v.code = hooks.ReasonLoop
		} else {
			v.values, err = h.valuesOf(v.info)
		}
		if err != nil {
			v.refuse(r.cfg.Redact(fault.From(err).Message))
		}
	}
	return v
}

// identify sets the id and the event of a delivery, and returns its body as JSON.
func (r *Receiver) identify(h *hook, a arrival, v *verdict) (json.RawMessage, error) {
	if h.Definition.NATS != nil {
		v.Delivery, v.Event = a.id, r.cfg.Redact(fault.Clip(a.subject, maxEvent))
		return decodeMessage(a)
	}
	data, err := decode(a.headers["content-type"], a.raw)
	if err != nil {
		return nil, err
	}
	p := h.Definition.Provider
	v.Event = r.cfg.Redact(hooks.EventOf(p, a.headers, data))
	if v.Delivery, err = hooks.IDOf(p, a.headers, a.raw, data); err != nil {
		return nil, err
	}
	v.Delivery = cmp.Or(v.Delivery, events.NewRequestID())
	return data, nil
}

// maxEvent bounds the event of an outcome, in bytes.
const maxEvent = 128

// decodeMessage returns the body of a message as JSON, whatever its headers say.
func decodeMessage(a arrival) (json.RawMessage, error) {
	switch {
	case hooks.IsOwnSubject(a.subject):
		return nil, fault.New(fault.ValidationError, "the subject is one of orch or of the NATS server")
	case len(a.raw) > MaxBody:
		return nil, fault.New(fault.ValidationError, "the body has %d bytes, the limit is %d", len(a.raw), MaxBody)
	case !utf8.Valid(a.raw):
		return nil, fault.New(fault.ParseError, "the body is not UTF-8")
	default:
		return compact(a.raw)
	}
}

// perform starts or signals the task of a delivery, and sets its result. It returns an error if the delivery should be repeated.
func (r *Receiver) perform(ctx context.Context, h *hook, v *verdict) error {
	var err error
	if s := v.values.Signal; s != nil {
		err = r.signal(ctx, h, v, s)
	} else {
		err = r.submit(ctx, h, v)
	}
	if err != nil && isTransient(err) {
		return err
	}
	if err != nil {
		f := fault.From(err)
		v.refuse(r.cfg.Redact(string(f.Code) + ": " + strings.TrimPrefix(f.Field+": "+f.Message, ": ")))
		r.log.LogAttrs(ctx, slog.LevelWarn, "hook_refused", slog.String("name", h.Name), slog.String("delivery", v.Delivery), slog.Any("error", err))
	}
	return nil
}

func (r *Receiver) submit(ctx context.Context, h *hook, v *verdict) error {
	request := h.submission(v.info, v.values.Inputs)
	request.Hook.Hops = v.hops
	reply, err := r.cfg.Tasks.Submit(ctx, request)
	switch {
	case err == nil:
		v.Result, v.Task = hooks.Accepted, string(reply.ID)
		if reply.Existing {
			v.Result = hooks.Duplicate
		}
	case fault.Has(err, fault.Conflict) && r.exists(ctx, h.taskOf(v.Delivery)), fault.Has(err, fault.Gone):
		// the task of an earlier definition, or one that retention has removed
		v.Result, v.Task, err = hooks.Duplicate, string(h.taskOf(v.Delivery)), nil
	}
	return err
}

// exists reports whether there is a task. A CONFLICT can also be that of a concurrency key.
func (r *Receiver) exists(ctx context.Context, id events.TaskID) bool {
	_, err := r.cfg.Tasks.Get(ctx, api.GetRequest{ID: id})
	return err == nil
}

func (r *Receiver) signal(ctx context.Context, h *hook, v *verdict, s *hooks.Signal) error {
	id, err := events.ParseTaskID(strings.TrimSpace(s.Task))
	if err != nil {
		return fault.New(fault.InvalidFormat, "is not the id of a task").WithField("signal.task")
	}
	_, err = r.cfg.Tasks.Signal(ctx, api.SignalRequest{ID: id, Name: s.Name, Data: s.Data, Actor: h.Definition.By, Key: h.key(v.Delivery)})
	switch {
	case err == nil:
		v.Result, v.Task = hooks.Accepted, string(id)
	case fault.Has(err, fault.Conflict) && fault.From(err).Reason == api.ReasonRepeatedSignal:
		v.Result, v.Task, err = hooks.Duplicate, string(id), nil
	}
	return err
}

// conclude counts and records what became of a delivery. It returns an error if that could not be recorded.
func (r *Receiver) conclude(ctx context.Context, h *hook, o hooks.Outcome) error {
	r.count(h, o)
	err := r.note(context.WithoutCancel(ctx), h.Name, o)
	if err != nil {
		r.log.LogAttrs(ctx, slog.LevelWarn, "hook_not_recorded", slog.String("name", h.Name), slog.String("delivery", o.Delivery), slog.Any("error", err))
	}
	return err
}

// isTransient reports whether a delivery may succeed later.
func isTransient(err error) bool {
	return slices.Contains([]fault.Code{
		fault.Unavailable, fault.DiskFull, fault.Timeout, fault.Cancelled, fault.Internal, fault.QuotaExceeded, fault.RateLimited,
	}, fault.From(err).Code)
}

// decode returns a body as JSON. A form with the only field payload contains JSON; any other form becomes an object.
func decode(contentType string, raw []byte) (json.RawMessage, error) {
	media, _, err := mime.ParseMediaType(contentType)
	isJSON := media == "application/json" || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")
	switch {
	case !utf8.Valid(raw):
		return nil, fault.New(fault.ParseError, "the body is not UTF-8")
	case err == nil && media == "application/x-www-form-urlencoded":
		return decodeForm(string(raw))
	case err != nil || !isJSON:
		return nil, fault.New(fault.ParseError, "the content type is not application/json or application/x-www-form-urlencoded")
	default:
		return compact(raw)
	}
}

func compact(raw []byte) (json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return json.RawMessage("null"), nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, fault.New(fault.ParseError, "the body is not JSON")
	}
	return b.Bytes(), nil
}

func decodeForm(raw string) (json.RawMessage, error) {
	form, err := url.ParseQuery(raw)
	if err != nil {
		return nil, fault.New(fault.ParseError, "the body is not a form")
	}
	if payload := form["payload"]; len(form) == 1 && len(payload) == 1 {
		return compact([]byte(payload[0]))
	}
	fields := make(map[string]any, len(form))
	for name, texts := range form {
		if fields[name] = texts; len(texts) == 1 {
			fields[name] = texts[0]
		}
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return nil, fault.Wrap(fault.ParseError, err, "the body is not a form")
	}
	return data, nil
}
