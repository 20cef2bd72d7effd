package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// endpoint serves /rpc.
type endpoint struct{ cfg Config }

// headerRequest is the response header with the id of the request.
const headerRequest = "X-Request-Id"

// ServeHTTP implements http.Handler.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := events.NewRequestID()
	w.Header().Set(headerRequest, id)
	w.Header().Set("Cache-Control", "no-store")
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		e.refuse(w, http.StatusMethodNotAllowed, id, invalid("the endpoint takes POST"))
		return
	}
	client, err := e.cfg.Authenticator.Authenticate(r.Context(), bearer(r))
	if err != nil {
		w.Header().Set("WWW-Authenticate", `Bearer realm="orch"`)
		e.refuse(w, http.StatusUnauthorized, id, unauthorized(err))
		return
	}
	leave, err := client.Admit(r.ContentLength)
	if err != nil {
		w.Header().Set("Retry-After", "1")
		e.refuse(w, http.StatusTooManyRequests, id, err)
		return
	}
	leave = sync.OnceFunc(leave)
	defer leave()
	body, status, err := read(w, r)
	if err != nil {
		e.refuse(w, status, id, err)
		return
	}
	e.serve(w, r, clientRequest{client, id, leave}, body)
}

// clientRequest is an authenticated request.
type clientRequest struct {
	client Client
	id     string
	// release is the leave function of Client.Admit. It may be called more than once.
	release func()
}

// bearer returns the token of a request, empty for none.
func bearer(r *http.Request) string {
	parts := strings.Fields(r.Header.Get("Authorization"))
	if len(parts) != 2 || !strings.EqualFold(parts[0], "Bearer") {
		return ""
	}
	return parts[1]
}

// unauthorized returns TOKEN_EXPIRED and UNAUTHORIZED unchanged, and UNAUTHORIZED for any other error.
func unauthorized(err error) error {
	if fault.Has(err, fault.TokenExpired) || fault.Has(err, fault.Unauthorized) {
		return err
	}
	return fault.Wrap(fault.Unauthorized, err, "the token cannot be checked now")
}

// read reads the body of a request. Beside an error it returns the HTTP status to answer with.
func read(w http.ResponseWriter, r *http.Request) (body []byte, status int, err error) {
	body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, http.StatusRequestEntityTooLarge, fault.New(fault.ValidationError, "the request is larger than %d MiB", MaxBody>>20).WithReason("SIZE_LIMIT_EXCEEDED")
	}
	if err != nil {
		return nil, http.StatusBadRequest, fault.Wrap(fault.ParseError, err, "the body cannot be read")
	}
	return body, 0, nil
}

// serve answers one message.
func (e *endpoint) serve(w http.ResponseWriter, r *http.Request, v clientRequest, body []byte) {
	begin := time.Now()
	m, err := parse(body)
	c := Call{Tool: m.Method, Args: m.Params, Request: v.id, Wait: e.wait(r), For: r.Header.Get(HeaderCall)}
	if err == nil && !m.isNotification() && acceptsStream(r) && v.client.Listens(m.Method) {
		e.listen(w, r, v, m, c)
		return
	}
	var reply Reply
	if err == nil {
		reply, err = e.call(r.Context(), v.client, m, c)
	}
	e.logRequest(r.Context(), v, m, reply, time.Since(begin), err)
	malformed := fault.Has(err, fault.ParseError) || fault.Has(err, fault.InvalidRequest)
	if m.isNotification() && !malformed {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if malformed {
		write(w, http.StatusBadRequest, e.answer(request{ID: m.ID}, v.id, reply, err))
		return
	}
	write(w, http.StatusOK, e.answer(m, v.id, reply, err))
}

// answer returns the response to a message.
func (e *endpoint) answer(m request, id string, reply Reply, err error) response {
	out := answer(m.ID)
	if err != nil {
		out.Error = e.errorOf(err, m.Params, id, reply)
	} else {
		out.Result = addPagination(cmp.Or(reply.Method, m.Method), m.Params, reply.Output)
	}
	return out
}

// call calls the tool of a message. For a notification it waits only until the call is durable.
func (e *endpoint) call(ctx context.Context, client Client, m request, c Call) (Reply, error) {
	if !client.Sees(m.Method) {
		client.Unseen(m.Method, m.Params)
		e := fault.New(fault.MethodNotFound, "there is no method of this name").WithField("method")
		if near := client.Nearest(m.Method); near != "" {
			return Reply{}, e.WithHint("did you mean %s?", near)
		}
		return Reply{}, e.WithHint("system.listSkills lists the tools that can be called")
	}
	if m.isNotification() {
		c.Wait = 0
	}
	return client.Call(ctx, c)
}

// wait returns how long to wait for the end of the call: the time in the header Prefer: wait=SECONDS (RFC 7240), at most MaxWait, or
// Config.Wait.
func (e *endpoint) wait(r *http.Request) time.Duration {
	for _, header := range r.Header.Values("Prefer") {
		for preference := range strings.SplitSeq(header, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(preference), "=")
			seconds, err := strconv.Atoi(strings.Trim(value, `" `))
			if strings.EqualFold(strings.TrimSpace(name), "wait") && err == nil && seconds > 0 {
				return min(time.Duration(min(seconds, int(MaxWait/time.Second)))*time.Second, MaxWait)
			}
		}
	}
	return e.cfg.Wait
}

// logRequest logs a request (S3-007). The causes of internal errors are logged here and not sent to the client (S3-009).
func (e *endpoint) logRequest(ctx context.Context, v clientRequest, m request, reply Reply, took time.Duration, err error) {
	attrs := []slog.Attr{
		slog.String("request_id", v.id), slog.String("client", v.client.Name()), slog.String("method", clip(m.Method)),
		slog.String("task", reply.Task), slog.Duration("took", took),
	}
	if err == nil {
		e.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "rpc_call", attrs...)
		return
	}
	attrs = append(attrs, slog.String("code", string(fault.CodeOf(err))), slog.Any("error", err))
	level := slog.LevelInfo
	if fault.Has(err, fault.Internal) {
		level = slog.LevelError
		attrs = append(attrs, slog.Any("cause", errors.Unwrap(fault.From(err))))
	}
	e.cfg.Logger.LogAttrs(ctx, level, "rpc_call", attrs...)
}

func clip(name string) string { return fault.Clip(name, 128) }

// refuse answers a request with an error, before its message is decoded.
func (e *endpoint) refuse(w http.ResponseWriter, status int, id string, err error) {
	write(w, status, e.answer(request{}, id, Reply{}, err))
}

func write(w http.ResponseWriter, status int, out response) {
	text, ok := out.text()
	if !ok {
		status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	for _, part := range text {
		if _, err := w.Write(part); err != nil { //nolint:gosec // JSON, with the matching content type
			return
		}
	}
}

// largeResult is the size from which a result is sent without encoding it again: the encoder makes copies and retains its buffers.
const largeResult = 64 << 10

// text returns a response as one line, in parts; false if it cannot be encoded.
func (r response) text() (net.Buffers, bool) {
	if len(r.Result) >= largeResult && r.Error == nil && json.Valid(r.Result) && !bytes.ContainsAny(r.Result, "\r\n") {
		return net.Buffers{slices.Concat([]byte(`{"jsonrpc":"2.0","id":`), r.ID, []byte(`,"result":`)), r.Result, []byte("}\n")}, true
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil { // not expected: the output of a tool is valid JSON
		return net.Buffers{[]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"Internal error","data":{"name":"INTERNAL","reason":"INTERNAL"}}}` + "\n")}, false
	}
	return net.Buffers{b.Bytes()}, true
}
