package decide_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// prices knows the model m/x, which costs a dollar for a million tokens of a request and two for those of an answer, and the
// model m/free without a price.
type prices struct{}

func (prices) Price(model string) (price events.Price, known bool, err error) {
	switch model {
	case "m/x":
		return events.Price{Input: 1000, Output: 2000, AsOf: "2026-11-01"}, true, nil
	case "m/free":
		return events.Price{}, false, nil
	default:
		return events.Price{}, false, fault.New(fault.NotFound, "there is no provider of %q", model).WithField("agent.model")
	}
}

type found struct {
	Path string `json:"path,omitempty"`
}

// toolbox is a catalogue. Of its tools, code.find and code_find have the same name for a model that accepts no points.
func toolbox(t *testing.T) *tools.Catalogue {
	t.Helper()
	define := func(name string, effect tools.Effect) tools.Tool {
		return tools.Define(tools.Spec{Name: name, Purpose: "does " + name, Effect: effect}, func(context.Context, *tools.Env, found) (found, error) { return found{}, nil })
	}
	c, err := tools.New(define("FILE_READ", tools.Read), define("FILE_DELETE", tools.Destructive), define("code.search", tools.Read),
		define("code.find", tools.Read), define("code_find", tools.Read))
	require.NoError(t, err)
	return c
}

// agentWorld returns a world whose task has one agent step a, with further fields.
func agentWorld(t *testing.T, fields string) *world {
	t.Helper()
	w := submitted(t, "steps: [{id: a, agent: {model: m/x, prompt: 'Find it.', "+fields+"}}]\n", nil)
	w.catalogue = toolbox(t)
	return w
}

// says is an answer of a model: a text, and calls such as FILE_READ {"path":"x"}.
func says(text string, calls ...string) work.Outcome {
	answer := models.Answer{Stop: models.StopEnd, Usage: models.Usage{Input: 100, Output: 10}}
	if text != "" {
		answer.Message.Parts = append(answer.Message.Parts, models.Part{Text: text})
	}
	for i, call := range calls {
		name, args, _ := strings.Cut(call, " ")
		answer.Stop = models.StopCalls
		answer.Message.Parts = append(answer.Message.Parts, models.Part{Call: &models.Call{ID: fmt.Sprintf("c%d", i+1), Name: name, Args: args}})
	}
	answer.Message.Role = models.Model
	raw, err := json.Marshal(models.Called{Answer: answer})
	if err != nil {
		panic(err)
	}
	return work.Outcome{Output: raw}
}

// costs returns an answer whose request had a number of tokens.
func costs(tokens int, answer work.Outcome) work.Outcome {
	answer.Output = bytes.Replace(answer.Output, []byte(`"input":100`), fmt.Appendf(nil, `"input":%d`, tokens), 1)
	return answer
}

// hears lets the model of the step answer in a turn.
func (w *world) hears(turn int, answer work.Outcome) string {
	w.t.Helper()
	key := statemachine.ModelKey("a", turn)
	w.begin(key)
	return w.end(key, answer)
}

// calls lets a call that the model requested end.
func (w *world) calls(turn, call int, outcome work.Outcome) string {
	w.t.Helper()
	key := statemachine.CallKey("a", turn, call)
	w.begin(key)
	return w.end(key, outcome)
}

func (w *world) reading() *decide.Reading {
	return &decide.Reading{Task: w.task, Plan: &w.plan, Rules: w.rules(), Facts: w, Now: w.now}
}

// output returns the output of the agent step.
func (w *world) output() string { return string(w.task.Steps["a"].Output.Raw) }

