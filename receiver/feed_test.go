package receiver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/hooks"
	"github.com/orch-dev/orch/receiver"
)

// river is a server with one stream, ORDERS. It hands each message out until it is settled.
type river struct {
	t *testing.T

	mu       sync.Mutex
	missing  bool
	waiting  []*arrival
	settled  map[string]string // what became of messages, by their bodies
	places   map[string]hooks.Consumer
	arrived  chan struct{}
	position uint64
	silent   error // of Waiting
}

func (r *river) set(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.silent = err
}

type arrival struct {
	message hooks.Message
	river   *river
}

func newRiver(t *testing.T) *river {
	t.Helper()
	return &river{t: t, settled: map[string]string{}, places: map[string]hooks.Consumer{}, arrived: make(chan struct{}, 1)}
}

func (r *river) publish(subject, body string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.position++
	a := &arrival{hooks.Message{Stream: "ORDERS", Subject: subject, Position: r.position, At: time.Unix(100, 0), Headers: hooks.Headers{}, Body: []byte(body)}, r}
	r.waiting = append(r.waiting, a)
	r.wake()
	return a.message.ID()
}

func (r *river) wake() {
	select {
	case r.arrived <- struct{}{}:
	default:
	}
}

// Now implements receiver.Feeds.
func (r *river) Now(context.Context, string) (time.Time, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.missing {
		return time.Time{}, fault.New(fault.NotFound, "the stream ORDERS does not exist")
	}
	return time.Unix(50, 0).UTC(), nil
}

// Open implements receiver.Feeds.
func (r *river) Open(_ context.Context, c hooks.Consumer) (receiver.Feed, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.missing {
		return nil, fault.New(fault.NotFound, "the stream ORDERS does not exist")
	}
	r.places[c.Stream+"/"+c.Name] = c
	return r, nil
}

// Remove implements receiver.Feeds.
func (r *river) Remove(_ context.Context, c hooks.Consumer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.places, c.Stream+"/"+c.Name)
	return nil
}

// Waiting implements receiver.Feeds.
func (r *river) Waiting(context.Context, hooks.Consumer) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.silent != nil {
		return 0, r.silent
	}
	return len(r.waiting), nil
}

// Next implements receiver.Feed.
func (r *river) Next(ctx context.Context) (receiver.Arrival, error) {
	for {
		r.mu.Lock()
		if len(r.waiting) > 0 {
			a := r.waiting[0]
			r.waiting = r.waiting[1:]
			a.message.Tries++
			r.mu.Unlock()
			return a, nil
		}
		r.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-r.arrived:
		}
	}
}

func (a *arrival) settle(how string) {
	a.river.mu.Lock()
	defer a.river.mu.Unlock()
	a.river.settled[string(a.message.Body)] = how
}

// Message implements receiver.Arrival.
func (a *arrival) Message() *hooks.Message { return &a.message }

// Done implements receiver.Arrival.
func (a *arrival) Done(context.Context) error { a.settle("done"); return nil }

// Refuse implements receiver.Arrival.
func (a *arrival) Refuse(reason string) error { a.settle("refused: " + reason); return nil }

// Later implements receiver.Arrival.
func (a *arrival) Later(time.Duration) error {
	a.river.mu.Lock()
	defer a.river.mu.Unlock()
	a.river.waiting = append(a.river.waiting, a)
	a.river.wake()
	return nil
}

// how returns what became of a message.
func (r *river) how(body string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.settled[body]
}

func (r *river) settledAs(body, how string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return strings.HasPrefix(r.how(body), how) }, 30*time.Second, time.Millisecond, "%s: %s", body, r.how(body))
}

// consumers returns the consumers that there are.
func (r *river) consumers() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for name := range r.places {
		names = append(names, name)
	}
	return names
}

// flow starts a receiver that takes messages of the river until the test ends.
func (w *world) flow(river *river) *receiver.Receiver {
	w.t.Helper()
	w.feeds = river
	r := w.start()
	ctx, stop := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); r.Run(ctx) }()
	w.t.Cleanup(func() { stop(); <-ended })
	return r
}

func orders() hooks.Definition {
	return hooks.Definition{
		Provider: hooks.NATS, NATS: &hooks.Stream{Name: "ORDERS", Subject: "orders.>"}, Plan: json.RawMessage(`{"orch":"v1"}`),
		When: `hook.body.n != 0`, Inputs: json.RawMessage(`{"of":"${{ hook.subject }}"}`),
	}
}

