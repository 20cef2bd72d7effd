package exporter_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// The spans of what ends after the first start are sent, once, and are those of the fold. What has not ended, has ended before or is
// internal is left out.
func TestWhatEndsIsSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.journal.Exists, w.journal.Entries = false, nil
	w.run("before", 1)
	open := w.submit("open", events.Submitted{})
	w.restart()
	require.NoError(t, w.Step(t.Context()))
	assert.Empty(t, w.received())
	ids := []events.TaskID{w.run("a", 2), w.run("b", 0)}
	ids = append(ids, w.submit("child", events.Submitted{Parent: &events.Parent{Task: ids[0], Step: "sa", Trace: "4bf92f3577b34da6a3ce929d0e0e4736"}}))
	w.end("child")
	w.submit("own", events.Submitted{Name: "orch/session"})
	w.end("own")
	ids = append(ids, w.submit("part", events.Submitted{Name: events.PartName + "each"}))
	w.end("part")
	for range 3 {
		require.NoError(t, w.Step(t.Context()))
	}
	assert.Equal(t, w.folded(ids...), w.received())
	assert.Equal(t, []int{8}, w.sizes, "one request for what ended between two looks")
	w.end("open")
	w.restart()
	require.NoError(t, w.Step(t.Context()))
	assert.Equal(t, w.folded(append(ids, open)...), w.received())
	assert.Equal(t, []int{8, 1}, w.sizes, "what was sent is not sent again after a restart")
	assert.Equal(t, 1, w.Figures().Sent)
}

// Many steps are several requests. What a collector takes in smaller requests alone comes in halves.
func TestRequestsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.submit("large", events.Submitted{})
	for i := range 3000 { // more than the exporter keeps in memory
		w.call("large", fmt.Sprint("s", i))
	}
	w.end("large")
	small := w.run("small", 1)
	require.NoError(t, w.Step(t.Context()))
	assert.Equal(t, []int{1000, 1000, 1000, 1000, 1000, 1000, 4}, w.sizes)
	assert.Equal(t, w.folded(id, small), w.received())

	w.sizes = nil
	w.answers(func(to http.ResponseWriter, spans int) bool {
		if spans > 300 {
			to.WriteHeader(http.StatusRequestEntityTooLarge)
		}
		return spans <= 300
	})
	again := w.submit("again", events.Submitted{})
	for i := range 499 {
		w.call("again", fmt.Sprint("s", i))
	}
	w.end("again")
	require.NoError(t, w.Step(t.Context()))
	assert.Equal(t, []int{999, 499, 249, 250, 500, 250, 250}, w.sizes)
	assert.Equal(t, w.folded(id, small, again), w.received())
}

// What a collector refuses is left out, with one warning until it takes something again.
func TestRefusedSpansAreLeftOut(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(http.ResponseWriter, int) bool{
		"malformed": status(http.StatusBadRequest),
		"too large": status(http.StatusRequestEntityTooLarge),
		"in part": func(to http.ResponseWriter, _ int) bool {
			_, _ = to.Write([]byte(`{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too old"}}`))
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.answers(answer)
			for i := range 3 {
				w.run(fmt.Sprint("t", i), 0)
				require.NoError(t, w.Step(t.Context()))
			}
			assert.Equal(t, 3, w.Figures().Refused)
			assert.Equal(t, 1, strings.Count(w.said.String(), "level=WARN msg=spans_refused"), w.said.String())
			w.answers(nil)
			last := w.run("last", 1)
			require.NoError(t, w.Step(t.Context()))
			assert.Subset(t, w.received(), w.folded(last))
			assert.Empty(t, w.Figures().Error)
		})
	}
}

// While a collector takes nothing, the cursor stands: nothing is lost, memory is bounded, and the log of the node has one warning.
func TestOutage(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]int{"token": http.StatusUnauthorized, "broken": http.StatusInternalServerError, "moved": http.StatusFound, "nowhere": http.StatusNotFound, "no collector": http.StatusOK} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.answers(status(code))
			var ids []events.TaskID
			for i := range 1300 {
				ids = append(ids, w.run(fmt.Sprint("t", i), 0))
			}
			ended := w.now
			for i := range 5 {
				require.Error(t, w.Step(t.Context()))
				if i%2 == 0 {
					w.restart()
				}
			}
			require.Error(t, w.Step(t.Context()))
			require.Error(t, w.Step(t.Context()))
			f := w.Figures()
			assert.Equal(t, 1000, f.Waiting)
			assert.Equal(t, ended.Add(-2598*time.Second), f.Oldest)
			assert.Contains(t, f.Error, strconv.Itoa(code))
			assert.Equal(t, 4, strings.Count(w.said.String(), "level=WARN"), "one of each exporter: %s", w.said.String())
			for _, id := range ids[:1100] {
				require.NoError(t, w.log.Archive(t.Context(), id))
			}
			w.answers(nil)
			for range 4 {
				require.NoError(t, w.Step(t.Context()))
			}
			assert.Equal(t, w.folded(ids...), w.received())
			assert.Zero(t, w.Figures().Waiting)
			assert.Empty(t, w.Figures().Error)
			assert.Contains(t, w.said.String(), "traces_sent_again")
		})
	}
}

