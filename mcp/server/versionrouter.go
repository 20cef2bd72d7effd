package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/netguard"
)

// versionRouter serves both generations of the protocol at one URL: 2025-11-25 and earlier, with sessions (stateful), and
// 2026-07-28 (stateless). It passes each request to the handler of its generation.
type versionRouter struct {
	s                   *Server
	stateful, stateless http.Handler
}

// Handler returns a handler that serves MCP over Streamable HTTP. Every request needs a bearer token (S4-002). The caller sets
// the timeouts for reading requests and writing responses.
func (s *Server) Handler() http.Handler {
	get := func(*http.Request) *mcp.Server { return s.forClient() }
	f := &versionRouter{
		s:         s,
		stateful:  mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{SessionTimeout: s.cfg.Limits.SessionTimeout, Logger: s.sdkLogger}),
		stateless: mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true, Logger: s.sdkLogger}),
	}
	protect := auth.RequireBearerToken(
		func(ctx context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
			return s.verify(ctx, token)
		},
		&auth.RequireBearerTokenOptions{AllowMissingExpiration: true, ResourceMetadataURL: s.cfg.HTTP.ResourceMetadata},
	)
	return s.checkOrigin(protect(s.limitRequests(f)))
}

// checkOrigin refuses requests from web pages of foreign origins, and requests to a foreign host name (S2-008).
func (s *Server) checkOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin := r.Header.Get("Origin")
		if origin != "" && !slices.Contains(s.cfg.HTTP.Origins, origin) && !sameHost(origin, r.Host) || Rebound(r) {
			http.Error(w, "forbidden: the origin or the host is not allowed", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Metadata returns a handler for the protected resource metadata (RFC 9728): clients need a bearer token from the operator.
func Metadata(resource string) http.Handler {
	var scopes []string
	for _, r := range Roles() {
		scopes = append(scopes, string(r))
	}
	return auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: resource, ScopesSupported: scopes, BearerMethodsSupported: []string{"header"}, ResourceName: "orch",
	})
}

func sameHost(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host == host
}

// Rebound reports whether a request reached a loopback address under a host name that is not local (DNS rebinding).
func Rebound(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && isLoopback(local.String()) && !isLoopback(r.Host)
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	return netguard.IsLoopback(strings.Trim(host, "[]"))
}

// ServeHTTP implements http.Handler.
func (f *versionRouter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name := range r.Header {
		if strings.HasPrefix(name, notePrefix) {
			delete(r.Header, name)
		}
	}
	r.Header.Set(noteHTTP, "1")
	if !readProfile(w, r) {
		return
	}
	if r.Method != http.MethodPost {
		f.serveSession(w, r, nil)
		return
	}
	release, ok := f.s.meter.acquireBytes(ownerOf(r), r.ContentLength)
	if !ok {
		tooMany(w)
		return
	}
	defer release()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		http.Error(w, "the request is larger than 4 MiB", http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	p, wrong := parseEnvelope(body)
	if wrong != nil {
		refuse(w, http.StatusBadRequest, p.ID, wrong)
		return
	}
	f.s.memory.serve(w, r, p.mayBeLarge(), func(w http.ResponseWriter) { f.post(w, r, p, body) })
}

func notOneMessage() *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "this is not one message of JSON-RPC 2.0"}
}

// isID reports whether id is absent or a valid request id of MCP: a string or a number.
func isID(id json.RawMessage) bool {
	return len(id) == 0 || id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9'
}