func TestAgent(t *testing.T) {
	t.Parallel()
	w := agentWorld(t, "instructions: Be brief., tools: ['FILE_*', '!FILE_DELETE', code.search]")
	assert.Equal(t, "task.started, agent.started a, turn.requested a, step.ready a.t1.m", w.wake())
	assert.Empty(t, w.wake(), "a second look says nothing new")
	first, err := w.reading().ModelRequest("a", decide.Said{})
	require.NoError(t, err)
	assert.Equal(t, "Be brief.", first.System)
	assert.Equal(t, []models.Message{{Role: models.User, Parts: []models.Part{{Text: "Find it."}}}}, first.Messages)
	var names []string
	for _, tool := range first.Tools {
		names = append(names, tool.Name+": "+tool.Description)
	}
	assert.Equal(t, []string{"FILE_READ: does FILE_READ", "code_search: does code.search"}, names[:2])
	assert.Len(t, names, 3, "and RESULT_READ")

	assert.Equal(t, "step.succeeded a.t1.m, turn.answered a, step.ready a.t1.c1, step.ready a.t1.c2",
		w.hears(1, says("Let me see.", `FILE_READ {"path":"x"}`, `code_search {}`)))
	assert.Equal(t, "code.search", w.task.Steps["a.t1.c2"].Tool)
	assert.Equal(t, "step.succeeded a.t1.c1", w.calls(1, 1, work.Outcome{Output: json.RawMessage(`"the text"`)}), "the other call runs")
	assert.Equal(t, "step.failed a.t1.c2, turn.requested a, step.ready a.t2.m", w.calls(1, 2, bad(fault.ClassToolError)))

	second, err := w.reading().ModelRequest("a", decide.Said{})
	require.NoError(t, err)
	require.Len(t, second.Messages, 3)
	assert.Equal(t, first.Messages[0], second.Messages[0])
	assert.Len(t, second.Messages[1].Parts, 3, "the answer with its calls")
	assert.Equal(t, models.Message{Role: models.User, Parts: []models.Part{
		{Result: &models.Result{ID: "c1", Name: "FILE_READ", Content: "the text"}},
		{Result: &models.Result{ID: "c2", Name: "code_search", Content: "TOOL_FAILED: it broke", Failed: true}},
	}}, second.Messages[2])

	for turn, said := range [][]models.Message{first.Messages, second.Messages} {
		again, err := w.reading().ModelRequest("a", decide.Said{Turn: turn + 1, Messages: said})
		require.NoError(t, err)
		assert.Equal(t, second, again, "only what is new is read")
	}
	assert.Equal(t, "step.succeeded a.t2.m, turn.answered a, step.succeeded a, task.finished", w.hears(2, says("Here it is.")))
	assert.JSONEq(t, `{"text":"Here it is.","turns":2,"calls":2,"tokens":220,"usd":0.00024}`, w.output())
}

// Each tool has another name for the model, which leads to it.
func TestAgentToolNames(t *testing.T) {
	t.Parallel()
	w := agentWorld(t, "tools: ['code*']")
	w.wake()
	r, err := w.reading().ModelRequest("a", decide.Said{})
	require.NoError(t, err)
	require.Len(t, r.Tools, 4)
	for i, tool := range []string{"code.find", "code.search", "code_find"} {
		assert.Regexp(t, "^[a-z_0-9]+$", r.Tools[i].Name)
		assert.Equal(t, "does "+tool, r.Tools[i].Description)
	}
	w.hears(1, says("", r.Tools[0].Name, r.Tools[1].Name, r.Tools[2].Name))
	assert.Equal(t, "code.find", w.task.Steps["a.t1.c1"].Tool)
	assert.Equal(t, "code.search", w.task.Steps["a.t1.c2"].Tool)
	assert.Equal(t, "code_find", w.task.Steps["a.t1.c3"].Tool)
}

// A secret in the prompt is found also if the prompt is stored beside the events.
func TestAgentPromptWithASecret(t *testing.T) {
	t.Parallel()
	for name, length := range map[string]int{"short": 10, "long": 100_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := agentWorld(t, "instructions: '"+strings.Repeat("x ", length)+"QYLPMN5HHHFPZAM2'")
			assert.Equal(t, "step.failed a, task.ending, task.failed", w.wake())
			assert.Equal(t, fault.SecretDetected, w.task.Steps["a"].Error.Code)
		})
	}
}

