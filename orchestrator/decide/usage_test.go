package decide_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/events"
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
