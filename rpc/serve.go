package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/nats-io/nats.go"

	"github.com/orch-dev/orch/audit"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/classify/secrets"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/failpoint"
	"github.com/orch-dev/orch/internal/gopool"
)

// Method serves one request. Its context ends when the timeout of the caller expires or the endpoint closes. The caller gets the
// code, message, reason, field and hint of an error.
type Method func(ctx context.Context, request []byte) ([]byte, error)

// method is a Method whose answers may be numbered.
type method func(ctx context.Context, request []byte) (response, error)

// response is an answer. If its number is not 0, the NATS server reports when nobody receives the answer.
type response struct {
	data []byte
	no   uint64
}

// withoutNumbers converts each Method to a method whose answers are not numbered.
func withoutNumbers(methods map[string]Method) map[string]method {
	all := make(map[string]method, len(methods))
	for name, m := range methods {
		all[name] = func(ctx context.Context, request []byte) (response, error) {
			data, err := m(ctx, request)
			return response{data: data}, err
		}
	}
	return all
}

// EndpointConfig configures Serve.
type EndpointConfig struct {
	// MaxRequests limits the concurrent requests, including waiting polls. Further requests get UNAVAILABLE. Default 16384.
	MaxRequests int
	// Identity is the actor of every request: the owner of the credential that these requests need. It is empty if the requests
	// have no actor.
	Identity string
	// Everyone delivers each request to every node that serves the subject; the caller gets the first answer. If it is not set,
	// each request is delivered to one of the nodes, and remains unanswered if that node is stalled.
	Everyone bool
	// BeginWithin is how long a request may wait before it begins. Then it is refused with UNAVAILABLE and reason OVERLOADED. The
	// context of its method ends a little before the caller's timeout, so that the caller still gets the answer. 0 means that requests
	// may wait as long as their callers.
	BeginWithin time.Duration
	// Refused, which may be nil, is called for a request that was refused before it reached its method, with the name of the method.
	Refused func(ctx context.Context, method string, why error)
	// Logger receives the causes of internal errors; nil discards them.
	Logger *slog.Logger

	pool *gopool.Pool
	// headers returns the headers of an error reply. Default: errorHeader with the code.
	headers func(*fault.Error) nats.Header
	// inbox reports whether the reply subject of a request is allowed. Default: ordinaryInbox.
	inbox func(*nats.Msg) bool
}

