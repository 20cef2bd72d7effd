package sender_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/destinations"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/sender"
)

func TestDeliversWhatIsWanted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.submit("before", nil)
	w.put("pager", destinations.Definition{Events: []string{"task.failed"}, Labels: map[string]string{"team": "shop"}, When: `hook.body.data.name != "quiet"`})
	w.submit("a", map[string]string{"team": "shop"})
	want := w.fail("a")
	w.submit("b", nil)
	w.fail("b")
	for _, unheard := range []string{"quiet", api.UndoPreviewName} {
		w.submit(unheard, map[string]string{"team": "shop"})
		w.fail(unheard)
	}
	w.Step(t.Context())
	assert.Equal(t, []string{want}, w.accepted())
	assert.Equal(t, 1, w.view("pager").Delivered)
	w.restart()
	w.Step(t.Context())
	assert.Equal(t, []string{want}, w.accepted(), "nothing comes twice after an orderly restart")
}

// A delivery says how many have led to it: those of the hook of its task, or of a parent of it, and itself.
func TestHops(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var hops []string
	w.answers(func(_ http.ResponseWriter, r *http.Request) { hops = append(hops, r.Header.Get("Orch-Hops")) })
	w.put("pager", destinations.Definition{Events: []string{"task.failed"}})
	w.submit("by hand", nil)
	w.commit("hooked", events.TaskSubmitted, &events.Submitted{Name: "hooked", Hook: &events.Delivery{Name: "h", ID: "1", Hops: 3}})
	w.commit("child", events.TaskSubmitted, &events.Submitted{Name: "child", Parent: &events.Parent{Task: events.KeyedTaskID("", "hooked"), Step: "a", Depth: 1}})
	w.commit("grandchild", events.TaskSubmitted, &events.Submitted{Name: "grandchild", Parent: &events.Parent{Task: events.KeyedTaskID("", "child"), Step: "a", Depth: 2}})
	w.commit("orphan", events.TaskSubmitted, &events.Submitted{Name: "orphan", Parent: &events.Parent{Task: events.KeyedTaskID("", "gone"), Step: "a", Depth: 1}})
	for _, key := range []string{"by hand", "hooked", "child", "grandchild", "orphan"} {
		w.fail(key)
	}
	w.Step(t.Context())
	assert.Equal(t, []string{"1", "4", "4", "4", "1"}, hops)
	w.steer(api.SteerDestinationRequest{Name: "pager", Act: api.ActTest})
	assert.Empty(t, hops[5])
}

// A receiver that fails for days gets nothing but dead letters, which are delivered again when somebody asks for it.
func TestRetriesAndDeadLetters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("pager", destinations.Definition{})
	w.status(http.StatusInternalServerError)
	assert.Nil(t, w.view("pager").OldestPending)
	happened := w.clock()
	id := w.submit("a", nil)
	w.Step(t.Context())
	f := w.Figures()
	assert.Equal(t, sender.Figures{Active: 1, Attempts: map[destinations.Result]int{destinations.Failed: 1}, Pending: 1, Oldest: w.clock()}, f)
	for _, wait := range []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour} {
		before := w.tries
		w.pass(wait - time.Second)
		assert.Equal(t, before, w.tries, "%s is too early", wait)
		assert.Equal(t, happened, *w.view("pager").OldestPending, "however often it was tried")
		w.restart()
		w.pass(time.Second)
		assert.Equal(t, before+1, w.tries, "%s", wait)
	}
	v := w.view("pager")
	require.Len(t, v.DeadDeliveries, 1)
	assert.Equal(t, sender.Figures{Active: 1, Attempts: map[destinations.Result]int{destinations.Dead: 1}, Dead: 1}, w.Figures(), "since the restart")
	assert.Nil(t, v.OldestPending, "a dead letter does not wait")
	assert.Equal(t, id, v.DeadDeliveries[0].ID)
	assert.Equal(t, 500, v.DeadDeliveries[0].Last.Status)
	w.status(http.StatusNoContent)
	_, err := w.SteerDestination(t.Context(), api.SteerDestinationRequest{Name: "pager", Act: api.ActRedeliver, Deliveries: []string{"x"}})
	assert.True(t, fault.Has(err, fault.NotFound), err)
	w.answers(nil)
	w.steer(api.SteerDestinationRequest{Name: "pager", Act: api.ActRedeliver})
	w.Step(t.Context())
	assert.Equal(t, []string{id}, w.accepted())
	assert.Zero(t, w.view("pager").Dead)
	assert.Nil(t, w.view("pager").LastFailure)
}

