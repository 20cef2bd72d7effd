package decide_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// tooLong is the outcome of a request that does not fit into the context of the model.
func tooLong() work.Outcome {
	return work.Outcome{Error: fault.New(fault.ValidationError, "the model m/x: too long").WithReason(models.ReasonTooLong), Class: fault.ClassInvalidArgs}
}

// bytesOf returns the size of a request.
func bytesOf(r models.Request) int {
	raw, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return len(raw)
}

// A model whose context is full while it answers is asked again like one that refuses the request. What came of the answer may be billed.
func TestOverrunTurnIsAskedAgain(t *testing.T) {
	t.Parallel()
	w := agentWorld(t, "instructions: Be brief., tools: [FILE_READ], budget: {usd: 1}")
	w.wake()
	w.hears(1, costs(5000, says("answer", `FILE_READ {"path":"x"}`)))
	w.calls(1, 1, work.Outcome{Output: json.RawMessage(`"` + strings.Repeat("0123456789", 600) + `"`)})
	agent := w.task.Steps["a"].Agent
	reserved := agent.Reserved
	overrun := tooLong()
	overrun.Error = overrun.Error.WithReason(models.ReasonOverrun)
	assert.Equal(t, "turn.lost a, step.failed a.t2.m, turn.refused a, turn.requested a, step.ready a.t3.m", w.hears(2, overrun))
	assert.Equal(t, reserved, agent.Lost)
	assert.Positive(t, agent.Last().Requested.Summarizes)
}

// A refused request costs nothing, and is asked again after a summary of excerpts that is shorter.
func TestRefusedTurnIsAskedAgain(t *testing.T) {
	t.Parallel()
	w := agentWorld(t, "instructions: Be brief., tools: [FILE_READ], budget: {usd: 1}")
	w.wake()
	for turn, tokens := range []int{5000, 6000} {
		w.hears(turn+1, costs(tokens, says(fmt.Sprintf("answer %d", turn+1), `FILE_READ {"path":"x"}`)))
		w.calls(turn+1, 1, work.Outcome{Output: json.RawMessage(fmt.Sprintf(`"result %d"`, turn+1))})
	}
	w.hears(3, costs(7000, says("", "FILE_READ {}")))
	w.calls(3, 1, work.Outcome{Output: json.RawMessage(`"` + strings.Repeat("0123456789", 6000) + `"`)})
	refused := w.request(decide.Said{})
	agent := w.task.Steps["a"].Agent
	spent := agent.Spent
	assert.Equal(t, "step.failed a.t4.m, turn.refused a, turn.requested a, step.ready a.t5.m", w.hears(4, tooLong()))
	assert.Equal(t, spent, agent.Spent)
	assert.Equal(t, agent.Last().Requested.Reserved, agent.Reserved, "only the summary is reserved")
	assert.Equal(t, 2, agent.Last().Requested.Summarizes, "turn 3 is kept")
	limit := agent.Limit()
	assert.InDelta(t, 7000+60000/2, float64(2*limit.CompactAt), 100)

	asked := w.request(decide.Said{Turn: 4, Messages: refused.Messages})
	assert.Less(t, bytesOf(asked), bytesOf(refused))
	assert.Empty(t, asked.Tools)
	require.Len(t, asked.Messages, 1)
	text := asked.Messages[0].Parts[0].Text
	for _, part := range []string{"The user:\nFind it.", "You:\nanswer 1", "You call FILE_READ (t1.c1):\n{\"path\":\"x\"}", "Its result (8 bytes):\nresult 1", "result 2"} {
		assert.Contains(t, text, part)
	}
	assert.NotContains(t, text, "012345", "what is kept is no part of the summary")
	assert.Contains(t, asked.Messages[0].Parts[1].Text, "Write a summary")

	assert.Equal(t, "step.succeeded a.t5.m, turn.answered a, turn.requested a, step.ready a.t6.m", w.hears(5, costs(900, says("what we know"))))
	after := w.request(decide.Said{Turn: 5, Messages: asked.Messages})
	require.Len(t, after.Messages, 3)
	assert.Contains(t, after.Messages[0].Parts[1].Text, "what we know")
	assert.Less(t, len(after.Messages[2].Parts[0].Result.Content), int(limit.CompactAt)+200, "results are cut")
	assert.NotEmpty(t, after.Tools)
	assert.Equal(t, "step.succeeded a.t6.m, turn.answered a, step.succeeded a, task.finished", w.hears(6, says("Done.")))
	assert.Contains(t, w.output(), `"turns":5`, "the refused turn is none")
}

// What people have said, and why an answer is not accepted, is in the turn after the summary.
func TestRefusedTurnIsHeardLater(t *testing.T) {
	t.Parallel()
	w := agentWorld(t, "tools: [FILE_READ], result: {type: object}")
	w.wake()
	w.hears(1, costs(8000, says("", "FILE_READ {}")))
	w.calls(1, 1, good())
	w.hears(2, costs(9000, says("no object")))
	assert.Contains(t, w.hears(3, tooLong()), "turn.refused a, turn.requested a")
	w.told("and eggs", false)
	w.hears(4, says("what we know"))
	r := w.request(decide.Said{})
	parts := r.Messages[len(r.Messages)-1].Parts
	assert.Equal(t, "and eggs", parts[len(parts)-2].Text)
	assert.Contains(t, parts[len(parts)-1].Text, "does not have the requested form")

	w.hears(5, tooLong())
	assert.Len(t, w.task.Steps["a"].Agent.Told, 1, "it has not been heard")
	w.hears(6, says("what we know"))
	assert.Len(t, w.task.Steps["a"].Agent.Last().Requested.Heard, 1)
	assert.Contains(t, w.hears(7, says(`{"ok":true}`)), "step.succeeded a")
}