func (c *EndpointConfig) setDefaults() {
	if c.MaxRequests <= 0 {
		c.MaxRequests = 16384
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.pool == nil {
		c.pool = gopool.New(idleServers)
	}
	if c.headers == nil {
		c.headers = func(f *fault.Error) nats.Header { return nats.Header{errorHeader: {string(f.Code)}} }
	}
	if c.inbox == nil {
		c.inbox = ordinaryInbox
	}
}

// Endpoint serves a set of methods. If several nodes serve the same subjects, each request reaches one of them, unless
// EndpointConfig.Everyone is set.
type Endpoint struct {
	cfg  EndpointConfig
	conn *bus.Conn
	// find returns the method of a request.
	find func(*nats.Msg) (method, error)
	// returned is called with the number of an answer that nobody received.
	returned func(e *Endpoint, no uint64)
	subs     []*nats.Subscription
	// returnPrefix is the prefix of the subjects at which the NATS server reports numbered answers that nobody received.
	returnPrefix string
	slots        chan struct{}
	base         context.Context //nolint:containedctx // the lifetime of the endpoint, parent of every request
	cancel       context.CancelFunc
	// waits is the parent of requests that only wait for a change. It ends as soon as the endpoint closes.
	waits    context.Context //nolint:containedctx // the parent of waiting requests
	endWaits context.CancelFunc
	once     sync.Once
}

// idleServers is the number of idle goroutines that are kept for later requests.
const idleServers = 64

// Serve answers requests to "<prefix>.<name>" with methods[name], each in its own goroutine.
func Serve(c *bus.Conn, prefix string, methods map[string]Method, cfg EndpointConfig) (*Endpoint, error) {
	return serve(c, prefix, withoutNumbers(methods), func(uint64) {}, cfg)
}

// serve is Serve for methods whose answers may be numbered. It calls returned with the number of an answer that nobody received.
func serve(c *bus.Conn, prefix string, methods map[string]method, returned func(no uint64), cfg EndpointConfig) (*Endpoint, error) {
	return serveAt(c, prefix+".*", byName(methods), func(_ *Endpoint, no uint64) { returned(no) }, cfg)
}

// byName returns a function that finds the method of a request by the last token of the subject.
func byName(methods map[string]method) func(*nats.Msg) (method, error) {
	return func(m *nats.Msg) (method, error) {
		name := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
		if found := methods[name]; found != nil {
			return found, nil
		}
		return nil, fault.New(fault.MethodNotFound, "there is no method %q", name).
			WithHint("if a newer orch has it, use that for the node")
	}
}

// serveAt serves the requests to a subject, which may contain wildcards. find returns the method of a request.
func serveAt(c *bus.Conn, subject string, find func(*nats.Msg) (method, error), returned func(e *Endpoint, no uint64), cfg EndpointConfig) (*Endpoint, error) {
	cfg.setDefaults()
	e := &Endpoint{
		cfg: cfg, conn: c, find: find, returned: returned, returnPrefix: c.NATS().NewInbox() + ".",
		slots: make(chan struct{}, cfg.MaxRequests),
	}
	e.base, e.cancel = context.WithCancel(context.Background())
	e.waits, e.endWaits = context.WithCancel(e.base)
	if err := e.subscribe(subject); err != nil {
		e.unsubscribe()
		e.cancel()
		e.cfg.pool.Stop()
		return nil, fault.Wrap(fault.Unavailable, err, subject+" cannot be served")
	}
	return e, nil
}

func (e *Endpoint) subscribe(subject string) error {
	nc := e.conn.NATS()
	undelivered, err := nc.Subscribe(e.returnPrefix+"*", e.undeliverable)
	if err != nil {
		return err
	}
	e.subs = append(e.subs, undelivered)
	requests, err := e.listen(subject)
	if err != nil {
		return err
	}
	e.subs = append(e.subs, requests)
	return nc.Flush() // after this the server knows the subscriptions
}

// listen subscribes to requests. The holder of a lease does not use a queue group, because a stalled node that was active before
// would receive a share of the requests. Without a queue group both nodes receive a request; the former one notices that its
// lease is lost, and does not answer.
func (e *Endpoint) listen(subject string) (*nats.Subscription, error) {
	group := "orch"
	if e.conn.Leased() || e.cfg.Everyone {
		group = ""
	}
	sub, err := e.conn.NATS().QueueSubscribe(subject, group, e.accept)
	if err != nil {
		return nil, err
	}
	return sub, sub.SetPendingLimits(-1, -1) // beyond limits the client drops requests without an answer
}

func (e *Endpoint) unsubscribe() {
	for _, s := range e.subs {
		_ = s.Unsubscribe() // fails only on a closed connection
	}
}

// undeliverable handles the report of the NATS server that nobody received a numbered answer.
func (e *Endpoint) undeliverable(m *nats.Msg) {
	no, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, e.returnPrefix), 10, 64)
	if err == nil && m.Header.Get(statusHeader) == nobodyThere {
		e.returned(e, no)
	}
}

// Close stops accepting requests, ends the requests that only wait for a change, and waits for the remaining ones. When ctx ends,
// it cancels the remaining requests, and waits until they return. It is idempotent.
func (e *Endpoint) Close(ctx context.Context) error {
	e.once.Do(func() {
		e.unsubscribe()
		e.endWaits()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range cap(e.slots) {
				e.slots <- struct{}{}
			}
		}()
		select {
		case <-done:
		case <-ctx.Done():
		}
		e.cancel()
		<-done
		e.cfg.pool.Stop()
	})
	return nil
}

// ordinaryInbox reports whether the reply subject of a request is an inbox, but not the inbox of an agent. The inboxes of agents
// can be guessed, so another client could name one and send an answer to an agent. All other inboxes are allowed: the node is a
// worker too, and on an external NATS server every client uses the inboxes of the NATS library.
func ordinaryInbox(m *nats.Msg) bool {
	return strings.HasPrefix(m.Reply, bus.Inboxes) && !strings.HasPrefix(m.Reply, bus.AgentInbox(events.AgentIDPrefix))
}

// accept starts to serve a request. It runs in the goroutine of the subscription and must not block. It ignores a request with a
// reply subject that cfg.inbox does not allow: the answer is published with the permissions of the node, so a sender could
// otherwise publish to any subject.
func (e *Endpoint) accept(m *nats.Msg) {
	if m.Reply != "" && !e.cfg.inbox(m) {
		e.cfg.Logger.Debug("a request was dropped whose answer is not for an inbox of its sender", slog.String("method", m.Subject))
		return
	}
	select {
	case e.slots <- struct{}{}:
		arrived := time.Now()
		e.cfg.pool.Go(func() { e.answer(m, arrived) }) // ends before Close returns, which takes all slots
	default:
		e.reply(m, response{}, fault.NewOverloaded(time.Now(), "the node has %d requests in work", e.cfg.MaxRequests))
	}
}

// background runs a job like a request, unless MaxRequests are running. The job ends before Close returns.
func (e *Endpoint) background(job func(context.Context)) {
	select {
	case e.slots <- struct{}{}:
		e.cfg.pool.Go(func() {
			defer func() { <-e.slots }()
			job(e.base)
		})
	default:
	}
}

