package rest

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
)

// errorBody is the body of an error.
type errorBody struct {
	Error errorDetails `json:"error"`
}

// errorDetails describe an error.
type errorDetails struct {
	// Code is the name of a code of fault.Registry.
	Code    fault.Code `json:"code"`
	Message string     `json:"message"`
	// Field names the invalid input.
	Field string `json:"field,omitempty"`
	// Reason is a more specific name than Code.
	Reason string `json:"reason,omitempty"`
	Hint   string `json:"hint,omitempty"`
	// RetryAfter is the number of seconds after which a retry may succeed.
	RetryAfter *int `json:"retry_after,omitempty"`
	// RequestID is the id of the request in the log of the node.
	RequestID string `json:"request_id"`
}

// statuses maps the codes of fault.Registry to HTTP statuses.
var statuses = map[fault.Code]int{ //nolint:gochecknoglobals // a constant table
	fault.ParseError: 400, fault.InvalidRequest: 400, fault.MethodNotFound: 404, fault.InvalidParams: 400, fault.Internal: 500,

	fault.Unauthorized: 401, fault.Forbidden: 403, fault.TokenExpired: 401, fault.ApprovalRequired: 403, fault.ApprovalRejected: 403,
	fault.ApprovalExpired: 403, fault.ToolDisabled: 403, fault.OutsideRoot: 403, fault.ReadOnly: 403, fault.CommandNotAllowed: 403,
	fault.SecretDetected: 400, fault.ProtectedPath: 403,

	fault.NotFound: 404, fault.Conflict: 409, fault.Gone: 410, fault.StateNotAllowed: 409, fault.PatchFailed: 409, fault.NotUnique: 409,
	fault.Cancelled: 409, fault.DataLoss: 500, fault.InDoubt: 409, fault.NewerStore: 503, fault.NewerRequest: 400,

	fault.ValidationError: 400, fault.RequiredField: 400, fault.InvalidFormat: 400, fault.InvalidPlan: 400,

	fault.RateLimited: 429, fault.QuotaExceeded: 429, fault.DiskFull: 503,

	fault.FirebaseError: 502, fault.GithubError: 502, fault.Timeout: 504, fault.ToolUnavailable: 502, fault.ExecFailed: 502,
	fault.NetworkError: 502, fault.DatabaseError: 502, fault.Unavailable: 503, fault.WorkerLost: 502, fault.ToolFailed: 502,
}

// StatusOf returns the HTTP status for a code, 500 for a code that is not in fault.Registry.
func StatusOf(c fault.Code) int {
	if status := statuses[c]; status != 0 {
		return status
	}
	return http.StatusInternalServerError
}

// statusError is an error with a status that differs from that of its code.
type statusError struct {
	status int
	err    *fault.Error
}

// Error implements error.
func (e *statusError) Error() string { return e.err.Error() }

// Unwrap returns the coded error.
func (e *statusError) Unwrap() error { return e.err }

// reasonTooLarge is the reason of an error about a body that is too large.
const reasonTooLarge = "SIZE_LIMIT_EXCEEDED"

// reasonMedia is the reason of an error about the form of a body.
const reasonMedia = "UNSUPPORTED_MEDIA_TYPE"

func errTooLarge() error {
	return &statusError{http.StatusRequestEntityTooLarge, fault.New(fault.ValidationError, "the body is larger than %d MiB", MaxBody>>20).WithReason(reasonTooLarge)}
}

func errMediaType(wanted string) error {
	return &statusError{http.StatusUnsupportedMediaType, fault.New(fault.InvalidRequest, "a body must have the content type %s", wanted).
		WithField("Content-Type").WithReason(reasonMedia)}
}

func errLength() error {
	return &statusError{http.StatusLengthRequired, fault.New(fault.InvalidRequest, "the size of the file must be known before it is sent").
		WithField("Content-Length").WithReason("LENGTH_REQUIRED")}
}

func errVerb(verb, allowed string) error {
	return &statusError{http.StatusMethodNotAllowed, fault.New(fault.InvalidRequest, "the path does not support %s", clip(verb)).
		WithReason("METHOD_NOT_ALLOWED").WithHint("it supports %s", allowed)}
}

// errPath refuses a path that this node does not know, perhaps one of a newer version of the API.
func errPath(path string) error {
	rest, _ := strings.CutPrefix(path, Prefix[:len(Prefix)-1])
	version, _, _ := strings.Cut(rest, "/")
	if v, err := strconv.Atoi(version); (err == nil || errors.Is(err, strconv.ErrRange)) && rest != path && v > 1 {
		return fault.New(fault.NewerRequest, "the request has version %d of the HTTP API, this node knows 1", v).
			WithHint("use a newer orch for the node; nothing was done")
	}
	return fault.New(fault.NotFound, "there is nothing at this path").WithReason("NO_SUCH_PATH").WithHint("GET %s/openapi.json describes all paths", Prefix)
}

func errHost() error {
	return &statusError{http.StatusMisdirectedRequest, fault.New(fault.Forbidden, "the node does not serve this host name").
		WithField("Host").WithReason("HOST_NOT_ALLOWED").WithHint("use localhost or the address of the node")}
}

// problem is an error as it is sent.
type problem struct {
	status  int
	details errorDetails
}

// problemOf converts an error. An answer never contains the cause of the error.
func problemOf(err error, request string, now time.Time, redact func(string) string) problem {
	f := fault.From(err).Rewrite(redact)
	p := problem{StatusOf(f.Code), errorDetails{
		Code: f.Code, Message: f.Message, Field: f.Field, Reason: f.Reason, Hint: f.Hint, RequestID: request,
	}}
	if special, ok := errors.AsType[*statusError](err); ok {
		p.status = special.status
	}
	if !f.RetryAt.IsZero() {
		p.details.RetryAfter = new(f.RetryAfter(now))
	} else if p.status == http.StatusTooManyRequests || p.status == http.StatusServiceUnavailable {
		p.details.RetryAfter = new(1)
	}
	return p
}

// write sends the error.
func (p problem) write(w http.ResponseWriter) {
	if p.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="orch"`)
	}
	if p.details.RetryAfter != nil {
		w.Header().Set("Retry-After", strconv.Itoa(*p.details.RetryAfter))
	}
	writeJSON(w, p.status, errorBody{p.details})
}

// writeJSON sends a value as JSON.
func writeJSON(w http.ResponseWriter, status int, value any) {
	data, err := json.Marshal(value)
	if err != nil { // not expected: outputs of tools are valid JSON
		status, data = http.StatusInternalServerError, []byte(`{"error":{"code":"INTERNAL","message":"an answer cannot be encoded","request_id":""}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n')) // the client may be gone
}

// clip shortens a foreign text.
func clip(text string) string { return fault.Clip(text, 64) }
