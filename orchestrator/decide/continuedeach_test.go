package decide_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// finish lets the call of a step begin and end.
func (w *world) finish(key string, outcome work.Outcome) string {
	w.t.Helper()
	w.begin(key)
	return w.end(key, outcome)
}

// cancelled cancels the task, and returns each for_each that a retry goes on with.
func (w *world) cancelled() []*decide.ContinuedEach {
	w.t.Helper()
	w.decide(func(t *decide.Turn) error { t.Cancel("enough"); return nil })
	require.Equal(w.t, statemachine.Cancelled, w.task.State)
	return w.reading().ContinueEach(map[string]bool{"all": true}, nil, nil)
}

// retried returns a task with a plan that goes on where this one stood.
func (w *world) retried(plan string, c *decide.ContinuedEach) (again *world, events string) {
	w.t.Helper()
	again = submitted(w.t, plan, nil)
	again.catalogue, again.now, again.values = w.catalogue, w.now.Add(time.Hour), w.values
	return again, again.decide(func(t *decide.Turn) error { t.GoOnEach(c); return nil })
}

// A task that repeats a for_each takes over what its items have: agents that have answered are not asked again, others go on.
func TestAgentsOfItemsGoOn(t *testing.T) {
	t.Parallel()
	const plan = "steps: [{id: all, for_each: '[1, 2, 3]', max_parallel: 2, do: [{id: f, tool: FILE_READ, with: {path: '${{ item }}'}}, " +
		"{id: a, agent: {model: m/x, prompt: 'Look at ${{ steps.f.output.path }}.', tools: [FILE_READ]}}, {id: end, needs: a, tool: FILE_READ}]}]\n"
	read := work.Outcome{Output: json.RawMessage(`{"path":"p"}`)}
	w := submitted(t, plan, nil)
	w.catalogue = toolbox(t)
	w.wake()
	w.finish("all[0].f", read)
	w.finish("all[1].f", read)
	w.finish("all[0].a.t1.m", says("one"))
	w.finish("all[1].a.t1.m", says("", "FILE_READ {}"))
	w.finish("all[1].a.t1.c1", read)
	w.finish("all[0].end", read)
	w.finish("all[2].f", bad(fault.ClassToolError))
	all := w.cancelled()
	require.Len(t, all, 1)
	assert.Equal(t, 4, all[0].Results())

	again, events := w.retried(plan, all[0])
	assert.Equal(t, "step.expanded all, step.reused all[0].f, step.reused all[0].a, step.reused all[0].end, step.reused all[1].f, "+
		"agent.started all[1].a, turn.requested all[1].a, step.reused all[1].a.t1.m, turn.answered all[1].a, step.reused all[1].a.t1.c1, "+
		"task.started, turn.requested all[1].a, step.ready all[1].a.t2.m, step.ready all[2].f", events)
	assert.Equal(t, w.task.Steps["all[1].a"].Agent.Spent, again.task.Steps["all[1].a"].Agent.Spent)
	r, err := again.reading().ModelRequest("all[1].a", decide.Said{})
	require.NoError(t, err)
	assert.Equal(t, "Look at p.", r.Messages[0].Parts[0].Text)
	assert.Len(t, r.Messages, 3)
	again.finish("all[1].a.t2.m", says("two"))
	again.finish("all[1].end", read)
	again.finish("all[2].f", read)
	again.finish("all[2].a.t1.m", says("three"))
	assert.Equal(t, "step.succeeded all[2].end, step.succeeded all, task.finished", again.finish("all[2].end", read))
}

// Items that a retry takes over wait as others do until there are fewer than max_parallel.
func TestAgentsOfItemsWaitForEachOther(t *testing.T) {
	t.Parallel()
	const plan = "steps: [{id: all, for_each: '[1, 2]', max_parallel: 1, on_item_error: continue, do: [{id: a, agent: {model: m/x, prompt: Go, tools: [FILE_READ]}}]}]\n"
	w := submitted(t, plan, nil)
	w.catalogue = toolbox(t)
	w.wake()
	w.finish("all[0].a.t1.m", says("", "FILE_READ {}"))
	w.finish("all[0].a.t1.c1", good())
	assert.Nil(t, w.task.Steps["all[1].a"], "it has not begun")
	w.finish("all[0].a.t2.m", bad(fault.ClassDenied))
	w.finish("all[1].a.t1.m", says("", "FILE_READ {}"))
	w.finish("all[1].a.t1.c1", good())
	again, _ := w.retried(plan, w.cancelled()[0])
	assert.Equal(t, statemachine.StepReady, again.task.StepState("all[0].a.t2.m"))
	waits := func() {
		t.Helper()
		assert.Equal(t, statemachine.StepRunning, again.task.StepState("all[1].a"))
		assert.Nil(t, again.task.Steps["all[1].a.t2.m"])
	}
	waits()
	again.forget() // as after a restart
	assert.Empty(t, again.wake())
	waits()
	again.decide(func(t *decide.Turn) error { return t.Say("all[1].a", person("be quick"), false) })
	waits()
	assert.Equal(t, "step.succeeded all[0].a.t2.m, turn.answered all[0].a, step.succeeded all[0].a, turn.requested all[1].a, step.ready all[1].a.t2.m",
		again.finish("all[0].a.t2.m", says("one")))
	assert.Len(t, again.task.Steps["all[1].a"].Agent.Last().Requested.Heard, 1)
	assert.Equal(t, "step.succeeded all[1].a.t2.m, turn.answered all[1].a, step.succeeded all[1].a, step.succeeded all, task.finished",
		again.finish("all[1].a.t2.m", says("two")))
}

// A for_each begins anew if its items may be others, or if nothing of its agents can be taken over.
func TestForEachBeginsAnew(t *testing.T) {
	t.Parallel()
	const agent = "do: [{id: a, agent: {model: m/x, prompt: Go, tools: [FILE_READ]}}]"
	for name, test := range map[string]struct {
		plan, asked string
		want        int
	}{
		"goes on":       {"steps: [{id: all, for_each: '[1]', " + agent + "}]\n", "all[0].a.t1.m", 1},
		"other items":   {"steps: [{id: first, tool: FILE_READ}, {id: all, needs: first, for_each: '[1]', " + agent + "}]\n", "all[0].a.t1.m", 0},
		"not asked yet": {"steps: [{id: all, for_each: '[1]', " + agent + "}]\n", "", 0},
		"no agents":     {"steps: [{id: all, for_each: '[1]', do: [{id: a, tool: FILE_READ}]}]\n", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := submitted(t, test.plan, nil)
			w.catalogue = toolbox(t)
			w.wake()
			if w.task.Steps["first"] != nil {
				w.finish("first", good())
			}
			if test.asked != "" {
				w.finish(test.asked, says("", "FILE_READ {}"))
			}
			assert.Len(t, w.cancelled(), test.want)
		})
	}
}
