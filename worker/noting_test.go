package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
	"github.com/orch-dev/orch/worker"
)

// starter returns a tool with effects that starts something elsewhere. It returns its note once it has one.
func starter(effect tools.Effect, first error) tools.Tool {
	s := spec("START", effect)
	s.NoWorkspace = false
	return tools.Define(s, func(_ context.Context, env *tools.Env, _ none) (text, error) {
		if env.Note != nil {
			return text{string(env.Note)}, nil
		}
		env.Record(events.LogWritten, &events.Logged{Level: "INFO", Message: "lost"})
		return text{}, fmt.Errorf("begun: %w", first)
	})
}

// noting returns a call of a tool that writes.
func noting(note string) work.Call {
	c := call("START", "{}")
	c.Effect = "write"
	if note != "" {
		c.Note = json.RawMessage(note)
	}
	return c
}

// A call that continues elsewhere ends without result and error, without secrets, and is made again with its note.
func TestNotedCall(t *testing.T) {
	t.Parallel()
	for _, effect := range []tools.Effect{tools.Write, tools.Destructive, tools.Read} {
		b := newBench(t, worker.Config{}, starter(effect, &tools.Noted{Note: json.RawMessage(`{"id":"job-1","of":"` + secret + `"}`)}))
		o := b.Execute(t.Context(), noting(""))
		assert.Nil(t, o.Error)
		assert.Empty(t, o.Class)
		assert.Nil(t, o.Output)
		assert.Empty(t, o.Facts)
		assert.Empty(t, o.Questions)
		assert.Contains(t, string(o.Note), `"id":"job-1"`)
		assert.NotContains(t, string(o.Note), secret)
		assert.True(t, json.Valid(o.Note))
		assert.Len(t, b.owner.starts, 1)
		notes, err := os.ReadFile(b.working("PROGRESS.md"))
		require.NoError(t, err)
		assert.Equal(t, effect != tools.Read, strings.HasSuffix(string(notes), " goes on elsewhere\n"), "%s", notes)

		risks, err := os.ReadFile(b.working("CHECKPOINTS.md"))
		require.NoError(t, err)
		assert.Equal(t, effect == tools.Destructive, strings.Contains(string(risks), "] before a ("), "%s", risks)

		again := noting(`{"id":"job-1"}`)
		again.Declared, again.Away = true, true
		o = b.Execute(t.Context(), again)
		assert.Empty(t, o.Note)
		assert.JSONEq(t, `{"text":"{\"id\":\"job-1\"}"}`, string(o.Output))
		assert.Len(t, b.owner.starts, 1, "what goes on is not announced again")
	}
}

// Questions and a note are reported together.
func TestAskingWithANote(t *testing.T) {
	t.Parallel()
	q := tools.Question{Key: "who", Kind: events.Roots}
	b := newBench(t, worker.Config{}, starter(tools.Write, &tools.Asking{Questions: []tools.Question{q}, Note: json.RawMessage(`"` + secret + ` job"`)}))
	o := b.Execute(t.Context(), noting(""))
	assert.Equal(t, []work.Question{work.Question(q)}, o.Questions)
	assert.Contains(t, string(o.Note), "job")
	assert.NotContains(t, string(o.Note), secret)
}

// A note that cannot be stored is the error of its call.
func TestWrongNote(t *testing.T) {
	t.Parallel()
	large := json.RawMessage(`"` + strings.Repeat("x", tools.MaxNote-2) + `"`)
	question := []tools.Question{{Key: "k", Kind: events.Roots}}
	for name, first := range map[string]error{
		"none": &tools.Noted{}, "null": &tools.Noted{Note: json.RawMessage(" null")}, "broken": &tools.Noted{Note: json.RawMessage("{")},
		"large": &tools.Noted{Note: large}, "large, with questions": &tools.Asking{Questions: question, Note: large},
	} {
		o := newBench(t, worker.Config{}, starter(tools.Write, first)).Execute(t.Context(), noting(""))
		require.NotNil(t, o.Error, name)
		assert.Equal(t, fault.ValidationError, o.Error.Code, name)
		assert.Equal(t, "note", o.Error.Field, name)
		assert.Equal(t, "invalid_args", o.Class, name)
		assert.Empty(t, o.Note, name)
		assert.Empty(t, o.Questions, name)
	}
	o := newBench(t, worker.Config{}, starter(tools.Write, &tools.Noted{Note: large[1 : len(large)-1]})).Execute(t.Context(), noting(""))
	require.NotNil(t, o.Error)
	o = newBench(t, worker.Config{}, starter(tools.Write, &tools.Noted{Note: append(large[:len(large)-2:len(large)-2], '"')})).Execute(t.Context(), noting(""))
	assert.Nil(t, o.Error)
}

// A note survives the timeout of its call or the stop of the worker: without it, what was started elsewhere would be lost.
func TestNoteOutlivesTheEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		err     error
		timeout time.Duration
	}{
		"time": {&tools.Noted{Note: json.RawMessage(`1`)}, time.Second},
		"stop": {&tools.Noted{Note: json.RawMessage(`1`)}, 0},
		"asks": {&tools.Asking{Questions: []tools.Question{{Key: "k", Kind: events.Roots}}, Note: json.RawMessage(`1`)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tool := readTool("WAIT", func(ctx context.Context, _ *tools.Env) (string, error) {
					<-ctx.Done()
					return "", end.err
				})
				b := newBench(t, worker.Config{DrainTimeout: time.Second}, tool)
				stop := b.run(t)
				c := call("WAIT", "{}")
				c.Timeout = end.timeout
				b.owner.calls <- []work.Call{c}
				advance(2 * time.Second)
				stop()
				o := <-b.owner.outcomes
				assert.Nil(t, o.Error)
				assert.Equal(t, "1", string(o.Note))
			})
		})
	}
}