// Somebody who has mended the receiver does not wait for the next attempt.
func TestWhatHasFailedIsDeliveredOnRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("pager", destinations.Definition{})
	w.status(http.StatusInternalServerError)
	first, second := w.submit("a", nil), w.submit("b", nil)
	w.Step(t.Context())
	w.pass(5 * time.Second)
	w.pass(time.Second)
	w.answers(nil)
	w.Step(t.Context())
	assert.Empty(t, w.accepted(), "the next attempt is in minutes")
	w.steer(api.SteerDestinationRequest{Name: "pager", Act: api.ActRedeliver, Deliveries: []string{second}})
	w.Step(t.Context())
	assert.Equal(t, []string{second}, w.accepted())
	w.restart()
	w.steer(api.SteerDestinationRequest{Name: "pager", Act: api.ActRedeliver})
	w.Step(t.Context())
	assert.Equal(t, []string{second, first}, w.accepted())
	assert.Zero(t, w.view("pager").Pending)
}

// Too many dead letters pause a destination. Somebody may go on all the same, and forget them.
func TestTooManyDeadLetters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("pager", destinations.Definition{})
	w.steer(api.SteerDestinationRequest{Name: "pager", Act: api.ActPause})
	var gone []events.TaskID
	for i := range sender.MaxDead {
		key := fmt.Sprint("t", i)
		w.submit(key, nil)
		gone = append(gone, events.KeyedTaskID("", key))
	}
	w.Step(t.Context())
	for _, id := range gone {
		require.NoError(t, w.log.Archive(t.Context(), id))
	}
	require.NoError(t, w.log.Remove(t.Context(), gone))
	w.steer(api.SteerDestinationRequest{Name: "pager", Act: api.ActResume})
	w.Step(t.Context())
	v := w.view("pager")
	require.Equal(t, sender.MaxDead, v.Dead)
	require.NotNil(t, v.Paused)
	first, second := w.submit("first", nil), w.submit("second", nil)
	w.steer(api.SteerDestinationRequest{Name: "pager", Act: api.ActResume})
	w.Step(t.Context())
	assert.Equal(t, []string{first, second}, w.accepted())
	assert.Nil(t, w.view("pager").Paused)
	_, err := w.SteerDestination(t.Context(), api.SteerDestinationRequest{Name: "pager", Act: api.ActDiscard, Deliveries: []string{first}})
	assert.True(t, fault.Has(err, fault.NotFound), err)
	w.steer(api.SteerDestinationRequest{Name: "pager", Act: api.ActDiscard, Deliveries: []string{v.DeadDeliveries[0].ID}})
	assert.Equal(t, sender.MaxDead-1, w.view("pager").Dead)
	w.restart()
	w.steer(api.SteerDestinationRequest{Name: "pager", Act: api.ActDiscard})
	assert.Zero(t, w.view("pager").Dead)
}

// A result that cannot be recorded is not a reason to send a delivery again and again.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("pager", destinations.Definition{})
	id := w.submit("a", nil)
	w.Step(t.Context())
	require.Equal(t, []string{id}, w.accepted())
	next := w.submit("b", nil)
	var full atomic.Bool
	w.journal.Failing = func() (error, bool) {
		if full.Load() {
			return fault.New(fault.DiskFull, "the disk is full"), false
		}
		return nil, false
	}
	w.answers(func(http.ResponseWriter, *http.Request) { full.Store(true); w.accept(next) })
	for range 20 {
		w.pass(time.Second)
	}
	assert.Equal(t, 1, w.got[next])
	full.Store(false)
	w.answers(nil)
	for range 20 {
		w.pass(time.Second)
	}
	assert.Equal(t, 2, w.got[next], "once more, half a minute later")
	assert.Equal(t, 2, w.view("pager").Delivered)
}

