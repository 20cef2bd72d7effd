package receiver_test

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/hooks"
	"github.com/orch-dev/orch/internal/journaled/journaledtest"
	"github.com/orch-dev/orch/receiver"
	"github.com/orch-dev/orch/statemachine"
)

// world is everything around a receiver. It outlives receivers, as a data directory does.
type world struct {
	t       *testing.T
	journal journaledtest.Journal

	mu      sync.Mutex
	now     time.Time
	secrets map[string][]byte
	// tasks are the submitted tasks, signals the received signals by their keys, ended the tasks that take no signals.
	tasks   map[events.TaskID]api.SubmitRequest
	signals map[string]api.SignalRequest
	ended   map[events.TaskID]bool
	// failing is called before each effect, with its kind; an error is its result. An effect that lost its answer has taken place.
	failing func(kind string) (err error, lost bool)
	// checked is the result of Check.
	checked error
	// feeds are the streams of others; nil for none.
	feeds receiver.Feeds
	// interval is that of the receiver; 0 for its default.
	interval time.Duration
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), secrets: map[string][]byte{}, tasks: map[events.TaskID]api.SubmitRequest{},
		signals: map[string]api.SignalRequest{}, ended: map[events.TaskID]bool{},
	}
	w.journal.Failing = func() (error, bool) {
		err, lost := w.begin("append")
		defer w.mu.Unlock()
		return err, lost
	}
	return w
}

// begin locks the world for an effect, and returns the error that it is to have.
func (w *world) begin(kind string) (err error, lost bool) {
	w.mu.Lock()
	if w.failing == nil {
		return nil, false
	}
	return w.failing(kind)
}

// HookSecrets implements keyring.Store.
func (w *world) HookSecrets(context.Context) (map[string][]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.secrets), nil
}

// SetHookSecret implements keyring.Store.
func (w *world) SetHookSecret(_ context.Context, id string, data []byte) error {
	err, lost := w.begin("secret")
	defer w.mu.Unlock()
	if err != nil && !lost {
		return err
	}
	if data == nil {
		delete(w.secrets, id)
	} else {
		w.secrets[id] = data
	}
	return err
}

// Check implements receiver.Tasks.
func (w *world) Check(context.Context, api.SubmitRequest) error { return w.checked }

// Submit implements receiver.Tasks.
func (w *world) Submit(_ context.Context, r api.SubmitRequest) (api.SubmitReply, error) {
	err, lost := w.begin("submit")
	defer w.mu.Unlock()
	if err != nil && !lost {
		return api.SubmitReply{}, err
	}
	id := events.KeyedTaskID("", r.IdempotencyKey)
	was, existing := w.tasks[id]
	if existing && (string(was.Plan) != string(r.Plan) || string(was.Inputs) != string(r.Inputs)) {
		return api.SubmitReply{}, fault.New(fault.Conflict, "the key is in use")
	}
	if !existing {
		w.tasks[id] = r
	}
	return api.SubmitReply{ID: id, State: statemachine.InProgress, Existing: existing}, err
}

// Get implements receiver.Tasks.
func (w *world) Get(_ context.Context, r api.GetRequest) (api.TaskView, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, found := w.tasks[r.ID]; !found {
		return api.TaskView{}, fault.New(fault.NotFound, "there is no such task")
	}
	view := api.TaskView{ID: r.ID, State: statemachine.InProgress}
	if w.ended[r.ID] {
		view.State = statemachine.Done
	}
	return view, nil
}

// Signal implements receiver.Tasks.
func (w *world) Signal(_ context.Context, r api.SignalRequest) (api.TaskView, error) {
	err, lost := w.begin("signal")
	defer w.mu.Unlock()
	if err != nil && !lost {
		return api.TaskView{}, err
	}
	_, repeated := w.signals[r.Key]
	_, found := w.tasks[r.ID]
	switch {
	case !found:
		return api.TaskView{}, fault.New(fault.NotFound, "there is no such task")
	case repeated:
		return api.TaskView{}, fault.New(fault.Conflict, "again").WithReason(api.ReasonRepeatedSignal)
	case w.ended[r.ID]:
		return api.TaskView{}, fault.New(fault.StateNotAllowed, "the task is DONE")
	}
	w.signals[r.Key] = r
	return api.TaskView{ID: r.ID}, err
}

// start starts a receiver on the world.
func (w *world) start() *receiver.Receiver {
	w.t.Helper()
	r := receiver.New(receiver.Config{
		Tasks: w, Secrets: w, Feeds: w.feeds, URL: func(name string) string { return "http://node/hooks/" + name },
		Clock: func() time.Time {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.now
		},
		Redact: func(text string) string { return strings.ReplaceAll(text, "hunter2", "[REDACTED]") },
		Open:   w.journal.Open, Interval: w.interval,
	})
	require.NoError(w.t, r.Start(w.t.Context()))
	return r
}

const (
	secret  = "a secret of the sender"
	another = "another secret of the sender"
)

// github is the definition of a hook that starts tasks.
func github() hooks.Definition {
	return hooks.Definition{Provider: hooks.GitHub, Plan: json.RawMessage(`{"orch":"v1"}`), When: `hook.body.ref != "skip"`}
}

func (w *world) put(r *receiver.Receiver, name string, d hooks.Definition) api.HookView {
	w.t.Helper()
	q := api.PutHookRequest{Name: name, Definition: d, Secret: secret, Actor: "user:ada"}
	if !d.Provider.Signs() {
		q.Secret = ""
	}
	v, err := r.PutHook(w.t.Context(), q)
	require.NoError(w.t, err)
	return v
}

func (w *world) view(r *receiver.Receiver, name string) api.HookView {
	w.t.Helper()
	reply, err := r.Hooks(w.t.Context(), api.HooksRequest{Name: name, Deliveries: hooks.MaxOutcomes})
	require.NoError(w.t, err)
	return reply.Hooks[0]
}

// delivery is a delivery of GitHub to a hook, signed with a secret.
func (w *world) delivery(name, id, body, with string) receiver.Delivery {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := hooks.Sign(hooks.GitHub, with, id, []byte(body), w.now)
	h["content-type"], h["x-github-event"] = "application/json; charset=utf-8", "push"
	return receiver.Delivery{Name: name, Headers: h, Body: []byte(body), Operator: func() bool { return false }}
}

func (w *world) deliver(r *receiver.Receiver, id, body string) (receiver.Answer, error) {
	return r.Receive(w.t.Context(), w.delivery("deploy", id, body, secret))
}
