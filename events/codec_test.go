package events_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

func sampleCommit() *events.Commit {
	return &events.Commit{Task: goldenTask, Rev: 1, At: goldenTime(), Actor: "a", Events: []events.Event{{Kind: events.TaskPaused, Data: &events.Paused{Reason: "r"}}}}
}

func encoded(tb testing.TB, c *events.Commit) string {
	tb.Helper()
	data, err := events.Encode(c)
	require.NoError(tb, err)
	return string(data)
}

func TestEncodeIsValidJSON(t *testing.T) {
	t.Parallel()
	c := sampleCommit()
	c.Actor, c.Cause = "quote \" and \\ and \n and <>&", "c"
	var generic map[string]any
	require.NoError(t, json.Unmarshal([]byte(encoded(t, c)), &generic))
	assert.Equal(t, c.Actor, generic["actor"])
	assert.InDelta(t, 1, generic["v"], 0)
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	good := encoded(t, sampleCommit())
	_, err := events.Decode([]byte(good))
	require.NoError(t, err)
	for name, text := range map[string]string{
		"nothing":       "",
		"garbage":       "\x00\xff",
		"half":          good[:len(good)/2],
		"trailing":      good + "{}",
		"another type":  `[1]`,
		"null":          `null`,
		"no version":    strings.Replace(good, `"v":1`, `"v":0`, 1),
		"no revision":   strings.Replace(good, `"rev":1`, `"rev":0`, 1),
		"negative":      strings.Replace(good, `"rev":1`, `"rev":-1`, 1),
		"no events":     `{"v":1,"task":"` + string(goldenTask) + `","rev":1,"at":"2026-01-01T00:00:00Z","actor":"a","events":[]}`,
		"wrong data":    strings.Replace(good, `{"reason":"r"}`, `{"reason":7}`, 1),
		"no data":       strings.Replace(good, `,"data":{"reason":"r"}`, ``, 1),
		"null data":     strings.Replace(good, `{"reason":"r"}`, `null`, 1),
		"task":          strings.Replace(good, string(goldenTask), `TASK_\"x`, 1),
		"time":          strings.Replace(good, "2026", "x", 1),
		"time in zones": strings.Replace(good, `2026-11-21T12:00:00.123456Z`, `0000-01-01T00:00:00+23:00`, 1),
		"chain":         strings.Replace(good, `"actor":"a"`, `"actor":"a","prev":"x\"y"`, 1),
		"damaged ref":   strings.Replace(encoded(t, goldenCommit(events.StepExpanded)), "sha256-", "md5-", 1),
		"short ref":     strings.Replace(encoded(t, goldenCommit(events.StepExpanded)), "sha256-", "sha256-0", 1),
	} {
		_, err := events.Decode([]byte(text))
		require.Error(t, err, name)
		assert.Equal(t, fault.DataLoss, fault.CodeOf(err), "%s: %v", name, err)
	}
}

// Data of a later version is not reported as damage, and the error says what to do.
func TestDecodeNewer(t *testing.T) {
	t.Parallel()
	good := encoded(t, sampleCommit())
	for name, text := range map[string]string{
		"version": strings.Replace(good, `"v":1`, `"v":2`, 1),
		"kind":    strings.Replace(good, "task.paused", "task.danced", 1),
		"field":   strings.Replace(good, `"reason":"r"`, `"reason":"r","unless":"x"`, 1),
		"shape":   `{"events":{"a":1},"v":2,"at":7}`,
	} {
		_, err := events.Decode([]byte(text))
		assert.Equal(t, fault.NewerStore, fault.CodeOf(err), name)
		assert.Contains(t, fault.From(err).Hint, "newer orch", name)
	}
}

func TestUpcaster(t *testing.T) {
	t.Parallel()
	old := strings.Replace(encoded(t, sampleCommit()), `"task.paused","data":{"reason":"r"}`, `"task.halted","data":{"why":"r"}`, 1)
	_, err := events.Decode([]byte(old))
	require.Error(t, err)
	cast := func(version int, kind events.Kind, data json.RawMessage) (events.Kind, json.RawMessage, error) {
		if version != 1 || kind != "task.halted" {
			return kind, data, nil
		}
		return events.TaskPaused, json.RawMessage(strings.Replace(string(data), "why", "reason", 1)), nil
	}
	c, err := events.Decode([]byte(old), cast)
	require.NoError(t, err)
	assert.Equal(t, sampleCommit().Events, c.Events)
	_, err = events.Decode([]byte(old), func(int, events.Kind, json.RawMessage) (events.Kind, json.RawMessage, error) {
		return "", nil, errors.New("no")
	})
	assert.Equal(t, fault.DataLoss, fault.CodeOf(err))
}

// Values keep their bytes: large integers, unicode, null bytes, escapes.
func TestValueKeepsBytes(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		`12345678901234567890123`, `-0.10e-7`, `"ü😀\u0000\u2028<&>"`, "\"\u2028\"", `{"b":1,"a":[null,true,{}]}`, `null`, `""`, `{"a":{"$blob":"x"}}`,
		`{"\u0024blob":"not a reference"}`,
	} {
		c := sampleCommit()
		c.Events = []events.Event{{Kind: events.SignalReceived, Data: &events.Signal{Name: "s", Data: events.Inline(json.RawMessage(raw))}}}
		require.False(t, events.Inline(json.RawMessage(raw)).MustOffload(), raw)
		back, err := events.Decode([]byte(encoded(t, c)))
		require.NoError(t, err, raw)
		signal, ok := back.Events[0].Data.(*events.Signal)
		require.True(t, ok)
		assert.Equal(t, raw, string(signal.Data.Raw))
	}
}