func (e *Endpoint) answer(m *nats.Msg, arrived time.Time) {
	defer func() { <-e.slots }()
	base := e.parent(m.Subject)
	timeout, left := patience(m.Header, arrived, time.Now())
	if waited := timeout - left; e.cfg.BeginWithin > 0 && waited > e.cfg.BeginWithin {
		e.reply(m, response{}, fault.NewOverloaded(time.Now(), "the node has too much to do: the request has waited %s", waited.Round(time.Second)))
		return
	}
	ctx, cancel := e.context(base, timeout, left)
	defer cancel()
	if !e.conn.AwaitLease(ctx) {
		return
	}
	resp, err := e.invoke(ctx, m)
	if base.Err() != nil {
		err = interruptedError(m.Subject, err)
	}
	failpoint.Pass(failpoint.BeforeAnswer)
	e.reply(m, resp, err)
	failpoint.Pass(failpoint.Answered)
}

// interruptedError converts the error of a request that was interrupted by Close. It returns UNAVAILABLE instead of CANCELLED,
// because the caller did not cancel the request, and may send it to the next node unless it may have been executed. It returns
// an error with a reason unchanged.
func interruptedError(subject string, err error) error {
	cancelled := fault.Has(err, fault.Cancelled)
	switch {
	case !cancelled && !fault.Has(err, fault.Unavailable), fault.From(err).Reason != "":
		return err
	case cancelled && !mayRepeat(subject):
		return fault.New(fault.Unavailable, "the node has stopped during the request, which may have been executed").
			WithReason(bus.OutcomeUnknown).WithHint("check whether it was executed before you repeat it")
	default:
		return fault.New(fault.Unavailable, "the node is stopping").WithReason(nodeStopping).WithHint("try again on a running node")
	}
}

// parent returns the parent context for a request: waits for a method that only waits, otherwise base.
func (e *Endpoint) parent(subject string) context.Context {
	if isParked(subject[strings.LastIndexByte(subject, '.')+1:]) {
		return e.waits
	}
	return e.base
}

// patience returns the timeout of the caller of a request, and how much of it is left now. arrived is when the request arrived here.
func patience(h nats.Header, arrived, now time.Time) (timeout, left time.Duration) {
	timeout = CallWithin
	if ms, err := strconv.Atoi(h.Get(timeoutHeader)); err == nil && ms > 0 {
		timeout = time.Duration(ms) * time.Millisecond
	}
	left = timeout - now.Sub(arrived)
	if ms, err := strconv.ParseInt(h.Get(untilHeader), 10, 64); err == nil {
		left = min(left, time.UnixMilli(ms).Sub(now))
	}
	return timeout, left
}

// answerSlack is how much earlier than the caller's timeout the context of a request ends if BeginWithin is set; at most a fifth
// of the timeout.
const answerSlack = 10 * time.Second

// context returns the context of a request. It ends in time for an answer to the caller, or when base ends.
func (e *Endpoint) context(base context.Context, timeout, left time.Duration) (context.Context, context.CancelFunc) {
	if e.cfg.BeginWithin > 0 {
		const part = 5
		left -= min(answerSlack, timeout/part)
	}
	if e.cfg.Identity != "" {
		base = withOrigin(base, e.cfg.Identity, audit.CredentialOperator)
	}
	return context.WithTimeout(base, left)
}

// invoke calls the method of a request. It converts a panic to an INTERNAL error.
func (e *Endpoint) invoke(ctx context.Context, m *nats.Msg) (resp response, err error) {
	method, err := e.methodOf(m)
	early := err != nil
	if !early {
		err = e.cfg.guard(ctx, m.Subject, func() (err error) { resp, err = method(ctx, m.Data); return err })
		early = err != nil && fault.From(err).Reason == IdentityMismatch
	}
	if early && e.cfg.Refused != nil {
		e.cfg.Refused(ctx, m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], err)
	}
	return resp, err
}

// methodOf returns the method of a request, unless the request is newer than this node.
func (e *Endpoint) methodOf(m *nats.Msg) (method, error) {
	if err := checkProtocol(m.Header); err != nil {
		return nil, err
	}
	return e.find(m)
}

// guard calls do and converts a panic to an error.
func (c *EndpointConfig) guard(ctx context.Context, method string, do func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			c.Logger.LogAttrs(ctx, slog.LevelError, "a method panicked", slog.String("method", method),
				slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
			err = fault.New(fault.Internal, "an internal error occurred")
		}
	}()
	return do()
}

