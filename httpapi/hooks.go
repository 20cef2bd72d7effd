package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/hooks"
	"github.com/orch-dev/orch/receiver"
)

// HooksPath is the path of the hooks; their names follow.
const HooksPath = "/hooks/"

const (
	// maxDeliveries is the number of deliveries that are handled at the same time. Others wait, at most deliveryWait.
	maxDeliveries = 32
	deliveryWait  = 10 * time.Second
	// deliveryTime is how long a sender may take for its body.
	deliveryTime = 10 * time.Second
	// maxPending bounds the bodies of deliveries that are being read or wait, in bytes. A body takes of it what has arrived, in
	// chunks, so that slow senders take little.
	maxPending = 32 << 20
	chunk      = 16 << 10
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
	return &hookHandler{cfg: cfg, slots: make(chan struct{}, maxDeliveries)}
}

type hookHandler struct {
	cfg HooksConfig
	// slots has an element for each delivery that is handled.
	slots chan struct{}
	// pending is the size of the bodies that are being read or wait.
	pending atomic.Int64
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
	body, leave, status, err := h.read(w, r)
	defer leave()
	if err == nil && !h.enter(r.Context()) {
		status, err = http.StatusServiceUnavailable, errBusy()
	}
	if err != nil {
		if status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "1")
		}
		refuseDelivery(w, status, err)
		return
	}
	defer func() { <-h.slots }()
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

// enter waits until a delivery can be handled. It returns false if that takes too long.
func (h *hookHandler) enter(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, deliveryWait)
	defer cancel()
	select {
	case h.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func errBusy() error {
	return fault.New(fault.Unavailable, "the node has too many deliveries to handle")
}

// read reads the body of a delivery. The caller calls leave when the body is no longer needed. Beside an error it returns the HTTP
// status to answer with.
func (h *hookHandler) read(w http.ResponseWriter, r *http.Request) (body []byte, leave func(), status int, err error) {
	held := int64(0)
	leave = func() { h.pending.Add(-held) }
	if r.ContentLength > receiver.MaxBody {
		return nil, leave, http.StatusRequestEntityTooLarge, errLargeDelivery()
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(deliveryTime)) // if it cannot be set, the limit of the server counts
	from := http.MaxBytesReader(w, r.Body, receiver.MaxBody)
	var b bytes.Buffer
	for {
		held += chunk
		if h.pending.Add(chunk) > maxPending {
			return nil, leave, http.StatusServiceUnavailable, errBusy()
		}
		_, err := io.CopyN(&b, from, chunk)
		if errors.Is(err, io.EOF) {
			return b.Bytes(), leave, 0, nil
		}
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			return nil, leave, http.StatusRequestEntityTooLarge, errLargeDelivery()
		}
		if err != nil {
			return nil, leave, http.StatusBadRequest, fault.New(fault.ParseError, "the body cannot be read")
		}
	}
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
	case f.Reason == receiver.ReasonRefused, f.Reason == hooks.ReasonLoop:
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

// writeAnswer answers a delivery: 202 if it has done something, 200 if there was nothing to do or the sender takes nothing else.
func writeAnswer(w http.ResponseWriter, a receiver.Answer) {
	if a.Challenge != "" {
		writeDelivery(w, http.StatusOK, map[string]string{"challenge": a.Challenge})
		return
	}
	if a.Silent {
		w.WriteHeader(http.StatusOK)
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
