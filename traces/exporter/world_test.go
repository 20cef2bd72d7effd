package exporter_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/internal/journaled/journaledtest"
	"github.com/orch-dev/orch/traces"
	"github.com/orch-dev/orch/traces/exporter"
	"github.com/orch-dev/orch/traces/otlp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is everything around an exporter. It outlives exporters, as a data directory does.
type world struct {
	*exporter.Exporter

	t       *testing.T
	journal journaledtest.Journal
	log     *memlog.Log
	site    *httptest.Server
	// every is Config.Every.
	every time.Duration

	heads map[events.TaskID]events.Head
	now   time.Time

	mu sync.Mutex
	// got has the spans that were accepted, by id, as JSON. times counts how often each came.
	got   map[string]string
	times map[string]int
	// sizes are the numbers of spans of the requests. answer answers a request with a number of spans; nil accepts all.
	sizes  []int
	answer func(w http.ResponseWriter, spans int) bool
	said   bytes.Buffer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, log: memlog.New(memlog.Config{}), every: time.Nanosecond, heads: map[events.TaskID]events.Head{}, now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC),
		got: map[string]string{}, times: map[string]int{},
	}
	w.site = httptest.NewServer(http.HandlerFunc(w.receive))
	t.Cleanup(w.site.Close)
	w.restart()
	return w
}

// restart starts another exporter on the same journal and log, as after a crash.
func (w *world) restart() {
	w.t.Helper()
	collector := &otlp.Collector{URL: w.site.URL, Header: http.Header{}, Client: w.site.Client()}
	w.Exporter = exporter.New(exporter.Config{
		Log: w.log, Open: w.journal.Open, Collector: collector, Source: otlp.Source{Version: "1"}, Every: w.every, Interval: time.Millisecond, Pause: time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(&w.said, nil)),
	})
	for w.Start(w.t.Context()) != nil { // the disk, in a test in which it fails
	}
}

// request has the parts of a request that tests look at.
type request struct {
	ResourceSpans []struct {
		ScopeSpans []struct{ Spans []json.RawMessage }
	}
}

// spansIn returns the spans of a request of OTLP by their ids.
func spansIn(t *testing.T, body []byte) map[string]string {
	t.Helper()
	var r request
	require.NoError(t, json.Unmarshal(body, &r))
	all := map[string]string{}
	for _, raw := range r.ResourceSpans[0].ScopeSpans[0].Spans {
		var span struct{ TraceID, SpanID string }
		require.NoError(t, json.Unmarshal(raw, &span))
		all[span.TraceID+" "+span.SpanID] = string(raw)
	}
	return all
}

func (w *world) receive(to http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	spans := spansIn(w.t, body)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sizes = append(w.sizes, len(spans))
	if w.answer != nil && !w.answer(to, len(spans)) {
		return
	}
	for id, span := range spans {
		w.got[id] = span
		w.times[id]++
	}
}

func (w *world) answers(f func(to http.ResponseWriter, spans int) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = f
}

// status is an answer that takes nothing: a page.
func status(code int) func(http.ResponseWriter, int) bool {
	return func(to http.ResponseWriter, _ int) bool {
		to.WriteHeader(code)
		_, _ = io.WriteString(to, "<!doctype html>")
		return false
	}
}

// commit appends a commit to the history of a task.
func (w *world) commit(key string, list ...events.Event) events.TaskID {
	w.t.Helper()
	id := events.KeyedTaskID("", key)
	head := w.heads[id]
	w.now = w.now.Add(time.Second)
	c := &events.Commit{Task: id, Rev: head.Rev + 1, At: w.now, Actor: "user:ada", Events: list}
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
	return id
}

func (w *world) submit(key string, d events.Submitted) events.TaskID {
	d.Name, d.Priority, d.Plan = strings.TrimSuffix(d.Name+"/"+key, "/"), "normal", events.Inline([]byte("{}"))
	return w.commit(key, events.Event{Kind: events.TaskSubmitted, Data: &d})
}

// call adds a call of a step, which succeeds.
func (w *world) call(key, step string) {
	w.commit(key, events.Event{Kind: events.StepReady, Data: &events.Ready{Step: step, Attempt: 1, Tool: "LOG_WRITE"}},
		events.Event{Kind: events.StepCalled, Data: &events.Called{Step: step, Attempt: 1, Worker: "w"}},
		events.Event{Kind: events.StepSucceeded, Data: &events.Succeeded{Step: step, Attempt: 1}})
}

func (w *world) end(key string) {
	w.commit(key, events.Event{Kind: events.TaskFinished, Data: &events.Moved{}})
}

// run records a whole task with some steps.
func (w *world) run(key string, steps int) events.TaskID {
	id := w.submit(key, events.Submitted{})
	for i := range steps {
		w.call(key, "s"+string(rune('a'+i)))
	}
	w.end(key)
	return id
}

// folded returns the spans that the histories of tasks have, as the fold makes them, by their ids.
func (w *world) folded(ids ...events.TaskID) map[string]string {
	w.t.Helper()
	all := map[string]string{}
	for _, id := range ids {
		fold := traces.NewFold(id)
		var spans []traces.Span
		for stored, err := range w.log.Read(w.t.Context(), id, 1) {
			require.NoError(w.t, err)
			c, err := events.Decode(stored.Data)
			require.NoError(w.t, err)
			spans = append(spans, fold.Add(c.At, c.Actor, c.Events)...)
		}
		body, err := otlp.Source{Version: "1"}.Encode(spans)
		require.NoError(w.t, err)
		maps.Copy(all, spansIn(w.t, body))
	}
	return all
}

// received returns the spans that the collector has accepted.
func (w *world) received() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.got)
}