// Calls that the agent must not or cannot make are results for its model, and are in the history.
func TestAgentCallsThatAreNotMade(t *testing.T) {
	t.Parallel()
	w := agentWorld(t, "tools: [FILE_READ]")
	w.wake()
	assert.Equal(t, "step.succeeded a.t1.m, turn.answered a, step.failed a.t1.c1, step.failed a.t1.c2, turn.requested a, step.ready a.t2.m",
		w.hears(1, says("", `FILE_DELETE {"path":"x"}`, `FILE_READ {"path":`)))
	assert.Equal(t, `NOT_FOUND: there is no tool "FILE_DELETE" here`, w.task.Steps["a.t1.c1"].Error.Error())
	assert.Equal(t, `INVALID_FORMAT: the arguments are not valid JSON`, w.task.Steps["a.t1.c2"].Error.Error())
	assert.JSONEq(t, `"{\"path\":"`, string(w.task.Steps["a.t1.c2"].Args.Raw))
	many := make([]string, 40)
	for i := range many {
		many[i] = "FILE_READ {}"
	}
	assert.Equal(t, 32, strings.Count(w.hears(2, says("", many...)), "step.ready"))
}

func TestAgentResult(t *testing.T) {
	t.Parallel()
	const form = "result: {type: object, required: [n], properties: {n: {type: integer}}}"
	w := agentWorld(t, form)
	w.wake()
	assert.Equal(t, "step.succeeded a.t1.m, turn.answered a, turn.requested a, step.ready a.t2.m", w.hears(1, says(`{"n": "one"}`)))
	again, err := w.reading().ModelRequest("a", decide.Said{})
	require.NoError(t, err)
	assert.Contains(t, again.Messages[2].Parts[0].Text, "result.n: got string, want integer")
	w.hears(2, says("```json\n{\"n\": 1}\n```"))
	assert.Equal(t, statemachine.Done, w.task.State)
	assert.Contains(t, w.output(), `"result":{"n":1}`)

	twice := agentWorld(t, form)
	twice.wake()
	twice.hears(1, says("one"))
	assert.Equal(t, "step.succeeded a.t2.m, turn.answered a, step.failed a, task.ending, task.failed", twice.hears(2, says("two")))
	assert.Equal(t, fault.InvalidFormat, twice.task.Steps["a"].Error.Code)
}

// A request that may cost more than the budget has left is not made.
func TestAgentBudgets(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fields, first string
		answer        work.Outcome
		then, field   string
	}{
		"dollars": {
			"tools: [FILE_READ], max_tokens: 100, budget: {usd: 0.003}", "step.ready a.t1.m", costs(2000, says("", "FILE_READ {}")),
			"step.succeeded a.t1.c1, step.failed a, task.ending, task.failed", "agent.budget.usd",
		},
		"tokens at once": {"budget: {tokens: 100}", "step.failed a, task.ending, task.failed", work.Outcome{}, "", "agent.budget.tokens"},
		"calls": {
			"tools: [FILE_READ], budget: {calls: 1}", "step.ready a.t1.m", says("", "FILE_READ {}"),
			"step.succeeded a.t1.c1, step.failed a, task.ending, task.failed", "agent.budget.calls",
		},
		"turns": {
			"tools: [FILE_READ], max_turns: 1", "step.ready a.t1.m", says("", "FILE_READ {}"),
			"step.succeeded a.t1.c1, step.failed a, task.ending, task.failed", "agent.max_turns",
		},
		"a last answer": {
			"tools: [FILE_READ], budget: {calls: 1, on_exceeded: finish}", "step.ready a.t1.m", says("", "FILE_READ {}"),
			"step.succeeded a.t1.c1, turn.requested a, step.ready a.t2.m", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := agentWorld(t, test.fields)
			assert.True(t, strings.HasSuffix(w.wake(), test.first))
			if test.then != "" {
				w.hears(1, test.answer)
				assert.Equal(t, test.then, w.calls(1, 1, good()))
			}
			if err := w.task.Steps["a"].Error; test.field != "" && assert.NotNil(t, err) {
				assert.Equal(t, fault.QuotaExceeded, err.Code)
				assert.Equal(t, test.field, err.Field)
			}
		})
	}
}

// The calls of one turn keep to the budget as those of several do.
func TestAgentCallsWithinATurn(t *testing.T) {
	t.Parallel()
	w := agentWorld(t, "tools: [FILE_READ], budget: {calls: 3, on_exceeded: finish}")
	w.wake()
	w.hears(1, says("", "FILE_READ {}"))
	w.calls(1, 1, good())
	assert.Equal(t, "step.succeeded a.t2.m, turn.answered a, step.ready a.t2.c1, step.ready a.t2.c2, step.failed a.t2.c3",
		w.hears(2, says("", "FILE_READ {}", "FILE_READ {}", "FILE_READ {}")))
	denied := w.task.Steps["a.t2.c3"].Error
	assert.Equal(t, fault.QuotaExceeded, denied.Code)
	assert.Equal(t, "agent.budget.calls", denied.Field)
}