// A receiver that is back gets everything within minutes, also what came while a full destination could take nothing more from the log.
func TestAReceiverComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("pager", destinations.Definition{})
	w.status(http.StatusServiceUnavailable)
	const n = sender.MaxPending + 200
	for i := range n {
		w.submit(fmt.Sprint("t", i), nil)
	}
	w.Step(t.Context())
	for range 3 { // until the next attempt of each is hours away
		w.pass(time.Hour)
	}
	require.True(t, w.view("pager").Full)
	tries := w.tries
	w.pass(4 * time.Minute)
	assert.Equal(t, tries, w.tries)
	w.pass(time.Minute)
	assert.Equal(t, tries+1, w.tries, "it probes")
	w.restart()
	w.answers(nil)
	for range 3 {
		w.pass(5 * time.Minute)
	}
	assert.Len(t, w.got, n)
	assert.Zero(t, w.view("pager").Pending)
}

// An event that a receiver never takes has its ten attempts, and those beside them do not count.
func TestAnEventThatIsNeverTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("pager", destinations.Definition{})
	poison, tried := w.submit("poison", nil), 0
	w.answers(func(to http.ResponseWriter, r *http.Request) {
		if r.Header.Get("webhook-id") == poison {
			tried++
			to.WriteHeader(http.StatusBadRequest)
		}
	})
	w.Step(t.Context())
	for i := range 24 { // each of them succeeds after a failure
		w.pass(15 * time.Minute)
		w.pass(7 * time.Minute)
		w.submit(fmt.Sprint("t", i), nil)
		w.Step(t.Context())
	}
	require.Len(t, w.view("pager").PendingDeliveries, 1)
	assert.Equal(t, 6, w.view("pager").PendingDeliveries[0].Attempts, "at once, after 5 s, 5 and 30 minutes, 2 and 5 hours")
	assert.Greater(t, tried, 6)
	assert.LessOrEqual(t, tried, 2*24)
}

// A receiver that hangs on some events gets the others all the same, and no event has two attempts at a time.
func TestASlowReceiver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("pager", destinations.Definition{})
	var mu sync.Mutex
	open, most, release := map[string]int{}, 0, make(chan struct{})
	w.answers(func(_ http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("webhook-id")
		mu.Lock()
		open[id]++
		most = max(most, open[id])
		hangs := len(open) <= 2
		mu.Unlock()
		if hangs {
			<-release
		}
		mu.Lock()
		open[id]--
		mu.Unlock()
		w.accept(id)
	})
	first, second, third := w.submit("a", nil), w.submit("b", nil), w.submit("c", nil)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Step(t.Context())
	}()
	require.Eventually(t, func() bool { return slices.Equal(w.accepted(), []string{third}) }, 15*time.Second, 10*time.Millisecond)
	close(release)
	<-ended
	assert.ElementsMatch(t, []string{first, second, third}, w.accepted())
	assert.Equal(t, 1, most)
	assert.Zero(t, w.view("pager").Pending)
}

func TestHostileReceivers(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request){
		"redirect": func(to http.ResponseWriter, r *http.Request) {
			http.Redirect(to, r, "/other", http.StatusTemporaryRedirect)
		},
		"found":   func(to http.ResponseWriter, r *http.Request) { http.Redirect(to, r, "/other", http.StatusFound) },
		"broken":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"silent":  func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"headers": func(to http.ResponseWriter, _ *http.Request) { to.Header().Set("X", strings.Repeat("x", 1<<20)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.put("pager", destinations.Definition{})
			w.answers(answer)
			id := w.submit("a", nil)
			w.Step(t.Context())
			v := w.view("pager")
			assert.Equal(t, 1, v.Pending)
			assert.Equal(t, 1, w.tries, "a redirect is not followed")
			assert.NotEmpty(t, v.LastFailure.Error)
			assert.NotContains(t, v.LastFailure.Error, "whsec")
			w.answers(nil)
			w.pass(5 * time.Second)
			assert.Equal(t, []string{id}, w.accepted())
		})
	}
}

func TestAnEndlessBodyIsNotRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("pager", destinations.Definition{})
	w.answers(func(to http.ResponseWriter, _ *http.Request) {
		for err := error(nil); err == nil; {
			_, err = to.Write(make([]byte, 1<<16))
		}
	})
	w.submit("a", nil)
	w.Step(t.Context())
	assert.Equal(t, 1, w.view("pager").Delivered, "the status is the answer")
}

func TestRetryAfterAndGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("pager", destinations.Definition{})
	w.answers(func(to http.ResponseWriter, _ *http.Request) {
		to.Header().Set("Retry-After", "3600")
		to.WriteHeader(http.StatusTooManyRequests)
	})
	w.submit("a", nil)
	w.Step(t.Context())
	w.pass(time.Hour - time.Second)
	assert.Equal(t, 1, w.tries)
	w.status(http.StatusGone)
	w.pass(time.Second)
	assert.Equal(t, 2, w.tries)
	v := w.view("pager")
	require.NotNil(t, v.Paused)
	assert.Equal(t, "node", v.Paused.By)
	w.submit("b", nil)
	w.pass(100 * time.Hour)
	assert.Equal(t, 2, w.tries, "nothing is sent")
	w.answers(nil)
	w.steer(api.SteerDestinationRequest{Name: "pager", Act: api.ActResume})
	w.Step(t.Context())
	assert.Len(t, w.accepted(), 2, "and nothing is lost")
}

func TestRotationSignsWithBoth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("pager", destinations.Definition{})
	w.steer(api.SteerDestinationRequest{Name: "pager", Act: api.ActRotate, Secret: other})
	w.submit("a", nil)
	w.Step(t.Context())
	w.valid = other
	w.submit("b", nil)
	w.Step(t.Context())
	assert.Len(t, w.accepted(), 2)
	w.valid = secret
	w.submit("c", nil)
	w.pass(25 * time.Hour)
	assert.Len(t, w.accepted(), 2, "the time of the secret before is over")
	for _, entry := range w.journal.Entries {
		assert.NotContains(t, string(entry), "whsec")
	}
	w.steer(api.SteerDestinationRequest{Name: "pager", Act: api.ActDelete})
	assert.Empty(t, w.secrets)
	w.pass(100 * time.Hour)
	assert.Len(t, w.accepted(), 2)
}

// A slow receiver has as many deliveries as it may have; the log keeps the others, also those of archived tasks.
func TestTheLogIsTheQueue(t *testing.T) {
	t.Parallel()
	const n = 3 * sender.MaxPending
	w := newWorld(t)
	w.put("slow", destinations.Definition{})
	w.steer(api.SteerDestinationRequest{Name: "slow", Act: api.ActPause})
	want := map[string]bool{}
	for i := range n {
		key := fmt.Sprint("t", i)
		want[w.submit(key, nil)] = true
		if i%500 == 0 {
			w.Step(t.Context())
		}
		if i%3 == 0 {
			require.NoError(t, w.log.Archive(t.Context(), events.KeyedTaskID("", key)))
		}
	}
	w.Step(t.Context())
	v := w.view("slow")
	assert.True(t, v.Full)
	assert.LessOrEqual(t, v.Pending, sender.MaxPending+500)
	w.restart()
	w.steer(api.SteerDestinationRequest{Name: "slow", Act: api.ActResume})
	for range 10 {
		w.Step(t.Context())
	}
	for id := range want {
		assert.Equal(t, 1, w.got[id], id)
	}
	assert.Len(t, w.got, n)
}

// Everything that waits in the archive comes once, and no more of it waits at a time than elsewhere.
func TestTheArchiveIsTheQueue(t *testing.T) {
	t.Parallel()
	const n = 3 * sender.MaxPending
	w := newWorld(t)
	w.put("slow", destinations.Definition{})
	w.steer(api.SteerDestinationRequest{Name: "slow", Act: api.ActPause})
	for i := range n {
		w.submit(fmt.Sprint("t", i), nil)
	}
	w.Step(t.Context())
	require.True(t, w.view("slow").Full)
	for i := range n {
		require.NoError(t, w.log.Archive(t.Context(), events.KeyedTaskID("", fmt.Sprint("t", i))))
	}
	for range 5 {
		w.restart()
		w.Step(t.Context())
		assert.LessOrEqual(t, w.view("slow").Pending, sender.MaxPending)
	}
	w.steer(api.SteerDestinationRequest{Name: "slow", Act: api.ActResume})
	for range 10 {
		w.Step(t.Context())
		w.restart()
	}
	assert.Len(t, w.got, n)
	for id, times := range w.got {
		assert.Equal(t, 1, times, id)
	}
}

