package rest

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/audit"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/traces"
)

// verbs are the routes of one path, by HTTP method.
type verbs map[string]route

// allowed returns the value of the header Allow.
func (v verbs) allowed() string {
	names := slices.Collect(maps.Keys(v))
	if _, reads := v[http.MethodGet]; reads {
		names = append(names, http.MethodHead)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// handlePath returns the handler of a path, or of all unknown paths if v is empty.
func (s *Server) handlePath(v verbs) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{w: w, r: r, id: events.NewRequestID(), leave: func() {}}
		w.Header().Set("X-Request-Id", x.id)
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		began := time.Now()
		verb := r.Method
		if verb == http.MethodHead {
			verb = http.MethodGet
		}
		rt, found := v[verb]
		err := s.guarded(func() error { return s.serve(x, v, rt, found) })
		x.leave()
		if err != nil {
			problemOf(err, x.id, s.cfg.Now(), s.cfg.Redact).write(w)
		}
		s.logRequest(x, rt.name, time.Since(began), err)
	})
}

// serve answers a request, unless it returns an error.
func (s *Server) serve(x *exchange, v verbs, rt route, found bool) error {
	if s.cfg.Rebound(x.r) {
		return errHost()
	}
	if err := s.authenticate(x); err != nil {
		if !fault.Has(err, fault.Unauthorized) && !fault.Has(err, fault.TokenExpired) { // who checks the credentials records those
			s.cfg.Refused(x.r.Context(), "", rt.name, err)
		}
		return err
	}
	x.setOrigin()
	switch {
	case len(v) == 0:
		return errPath(x.r.URL.Path)
	case !found:
		x.w.Header().Set("Allow", v.allowed())
		return errVerb(x.r.Method, v.allowed())
	}
	if err := s.permit(x, &rt); err != nil {
		s.cfg.Refused(x.r.Context(), x.client.Name(), rt.name, err)
		return err
	}
	leave, err := x.client.Admit(rt.held(x.r.ContentLength))
	if err != nil {
		return err
	}
	x.leave = sync.OnceFunc(leave)
	in, err := s.bind(x, &rt)
	if err != nil {
		if rt.access.changes() || errors.Is(err, errScope) {
			s.cfg.Refused(x.r.Context(), x.client.Name(), rt.name, err)
		}
		return err
	}
	if rt.media != "" && x.r.Method == http.MethodHead { // a stream without a body would have no end
		x.w.Header().Set("Content-Type", rt.media)
		return nil
	}
	if rt.stream != nil {
		if x.login != nil {
			ctx, stop := x.login.during(x.r.Context())
			defer stop()
			ctx, cancel := s.cfg.Authenticator.While(ctx, *x.login)
			defer cancel()
			x.r = x.r.WithContext(ctx)
		}
		return rt.stream(s, x, in)
	}
	out, err := rt.call(x.r.Context(), x.api, in)
	if err != nil {
		if errors.Is(err, errScope) {
			s.cfg.Refused(x.r.Context(), x.client.Name(), rt.name, err)
		}
		return err
	}
	if rt.answer != nil {
		rt.answer(x, out)
		return nil
	}
	writeJSON(x.w, http.StatusOK, out)
	return nil
}

// setOrigin gives the context of a request its origin.
func (x *exchange) setOrigin() {
	o := audit.OriginOf(x.r.Context())
	o.Actor, o.Face = x.client.Name(), audit.FaceHTTP
	switch {
	case x.login == nil: // whoever has checked the token has set its id
	case x.login.Token != "":
		o.Credential = x.login.Token
	default:
		o.Credential = audit.CredentialLogin
	}
	x.r = x.r.WithContext(audit.WithOrigin(x.r.Context(), o))
}

// permit refuses a request that the role or the token of the client does not permit.
func (s *Server) permit(x *exchange, rt *route) error {
	var err error
	switch {
	case !rt.access.permits(x.client.Role()):
		err = fault.New(fault.Forbidden, "the role %s may not do that", x.client.Role()).WithReason("ROLE_NOT_ALLOWED")
	case rt.tool == anyTool && x.client.Narrowed():
		err = fault.New(fault.Forbidden, "the token is narrowed to some tools, or to reading").WithReason("TOKEN_NARROWED")
	case rt.tool != "" && rt.tool != anyTool && !x.client.Sees(rt.tool):
		err = fault.New(fault.Forbidden, "the token is narrowed to some tools, without %s", rt.tool).WithReason("TOKEN_NARROWED")
	default:
		x.api = scopeTo(x.client, s.cfg.API)
		return nil
	}
	return err
}