// The last answer is asked for without tools; calls in it are not made.
func TestAgentFinishes(t *testing.T) {
	t.Parallel()
	w := agentWorld(t, "tools: [FILE_READ], budget: {calls: 1, on_exceeded: finish}")
	w.wake()
	w.hears(1, says("", "FILE_READ {}"))
	w.calls(1, 1, good())
	last, err := w.reading().ModelRequest("a", decide.Said{})
	require.NoError(t, err)
	assert.True(t, last.NoCalls)
	assert.Contains(t, last.Messages[2].Parts[1].Text, "Give your final answer now.")
	assert.Equal(t, "step.succeeded a.t2.m, turn.answered a, step.succeeded a, task.finished", w.hears(2, says("I found nothing.", "FILE_READ {}")))
}

func TestAgentCannotStart(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ fields, field string }{
		"a pattern without a tool": {"tools: [FIL_*]", "agent.tools"},
		"an unknown fallback":      {"fallback: [other/y]", "agent.model"},
		"dollars without a price":  {"fallback: [m/free], budget: {usd: 1}", "agent.budget.usd"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := agentWorld(t, test.fields)
			assert.Equal(t, "step.failed a, task.ending, task.failed", w.wake())
			assert.Equal(t, test.field, w.task.Steps["a"].Error.Field)
		})
	}
}

// A model that cannot be asked at the moment is asked again; one that cannot be asked at all fails the step.
func TestAgentModelFails(t *testing.T) {
	t.Parallel()
	w := agentWorld(t, "")
	w.wake()
	assert.Equal(t, "step.retrying a.t1.m", w.hears(1, bad(fault.ClassTransport)))
	w.now = w.now.Add(time.Minute)
	assert.Equal(t, "step.ready a.t1.m", w.wake())
	assert.Equal(t, "step.failed a.t1.m, step.failed a, task.ending, task.failed", w.hears(1, bad(fault.ClassDenied)))
}

// An answer that was lost may have been billed: it counts against the budget, and the model is asked again only if there is enough left.
func TestAgentAnswerLost(t *testing.T) {
	t.Parallel()
	broken := work.Outcome{Class: fault.ClassTransport, Error: fault.New(fault.NetworkError, "the stream broke")}
	unreachable := work.Outcome{Class: fault.ClassTransport, Error: fault.New(fault.Unavailable, "nothing listens")}
	w := agentWorld(t, "max_tokens: 1000, budget: {tokens: 5000}")
	w.wake()
	reserved := w.task.Steps["a"].Agent.Last().Requested.Reserved.Tokens
	assert.Equal(t, "step.retrying a.t1.m", w.hears(1, unreachable), "nothing was sent")
	assert.Zero(t, w.task.Steps["a"].Agent.Lost)
	w.now = w.now.Add(time.Minute)
	w.wake()
	assert.Equal(t, "turn.lost a, step.retrying a.t1.m", w.hears(1, broken))
	assert.Equal(t, reserved, w.task.Steps["a"].Agent.Lost.Tokens)
	w.now = w.now.Add(time.Minute)
	w.wake()
	assert.Equal(t, "turn.lost a, step.failed a.t1.m, step.failed a, task.ending, task.failed", w.hears(1, broken))
	assert.Equal(t, fault.QuotaExceeded, w.task.Steps["a"].Error.Code)
	assert.Contains(t, w.task.Steps["a"].Error.Hint, "for answers that were lost")
}