// Appends fail and lose their answers, receivers fail, and the sender crashes between any two steps. Each event arrives.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			random := rand.New(rand.NewPCG(seed, 1))
			w.put("pager", destinations.Definition{})
			w.journal.Failing = func() (error, bool) {
				if random.IntN(5) == 0 {
					return fault.New(fault.Unavailable, "the disk"), random.IntN(2) == 0
				}
				return nil, false
			}
			w.answers(func(to http.ResponseWriter, r *http.Request) {
				if random.IntN(2) == 0 {
					to.WriteHeader(http.StatusBadGateway)
					return
				}
				w.accept(r.Header.Get("Webhook-Id"))
			})
			want := map[string]bool{}
			for i := range 60 {
				key := fmt.Sprint("t", i)
				want[w.submit(key, nil)] = true
				want[w.fail(key)] = true
				if random.IntN(3) == 0 {
					require.NoError(t, w.log.Archive(t.Context(), events.KeyedTaskID("", key)))
				}
				if random.IntN(3) == 0 {
					w.pass(time.Minute)
				}
				if random.IntN(6) == 0 {
					w.restart()
				}
			}
			w.journal.Failing = nil
			w.answers(nil)
			for range 3 {
				w.pass(24 * time.Hour)
			}
			for id := range want {
				assert.Positive(t, w.got[id], id)
			}
			assert.Len(t, w.got, len(want))
			assert.Zero(t, w.view("pager").Pending, "%+v", w.view("pager").LastFailure)
		})
	}
}

func TestWrongRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("pager", destinations.Definition{})
	for name, tc := range map[string]struct {
		r     api.PutDestinationRequest
		code  fault.Code
		field string
	}{
		"name":      {api.PutDestinationRequest{Name: "A b"}, fault.InvalidFormat, "name"},
		"private":   {api.PutDestinationRequest{Name: "a", Definition: destinations.Definition{URL: "https://10.0.0.1/"}, Secret: secret}, fault.Forbidden, "url"},
		"metadata":  {api.PutDestinationRequest{Name: "a", Definition: destinations.Definition{URL: "https://169.254.169.254/"}, Secret: secret}, fault.Forbidden, "url"},
		"plain":     {api.PutDestinationRequest{Name: "a", Definition: destinations.Definition{URL: "http://example.com/"}, Secret: secret}, fault.InvalidFormat, "url"},
		"user":      {api.PutDestinationRequest{Name: "a", Definition: destinations.Definition{URL: "https://a:b@example.com/"}, Secret: secret}, fault.InvalidFormat, "url"},
		"constant":  {api.PutDestinationRequest{Name: "a", Definition: destinations.Definition{URL: "https://example.com/", When: "'task.failed'"}, Secret: secret}, fault.ValidationError, "when"},
		"when":      {api.PutDestinationRequest{Name: "a", Definition: destinations.Definition{URL: "https://example.com/", When: "hook.body ==="}, Secret: secret}, fault.ValidationError, "when"},
		"no secret": {api.PutDestinationRequest{Name: "a", Definition: destinations.Definition{URL: "https://example.com/"}}, fault.RequiredField, "secret"},
		"short":     {api.PutDestinationRequest{Name: "a", Definition: destinations.Definition{URL: "https://example.com/"}, Secret: "whsec_AAAA"}, fault.ValidationError, "secret"},
		"taken":     {api.PutDestinationRequest{Name: "pager", Definition: destinations.Definition{URL: "https://example.com/"}}, fault.Conflict, "name"},
	} {
		_, err := w.PutDestination(t.Context(), tc.r)
		f := fault.From(err)
		assert.Equal(t, tc.code, f.Code, name)
		assert.Equal(t, tc.field, f.Field, name)
	}
	_, err := w.SteerDestination(t.Context(), api.SteerDestinationRequest{Name: "pager", Act: "explode"})
	assert.True(t, fault.Has(err, fault.ValidationError), err)
	_, err = w.SteerDestination(t.Context(), api.SteerDestinationRequest{Name: "nobody", Act: api.ActPause})
	assert.True(t, fault.Has(err, fault.NotFound), err)
	v := w.steer(api.SteerDestinationRequest{Name: "pager", Act: api.ActTest})
	assert.Equal(t, 200, v.Tested.Status)
}