func TestValueAndReferenceCannotBeMixedUp(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{`{"$blob":1}`, `{"$blob":"sha256-x","size":1}`, ` { "$blob" : 1}`, "{\n\"$blob\"\t:null}"} {
		v := events.Inline(json.RawMessage(raw))
		assert.True(t, v.MustOffload(), raw)
		_, err := json.Marshal(v)
		require.Error(t, err, "%s must not be written inline", raw)
	}
	large := make([]byte, events.MaxInline)
	assert.True(t, events.Inline(large).MustOffload())
	assert.False(t, events.Inline(large[1:]).MustOffload())
	ref := events.Offloaded(large)
	data, err := json.Marshal(ref)
	require.NoError(t, err)
	var back events.Value
	require.NoError(t, json.Unmarshal(data, &back))
	assert.Equal(t, ref, back)
	assert.False(t, ref.MustOffload())
	assert.False(t, ref.IsZero())
	assert.True(t, events.Value{}.IsZero())
}

func TestEventOutsideACommit(t *testing.T) {
	t.Parallel()
	for kind, p := range samples() {
		data, err := json.Marshal(events.Event{Kind: kind, Data: p})
		require.NoError(t, err)
		var e events.Event
		require.NoError(t, json.Unmarshal(data, &e), kind)
		again, err := json.Marshal(e)
		require.NoError(t, err)
		assert.Equal(t, string(data), string(again))
	}
	var e events.Event
	require.Error(t, json.Unmarshal([]byte(`{"kind":"x","data":{}}`), &e))
}

func TestHashChain(t *testing.T) {
	t.Parallel()
	first := sampleCommit()
	require.NoError(t, first.CheckLink(0, ""))
	second := sampleCommit()
	second.Rev, second.Prev = 2, events.Hash([]byte(encoded(t, first)))
	require.NoError(t, second.CheckLink(1, events.Hash([]byte(encoded(t, first)))))
	changed := sampleCommit()
	changed.Actor = "mallory"
	for _, err := range []error{
		second.CheckLink(1, events.Hash([]byte(encoded(t, changed)))), second.CheckLink(2, second.Prev), second.CheckLink(0, second.Prev), second.CheckLink(1, ""),
	} {
		assert.Equal(t, fault.DataLoss, fault.CodeOf(err))
	}
}

// ids are parsed, ordered by time, and refused in other forms.
func TestTaskIDs(t *testing.T) {
	t.Parallel()
	a, b := events.NewTaskID(goldenTime()), events.NewTaskID(goldenTime().Add(time.Second))
	assert.Less(t, a, b)
	for _, id := range []events.TaskID{a, goldenTask, events.KeyedTaskID("", ""), events.KeyedTaskID("", "k"), events.KeyedTaskID("agent:a", "k")} {
		parsed, err := events.ParseTaskID(string(id))
		require.NoError(t, err)
		assert.Equal(t, id, parsed)
	}
	again := events.KeyedTaskID("", strings.ToLower("K"))
	assert.Equal(t, events.KeyedTaskID("", "k"), again)
	assert.NotEqual(t, events.KeyedTaskID("", "k"), events.KeyedTaskID("", "l"))
	for _, s := range []string{"", "TASK_", "TASK_../../x", strings.ToLower(string(a)), string(a) + "0", "TASK_8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "TASK_01JD000000000000000000000I"} {
		_, err := events.ParseTaskID(s)
		assert.Equal(t, fault.InvalidFormat, fault.CodeOf(err), s)
	}
}

// FuzzDecode checks that Decode does not panic on any input, and that decoded commits have one encoding.
func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "golden", "*.json"))
	require.NoError(f, err)
	for _, name := range files {
		data, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte(`{"v":1,"task":"TASK_01JD0000000000000000000000","rev":1,"at":"2026-01-01T00:00:00+02:00","actor":"\ud800","events":[{"kind":"signal.received","data":{"name":"x","data": { "a" : 1 } }}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := events.Decode(data)
		if err != nil {
			assert.Contains(t, []fault.Code{fault.DataLoss, fault.NewerStore}, fault.CodeOf(err))
			return
		}
		once := encoded(t, c)
		again, err := events.Decode([]byte(once))
		require.NoError(t, err, "%s", once)
		assert.Equal(t, once, encoded(t, again))
	})
}

// The beginning of a long text may be that of a secret, which nothing knows as one once it is cut.
func TestLongTextsThatAreNoTaskIDAreNotShown(t *testing.T) {
	t.Parallel()
	_, err := events.ParseTaskID("key" + strings.Repeat("x7Q", 20))
	require.ErrorContains(t, err, "a text of 63 bytes is not a task id")
	assert.NotContains(t, err.Error(), "x7Q")
	_, err = events.ParseTaskID("TASK_1")
	require.ErrorContains(t, err, `"TASK_1" is not a task id`)
}