// An agent can end while its model is asked, because its task ends. Whatever becomes of the request then, it may have been billed, nobody
// hears the answer, and nobody asks again.
func TestAgentEndsWhileItsModelIsAsked(t *testing.T) {
	t.Parallel()
	failed := func(code fault.Code, class string) work.Outcome {
		return work.Outcome{Error: fault.New(code, "it failed"), Class: class}
	}
	for name, test := range map[string]struct {
		outcome work.Outcome
		want    string
	}{
		"answered":            {says("late"), "turn.lost a, step.succeeded a.t1.m, task.failed"},
		"its worker was lost": {failed(fault.WorkerLost, fault.ClassWorkerLost), "turn.lost a, step.failed a.t1.m, task.failed"},
		"its worker stopped":  {failed(fault.WorkerLost, fault.ClassShutdown), "turn.lost a, step.failed a.t1.m, task.failed"},
		"not reached":         {failed(fault.Unavailable, fault.ClassTransport), "step.failed a.t1.m, task.failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := submitted(t, "steps:\n  - {id: a, agent: {model: m/x, prompt: Go}}\n  - {id: b, tool: FILE_READ, with: {path: x}}\n", nil)
			w.catalogue = toolbox(t)
			w.wake()
			w.begin("a.t1.m")
			w.begin("b")
			assert.Equal(t, "step.failed b, task.ending, step.cancelled a", w.end("b", failed(fault.NotFound, fault.ClassToolError)))
			assert.Equal(t, test.want, w.end("a.t1.m", test.outcome))
		})
	}
}

// An answer that exceeds a limit may have been billed as well. It is not asked for again, and its error remains that of the step.
func TestAgentAnswerTooLarge(t *testing.T) {
	t.Parallel()
	large := work.Outcome{Class: fault.ClassInvalidArgs, Error: fault.New(fault.ValidationError, "is larger than 4194304 bytes").WithReason("SIZE_LIMIT_EXCEEDED")}
	w := agentWorld(t, "max_tokens: 1000, budget: {tokens: 3000}")
	w.wake()
	reserved := w.task.Steps["a"].Agent.Last().Requested.Reserved
	assert.Equal(t, "turn.lost a, step.failed a.t1.m, step.failed a, task.ending, task.failed", w.hears(1, large))
	assert.Equal(t, reserved, w.task.Steps["a"].Agent.Lost)
	assert.Equal(t, fault.ValidationError, w.task.Steps["a"].Error.Code)
}

func TestAgentCancelled(t *testing.T) {
	t.Parallel()
	w := agentWorld(t, "tools: [FILE_READ]")
	w.wake()
	w.hears(1, says("", "FILE_READ {}"))
	assert.Equal(t, "task.cancel_requested, step.cancelled a, step.cancelled a.t1.c1, task.cancelled",
		w.decide(func(t *decide.Turn) error { t.Cancel("enough"); return nil }))
}

// Items of a for_each can be agents.
func TestAgentsOfItems(t *testing.T) {
	t.Parallel()
	w := submitted(t, "steps: [{id: all, for_each: '[1, 2]', do: [{id: a, agent: {model: m/x, prompt: 'Look at ${{ item }}.'}}]}]\n", nil)
	w.catalogue = toolbox(t)
	assert.Equal(t, "task.started, step.expanded all, agent.started all[0].a, agent.started all[1].a, turn.requested all[0].a, step.ready all[0].a.t1.m, "+
		"turn.requested all[1].a, step.ready all[1].a.t1.m", w.wake())
	w.begin("all[1].a.t1.m")
	assert.Equal(t, "step.succeeded all[1].a.t1.m, turn.answered all[1].a, step.succeeded all[1].a", w.end("all[1].a.t1.m", says("two")))
	w.begin("all[0].a.t1.m")
	assert.Equal(t, "step.succeeded all[0].a.t1.m, turn.answered all[0].a, step.succeeded all[0].a, step.succeeded all, task.finished", w.end("all[0].a.t1.m", says("one")))
}

