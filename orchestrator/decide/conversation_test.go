package decide_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// heard returns what is said in a turn of step a: the text, and each call with its result, "-" for one that has not ended.
func (w *world) heard(turn int) []string {
	x := w.reading().Exchange(w.task.Steps["a"], turn)
	said := []string{x.Text}
	for _, c := range x.Calls {
		result := "-"
		if c.Result != nil {
			result = strings.SplitAfterN(c.Result.Content, ":", 2)[0]
		}
		said = append(said, c.Key+" "+c.Request.Name+" "+c.Request.Args+" "+result)
	}
	return said
}

func TestExchange(t *testing.T) {
	t.Parallel()
	w := agentWorld(t, "tools: [FILE_READ], budget: {calls: 3, on_exceeded: finish}")
	w.wake()
	assert.Equal(t, []string{""}, w.heard(1), "no answer yet")
	w.hears(1, says("I look.", `FILE_READ {"path":"x"}`, "OTHER {}", "FILE_READ {broken"))
	assert.Equal(t, []string{
		"I look.", `a.t1.c1 FILE_READ {"path":"x"} -`, "a.t1.c2 OTHER {} NOT_FOUND:", "a.t1.c3 FILE_READ {broken INVALID_FORMAT:",
	}, w.heard(1))
	w.calls(1, 1, work.Outcome{Output: []byte(`"text"`)})
	assert.Equal(t, `a.t1.c1 FILE_READ {"path":"x"} text`, w.heard(1)[1])
	w.hears(2, says("No more?", `FILE_READ {}`))
	assert.Equal(t, []string{"No more?", "a.t2.c1 FILE_READ {} the call was not made"}, w.heard(2), "a last turn has no calls")
	assert.Contains(t, w.reading().Exchange(w.task.Steps["a"], 2).Added, "Give your final answer now.")
}

// A huge result is not read to show its beginning.
func TestExchangeDoesNotReadHugeResults(t *testing.T) {
	t.Parallel()
	w := agentWorld(t, "tools: [FILE_READ]")
	w.wake()
	w.hears(1, says("", "FILE_READ {}"))
	w.calls(1, 1, work.Outcome{Output: []byte(`{}`)})
	w.task.Steps["a.t1.c1"].Output = events.InBlobs("huge", 2<<20)
	r := w.reading()
	x := r.Exchange(w.task.Steps["a"], 1)
	assert.Equal(t, "[2097152 bytes are not shown]", x.Calls[0].Result.Content)
	assert.Empty(t, r.Missing)
	require.NoError(t, r.OutcomeOf(nil))
}

func TestOpening(t *testing.T) {
	t.Parallel()
	w := agentWorld(t, "instructions: Be brief., tools: ['code*']")
	w.wake()
	assert.Equal(t, decide.Opening{
		Instructions: "Be brief.", Prompt: "Find it.", Tools: []string{"code.find", "code.search", "code_find", "RESULT_READ"}, // not their names for the model
	}, w.reading().Opening(w.task.Steps["a"]))
	assert.Zero(t, (&decide.Reading{}).Opening(&statemachine.Step{Agent: &statemachine.Agent{Spec: &events.Agent{}}}))
}