func TestMessagesAreSettledByWhatBecameOfThem(t *testing.T) {
	t.Parallel()
	w, river := newWorld(t), newRiver(t)
	r := w.flow(river)
	w.put(r, "orders", orders())
	id := river.publish("orders.eu", `{"n":1}`)
	river.settledAs(`{"n":1}`, "done")
	task := w.tasks[events.KeyedTaskID("", "hook/orders/"+id)]
	assert.JSONEq(t, `{"of":"orders.eu"}`, string(task.Inputs))
	assert.Equal(t, []string{"user:ada", "orders.eu", id}, []string{task.Actor, task.Hook.Subject, task.Hook.ID})
	river.publish("orders.eu", `{"n":0}`)
	river.settledAs(`{"n":0}`, "done")
	river.publish("orders.eu", `{`)
	river.settledAs(`{`, "refused: ")
	river.publish("$SYS.x", `{"n":2}`)
	river.settledAs(`{"n":2}`, "refused: ")
	large := `{"n":"` + strings.Repeat("x", receiver.MaxBody) + `"}`
	river.publish("orders.eu", large)
	river.settledAs(large, "refused: ")
	v := w.view(r, "orders")
	assert.Equal(t, map[hooks.Result]int{hooks.Accepted: 1, hooks.Filtered: 1, hooks.Refused: 3}, v.Counts)
	assert.Equal(t, "orders.eu", v.Deliveries[0].Event)
	assert.Contains(t, v.Deliveries[0].Reason, "the limit is 1048576")
	assert.Empty(t, v.URL)
}

// What the node cannot do now comes again, also if only the record of it fails.
func TestMessagesComeAgain(t *testing.T) {
	t.Parallel()
	for _, failing := range []string{"submit", "append"} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, lost: %v", failing, lost), func(t *testing.T) {
				t.Parallel()
				comeAgain(t, failing, lost)
			})
		}
	}
}

func comeAgain(t *testing.T, failing string, lost bool) {
	t.Helper()
	w, river := newWorld(t), newRiver(t)
	r := w.flow(river)
	w.put(r, "orders", orders())
	times := 0
	w.mu.Lock()
	w.failing = func(kind string) (error, bool) {
		if kind != failing || times >= 2 {
			return nil, false
		}
		times++
		return fault.New(fault.Unavailable, "not now"), lost
	}
	w.mu.Unlock()
	id := river.publish("orders.eu", `{"n":1}`)
	river.settledAs(`{"n":1}`, "done")
	w.mu.Lock()
	assert.Contains(t, w.tasks, events.KeyedTaskID("", "hook/orders/"+id))
	assert.Len(t, w.tasks, 1)
	assert.Positive(t, times)
	w.mu.Unlock()
	assert.Positive(t, w.view(r, "orders").Counts[hooks.Failed])
	require.Eventually(t, func() bool { return w.view(r, "orders").Problem == "" }, 10*time.Second, time.Millisecond)
}

func TestPausedHooksLeaveMessages(t *testing.T) {
	t.Parallel()
	w, river := newWorld(t), newRiver(t)
	r := w.flow(river)
	w.put(r, "orders", orders())
	steer := func(act string) {
		t.Helper()
		_, err := r.SteerHook(t.Context(), api.SteerHookRequest{Name: "orders", Act: act, Actor: "user:ada"})
		require.NoError(t, err)
	}
	steer(api.ActPause)
	river.publish("orders.eu", `{"n":1}`)
	require.Eventually(t, func() bool { n := w.view(r, "orders").Waiting; return n != nil && *n == 1 }, 10*time.Second, time.Millisecond)
	assert.Empty(t, w.view(r, "orders").Counts)
	steer(api.ActResume)
	river.settledAs(`{"n":1}`, "done")
	require.Len(t, river.consumers(), 1)
	steer(api.ActDelete)
	require.Eventually(t, func() bool { return len(river.consumers()) == 0 }, 10*time.Second, time.Millisecond)
}

// A definition keeps its place in its stream, and begins at the time of the server in another one.
func TestPlaceOfAHook(t *testing.T) {
	t.Parallel()
	w, river := newWorld(t), newRiver(t)
	w.feeds = river
	r := w.start()
	river.missing = true
	assert.Contains(t, w.put(r, "orders", orders()).Problem, "does not exist")
	river.missing = false
	replace := func(d hooks.Definition) {
		t.Helper()
		_, err := r.PutHook(t.Context(), api.PutHookRequest{Name: "orders", Definition: d, Replace: true, Actor: "user:ada"})
		require.NoError(t, err)
	}
	d := orders()
	d.When = ""
	replace(d)
	id := w.view(r, "orders").ID
	place := func(stream string) hooks.Consumer {
		t.Helper()
		require.Equal(t, []string{stream + "/orch-" + id}, river.consumers())
		return river.places[river.consumers()[0]]
	}
	assert.Zero(t, place("ORDERS").Since, "all messages of a stream that was not there are new")
	d.NATS = &hooks.Stream{Name: "BILLS"}
	replace(d)
	assert.Equal(t, time.Unix(50, 0).UTC(), place("BILLS").Since)
	d.NATS = &hooks.Stream{Name: "TOTALS", From: hooks.FromAll}
	replace(d)
	assert.Zero(t, place("TOTALS").Since)
	assert.Equal(t, id, w.view(w.start(), "orders").ID, "a start reads what was recorded")
	d.Provider, d.NATS = hooks.None, nil
	replace(d)
	assert.Empty(t, river.consumers())
}

