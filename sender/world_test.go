package sender_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/destinations"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/internal/journaled/journaledtest"
	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/sender"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	other  = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)

// world is everything around a sender. It outlives senders, as a data directory does.
type world struct {
	*sender.Sender

	t       *testing.T
	journal journaledtest.Journal
	log     *memlog.Log
	site    *httptest.Server

	mu      sync.Mutex
	now     time.Time
	secrets map[string][]byte
	heads   map[events.TaskID]events.Head
	// got are the ids of the deliveries that were accepted, with their numbers; order has them as they came.
	got   map[string]int
	order []string
	// valid is the secret that deliveries are verified with. answer answers a request whose signature is valid; nil accepts all.
	valid  string
	answer func(w http.ResponseWriter, r *http.Request)
	tries  int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, log: memlog.New(memlog.Config{}), now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), secrets: map[string][]byte{},
		heads: map[events.TaskID]events.Head{}, got: map[string]int{}, valid: secret,
	}
	w.site = httptest.NewServer(http.HandlerFunc(w.receive))
	t.Cleanup(w.site.Close)
	w.restart()
	return w
}

// restart starts another sender on the same journal and log, as after a crash.
func (w *world) restart() {
	w.t.Helper()
	net, err := netguard.Config{}.Allow("127.0.0.1")
	require.NoError(w.t, err)
	w.Sender = sender.New(sender.Config{
		Log: w.log, Secrets: w, Open: w.journal.Open, Net: net, Clock: w.clock, Random: func() float64 { return 0 }, Timeout: 5 * time.Second,
	})
	require.NoError(w.t, w.Start(w.t.Context()))
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	w.now = w.now.Add(d)
	w.mu.Unlock()
	w.Step(w.t.Context())
}

// HookSecrets implements keyring.Store.
func (w *world) HookSecrets(context.Context) (map[string][]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.secrets), nil
}

// SetHookSecret implements keyring.Store.
func (w *world) SetHookSecret(_ context.Context, id string, data []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.secrets[id] = data
	if data == nil {
		delete(w.secrets, id)
	}
	return nil
}

// receive verifies a delivery as the specification says, with nothing of orch.
func (w *world) receive(to http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	w.mu.Lock()
	valid, answer := w.valid, w.answer
	w.tries++
	w.mu.Unlock()
	key, bad := base64.StdEncoding.DecodeString(strings.TrimPrefix(valid, "whsec_"))
	id, at := r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp")
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + at + "." + string(body)))
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	seconds, wrong := strconv.ParseInt(at, 10, 64)
	if err != nil || bad != nil || wrong != nil || !time.Unix(seconds, 0).Equal(w.clock()) || !strings.Contains(" "+r.Header.Get("Webhook-Signature")+" ", " "+want+" ") {
		to.WriteHeader(http.StatusUnauthorized)
		return
	}
	if answer != nil {
		answer(to, r)
		return
	}
	w.accept(id)
}

func (w *world) accept(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.got[id]++
	w.order = append(w.order, id)
}

func (w *world) answers(f func(http.ResponseWriter, *http.Request)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = f
}

func (w *world) status(code int) {
	w.answers(func(to http.ResponseWriter, _ *http.Request) { to.WriteHeader(code) })
}

// accepted returns the ids of the accepted deliveries in their order.
func (w *world) accepted() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string{}, w.order...)
}

// commit appends a commit with an event to the history of a task.
func (w *world) commit(key string, kind events.Kind, data events.Payload) string {
	w.t.Helper()
	id := events.KeyedTaskID("", key)
	head := w.heads[id]
	c := &events.Commit{Task: id, Rev: head.Rev + 1, At: w.clock(), Actor: "user:ada", Events: []events.Event{{Kind: kind, Data: data}}}
	if c.Rev > 1 {
		c.Prev = events.Hash([]byte("before"))
	}
	encoded, err := events.Encode(c)
	require.NoError(w.t, err)
	next := events.Head{Task: id, Rev: c.Rev, At: c.At}
	w.log.Append(events.Record{Head: next, After: head.Seq, Data: encoded}, func(seq uint64, err error) {
		require.NoError(w.t, err)
		next.Seq = seq
	})
	w.heads[id] = next
	return destinations.ID(id, c.Rev, 0)
}

func (w *world) submit(key string, labels map[string]string) string {
	return w.commit(key, events.TaskSubmitted, &events.Submitted{Name: key, Labels: labels, Priority: "normal", Plan: events.Inline([]byte("{}"))})
}

func (w *world) fail(key string) string {
	return w.commit(key, events.TaskFailed, &events.Moved{Reason: "broken"})
}

func (w *world) put(name string, d destinations.Definition) api.DestinationView {
	w.t.Helper()
	if d.URL == "" {
		d.URL = w.site.URL + "/in"
	}
	v, err := w.PutDestination(w.t.Context(), api.PutDestinationRequest{Name: name, Definition: d, Secret: secret, Actor: "user:ada"})
	require.NoError(w.t, err)
	return v
}

func (w *world) view(name string) api.DestinationView {
	w.t.Helper()
	r, err := w.Destinations(w.t.Context(), api.DestinationsRequest{Name: name, Deliveries: 10})
	require.NoError(w.t, err)
	return r.Destinations[0]
}

func (w *world) steer(r api.SteerDestinationRequest) api.DestinationView {
	w.t.Helper()
	v, err := w.SteerDestination(w.t.Context(), r)
	require.NoError(w.t, err)
	return v
}
