package decide_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
)

// says lets a person say something to the agent.
func (w *world) told(text string, end bool) string {
	w.t.Helper()
	return w.decide(func(t *decide.Turn) error { return t.Say("a", person(text), end) })
}

func person(text string) events.Message {
	m := events.Message{By: "user:ada"}
	if text != "" {
		m.Text = events.Inline(decide.MustJSON(text))
	}
	return m
}

// What a person says is heard in the next turn, also when the model has just answered.
func TestAgentHears(t *testing.T) {
	t.Parallel()
	w := agentWorld(t, "tools: [FILE_READ]")
	w.wake()
	assert.Equal(t, "agent.told a", w.told("Hurry.", false), "while the model is asked")
	w.hears(1, says("", "FILE_READ {}"))
	assert.Equal(t, "agent.told a", w.told("Be brief.", false), "while a call runs")
	w.calls(1, 1, good())
	r := w.request(decide.Said{})
	require.Len(t, r.Messages, 3)
	assert.Equal(t, []models.Part{{Text: "Hurry."}, {Text: "Be brief."}}, r.Messages[2].Parts[1:])
	assert.Empty(t, w.task.Steps["a"].Agent.Told)

	w.told("And the log?", false)
	assert.Equal(t, "step.succeeded a.t2.m, turn.answered a, turn.requested a, step.ready a.t3.m", w.hears(2, says("Done.")), "it is no final answer")
	r = w.request(decide.Said{Turn: 2, Messages: r.Messages})
	assert.Equal(t, []models.Part{{Text: "And the log?"}}, r.Messages[4].Parts)
	assert.Equal(t, "step.succeeded a.t3.m, turn.answered a, step.succeeded a, task.finished", w.hears(3, says("All done.")))
}

func TestAgentIsNotThere(t *testing.T) {
	t.Parallel()
	w := agentWorld(t, "")
	say := func(w *world, end bool) *fault.Error {
		_, err := decide.Decide(*w.reading(), "user:ada", func(t *decide.Turn) error { return t.Say("a", person("Hello"), end) })
		return fault.From(err)
	}
	assert.Equal(t, fault.StateNotAllowed, say(w, false).Code, "it has not begun")
	w.wake()
	assert.Equal(t, "end", say(w, true).Field, "it does not chat")
	for range 100 {
		w.told("Hello?", false)
	}
	assert.Equal(t, fault.QuotaExceeded, say(w, false).Code)
}

// An agent that chats waits for a person after each answer, until it is dismissed.
func TestAgentChats(t *testing.T) {
	t.Parallel()
	w := agentWorld(t, "chat: true, context: {compact_at: 1000, keep: 5}")
	w.wake()
	assert.Equal(t, "step.succeeded a.t1.m, turn.answered a, task.blocked", w.hears(1, costs(500, says("Hello."))))
	assert.Equal(t, "the agent of step a waits for a message", w.task.Reason)
	assert.Empty(t, w.wake())
	assert.Equal(t, "agent.told a, task.unblocked, turn.requested a, step.ready a.t2.m", w.told("What is new?", false))
	assert.Equal(t, "What is new?", w.request(decide.Said{}).Messages[2].Parts[0].Text)
	w.hears(2, costs(1100, says("Much.")))
	assert.Equal(t, "agent.told a, task.unblocked, turn.requested a, step.ready a.t3.m", w.told("What?", false))
	assert.Equal(t, 1, w.task.Steps["a"].Agent.Last().Requested.Summarizes)
	assert.Equal(t, "step.succeeded a.t3.m, turn.answered a, turn.requested a, step.ready a.t4.m", w.hears(3, costs(1200, says("Ada asks what is new."))))
	r := w.request(decide.Said{})
	require.Len(t, r.Messages, 3)
	assert.Equal(t, []models.Part{{Text: "What?"}}, r.Messages[2].Parts, "what was said is not summarized before it is heard")
	assert.Equal(t, "step.succeeded a.t4.m, turn.answered a, task.blocked", w.hears(4, says("This.")))
	assert.Equal(t, "agent.told a, step.succeeded a, task.unblocked, task.finished", w.told("", true))
	assert.Contains(t, w.output(), `"text":"This."`)
}

// A task that goes on with a chat takes over what was said, also what was not answered.
func TestAgentChatGoesOn(t *testing.T) {
	t.Parallel()
	w := agentWorld(t, "chat: true")
	w.wake()
	w.hears(1, says("Hello."))
	w.told("What is new?", false)
	w.told("Quickly.", false)
	w.decide(func(t *decide.Turn) error { t.Cancel("enough"); return nil })
	all := w.reading().ContinueAgents(map[string]bool{"a": true}, nil)
	require.Len(t, all, 1)
	again := agentWorld(t, "chat: true")
	again.now, again.values = w.now, w.values
	said := again.decide(func(t *decide.Turn) error { t.GoOn(all[0]); return nil })
	assert.True(t, strings.HasSuffix(said, "agent.told a, agent.told a, task.started, turn.requested a, step.ready a.t2.m"), said)
	assert.Equal(t, []models.Part{{Text: "What is new?"}, {Text: "Quickly."}}, again.request(decide.Said{}).Messages[2].Parts)
	assert.Equal(t, statemachine.InProgress, again.task.State)
}
