package events_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// plainly returns the data of an event as encoding/json encodes it.
func plainly(t *testing.T, p events.Payload) string {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	require.NoError(t, enc.Encode(p))
	return b.String()[:b.Len()-1]
}

// written is the data of the only event of a commit as Encode writes it.
func written(t *testing.T, kind events.Kind, p events.Payload) string {
	t.Helper()
	c := goldenCommit(kind)
	c.Events[0].Data = p
	wire, err := events.Encode(c)
	require.NoError(t, err)
	var parts struct {
		Events []struct {
			Data json.RawMessage `json:"data"`
		} `json:"events"`
	}
	require.NoError(t, json.Unmarshal(wire, &parts))
	return string(parts.Events[0].Data)
}

// The payloads that write themselves are written as encoding/json would write them, whatever is in them.
func FuzzEncode(f *testing.F) {
	f.Add("a", "", `{"n":1}`, int64(1), int64(0))
	f.Add("ü <&>\u2028\x00\xff", `"\`, ` { "a b" : [ 1 , 2 ] } `, int64(-1), int64(time.Second))
	f.Add("", "x", ``, int64(0), int64(1_700_000_000_123_456))
	f.Fuzz(func(t *testing.T, a, b, raw string, n, m int64) {
		if raw != "" && (!json.Valid([]byte(raw)) || events.Inline(json.RawMessage(raw)).MustOffload()) {
			return // no inline value
		}
		v := events.Inline(json.RawMessage(raw))
		at := events.Time(time.UnixMicro(m % 1e15))
		for kind, p := range map[events.Kind]events.Payload{
			events.TaskSubmitted: &events.Submitted{Name: a, Summary: b, Plan: v, PlanSHA256: a, Inputs: v, Priority: b, Queue: a, MaxSteps: int(n), TraceParent: a, TraceState: b},
			events.TaskFinished:  &events.Moved{Reason: a, Block: b, Output: v},
			events.StepReady:     &events.Ready{Step: a, Attempt: int(n), Tool: b, Args: v, Effect: a, Queue: b, Timeout: time.Duration(m), Purpose: a, By: b},
			events.StepCalled:    &events.Called{Step: a, Attempt: int(n), Worker: b, At: at, Effect: a},
			events.StepSucceeded: &events.Succeeded{Step: a, Attempt: int(n), Output: v, Duration: time.Duration(m)},
		} {
			assert.Equal(t, plainly(t, p), written(t, kind, p), kind)
		}
	})
}

// With every field and with none, each kind is written as encoding/json would write it.
func TestEncodeIsPlainJSON(t *testing.T) {
	t.Parallel()
	for kind, full := range samples() {
		assert.Equal(t, plainly(t, full), written(t, kind, full), kind)
	}
	for kind, empty := range map[events.Kind]events.Payload{
		events.TaskSubmitted: &events.Submitted{}, events.TaskFinished: &events.Moved{}, events.StepReady: &events.Ready{},
		events.StepCalled: &events.Called{}, events.StepSucceeded: &events.Succeeded{},
	} {
		assert.Equal(t, plainly(t, empty), written(t, kind, empty), kind)
	}
}

// A field that is added to a payload which writes itself cannot be forgotten there: each is set in turn.
func TestEncodeKnowsEveryField(t *testing.T) {
	t.Parallel()
	at := goldenTime()
	values := []any{
		"x", 7, int64(7), uint64(7), true, time.Second, at, &at, goldenTask,
		[]events.TaskID{goldenTask},
		[]string{"x"},
		[]events.Allow{{Paths: []string{"p"}}, {}},
		&events.Allow{Paths: []string{"p"}},
		map[string]string{"a": "b"},
		events.Inline(json.RawMessage(`{"n":1}`)), &fault.Error{Code: fault.Internal, Message: "m"},
		&events.Concurrency{Key: "k"}, &events.Firing{Name: "s", Time: at}, &events.Delivery{Name: "h", ID: "1", Body: events.Inline(json.RawMessage(`{"n":1}`))}, &events.Parent{Task: goldenTask}, &events.Client{Asks: []string{events.Roots}}, &events.Agents{Agent: "a", Requires: []string{"b"}},
	}
	for kind, p := range map[events.Kind]events.Payload{
		events.TaskSubmitted: &events.Submitted{}, events.TaskFinished: &events.Moved{}, events.StepReady: &events.Ready{},
		events.StepCalled: &events.Called{}, events.StepSucceeded: &events.Succeeded{},
	} {
		fields := reflect.ValueOf(p).Elem()
		for i := range fields.NumField() {
			at := slices.IndexFunc(values, func(v any) bool { return reflect.TypeOf(v) == fields.Field(i).Type() })
			require.GreaterOrEqual(t, at, 0, "no value for %s.%s", kind, fields.Type().Field(i).Name)
			fields.Field(i).Set(reflect.ValueOf(values[at]))
			assert.Equal(t, plainly(t, p), written(t, kind, p), fields.Type().Field(i).Name)
		}
	}
}

func TestEncodeRefusesWhatIsNoJSON(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]events.Payload{
		"value": &events.Succeeded{Step: "a", Output: events.Inline(json.RawMessage(`{"a":`))},
		"ref":   &events.Succeeded{Step: "a", Output: events.Inline(json.RawMessage(`{"$blob":1}`))},
		"time":  &events.Called{Step: "a", At: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		c := goldenCommit(events.StepSucceeded)
		c.Events[0].Data = p
		_, err := events.Encode(c)
		assert.Error(t, err, name)
	}
}
