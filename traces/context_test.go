package traces_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/traces"
)

// caller is the example of W3C Trace Context.
const caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// notSampled is that of a caller that does not record the trace.
const notSampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"

// The rules of https://www.w3.org/TR/trace-context/#traceparent-header-field-values.
func TestParseContext(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		caller: true,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00":        true,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-fe":        true,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03":        true,
		"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01":        true,
		"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-future": true,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-future": false,
		"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.future": false,
		"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01":        false,
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01":        false,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01":        false,
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01":        false,
		"00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01":         false,
		"00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01":        false,
		"0-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01":         false,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1":         false,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7":           false,
		" " + caller: false,
		"":           false,
		"---":        false,
	} {
		c, got := traces.ParseContext(text)
		assert.Equal(t, ok, got, text)
		assert.Equal(t, ok, traces.IsContext(text))
		if ok {
			flags := "01"
			if strings.HasSuffix(text, "-00") || strings.HasSuffix(text, "-fe") {
				flags = "00"
			}
			assert.Equal(t, strings.TrimSuffix(caller, "01")+flags, c.String())
		}
	}
}

func FuzzParseContext(f *testing.F) {
	f.Add(caller)
	f.Add("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-future")
	f.Fuzz(func(t *testing.T, text string) {
		c, ok := traces.ParseContext(text)
		if !ok {
			return
		}
		again, ok := traces.ParseContext(c.String())
		assert.True(t, ok)
		assert.Equal(t, c, again)
		assert.Contains(t, text, c.Trace.String())
	})
}

// A family of tasks has one trace: that of the caller of its topmost task, or else the one of that task's id.
func TestTraceOfAFamily(t *testing.T) {
	t.Parallel()
	const child, grandchild = events.TaskID("TASK_01M8HX1ARCG7ZDBTAJP0BRM23S"), events.TaskID("TASK_01M8HX1ARCG7ZDBTAJP0BRM23T")
	own, err := traces.Of(task)
	require.NoError(t, err)
	for traceParent, want := range map[string]string{
		"":               own.String(),
		"no traceparent": own.String(),
		caller:           "4bf92f3577b34da6a3ce929d0e0e4736",
		notSampled:       "4bf92f3577b34da6a3ce929d0e0e4736",
		"00-" + own.String() + "-00f067aa0ba902b7-00": own.String(),
		strings.ToUpper(caller):                       own.String(),
		"00-" + own.String() + "-":                    own.String(),
	} {
		top := &events.Submitted{TraceParent: traceParent}
		below := &events.Submitted{Parent: &events.Parent{Task: task, Trace: traces.Below(task, top)}, TraceParent: caller}
		last := &events.Submitted{Parent: &events.Parent{Task: child, Trace: traces.Below(child, below)}}
		for id, sub := range map[events.TaskID]*events.Submitted{task: top, child: below, grandchild: last} {
			got, err := traces.OfTask(id, sub)
			require.NoError(t, err)
			assert.Equal(t, want, got.String(), "%s of %q", id, traceParent)
			call, err := traces.OfCall(traces.Below(id, sub), id, "step", 2)
			require.NoError(t, err)
			assert.Equal(t, want, call.Trace.String())
			assert.Equal(t, strings.HasSuffix(traceParent, "-00"), call.Unsampled, "%s of %q hands on the flag of the caller", id, traceParent)
		}
		assert.Equal(t, traceParent == caller || strings.HasSuffix(traceParent, "-00"), traces.Below(task, top) != "", "an id says it already")
	}
}

// The span of a task is below that of its caller, and a call names the span of its attempt.
func TestSpansOfACaller(t *testing.T) {
	t.Parallel()
	fold := traces.NewFold(task)
	spans := fold.Add(at(0), "user:ada", []events.Event{
		event(events.TaskSubmitted, &events.Submitted{Name: "release", TraceParent: caller}),
		event(events.StepReady, &events.Ready{Step: "a", Tool: "ECHO", Attempt: 1}),
		event(events.StepCalled, &events.Called{Step: "a", Attempt: 1}),
		event(events.StepSucceeded, &events.Succeeded{Step: "a"}),
		event(events.TaskFinished, &events.Moved{}),
	})
	byName := map[string]traces.Span{}
	for _, s := range spans {
		byName[s.Name] = s
	}
	assert.Equal(t, "00f067aa0ba902b7", byName["release"].Parent.String())
	call, err := traces.OfCall("", task, "a", 1)
	require.NoError(t, err)
	assert.Equal(t, byName["ECHO"].ID, call.Span)
	assert.Equal(t, hex.EncodeToString(call.Span[:]), strings.Split(call.String(), "-")[2])
}