// reply sends an answer. A numbered answer needs no acknowledgement, because the NATS server reports if nobody receives it.
func (e *Endpoint) reply(m *nats.Msg, resp response, err error) {
	limit := e.conn.NATS().MaxPayload()
	if err == nil && int64(len(resp.data)) > limit {
		err = tooLarge("answer", len(resp.data), limit)
	}
	answer := &nats.Msg{Subject: m.Reply, Data: resp.data}
	if resp.no != 0 {
		answer.Reply = e.returnPrefix + strconv.FormatUint(resp.no, 10)
	}
	if err != nil {
		answer = e.failure(m, err)
	}
	if m.Reply == "" {
		return
	}
	if err := e.conn.NATS().PublishMsg(answer); err != nil {
		e.cfg.Logger.Warn("an answer was not sent", slog.String("method", m.Subject), slog.Any("error", err))
		if resp.no != 0 {
			e.returned(e, resp.no)
		}
	}
}

func (e *Endpoint) failure(m *nats.Msg, err error) *nats.Msg {
	f := fault.From(err).Rewrite(secrets.Clean)
	if f.Code == fault.Internal {
		e.cfg.Logger.Error("a method failed", slog.String("method", m.Subject), slog.Any("error", err), slog.Any("cause", f.Err))
	}
	body, encodeErr := json.Marshal(f)
	if encodeErr != nil {
		body = []byte(`{"name":"INTERNAL","message":"an internal error occurred"}`)
	}
	return &nats.Msg{Subject: m.Reply, Data: body, Header: e.cfg.headers(f)}
}

// Handle converts a function on decoded values to a Method. The Method returns PARSE_ERROR for a request that is not JSON, and
// INVALID_PARAMS for an unknown field, a wrong type or trailing data. It decodes an empty request as the zero value.
func Handle[In, Out any](fn func(context.Context, In) (Out, error)) Method {
	return func(ctx context.Context, request []byte) ([]byte, error) {
		_, data, err := handle(ctx, request, fn)
		return data, err
	}
}

// handle decodes a request, calls fn, and encodes the answer.
func handle[In, Out any](ctx context.Context, request []byte, fn func(context.Context, In) (Out, error)) (out Out, data []byte, err error) {
	return answer(ctx, request, func(ctx context.Context, decode func(any) error) (out Out, err error) {
		var in In
		if err = decode(&in); err != nil {
			return out, err
		}
		return fn(ctx, in)
	})
}

// answer calls do with a function that decodes the request into a value, and encodes the result of do.
func answer[Out any](ctx context.Context, request []byte, do func(context.Context, func(any) error) (Out, error)) (out Out, data []byte, err error) {
	decode := func(in any) error {
		if large, ok := in.(expecter); ok {
			large.Expect(request)
		}
		if len(request) > 0 {
			if err := decodeStrict(request, in); err != nil {
				return err
			}
		}
		return attribute(ctx, in)
	}
	if out, err = do(ctx, decode); err != nil {
		return out, nil, err
	}
	if data, err = json.Marshal(out); err != nil {
		return out, nil, fault.Wrap(fault.Internal, err, "an answer cannot be encoded")
	}
	return out, data, nil
}

// expecter is a request that makes room for what its encoded form contains.
type expecter interface{ Expect(encoded []byte) }

// lenient are options to accept everything that encoding/json writes, because clients pass on texts of tools unchanged.
var lenient = jsonv2.JoinOptions(
	jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsonv1.FormatDurationAsNano(true),
)

func decodeStrict(data []byte, into any) error {
	err := jsonv2.Unmarshal(data, into, lenient, jsonv2.RejectUnknownMembers(true))
	var coded *fault.Error
	var wrong *jsonv2.SemanticError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &coded):
		return coded
	case errors.As(err, &wrong):
		return wrongValue(wrong)
	default:
		return fault.Wrap(fault.ParseError, err, "the request is not valid JSON")
	}
}

// wrongValue returns INVALID_PARAMS for a value that a request may not have. A field that is not known may be one of a newer orch.
func wrongValue(e *jsonv2.SemanticError) *fault.Error {
	f := fault.Wrap(fault.InvalidParams, e, wrongText(e)).WithField(fieldOf(e.JSONPointer))
	if errors.Is(e, jsonv2.ErrUnknownName) {
		return f.WithHint("if a newer orch has it, use that for the node")
	}
	return f
}

func wrongText(e *jsonv2.SemanticError) string {
	if errors.Is(e, jsonv2.ErrUnknownName) {
		return "is not known"
	}
	if e.GoType == nil {
		return "has the wrong type"
	}
	return "a " + e.JSONKind.String() + " is no " + e.GoType.String()
}

// fieldOf converts a JSON pointer to the path of a field: /a/0/b is a.0.b.
func fieldOf(p jsontext.Pointer) string {
	return strings.Join(slices.Collect(p.Tokens()), ".")
}
