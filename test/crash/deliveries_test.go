package crash_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/destinations"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/hooks"
	"github.com/orch-dev/orch/test/crash"
)

const (
	pagerName   = "pager"
	pagerSecret = "whsec_Y3Jhc2hjcmFzaGNyYXNoY3Jhc2hjcmFzaA=="
	// refusedEvery is how many new deliveries come between two that the receiver refuses at first.
	refusedEvery = 16
)

// pager is the receiver of a destination. It refuses some deliveries at first.
type pager struct {
	server *httptest.Server
	since  time.Time

	mu       sync.Mutex
	seen     map[string]bool
	accepted []crash.Delivery
	forged   []string
}

// startPager creates a destination that hears of the ends of tasks as long as the run lasts.
func (r *run) startPager() {
	r.t.Helper()
	p := &pager{seen: map[string]bool{}}
	p.server = httptest.NewServer(http.HandlerFunc(p.receive))
	r.t.Cleanup(p.server.Close)
	view, err := r.api.PutDestination(r.t.Context(), api.PutDestinationRequest{Name: pagerName, Secret: pagerSecret, Definition: destinations.Definition{
		URL: p.server.URL, Events: []string{destinations.TaskCompleted, destinations.TaskFailed, destinations.TaskCancelled},
	}})
	require.NoError(r.t, err)
	p.since = view.CreatedAt
	r.pager = p
}

func (p *pager) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the node has died
	}
	header := hooks.Headers{}
	for name := range r.Header {
		header[strings.ToLower(name)] = r.Header.Get(name)
	}
	id := header["webhook-id"]
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := hooks.Verify(hooks.Standard, [2]string{pagerSecret}, header, body, time.Now()); err != nil {
		p.forged = append(p.forged, id+": "+err.Error())
	}
	first := !p.seen[id]
	p.seen[id] = true
	if first && len(p.seen)%refusedEvery == 0 {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	var of destinations.Event
	if err := json.Unmarshal(body, &of); err != nil {
		p.forged = append(p.forged, id+": "+err.Error())
	}
	p.accepted = append(p.accepted, crash.Delivery{ID: id, Type: of.Type, Task: events.TaskID(of.Data.Task), Rev: of.Data.Revision})
}

// heard reports whether the receiver knows of the end of a task.
func (p *pager) heard(id events.TaskID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.accepted, func(d crash.Delivery) bool { return d.Task == id })
}

// stopPager waits until the receiver has heard of everything: of a task that is submitted now, and of what has failed before.
func (r *run) stopPager() {
	r.t.Helper()
	last, ok := r.load.submit(r.t.Context(), api.SubmitRequest{Plan: json.RawMessage(beatPlan), Actor: operator, ID: events.NewTaskID(time.Now())}, 0, false)
	if !ok {
		return
	}
	for end := time.Now().Add(settleWithin); ; wait(50 * time.Millisecond) {
		reply, _, err := insist(r.t.Context(), r.api.Destinations, api.DestinationsRequest{Name: pagerName})
		require.NoError(r.t, err)
		if reply.Destinations[0].Pending == 0 && r.pager.heard(last) {
			return
		}
		if time.Now().After(end) {
			r.load.violate("I22", last, 0, "%d deliveries wait at the end: %+v", reply.Destinations[0].Pending, reply.Destinations[0])
			return
		}
	}
}

// evidence is what the receiver has seen.
func (p *pager) evidence(t *testing.T) *crash.Destination {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	assert.Empty(t, p.forged)
	return &crash.Destination{Since: p.since, Accepted: slices.Clone(p.accepted)}
}

func TestCheckDeliveries(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	log := fakeLog{}
	var ids []events.TaskID
	for i := range 3 {
		id := events.KeyedTaskID("", strconv.Itoa(i))
		ids = append(ids, id)
		var prev []byte
		for rev, e := range []events.Event{
			{Kind: events.TaskSubmitted, Data: &events.Submitted{Name: "x", Priority: "normal"}},
			{Kind: events.TaskRejected, Data: &events.Moved{}},
		} {
			c := &events.Commit{Task: id, Rev: uint64(rev + 1), At: began.Add(time.Duration(i) * time.Minute), Actor: "user:a", Events: []events.Event{e}}
			if prev != nil {
				c.Prev = events.Hash(prev)
			}
			data, err := events.Encode(c)
			require.NoError(t, err)
			log[id] = append(log[id], events.Stored{Seq: uint64(2*i + rev + 1), Data: data})
			prev = data
		}
	}
	of := func(id string, i int) crash.Delivery {
		return crash.Delivery{ID: id, Type: destinations.TaskFailed, Task: ids[i], Rev: 2}
	}
	for name, tc := range map[string]struct {
		accepted []crash.Delivery
		violated bool
	}{
		"each once":               {[]crash.Delivery{of("a", 1), of("b", 2)}, false},
		"one comes again":         {[]crash.Delivery{of("a", 1), of("b", 2), of("a", 1)}, false},
		"one from before as well": {[]crash.Delivery{of("z", 0), of("a", 1), of("b", 2)}, false},
		"one is missing":          {[]crash.Delivery{of("a", 1)}, true},
		"one has two ids":         {[]crash.Delivery{of("a", 1), of("b", 2), of("c", 2)}, true},
		"two have one id":         {[]crash.Delivery{of("a", 1), of("a", 2)}, true},
		"one never happened":      {[]crash.Delivery{of("a", 1), of("b", 2), {ID: "c", Type: destinations.TaskCompleted, Task: ids[2], Rev: 2}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report, err := crash.Check(t.Context(), log, crash.Evidence{Destination: &crash.Destination{Since: began.Add(time.Second), Accepted: tc.accepted}})
			require.NoError(t, err)
			assert.Equal(t, tc.violated, report.Has("I22"), "%v", report.Violations)
		})
	}
}