// post passes a message to the handler of its generation.
func (f *versionRouter) post(w http.ResponseWriter, r *http.Request, p envelope, body []byte) {
	r.Header.Set(noteID, string(p.ID))
	if len(p.Params.Task) > 0 && string(p.Params.Task) != "null" {
		r.Header.Set(noteTask, string(p.Params.Task))
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	method := ""
	if p.Method != nil {
		method = *p.Method
	}
	if version := r.Header.Get(headerVersion); version >= firstStatelessVersion || p.Params.Meta.Version >= firstStatelessVersion {
		f.postStateless(w, r, p, body, method)
		return
	}
	switch {
	case len(p.ID) > 0 && p.Method != nil && !hasMethod(method):
		refuse(w, http.StatusOK, p.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "there is no method " + quoted(method)})
	case method == "initialize" && r.Header.Get(headerSession) != "":
		refuse(w, http.StatusBadRequest, p.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the session has begun already"})
	case method == "initialize":
		f.open(w, r, p.ID, body)
	case r.Header.Get(headerSession) == "" && method == "ping" && len(p.ID) > 0:
		respond(w, http.StatusOK, mustJSON(object{"jsonrpc": "2.0", "id": p.ID, "result": object{}}))
	case r.Header.Get(headerSession) == "":
		refuse(w, http.StatusBadRequest, p.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the session has to begin with initialize"})
	default:
		if known := f.s.clients.sessions.ownedBy(r.Header.Get(headerSession), ownerOf(r)); known != nil && method == "notifications/cancelled" {
			known.recordCancelled(string(p.Params.RequestID))
		}
		if f.handleReply(r, p) {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		if mayAsk(method) {
			r.Header.Set(noteStream, newStreamKey())
		}
		if method == "tools/call" && len(p.ID) > 0 {
			defer f.s.clients.replies.register(r.Header.Get(headerSession), string(p.ID))()
		}
		f.serveSession(w, r, body)
	}
}

// mayAsk reports whether a request may wait for people. Their questions are sent on the stream of the request.
func mayAsk(method string) bool { return method == "tools/call" || method == "tasks/result" }

// postStateless serves a request of 2026-07-28.
func (f *versionRouter) postStateless(w http.ResponseWriter, r *http.Request, p envelope, body []byte, method string) {
	if strings.TrimSpace(r.Header.Get(headerMethod)) != method && method == "subscriptions/listen" {
		refuse(w, http.StatusBadRequest, p.ID, &jsonrpc.Error{Code: codeHeader, Message: "the header Mcp-Method does not name the method of the request"})
		return
	}
	if name := r.Header.Get(headerName); name != "" && strings.HasPrefix(method, "tasks/") && strings.TrimSpace(name) != p.Params.TaskID {
		refuse(w, http.StatusBadRequest, p.ID, &jsonrpc.Error{Code: codeHeader, Message: "the header Mcp-Name does not name the task of the request"})
		return
	}
	if wants := p.Params.Notifications; method == "subscriptions/listen" && len(wants.TaskIDs)+len(wants.Subscriptions) > 0 {
		f.listen(w, r, p, onlyTasks(body))
		return
	}
	if method == "tools/call" { // subscription messages are sent after the answer
		reply := rand.Text()
		r.Header.Set(noteReply, reply)
		defer f.s.clients.replies.register(noteReply, reply)()
	}
	f.stateless.ServeHTTP(w, r)
}

// refuse answers with a protocol error.
func refuse(w http.ResponseWriter, status int, id json.RawMessage, err *jsonrpc.Error) {
	respond(w, status, refusal(id, err))
}

// refusal returns an answer with a protocol error.
func refusal(id json.RawMessage, err *jsonrpc.Error) json.RawMessage {
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	return mustJSON(object{"jsonrpc": "2.0", "id": id, "error": err})
}

func respond(w http.ResponseWriter, status int, message json.RawMessage) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(message)
}

// maxInitialize is the most bytes of the request that opens a session, which is stored with the session.
const maxInitialize = 64 << 10

// open opens a session.
func (f *versionRouter) open(w http.ResponseWriter, r *http.Request, request json.RawMessage, body []byte) {
	if len(body) > maxInitialize {
		http.Error(w, "the request that opens a session is larger than 64 KiB", http.StatusRequestEntityTooLarge)
		return
	}
	if err := initializeError(body); err != nil {
		refuse(w, http.StatusOK, request, err)
		return
	}
	if f.s.clients.sessions.count() >= MaxSessions {
		w.Header().Set("Retry-After", "60")
		http.Error(w, "too many sessions are open", http.StatusServiceUnavailable)
		return
	}
	id := newSessionID()
	kept := record{Owner: ownerOf(r), Initialize: body, At: f.s.cfg.Now()}
	if !f.openAs(&saveFirstWriter{ResponseWriter: w, id: id, keep: func() { f.s.clients.save(r.Context(), id, mustJSON(kept)) }}, r, id) {
		return
	}
	known := f.s.clients.sessions.get(id)
	known.mu.Lock()
	known.record = kept
	known.mu.Unlock()
}

// openAs makes the SDK open a session with the given id, and reports whether it did.
func (f *versionRouter) openAs(w http.ResponseWriter, r *http.Request, id string) bool {
	f.s.fresh.opening.Lock()
	defer f.s.fresh.opening.Unlock()
	f.s.fresh.next = id
	f.stateful.ServeHTTP(w, r)
	return w.Header().Get(headerSession) == id
}

// serveSession serves a request of a session. If a restart has ended the session, serveSession first reopens it.
func (f *versionRouter) serveSession(w http.ResponseWriter, r *http.Request, body []byte) {
	id := r.Header.Get(headerSession)
	if known := f.s.clients.sessions.ownedBy(id, ownerOf(r)); known != nil {
		known.mu.Lock()
		known.At = f.s.cfg.Now()
		known.mu.Unlock()
		if r.Method == http.MethodDelete {
			known.end()
		}
	}
	got := &sessionProbe{ResponseWriter: w}
	f.serve(got, r, id)
	if got.gone && id != "" && f.reopen(r, id) {
		r.Body = io.NopCloser(bytes.NewReader(body))
		got = &sessionProbe{ResponseWriter: w}
		f.serve(got, r, id)
	}
	switch {
	case got.gone:
		http.Error(w, "session not found", http.StatusNotFound)
	case got.status == http.StatusNoContent: // the owner has ended it
		f.s.sessions.endSession(r.Context(), id, ownerOf(r))
		f.forget(r.Context(), id)
	}
}

// serve passes a request to the SDK's sessions; a GET becomes the standing stream.
func (f *versionRouter) serve(w http.ResponseWriter, r *http.Request, id string) {
	if r.Method == http.MethodGet && id != "" {
		ctx, leave := f.s.clients.replaceStanding(r.Context(), id, ownerOf(r))
		defer leave()
		r = r.WithContext(ctx)
		f.serveStanding(w, r, id)
		return
	}
	if key := r.Header.Get(noteStream); key != "" {
		stream := newEventStream(w)
		stream.opens = true
		defer stream.end()
		defer f.s.clients.streams.openRequest(key, stream)()
		w = stream
	}
	f.stateful.ServeHTTP(w, r)
}

func (f *versionRouter) forget(ctx context.Context, id string) {
	f.s.clients.sessions.remove(id)
	if f.s.cfg.Stores.Sessions != nil {
		_ = f.s.cfg.Stores.Sessions.DeleteSession(ctx, id)
	}
}

// reopen reopens a session of an earlier process: it replays the stored initialize request, and restores the log level
// and the subscriptions.
func (f *versionRouter) reopen(r *http.Request, id string) bool {
	if f.s.cfg.Stores.Sessions == nil {
		return false
	}
	data, err := f.s.cfg.Stores.Sessions.LoadSession(r.Context(), id)
	var kept record
	if err != nil || data == nil || json.Unmarshal(data, &kept) != nil || kept.Owner != ownerOf(r) {
		return false
	}
	if !f.openAs(newDiscardWriter(), f.inner(r, "", kept.Initialize), id) {
		return false
	}
	known := f.s.clients.sessions.get(id)
	known.mu.Lock()
	known.record = kept
	known.At = f.s.cfg.Now()
	known.mu.Unlock()
	f.replay(r, id, object{"method": "notifications/initialized"})
	if kept.Level != "" {
		f.replay(r, id, object{"id": "orch-level", "method": "logging/setLevel", "params": object{"level": kept.Level}})
	}
	for i, uri := range kept.Subscribed {
		f.replay(r, id, object{"id": "orch-" + string(rune('a'+i%26)), "method": "resources/subscribe", "params": object{"uri": uri}})
	}
	if len(kept.Listening) > 0 && f.s.cfg.Stores.Subscriptions != nil {
		f.s.subscriptions.reportLost(id, kept.Listening)
	}
	return true
}

func (f *versionRouter) replay(r *http.Request, id string, message object) {
	message["jsonrpc"] = "2.0"
	f.stateful.ServeHTTP(newDiscardWriter(), f.inner(r, id, mustJSON(message)))
}

// inner returns an internal request with the permissions of the external request r.
func (f *versionRouter) inner(r *http.Request, id string, body []byte) *http.Request {
	in := r.Clone(r.Context())
	in.Method, in.Body = http.MethodPost, io.NopCloser(bytes.NewReader(body))
	in.ContentLength = int64(len(body))
	in.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, noteHTTP: {"1"}}
	if version := r.Header.Get(headerVersion); version != "" {
		in.Header.Set(headerVersion, version)
	}
	if id != "" {
		in.Header.Set(headerSession, id)
	}
	return in
}

// sessionProbe passes a response through, but discards it and sets gone if its status is 404: the session does not exist.
type sessionProbe struct {
	http.ResponseWriter
	gone   bool
	status int
}

// WriteHeader implements http.ResponseWriter.
func (p *sessionProbe) WriteHeader(status int) {
	if status == http.StatusNotFound {
		p.gone = true
		clear(p.Header())
		return
	}
	p.status = status
	p.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (p *sessionProbe) Write(data []byte) (int, error) {
	if p.gone {
		return len(data), nil
	}
	return p.ResponseWriter.Write(data)
}

// Flush implements http.Flusher.
func (p *sessionProbe) Flush() { _ = http.NewResponseController(p.ResponseWriter).Flush() }

// Unwrap returns the underlying writer, for deadlines.
func (p *sessionProbe) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// discardWriter is a ResponseWriter that discards the response.
type discardWriter struct{ header http.Header }

func newDiscardWriter() *discardWriter { return &discardWriter{http.Header{}} }

// Header implements http.ResponseWriter.
func (d *discardWriter) Header() http.Header { return d.header }

// WriteHeader implements http.ResponseWriter.
func (*discardWriter) WriteHeader(int) {}

// Write implements http.ResponseWriter.
func (*discardWriter) Write(data []byte) (int, error) { return len(data), nil }

// hasMethod reports whether method is a request that a server of 2025-11-25 supports.
func hasMethod(method string) bool {
	switch method {
	case "initialize", "ping", "tools/list", "tools/call", "resources/list", "resources/read", "resources/templates/list",
		"resources/subscribe", "resources/unsubscribe", "prompts/list", "prompts/get", "completion/complete", "logging/setLevel",
		"tasks/get", "tasks/list", "tasks/result", "tasks/cancel":
		return true
	default:
		return false
	}
}

// limitRequests refuses the requests of an identity that exceeds its limits.
func (s *Server) limitRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave, ok := s.meter.acquire(ownerOf(r))
		if !ok {
			tooMany(w)
			return
		}
		defer leave()
		next.ServeHTTP(w, r)
	})
}

// verify verifies a bearer token for the SDK.
func (s *Server) verify(ctx context.Context, token string) (*auth.TokenInfo, error) {
	who, expires, err := s.cfg.HTTP.Tokens.Verify(ctx, token)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", auth.ErrInvalidToken, fault.From(err).Message)
	}
	return &auth.TokenInfo{UserID: who.Name, Expiration: expires, Scopes: []string{string(who.Role)}, Extra: map[string]any{identityKey: who}}, nil
}