func TestNoRequestsToAHookOfAStream(t *testing.T) {
	t.Parallel()
	w, river := newWorld(t), newRiver(t)
	w.feeds = river
	r := w.start()
	w.put(r, "orders", orders())
	_, err := r.Receive(t.Context(), receiver.Delivery{Name: "orders", Headers: hooks.Headers{"content-type": "application/json"}, Body: []byte(`{}`), Operator: func() bool { return true }})
	require.True(t, fault.Has(err, fault.Unauthorized), "%v", err)
	_, err = r.PutHook(t.Context(), api.PutHookRequest{Name: "other", Definition: orders(), Secret: secret})
	require.True(t, fault.Has(err, fault.ValidationError), "%v", err)
	for _, tc := range []struct {
		subject, body string
		want          hooks.Result
	}{
		{"orders.eu", `{"n":1}`, hooks.Accepted},
		{"", `{"n":1}`, hooks.Accepted},
		{"bills.eu", `{"n":1}`, hooks.Filtered},
		{"orders.eu", `{"n":0}`, hooks.Filtered},
		{"orders.eu", `{`, hooks.Refused},
	} {
		reply, err := r.TestHook(t.Context(), api.TestHookRequest{Name: "orders", Subject: tc.subject, Body: tc.body})
		require.NoError(t, err)
		assert.Equal(t, tc.want, reply.Result, "%v: %s", tc, reply.Reason)
	}
	assert.Empty(t, w.tasks)

	w.feeds = nil
	alone := w.start()
	assert.Contains(t, w.view(alone, "orders").Problem, "a NATS server of its own")
	_, err = alone.PutHook(t.Context(), api.PutHookRequest{Name: "other", Definition: orders()})
	require.True(t, fault.Has(err, fault.ValidationError), "%v", err)
}

// What waits is counted, also for paused hooks, and not while the server does not answer.
func TestMessagesThatWaitAreCounted(t *testing.T) {
	t.Parallel()
	w, river := newWorld(t), newRiver(t)
	w.interval = time.Millisecond
	r := w.flow(river)
	waits := func(want int) {
		t.Helper()
		require.Eventually(t, func() bool { n := r.Figures().Waiting; return n != nil && *n == want }, 10*time.Second, time.Millisecond)
	}
	assert.Nil(t, r.Figures().Waiting, "no hook takes messages")
	w.put(r, "orders", orders())
	_, err := r.SteerHook(t.Context(), api.SteerHookRequest{Name: "orders", Act: api.ActPause, Actor: "user:ada"})
	require.NoError(t, err)
	waits(0)
	for range 3 {
		river.publish("orders.eu", `{"n":1}`)
	}
	waits(3)
	river.set(fault.New(fault.Unavailable, "not now"))
	require.Eventually(t, func() bool { return r.Figures().Waiting == nil }, 10*time.Second, time.Millisecond)
	river.set(fault.New(fault.NotFound, "no stream"))
	waits(0)
	river.set(nil)
	waits(3)
}

// More messages at once than a hook takes all come, in their order.
func TestMessagesWaitForTheLimit(t *testing.T) {
	t.Parallel()
	w, river := newWorld(t), newRiver(t)
	r := w.flow(river)
	w.put(r, "orders", orders())
	var ids []string
	for range 210 {
		ids = append(ids, river.publish("orders.eu", `{"n":1}`))
	}
	require.Eventually(t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.now = w.now.Add(time.Millisecond)
		return len(w.tasks) == len(ids)
	}, 30*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { return w.view(r, "orders").Counts[hooks.Accepted] == len(ids) }, 10*time.Second, time.Millisecond)
	var got []string
	for _, o := range w.view(r, "orders").Deliveries {
		got = append(got, o.Delivery)
	}
	slices.Reverse(got)
	assert.Equal(t, ids[len(ids)-len(got):], got)
}
