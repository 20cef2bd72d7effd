package decide_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/work"
)

// What a provider does not say of the tokens of an answer counts as the most that it can be, so that the budget is kept.
func TestAgentAnswerWithoutUsage(t *testing.T) {
	t.Parallel()
	const longest = 100 // an answer has more bytes
	for usage, want := range map[string]struct {
		estimated             bool
		input, cached, output int64
	}{
		`"input":100,"output":10`:               {false, 100, 0, 10},
		`"input":0,"output":0`:                  {true, -1, 0, longest},
		`"input":100,"output":0`:                {true, 100, 0, longest},
		`"input":0,"output":10`:                 {true, -1, 0, 10},
		`"input":0,"cache_read":70,"output":10`: {false, 0, 70, 10},
		`"input":0,"cache_read":70,"output":0`:  {true, 0, 70, longest},
	} {
		t.Run(usage, func(t *testing.T) {
			t.Parallel()
			w := agentWorld(t, "tools: [FILE_READ], max_tokens: 100, budget: {tokens: 100000}")
			w.wake()
			if want.input < 0 {
				want.input = w.task.Steps["a"].Agent.Last().Requested.Reserved.Tokens - longest
			}
			answer := says(strings.Repeat("much ", longest), "FILE_READ {}")
			answer.Output = bytes.Replace(answer.Output, []byte(`"input":100,"output":10`), []byte(usage), 1)
			w.hears(1, answer)
			answered := w.task.Steps["a"].Agent.Last().Answered
			assert.Equal(t, want.estimated, answered.Estimated)
			assert.Equal(t, events.Usage{Input: want.input, CacheRead: want.cached, Output: want.output}, answered.Usage)
			assert.Equal(t, want.input*1000+want.output*2000, answered.NanoUSD, "what is read from the cache costs nothing")
		})
	}
}

// An answer that says nothing has no tokens.
func TestAgentEmptyAnswer(t *testing.T) {
	t.Parallel()
	w := agentWorld(t, "")
	w.wake()
	answer := says("")
	answer.Output = bytes.Replace(answer.Output, []byte(`"output":10`), []byte(`"output":0`), 1)
	w.hears(1, answer)
	assert.False(t, w.task.Steps["a"].Agent.Last().Answered.Estimated)
}

// What was lost in a task counts as lost in the task that continues it, not as used.
func TestLostAnswersStayLost(t *testing.T) {
	t.Parallel()
	const fields = "tools: [FILE_READ], max_tokens: 1000, budget: {tokens: 50000}"
	w := agentWorld(t, fields)
	w.wake()
	w.hears(1, says("", "FILE_READ {}"))
	w.calls(1, 1, good())
	assert.Equal(t, "turn.lost a, step.retrying a.t2.m", w.hears(2, work.Outcome{Class: fault.ClassTransport, Error: fault.New(fault.NetworkError, "the stream broke")}))
	w.now = w.now.Add(time.Minute)
	w.wake()
	w.begin("a.t2.m")
	w.decide(func(t *decide.Turn) error { t.Cancel("enough"); return nil })
	before := w.task.Steps["a"].Agent
	require.Equal(t, before.Reserved, before.Lost)
	all := w.reading().ContinueAgents(map[string]bool{"a": true}, nil)
	require.Len(t, all, 1)

	again := agentWorld(t, fields)
	again.now, again.values = w.now, w.values
	again.decide(func(t *decide.Turn) error { t.GoOn(all[0]); return nil })
	after := again.task.Steps["a"].Agent
	assert.Equal(t, before.Spent, after.Spent)
	assert.Equal(t, before.Lost.Plus(before.Reserved), after.Lost, "the provider may have billed what was asked when the task was cancelled, too")
}