// bind returns a pointer to the request struct of a request.
func (s *Server) bind(x *exchange, rt *route) (any, error) {
	in := reflect.New(rt.in)
	if rt.body {
		body, err := readBody(x.w, x.r)
		if err != nil {
			return nil, err
		}
		if err := rt.decodeBody(body, in.Interface()); err != nil {
			return nil, err
		}
	}
	query, err := url.ParseQuery(x.r.URL.RawQuery)
	if err != nil {
		return nil, fault.New(fault.InvalidFormat, "the query is malformed")
	}
	if err := rt.decodeQuery(query, in.Elem()); err != nil {
		return nil, err
	}
	if err := s.bindParams(x, rt, in.Elem()); err != nil {
		return nil, err
	}
	if err := checkWait(in.Elem()); err != nil {
		return nil, err
	}
	if rt.prepare != nil {
		if err := rt.prepare(in.Interface()); err != nil {
			return nil, err
		}
	}
	return in.Interface(), x.attribute(in.Interface())
}

// bindParams sets the fields that the path and the headers name, and resolves the ids of tasks.
func (s *Server) bindParams(x *exchange, rt *route, in reflect.Value) error {
	fields := fieldsOf(rt.in)
	for _, p := range rt.params {
		if p.field == "" {
			continue
		}
		field := in.FieldByIndex(fields[p.field].Index)
		switch p.in {
		case inHeader:
			if err := setHeader(field, p, x.r.Header.Get(p.name)); err != nil {
				return err
			}
		case inPath:
			field.SetString(x.r.PathValue(p.name))
		case inQuery: // decodeQuery has set it
		}
		if err := x.findTask(field); err != nil {
			return fault.From(err).WithField(p.name)
		}
	}
	return nil
}

// findTask replaces a prefix of the id of a task, or @last, by the id. It leaves empty fields and those of other types alone.
func (x *exchange) findTask(field reflect.Value) error {
	if field.Type() != reflect.TypeFor[events.TaskID]() || field.IsZero() {
		return nil
	}
	found, err := x.api.Find(x.r.Context(), api.FindRequest{Text: field.String(), Actor: x.client.Name()})
	if err == nil {
		field.SetString(string(found.ID))
	}
	return err
}

// setHeader sets a field to the value of a header, unless the body sets it to another value.
func setHeader(field reflect.Value, p param, value string) error {
	if value == "" {
		return nil
	}
	if known := field.String(); known != "" && known != value {
		return fault.New(fault.ValidationError, "differs from the field %s of the body", p.field).WithField(p.name)
	}
	field.SetString(value)
	return nil
}

// via is the value of api.SubmitRequest.Via for tasks that people submit here.
const via = "http"

// attribute sets who acts, and restricts submissions to the permissions of the client.
func (x *exchange) attribute(in any) error {
	if a, ok := in.(acting); ok {
		for _, name := range a.ActorFields() {
			*name = x.client.Name()
		}
	}
	switch r := in.(type) {
	case *api.SubmitRequest:
		return x.restrict(r)
	case *api.SubmitBatchRequest:
		for i := range r.Tasks {
			if err := x.restrict(&r.Tasks[i]); err != nil {
				return err
			}
		}
	case *api.RetryRequest:
		r.Via = via
	case *api.ForkRequest:
		r.Via = via
	}
	return nil
}

func (x *exchange) restrict(r *api.SubmitRequest) error {
	clearNodeFields(r)
	r.Cause = x.id
	if x.client.Role() != Agent {
		r.Via = via
	}
	if at := x.r.Header.Get("traceparent"); r.TraceParent == "" && traces.IsContext(at) {
		r.TraceParent = at
		r.TraceState, _ = traces.ParseState(strings.Join(x.r.Header.Values("tracestate"), ","))
	}
	return x.client.Restrict(r, x.r.Header.Get("Orch-Call"))
}

// guarded calls do and converts a panic to an INTERNAL error.
func (s *Server) guarded(do func() error) (err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if v == http.ErrAbortHandler { //nolint:errorlint,err113 // a panic value, as net/http compares it
			panic(v)
		}
		s.cfg.Logger.Error("http_panic", slog.Any("panic", v))
		err = fault.New(fault.Internal, "an internal error occurred")
	}()
	return do()
}

// logRequest logs a request. The cause of an internal error is only in the log.
func (s *Server) logRequest(x *exchange, operation string, took time.Duration, err error) {
	attrs := []slog.Attr{
		slog.String("request_id", x.id), slog.String("operation", operation), slog.Duration("took", took),
	}
	if x.client != nil {
		attrs = append(attrs, slog.String("client", x.client.Name()))
	}
	level := slog.LevelDebug
	if err != nil {
		attrs = append(attrs, slog.String("code", string(fault.CodeOf(err))))
	}
	if fault.Has(err, fault.Internal) {
		level = slog.LevelError
		attrs = append(attrs, slog.Any("error", err), slog.Any("cause", errors.Unwrap(fault.From(err))))
	}
	s.cfg.Logger.LogAttrs(context.WithoutCancel(x.r.Context()), level, "http_call", attrs...)
}
