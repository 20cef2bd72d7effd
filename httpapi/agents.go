package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/fault"
)

// Credential is the credential of an agent, as answered at agents.CredentialPath.
type Credential struct {
	// Key is the id of the credential, Secret the bearer token. Secret is "" if the agent has chosen it.
	Key       string    `json:"key"`
	Secret    string    `json:"secret,omitempty"`
	ExpiresAt time.Time `json:"expires_at"`
}

// AgentDispatcher handles the calls of agents.
type AgentDispatcher interface {
	Claim(ctx context.Context, m agents.Member, c agents.Claim) (agents.Work, error)
	Heartbeat(ctx context.Context, m agents.Member, b agents.Heartbeat) (agents.Work, error)
	Report(ctx context.Context, m agents.Member, r agents.Report) error
}

// AgentsConfig configures Agents.
type AgentsConfig struct {
	Dispatcher AgentDispatcher
	// Verify returns the agent with a secret. It returns UNAUTHORIZED or TOKEN_EXPIRED for an invalid secret, and FORBIDDEN for
	// the secret of an identity that is not an agent.
	Verify func(ctx context.Context, secret string) (agents.Member, error)
	// Renew replaces the credential of an agent. in is valid according to Renewal.Check.
	Renew func(ctx context.Context, m agents.Member, in agents.Renewal) (Credential, error)
	// Admit counts a request of size bytes, -1 if unknown. It returns RATE_LIMITED if the identity exceeds its limits. The caller
	// must call leave when the request has ended. With nil there are no limits.
	Admit func(who string, size int64) (leave func(), err error)
	// Logger logs the causes of internal errors. With nil nothing is logged.
	Logger *slog.Logger
}

// maxBody is the most bytes of a request of an agent.
const maxBody = 5 << 20

// Agents returns a handler for the requests of registered agents. It answers errors as {name, message, …} with an HTTP status.
func Agents(cfg AgentsConfig) http.Handler {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Admit == nil {
		cfg.Admit = func(string, int64) (func(), error) { return func() {}, nil }
	}
	paths := map[string]http.Handler{
		agents.StatusPath: serveCall(cfg, cfg.Dispatcher.Heartbeat),
		agents.TasksPath:  serveCall(cfg, cfg.Dispatcher.Claim),
		agents.ResultsPath: serveCall(cfg, func(ctx context.Context, m agents.Member, r agents.Report) (struct{}, error) {
			return struct{}{}, cfg.Dispatcher.Report(ctx, m, r)
		}),
		agents.CredentialPath: serveCall(cfg, func(ctx context.Context, m agents.Member, in agents.Renewal) (Credential, error) {
			if err := in.Check(); err != nil {
				return Credential{}, err
			}
			return cfg.Renew(ctx, m, in)
		}),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := paths[r.URL.Path]
		switch {
		case path == nil:
			refuse(cfg.Logger, w, r, fault.New(fault.NotFound, "there is no such path").WithHint("agents speak to %s, %s, %s and %s",
				agents.TasksPath, agents.StatusPath, agents.ResultsPath, agents.CredentialPath))
		case r.Method != http.MethodPost:
			w.Header().Set("Allow", http.MethodPost)
			answerError(w, http.StatusMethodNotAllowed, fault.New(fault.InvalidRequest, "the path takes POST"))
		default:
			path.ServeHTTP(w, r)
		}
	})
}

// serveCall returns the handler of one path, which answers with the result of do.
func serveCall[In, Out any](cfg AgentsConfig, do func(context.Context, agents.Member, In) (Out, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out, err := serveAgent(cfg, w, r, do)
		if err != nil {
			refuse(cfg.Logger, w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out) // the agent has disconnected
	})
}

// serveAgent authenticates the agent, decodes its request, and calls do.
func serveAgent[In, Out any](cfg AgentsConfig, w http.ResponseWriter, r *http.Request, do func(context.Context, agents.Member, In) (Out, error)) (out Out, err error) {
	m, err := authenticate(cfg, r)
	if err != nil {
		return out, err
	}
	leave, err := cfg.Admit(m.Actor(), r.ContentLength)
	if err != nil {
		return out, err
	}
	defer leave()
	var in In
	if err := decode(w, r, &in); err != nil {
		return out, err
	}
	return do(r.Context(), m, in)
}

// authenticate returns the agent that has sent a request. It refuses requests from web pages.
func authenticate(cfg AgentsConfig, r *http.Request) (agents.Member, error) {
	if r.Header.Get("Origin") != "" {
		return agents.Member{}, fault.New(fault.Forbidden, "web pages are not agents")
	}
	secret := bearer(r)
	if secret == "" {
		return agents.Member{}, fault.New(fault.Unauthorized, "there is no bearer token").WithHint("send the secret of the agent: Authorization: Bearer …")
	}
	return cfg.Verify(r.Context(), secret)
}

// decode decodes the body of a request into a value. It returns an error for unknown fields and for data after the object. An empty
// body leaves the value unchanged.
func decode(w http.ResponseWriter, r *http.Request, into any) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return fault.New(fault.ValidationError, "the request has more than %d bytes", maxBody).WithReason("SIZE_LIMIT_EXCEEDED")
		}
		return fault.Wrap(fault.InvalidRequest, err, "the request cannot be read")
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fault.Wrap(fault.InvalidParams, err, "the request is not what is expected: "+decodeProblem(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fault.New(fault.ParseError, "something follows the object")
	}
	return nil
}

// decodeProblem describes the error of decoding a request, without quoting values from the request.
func decodeProblem(err error) string {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return "the field " + wrong.Field + " is of another type"
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok && len(name) < 80 {
		return "the field " + name + " is not known"
	}
	return "it is not valid JSON"
}

// refuse answers a request with an error, and logs an internal error.
func refuse(log *slog.Logger, w http.ResponseWriter, r *http.Request, err error) {
	f := fault.From(err)
	if f.Code == fault.Internal {
		log.ErrorContext(r.Context(), "agent_request_failed", slog.String("path", r.URL.Path), slog.Any("error", err), slog.Any("cause", f.Err))
	}
	if f.Code == fault.Unauthorized || f.Code == fault.TokenExpired {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if f.Code == fault.RateLimited {
		w.Header().Set("Retry-After", "1")
	}
	answerError(w, statusOf(f.Code), f)
}

func answerError(w http.ResponseWriter, status int, f *fault.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(f) // the agent has disconnected
}

// statusOf returns the HTTP status for a code.
func statusOf(code fault.Code) int {
	switch code {
	case fault.Unauthorized, fault.TokenExpired:
		return http.StatusUnauthorized
	case fault.Forbidden, fault.ApprovalRequired:
		return http.StatusForbidden
	case fault.NotFound:
		return http.StatusNotFound
	case fault.Conflict:
		return http.StatusConflict
	case fault.RateLimited, fault.QuotaExceeded:
		return http.StatusTooManyRequests
	case fault.ParseError, fault.InvalidRequest, fault.InvalidParams, fault.ValidationError, fault.RequiredField, fault.InvalidFormat, fault.SecretDetected:
		return http.StatusBadRequest
	case fault.Unavailable, fault.DiskFull:
		return http.StatusServiceUnavailable
	case fault.Timeout, fault.Cancelled:
		return http.StatusGatewayTimeout
	default:
		return http.StatusInternalServerError
	}
}
