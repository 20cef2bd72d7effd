package decide_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// request returns the request of the newest turn, which is the same if it is built on what was said before.
func (w *world) request(said decide.Said) models.Request {
	w.t.Helper()
	r, err := w.reading().ModelRequest("a", decide.Said{})
	require.NoError(w.t, err)
	again, err := w.reading().ModelRequest("a", said)
	require.NoError(w.t, err)
	require.Equal(w.t, r, again)
	for i, m := range r.Messages {
		require.Equal(w.t, []models.Role{models.User, models.Model}[i%2], m.Role)
		require.NotEmpty(w.t, m.Parts)
	}
	return r
}

// A summary replaces the beginning of a conversation that becomes too long; the newest turns stay.
func TestAgentCompacts(t *testing.T) {
	t.Parallel()
	w := agentWorld(t, "tools: [FILE_READ], context: {compact_at: 4000, keep: 1}")
	w.wake()
	for turn, tokens := range []int{500, 2000, 3990} {
		w.hears(turn+1, costs(tokens, says(fmt.Sprintf("answer %d", turn+1), "FILE_READ {}")))
		w.calls(turn+1, 1, work.Outcome{Output: json.RawMessage(fmt.Sprintf(`"result %d"`, turn+1))})
	}
	asked := w.request(decide.Said{})
	assert.True(t, asked.NoCalls)
	assert.Len(t, asked.Messages, 7, "all of the conversation")
	assert.Contains(t, asked.Messages[6].Parts[1].Text, "Write a summary")
	assert.Equal(t, 2, w.task.Steps["a"].Agent.Last().Requested.Summarizes, "turn 3 is kept")

	assert.Equal(t, "step.succeeded a.t4.m, turn.answered a, turn.requested a, step.ready a.t5.m", w.hears(4, costs(4100, says("what we know"))))
	after := w.request(decide.Said{Turn: 4, Messages: asked.Messages})
	require.Len(t, after.Messages, 3)
	assert.Equal(t, "Find it.", after.Messages[0].Parts[0].Text)
	assert.Contains(t, after.Messages[0].Parts[1].Text, "what we know")
	assert.Equal(t, "answer 3", after.Messages[1].Parts[0].Text)
	assert.Equal(t, []models.Part{{Result: &models.Result{ID: "c1", Name: "FILE_READ", Content: "result 3"}}}, after.Messages[2].Parts)
	assert.False(t, after.NoCalls)
	assert.Equal(t, 5, after.Turn(), "numbers go on")

	w.hears(5, costs(5000, says("answer 5", "FILE_READ {}")))
	assert.Equal(t, "step.succeeded a.t5.c1, turn.requested a, step.ready a.t6.m", w.calls(5, 1, good()))
	assert.Equal(t, 5, w.task.Steps["a"].Agent.Last().Requested.Summarizes, "what alone is too long is not kept")
	again := w.request(decide.Said{Turn: 5, Messages: after.Messages})
	assert.Len(t, again.Messages, 5, "the summary before it, and what follows")
	w.hears(6, says("what we know now"))
	last := w.request(decide.Said{Turn: 6, Messages: again.Messages})
	require.Len(t, last.Messages, 1)
	assert.Contains(t, last.Messages[0].Parts[1].Text, "what we know now")
	assert.Equal(t, "step.succeeded a.t7.m, turn.answered a, step.succeeded a, task.finished", w.hears(7, costs(9000, says("Done."))))
}

// No request has more than one and a half of the limit, whatever the results are, and it goes on for hundreds of turns.
func TestAgentConversationIsBounded(t *testing.T) {
	t.Parallel()
	const limit, perToken = 4000, 2
	w := agentWorld(t, fmt.Sprintf("tools: [FILE_READ], max_turns: 1000, max_tokens: 500, context: {compact_at: %d, keep: 3}", limit))
	w.wake()
	huge, said := strings.Repeat("0123456789", 1<<10), decide.Said{}
	compactions := 0
	for turn := 1; turn <= 300; turn++ {
		r := w.request(said)
		said = decide.Said{Turn: turn, Messages: r.Messages}
		size := 0
		for _, m := range r.Messages {
			for _, p := range m.Parts {
				size += len(p.Text)
				if p.Result != nil {
					size += len(p.Result.Content)
				}
			}
		}
		require.LessOrEqual(t, size/perToken, limit*3/2+500, "turn %d", turn)
		if r.NoCalls {
			compactions++
			w.hears(turn, costs(size/perToken, says("the summary")))
			continue
		}
		w.hears(turn, costs(size/perToken, says("next", "FILE_READ {}", "FILE_READ {}")))
		result := huge[:(turn*977)%len(huge)]
		w.calls(turn, 1, work.Outcome{Output: json.RawMessage(`"` + result + `"`)})
		w.calls(turn, 2, work.Outcome{Output: json.RawMessage(`"` + result + `"`)})
	}
	assert.Greater(t, compactions, 20)
	assert.Less(t, compactions, 150, "a turn follows each compaction")
}

// The budget counts what a compaction costs, and a summary that does not come fails the step.
func TestAgentCompactionFails(t *testing.T) {
	t.Parallel()
	w := agentWorld(t, "tools: [FILE_READ], context: {compact_at: 1000}")
	w.wake()
	w.hears(1, costs(2000, says("", "FILE_READ {}")))
	w.calls(1, 1, good())
	assert.Equal(t, "step.succeeded a.t2.m, turn.answered a, step.failed a, task.ending, task.failed", w.hears(2, says(" ")))
	assert.Equal(t, statemachine.Failed, w.task.State)
}

// A task that repeats an agent takes over its summary as well.
func TestAgentGoesOnAfterACompaction(t *testing.T) {
	t.Parallel()
	const fields = "tools: [FILE_READ], context: {compact_at: 1000, keep: 0}"
	w := agentWorld(t, fields)
	w.wake()
	w.hears(1, costs(2000, says("", "FILE_READ {}")))
	w.calls(1, 1, good())
	w.hears(2, says("what we know"))
	w.hears(3, says("", "FILE_READ {}"))
	w.calls(3, 1, good())
	w.hears(4, bad("denied"))
	before := w.reading()
	all := before.ContinueAgents(map[string]bool{"a": true}, nil)
	require.Len(t, all, 1)
	assert.Equal(t, 3, all[0].Turns)
	again := agentWorld(t, fields)
	again.now, again.values = w.now, w.values
	again.decide(func(t *decide.Turn) error { t.GoOn(all[0]); return nil })
	r := again.request(decide.Said{})
	require.Len(t, r.Messages, 3)
	assert.Contains(t, r.Messages[0].Parts[1].Text, "what we know")
}
