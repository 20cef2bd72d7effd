package export_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/export"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

var began = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// key returns a key that is the same in each run.
func key(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func publicKey(n byte) ed25519.PublicKey { return ed25519.PublicKey(key(n)[ed25519.SeedSize:]) }

// history is a task with its commits and the large values of all tasks.
type history struct {
	task   *statemachine.Task
	data   [][]byte
	values map[string][]byte
}

func newHistory(name string, values map[string][]byte) *history {
	h := &history{task: &statemachine.Task{ID: events.KeyedTaskID("", name)}, values: values}
	return h
}

// large returns a reference to a large value.
func (h *history) large(text string) events.Value {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	v := events.Offloaded(raw)
	h.values[v.Ref()] = raw
	return v
}

// add adds a commit of those events that the tables allow.
func (h *history) add(t require.TestingT, list ...events.Event) {
	at := began.Add(time.Duration(len(h.data)) * time.Second)
	trial := h.fold(t)
	var allowed []events.Event
	for _, e := range list {
		if trial.Apply(at, e) == nil {
			allowed = append(allowed, e)
		}
	}
	if len(allowed) == 0 {
		return
	}
	c := &events.Commit{Task: h.task.ID, Rev: h.task.Rev + 1, At: at, Actor: "user:ada", Prev: h.task.Head, Events: allowed}
	data, err := events.Encode(c)
	require.NoError(t, err)
	h.data = append(h.data, data)
	h.task = h.fold(t)
}

// fold returns a new fold of the commits so far.
func (h *history) fold(t require.TestingT) *statemachine.Task {
	task := &statemachine.Task{ID: h.task.ID}
	for _, data := range h.data {
		c, err := events.Decode(data)
		require.NoError(t, err)
		require.NoError(t, task.Fold(c, data))
	}
	return task
}

// write writes histories to a file.
func write(t require.TestingT, cfg export.Config, all ...*history) ([]byte, export.Report) {
	var b bytes.Buffer
	if cfg.Key == nil {
		cfg.Key = key(1)
	}
	cfg.NodeVersion, cfg.At = "1.2.3", began
	cfg.Value = func(digest string) ([]byte, error) {
		for _, h := range all {
			if data, ok := h.values[digest]; ok {
				return data, nil
			}
		}
		return nil, fault.New(fault.NotFound, "there is no value %s", digest)
	}
	w := export.NewWriter(&b, cfg)
	for _, h := range all {
		for _, data := range h.data {
			require.NoError(t, w.Commit(data))
		}
	}
	r, err := w.Close()
	require.NoError(t, err)
	return b.Bytes(), r
}

// draw returns a random history.
func draw(t *rapid.T, name string, values map[string][]byte) *history {
	h := newHistory(name, values)
	h.add(t, events.Event{Kind: events.TaskSubmitted, Data: &events.Submitted{Name: name, Plan: drawValue(t, h)}})
	for range rapid.IntRange(0, 12).Draw(t, "commits") {
		list := make([]events.Event, rapid.IntRange(1, 4).Draw(t, "events"))
		for i := range list {
			list[i] = drawEvent(t, h)
		}
		h.add(t, list...)
	}
	return h
}

func drawValue(t *rapid.T, h *history) events.Value {
	text := rapid.StringN(0, 20, 60).Draw(t, "text")
	if rapid.IntRange(0, 3).Draw(t, "large") == 0 {
		return h.large(strings.Repeat(text, rapid.IntRange(1, 5000).Draw(t, "times")))
	}
	raw, err := json.Marshal(text)
	require.NoError(t, err)
	return events.Inline(raw)
}

func drawEvent(t *rapid.T, h *history) events.Event {
	step := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "step")
	all := map[events.Kind]events.Payload{
		events.TaskStarted: &events.Moved{}, events.TaskFinished: &events.Moved{Output: drawValue(t, h)}, events.TaskPaused: &events.Paused{Reason: "<&>\u2028"},
		events.StepReady:     &events.Ready{Step: step, Attempt: 1, Tool: "ECHO", Args: drawValue(t, h)},
		events.StepCalled:    &events.Called{Step: step, Worker: "w"},
		events.StepSucceeded: &events.Succeeded{Step: step, Output: drawValue(t, h)},
		events.StepFailed:    &events.StepError{Step: step}, events.LogWritten: &events.Logged{Message: "line\nnext"},
	}
	kind := rapid.SampledFrom(slices.Sorted(maps.Keys(all))).Draw(t, "kind")
	return events.Event{Kind: kind, Data: all[kind]}
}

// sample returns a file with two tasks and two large values.
func sample(tb testing.TB) ([]byte, []*history) {
	tb.Helper()
	values := map[string][]byte{}
	one, two := newHistory("one", values), newHistory("two", values)
	one.add(tb, events.Event{Kind: events.TaskSubmitted, Data: &events.Submitted{Name: "one", Inputs: one.large(strings.Repeat("in ", 90))}})
	one.add(tb, events.Event{Kind: events.StepReady, Data: &events.Ready{Step: "a", Attempt: 1, Tool: "ECHO"}})
	one.add(tb, events.Event{Kind: events.StepSucceeded, Data: &events.Succeeded{Step: "a", Output: one.large(strings.Repeat("out ", 90))}})
	two.add(tb, events.Event{Kind: events.TaskSubmitted, Data: &events.Submitted{Name: "two", Inputs: one.large(strings.Repeat("in ", 90))}})
	two.add(tb, events.Event{Kind: events.TaskPaused, Data: &events.Paused{Reason: "why"}})
	data, _ := write(tb, export.Config{}, one, two)
	return data, []*history{one, two}
}