// It ends with the error of the provider if the prompt is too long, or shorter conversations are too long as well.
func TestRefusedTurnsEnd(t *testing.T) {
	t.Parallel()
	w := agentWorld(t, "tools: [FILE_READ]")
	w.wake()
	assert.Equal(t, "step.failed a.t1.m, step.failed a, task.ending, task.failed", w.hears(1, tooLong()), "nothing can be shorter")

	w = agentWorld(t, "tools: [FILE_READ]")
	w.wake()
	w.hears(1, costs(1_000_000, says("", "FILE_READ {}")))
	w.calls(1, 1, good())
	turn, limits := 2, []int64{}
	for ; w.task.State == statemachine.InProgress; turn++ {
		require.Less(t, turn, 20)
		w.hears(turn, tooLong())
		if limit := w.task.Steps["a"].Agent.Limit(); limit != nil {
			limits = append(limits, limit.CompactAt)
		}
	}
	assert.Equal(t, 7, turn-1, "the turn, and five summaries")
	assert.Equal(t, models.ReasonTooLong, w.task.Steps["a"].Error.Reason)
	assert.IsDecreasing(t, limits[:5])
}

// At a limit, the last answer is asked for again after the summary, without tools.
func TestRefusedLastTurn(t *testing.T) {
	t.Parallel()
	w := agentWorld(t, "tools: [FILE_READ], max_turns: 2, budget: {tokens: 1000000, on_exceeded: finish}")
	w.wake()
	for turn := 1; turn <= 2; turn++ {
		w.hears(turn, says("", "FILE_READ {}"))
		w.calls(turn, 1, good())
	}
	require.True(t, w.task.Steps["a"].Agent.Last().Requested.Final)
	w.hears(3, tooLong())
	assert.Positive(t, w.task.Steps["a"].Agent.Last().Requested.Summarizes)
	w.hears(4, says("what we know"))
	assert.True(t, w.task.Steps["a"].Agent.Last().Requested.Final)
	assert.Contains(t, w.hears(5, says("All.")), "step.succeeded a")
}

// A task that repeats an agent takes over its refused turns and their limit.
func TestAgentGoesOnAfterARefusedTurn(t *testing.T) {
	t.Parallel()
	w := agentWorld(t, "tools: [FILE_READ]")
	w.wake()
	w.hears(1, costs(9000, says("", "FILE_READ {}")))
	w.calls(1, 1, good())
	w.hears(2, tooLong())
	w.hears(3, says("what we know"))
	w.hears(4, says("", "FILE_READ {}"))
	w.calls(4, 1, good())
	w.hears(5, bad("denied"))
	all := w.reading().ContinueAgents(map[string]bool{"a": true}, nil)
	require.Len(t, all, 1)
	assert.Equal(t, 4, all[0].Turns)
	again := agentWorld(t, "tools: [FILE_READ]")
	again.now, again.values = w.now, w.values
	again.decide(func(t *decide.Turn) error { t.GoOn(all[0]); return nil })
	agent := again.task.Steps["a"].Agent
	assert.Equal(t, w.task.Steps["a"].Agent.Limit(), agent.Limit())
	assert.Equal(t, statemachine.StepFailed, again.task.Steps["a.t2.m"].State)
	assert.Equal(t, 4, agent.Asked())
	r := again.request(decide.Said{})
	require.Len(t, r.Messages, 3)
	assert.Contains(t, r.Messages[0].Parts[1].Text, "what we know")
}

// A model that refuses all requests of more than some bytes is asked no more than a few times in vain, whatever the results are, and
// all else fits.
func TestShortenedConversationsFit(t *testing.T) {
	t.Parallel()
	for _, longest := range []int{8_000, 30_000, 150_000, 1_000_000} {
		t.Run(strconv.Itoa(longest), func(t *testing.T) {
			t.Parallel()
			w := agentWorld(t, "tools: [FILE_READ], max_turns: 1000, max_tokens: 500")
			w.wake()
			huge, said, answered := strings.Repeat("0123456789", 1<<13), decide.Said{}, 0
			for turn := 1; answered < 150; turn++ {
				require.Equal(t, statemachine.InProgress, w.task.State, "turn %d: %v", turn, w.task.Error)
				r := w.request(said)
				said = decide.Said{Turn: turn, Messages: r.Messages}
				size := bytesOf(r)
				switch agent := w.task.Steps["a"].Agent; {
				case size > longest:
					w.hears(turn, tooLong())
				case agent.Last().Requested.Summarizes > 0:
					w.hears(turn, costs(size/3, says(strings.Repeat("the summary ", 50))))
				default:
					require.LessOrEqual(t, agent.Reserved.Tokens-500+1, int64(3*longest)+10_000)
					require.GreaterOrEqual(t, agent.Reserved.Tokens-500, int64(size/3), "what is reserved suffices")
					answered++
					calls := []string{"FILE_READ {}", "FILE_READ {}"}[:turn%2+1]
					w.hears(turn, costs(size/3, says("next", calls...)))
					for i := range calls {
						w.calls(turn, i+1, work.Outcome{Output: json.RawMessage(`"` + huge[:(turn*9973)%len(huge)] + `"`)})
					}
				}
			}
			agent := w.task.Steps["a"].Agent
			assert.Positive(t, agent.Refused)
			assert.Less(t, agent.Refused, 8)
			assert.Equal(t, agent.Asked(), len(agent.Turns)-agent.Refused)
			assert.Zero(t, agent.Lost)
		})
	}
}
