package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/hooks"
	"github.com/orch-dev/orch/receiver"
)

// HooksPath is the path of the hooks; their names follow.
const HooksPath = "/hooks/"

const (
	// maxDeliveries is the number of deliveries that are read and handled at the same time. With their bodies they take 32 MiB.
	maxDeliveries = 32
	// deliveryTime is how long a sender may take for its body.
	deliveryTime = 10 * time.Second
)

// HooksConfig configures the handler of deliveries. Its fields are required.
type HooksConfig struct {
	// Receive handles a delivery.
	Receive func(ctx context.Context, d receiver.Delivery) (receiver.Answer, error)
	// Operator reports whether a bearer token is one of an operator.
	Operator func(ctx context.Context, token string) bool
}

// Hooks returns the handler of the deliveries to hooks. It needs no bearer token: a signature takes its place. It also does not check
// the host, because a proxy or a tunnel may pass on the public name of the node, and a page that has rebound a name cannot sign.
// Requests of pages, which have an origin, are refused.
func Hooks(cfg HooksConfig) http.Handler {
	return &hookHandler{cfg, make(chan struct{}, maxDeliveries)}
}

type hookHandler struct {
	cfg HooksConfig
	// slots has an element for each delivery that is handled.
	slots chan struct{}
}

// IsDelivery reports whether a path is that of a hook.
func IsDelivery(path string) bool { return strings.HasPrefix(path, HooksPath) }

// ServeHTTP implements http.Handler.
func (h *hookHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(headerRequest, events.NewRequestID())
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch {
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		refuseDelivery(w, http.StatusMethodNotAllowed, fault.New(fault.InvalidRequest, "a hook takes POST"))
		return
	case r.Header.Get("Origin") != "":
		refuseDelivery(w, http.StatusForbidden, fault.New(fault.Forbidden, "a hook takes no requests of pages").WithReason("ORIGIN_NOT_ALLOWED"))
		return
	}
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		w.Header().Set("Retry-After", "1")
		refuseDelivery(w, http.StatusServiceUnavailable, fault.New(fault.Unavailable, "%d deliveries are being read", maxDeliveries))
		return
	}
	body, status, err := readDelivery(w, r)
	if err != nil {
		refuseDelivery(w, status, err)
		return
	}
	answer, err := h.cfg.Receive(r.Context(), receiver.Delivery{
		Name: strings.TrimPrefix(r.URL.Path, HooksPath), Headers: headersOf(r.Header), Body: body,
		Operator: func() bool { return h.cfg.Operator(r.Context(), bearer(r)) },
	})
	if err != nil {
		h.fail(w, err)
		return
	}
	writeAnswer(w, answer)
}

// readDelivery reads the body of a delivery. Beside an error it returns the HTTP status to answer with.
func readDelivery(w http.ResponseWriter, r *http.Request) (body []byte, status int, err error) {
	if r.ContentLength > receiver.MaxBody {
		return nil, http.StatusRequestEntityTooLarge, errLargeDelivery()
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(deliveryTime)) // if it cannot be set, the limit of the server counts
	body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, receiver.MaxBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, http.StatusRequestEntityTooLarge, errLargeDelivery()
	}
	if err != nil {
		return nil, http.StatusBadRequest, fault.New(fault.ParseError, "the body cannot be read")
	}
	return body, 0, nil
}

func errLargeDelivery() error {
	return fault.New(fault.ValidationError, "the delivery is larger than %d MiB", receiver.MaxBody>>20).WithReason("SIZE_LIMIT_EXCEEDED")
}

// headersOf returns headers by their names in lower case. Several of one name are joined, so that no signature is chosen among them.
func headersOf(h http.Header) hooks.Headers {
	all := make(hooks.Headers, len(h))
	for name, texts := range h {
		all[strings.ToLower(name)] = strings.Join(texts, ", ")
	}
	return all
}

// fail answers a delivery with an error. Only what the sender needs is in it.
func (h *hookHandler) fail(w http.ResponseWriter, err error) {
	f := fault.From(err)
	status := http.StatusServiceUnavailable
	switch {
	case f.Code == fault.Unauthorized:
		status = http.StatusUnauthorized
	case f.Code == fault.RateLimited:
		status = http.StatusTooManyRequests
	case f.Reason == receiver.ReasonRefused:
		status = http.StatusUnprocessableEntity
	case f.Reason != receiver.ReasonPaused:
		f = fault.New(fault.Unavailable, "the delivery cannot be taken now").WithHint("send it again")
	}
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", strconv.Itoa(max(f.RetryAfter(time.Now()), 1)))
	}
	refuseDelivery(w, status, f)
}

// refuseDelivery answers a delivery with an error.
func refuseDelivery(w http.ResponseWriter, status int, err error) {
	f := fault.From(err)
	writeDelivery(w, status, map[string]any{"error": struct {
		Code    fault.Code `json:"code"`
		Reason  string     `json:"reason,omitempty"`
		Message string     `json:"message"`
		Hint    string     `json:"hint,omitempty"`
	}{f.Code, f.Reason, f.Message, f.Hint}})
}

// writeAnswer answers a delivery: 202 if it has done something, 200 if there was nothing to do.
func writeAnswer(w http.ResponseWriter, a receiver.Answer) {
	if a.Challenge != "" {
		writeDelivery(w, http.StatusOK, map[string]string{"challenge": a.Challenge})
		return
	}
	status := http.StatusOK
	if a.Result == hooks.Accepted {
		status = http.StatusAccepted
	}
	writeDelivery(w, status, a)
}

func writeDelivery(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the sender may be gone
}