// The journal fails and loses its answers, the collector fails, tasks are archived, and the exporter crashes. Each span arrives.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			random := rand.New(rand.NewPCG(seed, 7))
			w.every = []time.Duration{time.Nanosecond, time.Hour}[seed%2]
			w.restart()
			w.journal.Failing = func() (error, bool) {
				if random.IntN(4) == 0 {
					return fault.New(fault.Unavailable, "the disk"), random.IntN(2) == 0
				}
				return nil, false
			}
			w.answers(func(to http.ResponseWriter, _ int) bool {
				if random.IntN(3) > 0 {
					return true
				}
				to.WriteHeader(http.StatusForbidden)
				return random.IntN(2) == 0 // the collector had taken them all the same
			})
			var ids, open []events.TaskID
			for i := range 120 {
				key := fmt.Sprint("t", i)
				if random.IntN(5) == 0 {
					open = append(open, w.submit(key, events.Submitted{}))
					continue
				}
				ids = append(ids, w.run(key, random.IntN(4)))
				if random.IntN(2) == 0 {
					_ = w.Step(t.Context())
				}
				if random.IntN(3) == 0 {
					_ = w.log.Archive(t.Context(), ids[random.IntN(len(ids))])
				}
				if random.IntN(6) == 0 {
					w.restart()
				}
			}
			w.journal.Failing = nil
			w.answers(nil)
			for range 3 {
				require.NoError(t, w.Step(t.Context()))
			}
			assert.Equal(t, w.folded(ids...), w.received())
			assert.NotEmpty(t, open)
		})
	}
}

// What retention has removed before it could be sent holds nothing up.
func TestRemovedTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answers(status(http.StatusInternalServerError))
	gone := w.run("gone", 1)
	require.Error(t, w.Step(t.Context()))
	require.NoError(t, w.log.Archive(t.Context(), gone))
	require.NoError(t, w.log.Remove(t.Context(), []events.TaskID{gone}))
	w.answers(nil)
	w.restart()
	kept := w.run("kept", 1)
	for range 2 {
		require.NoError(t, w.Step(t.Context()))
	}
	assert.Equal(t, w.folded(kept), w.received())
}

// While the cursor cannot be recorded, spans are sent, once, and the log of the node has one warning.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.journal.Failing = func() (error, bool) { return fault.New(fault.DiskFull, "the disk is full"), false }
	var ids []events.TaskID
	for i := range 5 {
		ids = append(ids, w.run(fmt.Sprint("t", i), 1))
		require.Error(t, w.Step(t.Context()))
		require.Error(t, w.Step(t.Context()))
	}
	assert.Equal(t, w.folded(ids...), w.received())
	assert.Equal(t, []int{3, 3, 3, 3, 3}, w.sizes)
	assert.Equal(t, 1, strings.Count(w.said.String(), "level=WARN"), w.said.String())
	assert.Equal(t, "the disk is full", w.Figures().Error)
	w.journal.Failing = nil
	require.NoError(t, w.Step(t.Context()))
	assert.Empty(t, w.Figures().Error)
	w.restart()
	require.NoError(t, w.Step(t.Context()))
	assert.Len(t, w.sizes, 5)
}

// Run sends until its context ends, also while a collector fails, and records where it stops.
func TestRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.every = time.Hour
	w.restart()
	w.answers(status(http.StatusForbidden))
	id := w.run("a", 1)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); w.Run(ctx) }()
	require.Eventually(t, func() bool { return w.Figures().Waiting == 1 && w.Figures().Error != "" }, 10*time.Second, time.Millisecond)
	w.answers(nil)
	require.Eventually(t, func() bool { return w.Figures().Sent == 3 }, 10*time.Second, time.Millisecond)
	stop()
	<-ended
	assert.Equal(t, w.folded(id), w.received())
	w.sizes = nil
	w.restart()
	require.NoError(t, w.Step(t.Context()))
	assert.Empty(t, w.sizes)
	assert.True(t, slices.ContainsFunc(w.journal.Entries, func(e []byte) bool { return strings.Contains(string(e), `"seq":3,"floor":3`) }), "%s", w.journal.Entries)
}
