package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
	"github.com/orch-dev/orch/worker"
)

// asker returns a tool with a workspace that asks the given questions, and returns the answers when it has them.
func asker(asked ...tools.Question) tools.Tool {
	s := spec("ASK", tools.Write)
	s.NoWorkspace = false
	return tools.Define(s, func(_ context.Context, env *tools.Env, _ none) (text, error) {
		if raw, ok := env.Answer("who"); ok {
			return text{string(raw)}, nil
		}
		env.Record(events.LogWritten, &events.Logged{Level: "INFO", Message: "lost"})
		return text{}, fmt.Errorf("not yet: %w", &tools.Asking{Questions: asked})
	})
}

// A call with questions ends without result and error, without secrets, and is made again with the answers.
func TestAskingCall(t *testing.T) {
	t.Parallel()
	b := newBench(t, worker.Config{}, asker(
		tools.Question{Key: "who", Kind: events.Elicitation, Params: json.RawMessage(`{"message":"Is it ` + secret + `?"}`)},
		tools.Question{Key: "where", Kind: events.Roots},
	))
	o := b.Execute(t.Context(), call("ASK", "{}"))
	assert.Nil(t, o.Error)
	assert.Empty(t, o.Class)
	assert.Nil(t, o.Output)
	assert.Empty(t, o.Facts)
	require.Len(t, o.Questions, 2)
	assert.Equal(t, "who", o.Questions[0].Key)
	assert.NotContains(t, string(o.Questions[0].Params), secret)
	assert.True(t, json.Valid(o.Questions[0].Params))
	assert.Equal(t, work.Question{Key: "where", Kind: events.Roots}, o.Questions[1])
	notes, err := os.ReadFile(b.working("PROGRESS.md"))
	require.NoError(t, err)
	assert.True(t, strings.HasSuffix(string(notes), " asks\n"), "%s", notes)

	again := call("ASK", "{}")
	again.Answers = map[string]json.RawMessage{"who": json.RawMessage(`{"action":"accept"}`)}
	o = b.Execute(t.Context(), again)
	assert.Empty(t, o.Questions)
	assert.JSONEq(t, `{"text":"{\"action\":\"accept\"}"}`, string(o.Output))
}

// Questions that nobody could answer are errors of the call.
func TestWrongQuestions(t *testing.T) {
	t.Parallel()
	good := tools.Question{Key: "k", Kind: events.Sampling}
	for name, asked := range map[string][]tools.Question{
		"none":   nil,
		"many":   make([]tools.Question, tools.MaxQuestions+1),
		"twice":  {good, good},
		"no key": {{Kind: events.Roots}},
		"kind":   {{Key: "k", Kind: "wish"}},
		"params": {{Key: "k", Kind: events.Roots, Params: json.RawMessage(`null`)}},
		"broken": {{Key: "k", Kind: events.Roots, Params: json.RawMessage(`{`)}},
		"large":  {{Key: "k", Kind: events.Roots, Params: json.RawMessage(`{"a":"` + strings.Repeat("x", tools.MaxParams) + `"}`)}},
	} {
		o := newBench(t, worker.Config{}, asker(asked...)).Execute(t.Context(), call("ASK", "{}"))
		require.NotNil(t, o.Error, name)
		assert.Equal(t, fault.ValidationError, o.Error.Code, name)
		assert.Equal(t, "invalid_args", o.Class, name)
		assert.Empty(t, o.Questions, name)
	}
}