// A person decides whether an agent may use its budget once more. Nothing is lost while nobody does.
func TestAgentAsksForMore(t *testing.T) {
	t.Parallel()
	begin := func() *world {
		w := agentWorld(t, "tools: [FILE_READ], budget: {calls: 1, wall: 1h, on_exceeded: ask}")
		w.wake()
		w.hears(1, says("", "FILE_READ {}"))
		assert.Equal(t, "step.succeeded a.t1.c1, approval.requested a.b1, task.approval_requested, step.parked a.b1", w.calls(1, 1, good()))
		assert.Empty(t, w.wake())
		return w
	}
	answer := func(w *world, as string) string {
		return w.decide(func(t *decide.Turn) error {
			return t.Approvals().DecideApproval(w.task.Approvals[len(w.task.Approvals)-1], api.DecideRequest{As: as, Actor: "user:ada", Reason: "why not"}, nil)
		})
	}
	w := begin()
	a := w.task.Approvals[0]
	assert.Equal(t, "let the agent of step a go on with 50 turns, 1 call, 1h0m0s more", a.Description)
	assert.Contains(t, a.Rationale, "the agent has made 1 call, its budget")
	assert.Equal(t, "approval.granted, step.succeeded a.b1, task.approved, agent.extended a, turn.requested a, step.ready a.t2.m", answer(w, "granted"))
	assert.Equal(t, 2, w.task.Steps["a"].Agent.Spec.Limit.Calls)
	w.hears(2, says("", "FILE_READ {}"))
	assert.Equal(t, "step.succeeded a.t2.c1, approval.requested a.b2, task.approval_requested, step.parked a.b2", w.calls(2, 1, good()), "once more")
	assert.Equal(t, "approval.rejected, step.failed a.b2, task.declined, step.failed a, task.ending, task.failed", answer(w, "rejected"))
	assert.Equal(t, fault.QuotaExceeded, w.task.Steps["a"].Error.Code)
	assert.Contains(t, w.task.Steps["a"].Error.Hint, "why not")

	never := agentWorld(t, "budget: {tokens: 100, on_exceeded: ask}")
	assert.Equal(t, "step.failed a, task.ending, task.failed", strings.TrimPrefix(never.wake(), "task.started, agent.started a, "), "no person can help: one request needs more")

	w = begin()
	w.now = w.now.Add(2 * time.Hour)
	assert.Equal(t, "approval.expired, task.expired", w.wake())
	assert.Equal(t, "task.unblocked, step.resolved a.b1, approval.requested a.b1, task.approval_requested, step.parked a.b1",
		w.decide(func(t *decide.Turn) error { t.Approvals().AskAgain("user:ada"); return nil }))
	answer(w, "granted")
	assert.True(t, w.task.Steps["a"].Agent.Spec.Until.After(w.now), "the time begins anew as well")
}

// A task that repeats an agent takes over its turns. Calls without a result are made again.
func TestAgentGoesOn(t *testing.T) {
	t.Parallel()
	const fields = "tools: [FILE_READ], budget: {tokens: 100000, calls: 9, wall: 1h}"
	w := agentWorld(t, fields)
	w.wake()
	w.hears(1, says("", "FILE_READ {}"))
	w.calls(1, 1, good())
	w.hears(2, says("", "FILE_READ {}", "FILE_DELETE {}", "FILE_READ {}"))
	w.calls(2, 1, good())
	w.now = w.now.Add(20 * time.Minute)
	w.decide(func(t *decide.Turn) error { t.Cancel("enough"); return nil })
	all := w.reading().ContinueAgents(map[string]bool{"a": true}, nil)
	require.Len(t, all, 1)

	again := agentWorld(t, fields)
	again.now, again.values = w.now.Add(time.Hour), w.values
	assert.Equal(t, "agent.started a, turn.requested a, step.reused a.t1.m, turn.answered a, step.reused a.t1.c1, "+
		"turn.requested a, step.reused a.t2.m, turn.answered a, step.reused a.t2.c1, step.failed a.t2.c2, task.started, step.ready a.t2.c3",
		again.decide(func(t *decide.Turn) error { t.GoOn(all[0]); return nil }))
	assert.Equal(t, w.task.Steps["a"].Agent.Spent, again.task.Steps["a"].Agent.Spent)
	assert.Equal(t, again.now.Add(40*time.Minute), *again.task.Steps["a"].Agent.Spec.Until)
	again.begin("a.t2.c3")
	assert.Equal(t, "step.succeeded a.t2.c3, turn.requested a, step.ready a.t3.m", again.end("a.t2.c3", good()))
	before, after := w.task.Steps["a"].Agent, again.task.Steps["a"].Agent
	assert.Equal(t, before.Turns, after.Turns[:2])
	r, err := again.reading().ModelRequest("a", decide.Said{})
	require.NoError(t, err)
	assert.Len(t, r.Messages, 5)

	assert.Empty(t, w.reading().ContinueAgents(map[string]bool{"a": false}, nil))
	other := w.reading().Continue(w.task, "a", nil, 1)
	assert.Nil(t, other, "no turn is taken over")
}
