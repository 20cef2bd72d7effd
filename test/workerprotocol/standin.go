package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/orch-dev/orch/fault"
)

const (
	// usualPatience is how long the stand-in waits for what a worker must do.
	usualPatience = 30 * time.Second
	// grace is how long a worker may take to process an answer, on a busy machine too.
	grace = 3 * time.Second
	// longestWait is the longest wait that a request may ask for.
	longestWait = 30 * time.Second
	// retryAfter is how long a worker has to wait that is refused for a while.
	retryAfter = time.Second
)

// ref names an attempt of a call.
type ref struct {
	Task    string `json:"task"`
	Step    string `json:"step"`
	Attempt int    `json:"attempt"`
}

// report is the report of a call in a request.
type report struct {
	ref

	Result  json.RawMessage `json:"result,omitempty"`
	Summary string          `json:"summary,omitempty"`
	Error   string          `json:"error,omitempty"`
	Release bool            `json:"release,omitempty"`
	Unsure  bool            `json:"unsure,omitempty"`
	HandTo  json.RawMessage `json:"hand_to,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// running is a call that a request names as running.
type running struct {
	ref

	Progress json.RawMessage `json:"progress,omitempty"`
}

// request is a request of the worker.
type request struct {
	Instance string    `json:"instance"`
	Done     []report  `json:"done"`
	Running  []running `json:"running"`
	Take     int       `json:"take"`
	Wait     int64     `json:"wait"`
	Error    string    `json:"error"`
	Leaving  bool      `json:"leaving"`

	began time.Time
}

func (r *request) waits() bool { return r.Take > 0 || r.Wait > 0 }

// receipt answers a report.
type receipt struct {
	ref

	Error *refusal `json:"error,omitempty"`
}

type refusal struct {
	Name    string `json:"name"`
	Message string `json:"message"`
	Field   string `json:"field,omitempty"`
}

// answer is the answer to a request. It has a member that this version of the protocol does not know.
type answer struct {
	Done  []receipt        `json:"done,omitempty"`
	Calls []map[string]any `json:"calls,omitempty"`
	Stop  []ref            `json:"stop,omitempty"`
	Later string           `json:"of_a_later_version"`
}

// given is a call for the worker, and what the worker has said about it.
type given struct {
	ref

	data  map[string]any
	lease time.Duration
	// sent is when the answer with the call was written; zero before that, and after an answer that was lost.
	sent time.Time
	// named are the times of the requests that named it as running.
	named   []time.Time
	reports []report
	// accepted is set once a report counts.
	accepted bool
	// over is when the worker learned that the call is none of its business any more; zero before that.
	over time.Time
	stop bool
	// refuse are the receipts of the next reports; after them, a report is accepted.
	refuse []refusal
}

// call is the call as the worker gets it.
func (g *given) call() map[string]any {
	return map[string]any{
		"task": g.Task, "step": g.Step, "attempt": g.Attempt, "call": fmt.Sprintf("%s/%d/%s", g.Task, g.Attempt, g.Step), "key": g.Task + "/" + g.Step,
		"name": "conformance", "args": map[string]any{"title": g.Step, "requires": []string{capability}, "data": g.data},
		"deadline": time.Now().Add(time.Hour).UTC().Format(time.RFC3339), "left": time.Hour.Nanoseconds(), "lease": g.lease.Nanoseconds(), "of_a_later_version": []int{1},
	}
}

// standIn plays a node for one worker, and judges what the worker sends.
type standIn struct {
	// patience is how long it waits for what the worker must do.
	patience time.Duration

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change
	// secrets are the valid secrets. digest is that of the secret to come, "" before the worker has sent it.
	secrets  []string
	digest   string
	instance string
	calls    []*given
	// waiting is the request that waits, nil if there is none.
	waiting *request
	// lose decides whether the answer to a request is lost on its way.
	lose func(*request, *answer) bool
	// refuse is the status of the answer to the next waiting request, 0 to answer it. refused is when it was refused.
	refuse   int
	refused  time.Time
	again    time.Time // when the worker sent a waiting request after that
	requests int
	left     bool
	problems []string
}

func newStandIn(secret string, patience time.Duration) *standIn {
	return &standIn{patience: patience, changed: make(chan struct{}), secrets: []string{secret}}
}

// touch tells all who wait that something has changed. s.mu must be held.
func (s *standIn) touch() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits until a condition holds, which is evaluated under s.mu.
func (s *standIn) await(ctx context.Context, what string, holds func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	for {
		s.mu.Lock()
		ok, changed := holds(), s.changed
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fault.New(fault.ToolFailed, "the worker did not %s within %s", what, s.patience)
		}
	}
}

// offer gives the worker a call that takes some seconds.
func (s *standIn) offer(seconds float64, lease time.Duration, refuse ...refusal) *given {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.calls) + 1
	g := &given{ref: ref{fmt.Sprintf("TASK_%026d", n), "step", 1}, data: map[string]any{"n": n, "seconds": seconds}, lease: lease, refuse: refuse}
	s.calls = append(s.calls, g)
	s.touch()
	return g
}

// stop tells the worker to end a call.
func (s *standIn) stop(g *given) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.stop = true
	s.touch()
}

// set changes the state.
func (s *standIn) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.touch()
}

func (s *standIn) problem(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(s.problems, text) {
		s.problems = append(s.problems, text)
	}
}

// takeProblems returns the problems since the last call of takeProblems.
func (s *standIn) takeProblems() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.problems = nil }()
	return strings.Join(s.problems, "; ")
}

// ServeHTTP answers a request of the worker.
func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 4<<20))
	secret, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	s.mu.Lock()
	known := slices.Contains(s.secrets, secret)
	s.mu.Unlock()
	switch {
	case err != nil:
		reply(w, http.StatusRequestEntityTooLarge, problemBody("VALIDATION_ERROR", "the body is too large", ""))
	case !known && !s.becomesValid(secret):
		reply(w, http.StatusUnauthorized, problemBody("UNAUTHORIZED", "the secret is not valid", ""))
	case r.Method == http.MethodPost && r.URL.Path == "/agents/credential":
		s.credential(w, body)
	case r.Method == http.MethodPost && r.URL.Path == "/api/v1/work":
		s.work(w, r, body, began)
	default:
		reply(w, http.StatusNotFound, problemBody("NOT_FOUND", "a worker needs no "+r.Method+" "+r.URL.Path, ""))
	}
}

func problemBody(code, message, field string) map[string]any {
	return map[string]any{"error": map[string]any{"code": code, "message": message, "field": field}}
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the worker may be gone
}

// work answers a request for calls.
func (s *standIn) work(w http.ResponseWriter, r *http.Request, body []byte, began time.Time) {
	req := &request{began: began}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	s.mu.Lock()
	err := d.Decode(req)
	if err == nil {
		err = s.judge(req)
	}
	if err != nil {
		s.problem("it sent a wrong request: %v: %.200s", err, body)
		s.mu.Unlock()
		reply(w, http.StatusBadRequest, problemBody("VALIDATION_ERROR", err.Error(), ""))
		return
	}
	out := &answer{Done: s.receive(req), Later: "ignore me"}
	if req.waits() {
		if !s.refused.IsZero() && s.again.IsZero() {
			s.again = began
		}
		s.waiting = req
	}
	s.touch()
	s.mu.Unlock()
	status := s.fill(r.Context(), req, out)
	s.send(w, req, out, status)
}

// fill waits until there is something to answer, and adds it to the answer. It returns the status of the answer.
func (s *standIn) fill(ctx context.Context, req *request, out *answer) int {
	timer := time.NewTimer(time.Duration(req.Wait))
	defer timer.Stop()
	for waiting := req.waits(); ; {
		s.mu.Lock()
		if waiting && s.refuse != 0 && s.waiting == req {
			status := s.refuse
			s.refuse, s.refused, s.again = 0, time.Now(), time.Time{}
			s.mu.Unlock()
			return status
		}
		s.addCalls(req, out)
		done := !waiting || s.waiting != req || len(out.Calls)+len(out.Stop) > 0 || slices.ContainsFunc(out.Done, func(r receipt) bool { return r.Error != nil })
		changed := s.changed
		s.mu.Unlock()
		if done {
			return http.StatusOK
		}
		select {
		case <-changed:
		case <-timer.C:
			waiting = false
		case <-ctx.Done():
			waiting = false
		}
	}
}

// addCalls adds the calls to take and to stop. s.mu must be held.
func (s *standIn) addCalls(req *request, out *answer) {
	for _, g := range s.calls {
		named := slices.ContainsFunc(req.Running, func(r running) bool { return r.ref == g.ref })
		switch {
		case g.stop && g.over.IsZero() && !g.sent.IsZero() && named:
			out.Stop = append(out.Stop, g.ref)
		case g.sent.IsZero() && !g.stop && s.waiting == req && len(out.Calls) < req.Take:
			g.sent = time.Now()
			out.Calls = append(out.Calls, g.call())
		}
	}
}

// send writes the answer, or loses it.
func (s *standIn) send(w http.ResponseWriter, req *request, out *answer, status int) {
	s.mu.Lock()
	lost := status == http.StatusOK && s.lose != nil && s.lose(req, out)
	if lost {
		s.lose = nil
		s.forget(out)
	}
	s.mu.Unlock()
	switch {
	case lost:
		panic(http.ErrAbortHandler) // closes the connection without an answer
	case status == http.StatusConflict:
		reply(w, status, problemBody("CONFLICT", "another process speaks for the agent", "instance"))
		return
	case status != http.StatusOK:
		w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
		reply(w, status, map[string]any{"error": map[string]any{"code": "UNAVAILABLE", "message": "not now", "retry_after": retryAfter.Seconds()}})
		return
	}
	reply(w, status, out)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delivered(out)
	s.touch()
}

// forget undoes what only the answer has told the worker: it gets the calls again.
func (s *standIn) forget(out *answer) {
	for _, c := range out.Calls {
		for _, g := range s.calls {
			if g.Task == c["task"] {
				g.sent = time.Time{}
			}
		}
	}
}

// delivered notes what the worker knows from an answer that was written. s.mu must be held.
func (s *standIn) delivered(out *answer) {
	now := time.Now()
	for _, r := range out.Done {
		if g := s.find(r.ref); g != nil && (r.Error == nil || r.Error.Name == "CONFLICT") && g.over.IsZero() {
			g.over = now
		}
	}
	for _, r := range out.Stop {
		if g := s.find(r); g != nil && g.over.IsZero() {
			g.over = now
		}
	}
}

// find returns a call, nil if there is none.
func (s *standIn) find(r ref) *given {
	if i := slices.IndexFunc(s.calls, func(g *given) bool { return g.ref == r }); i >= 0 {
		return s.calls[i]
	}
	return nil
}
