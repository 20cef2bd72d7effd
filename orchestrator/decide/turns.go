package decide

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

const (
	// purposeModel is the purpose of a call that asks a model, purposeAgent that of a call that a model requests.
	purposeModel = "model"
	purposeAgent = "agent"
	// maxTurnCalls limits the calls that a model can request in one turn.
	maxTurnCalls = 32
	// maxNesting limits how deep the arguments of a call are nested. A commit has a limit too, and an answer that exceeds it would be lost.
	maxNesting = 1_000
	// modelAttempts is how often a model is asked before its turn fails.
	modelAttempts = 8
)

// turns moves an agent step: it asks the model, starts the calls that the model requests, and ends the step.
type turns struct {
	steps

	node *plan.Node
	step *statemachine.Step
}

func (t turns) agent() *statemachine.Agent { return t.step.Agent }

// said returns the conversation of the agent.
func (t turns) said() conversation { return conversation{&t.Reading, t.step} }

// moveAgent makes the next transition of a running agent step.
func (t steps) moveAgent(n *plan.Node, s *statemachine.Step) {
	a := turns{t, n, s}
	switch s.Agent.Phase {
	case statemachine.AgentIdle:
		a.goOn()
	case statemachine.AgentAsking:
		a.hear()
	case statemachine.AgentActing:
		a.act()
	}
}

// goOn begins the first turn, or handles an answer without calls.
func (t turns) goOn() {
	last := t.agent().Last()
	switch {
	case last == nil:
		t.ask("")
		return
	case last.Refused != nil:
		t.shorten()
		return
	case t.agent().Waits():
		return
	}
	answer := t.said().answer(last.Requested.Turn).Message
	if t.stopped() {
		return
	}
	text := textOf(answer)
	switch {
	case last.Requested.Summarizes > 0 && strings.TrimSpace(text) == "":
		t.fail(fault.New(fault.InvalidFormat, "the model gives no summary of the conversation, which is too long"), fault.ClassUnexpected)
	case last.Requested.Summarizes > 0:
		t.ask(t.postponed())
	case len(t.agent().Told) > 0:
		t.ask("")
	case t.agent().Dismissed:
		t.finish(text)
	case last.Answered.Stop == string(models.StopRefused):
		t.fail(refusal(text), fault.ClassDenied)
	case last.Answered.Stop == string(models.StopLength):
		t.fail(fault.New(fault.QuotaExceeded, "the answer of the model has reached %d tokens, its limit", t.agent().Spec.MaxTokens).
			WithField("agent.max_tokens").WithHint("raise max_tokens of the agent"), fault.ClassBudget)
	default:
		t.finish(text)
	}
}

// refusal returns the error for an answer that a model or its provider refuses to give. Text is what came of it.
func refusal(text string) *fault.Error {
	if text = brief(text); text != "" {
		return fault.New(fault.Forbidden, "the model refuses to answer: %s", text)
	}
	return fault.New(fault.Forbidden, "the model refuses to answer, and does not say why")
}

// finish ends the step with the final answer. An answer that does not have the form of the result is asked for once more.
func (t turns) finish(text string) {
	if t.node.Agent.Result == nil {
		t.succeed(text, nil)
		return
	}
	result := unfenced(text)
	if err := t.node.Agent.CheckResult(result); err != nil {
		t.repair(fault.From(err))
		return
	}
	t.succeed(text, result)
}

// succeed ends the step with a text, and the result if the step has one.
func (t turns) succeed(text string, result json.RawMessage) {
	out := map[string]any{
		"text": text, "turns": t.agent().Asked(), "calls": t.agent().Spent.Calls, "tokens": t.agent().Spent.Tokens,
		"usd": float64(t.agent().Spent.NanoUSD) / 1e9,
	}
	if result != nil {
		out["result"] = result
	}
	raw := MustJSON(out)
	if err := t.OutcomeOf(nil, raw); err != nil {
		t.failStep(t.step.Key, err)
		return
	}
	t.Emit(events.StepSucceeded, &events.Succeeded{Step: t.step.Key, Output: t.value(raw), Duration: t.Now.Sub(t.step.Since)})
}

// repair asks once for an answer that has the form of the result.
func (t turns) repair(err *fault.Error) {
	if asked := t.agent().Last().Requested; !asked.Added.IsZero() && !asked.Final {
		t.fail(fault.New(fault.InvalidFormat, "the model gives no answer with the form of the result: %s", err.Sentence()), fault.ClassUnexpected)
		return
	}
	t.ask("Your answer does not have the requested form: " + err.Sentence() + ". Answer with the JSON value alone.")
}

// unfenced returns the JSON in a text that may be a code block of Markdown.
func unfenced(text string) json.RawMessage {
	text = strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(text, "```"); ok {
		_, rest, _ = strings.Cut(rest, "\n")
		text = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "```"))
	}
	return json.RawMessage(text)
}

// textOf returns the text of a message.
func textOf(m models.Message) string {
	var text strings.Builder
	for _, part := range m.Parts {
		text.WriteString(part.Text)
	}
	return text.String()
}

// brief truncates a text for a message.
func brief(text string) string {
	const longest = 200
	if runes := []rune(text); len(runes) > longest {
		return string(runes[:longest]) + "…"
	}
	return text
}

// ask begins the next turn. added is a text that ends the conversation; "" for none.
func (t turns) ask(added string) {
	turn, said := t.next(), t.news()
	if lost := t.OutcomeOf(nil); lost != nil {
		t.fail(fault.From(lost), fault.ClassUnexpected)
		return
	}
	err := t.limitReached()
	switch {
	case err != nil && t.mayFinish():
		turn.Final, err = true, nil
		added = strings.TrimSpace(added + "\nYou have reached a limit and can call no more tools. Give your final answer now.")
	case err == nil && added == "":
		if turn.Summarizes = t.tooLong(said.bytes); turn.Summarizes > 0 {
			added = summarize
		}
	}
	if turn.Summarizes == 0 {
		turn.Heard = t.agent().Told
	}
	t.request(turn, said, added, err)
}

// request asks the model for a turn, unless err or a budget does not permit it. added is a text that ends the conversation.
func (t turns) request(turn *events.Turn, said news, added string, err *fault.Error) {
	key := t.step.Key
	t.conversed(turn, &said, added)
	if err == nil {
		err = t.reserve(turn, said.bytes)
	}
	wait := false
	if err == nil {
		wait, err = t.draw(turn)
	}
	switch {
	case t.stopped():
		return
	case err != nil:
		t.over(turn, err)
		return
	case wait:
		t.Facts.AwaitLedgers(t.Now)
		return
	}
	args := MustJSON(models.CallArgs{Step: key, Turn: turn.Turn, Conversation: turn.Conversation})
	t.activate()
	t.Emit(events.TurnRequested, turn)
	t.Approvals().emitReady(&events.Ready{
		Step: statemachine.ModelKey(key, turn.Turn), Attempt: 1, Tool: models.CallTool, Args: events.Inline(args),
		Effect: string(tools.Idempotent), Queue: work.NodeQueue, Timeout: models.CallTimeout, Purpose: purposeModel,
	})
}

// next returns the next turn.
func (t turns) next() *events.Turn {
	return &events.Turn{Step: t.step.Key, Turn: len(t.agent().Turns) + 1}
}

// news is what the conversation has more than the last request: the answer and the results of its calls, or all of it before the
// first turn. bytes is the size of what is not counted yet by the provider.
type news struct {
	answer models.Message
	parts  []models.Part
	bytes  int
}

// news returns what is new since the last turn.
func (t turns) news() news {
	last, spec := t.agent().Last(), t.agent().Spec
	if last == nil {
		return news{bytes: len(t.Fetch(spec.Instructions)) + len(t.Fetch(spec.Prompt)) + len(t.Fetch(spec.Tools)) + len(t.Fetch(spec.Result))}
	}
	said := news{answer: t.said().answer(last.Requested.Turn).Message}
	said.parts = t.said().results(last.Requested.Turn, said.answer)
	said.bytes = len(MustJSON(said.parts))
	return said
}

// conversed sets the digest of the conversation of a turn, and adds to said what the turn itself adds.
func (t turns) conversed(turn *events.Turn, said *news, added string) {
	if added != "" {
		turn.Added = t.value(MustJSON(added))
		said.bytes += len(added)
	}
	parts := []any{said.answer, said.parts, added}
	for _, m := range turn.Heard {
		text := t.text(m.Text)
		said.bytes += len(text)
		parts = append(parts, text)
	}
	switch last := t.agent().Last(); {
	case last != nil:
		turn.Conversation = digestOf(last.Requested.Conversation, parts)
	case len(turn.Heard) > 0:
		turn.Conversation = digestOf(digestOf("", t.agent().Spec), parts)
	default:
		turn.Conversation = digestOf("", t.agent().Spec)
	}
}

// hear records the answer of the model when its call has ended.
func (t turns) hear() {
	turn := t.agent().Last().Requested.Turn
	asked := t.Task.Steps[statemachine.ModelKey(t.step.Key, turn)]
	switch asked.State {
	case statemachine.StepSucceeded:
		t.answered(turn, asked)
	case statemachine.StepFailed:
		if !t.refused(asked.Error) {
			t.fail(asked.Error, asked.Class)
		}
	case statemachine.StepCancelled:
		t.Emit(events.StepCancelled, &events.Skipped{Step: t.step.Key, Reason: asked.Reason})
	default: // it is under way
	}
}

func (t turns) answered(turn int, asked *statemachine.Step) {
	raw := t.Fetch(asked.Output)
	if t.stopped() {
		return
	}
	var out models.Called
	if err := t.OutcomeOf(json.Unmarshal(raw, &out)); err != nil {
		t.fail(fault.From(err), fault.ClassToolError)
		return
	}
	asks := t.agent().Spec.Models
	price := asks[min(max(out.Model, 0), len(asks)-1)].Price
	usage, estimated := t.usageOf(out.Answer)
	cost := price.Of(usage)
	if events.Usage(out.Answer.Usage).Request() == 0 {
		cost = price.Highest(usage.Input, usage.Output)
	}
	calls := callsOf(out.Answer.Message)
	if t.agent().Last().Requested.Final {
		calls = nil
	}
	t.Emit(events.TurnAnswered, &events.Answered{
		Step: t.step.Key, Turn: turn, Model: out.Model, Stop: string(out.Answer.Stop), Usage: usage, Estimated: estimated,
		NanoUSD: cost, Calls: len(calls),
	})
}

// usageOf returns the tokens of an answer. For what a provider does not say it returns the highest that it can be: what was reserved for
// the request, and the bytes of the answer.
func (t turns) usageOf(a models.Answer) (usage events.Usage, estimated bool) {
	usage = events.Usage(a.Usage)
	longest := t.agent().Spec.MaxTokens
	if usage.Request() == 0 {
		usage.Input, estimated = t.agent().Last().Requested.Reserved.Tokens-longest, true
	}
	if usage.Output == 0 && len(a.Message.Parts) > 0 {
		usage.Output, estimated = min(longest, int64(len(MustJSON(a.Message.Parts)))), true
	}
	return usage, estimated
}

// call makes a call that the model requests ready, or records why it is not made. offered are the tools of the agent.
func (t turns) call(key string, i int, call *models.Call, offered []offeredTool) {
	at := slices.IndexFunc(offered, func(o offeredTool) bool { return o.Name == call.Name || o.name() == call.Name })
	args := json.RawMessage(cmp.Or(strings.TrimSpace(call.Args), "{}"))
	switch {
	case t.stopped():
	case i >= maxTurnCalls:
		t.deny(key, call.Name, call.Args, fault.New(fault.QuotaExceeded, "at most %d calls are made in a turn", maxTurnCalls))
	case t.callsLeft(i) <= 0:
		t.deny(key, call.Name, call.Args, fault.New(fault.QuotaExceeded, "the budget of %s is used up", count(t.agent().Spec.Limit.Calls, "call")).
			WithField("agent.budget.calls"))
	case at < 0:
		t.deny(key, call.Name, call.Args, fault.New(fault.NotFound, "there is no tool %q here", brief(call.Name)).WithHint("the tools are %s", names(offered)))
	case !json.Valid(args):
		t.deny(key, offered[at].name(), call.Args, fault.New(fault.InvalidFormat, "the arguments are not valid JSON"))
	case events.Nesting(args) > maxNesting:
		t.deny(key, offered[at].name(), call.Args, fault.New(fault.InvalidFormat, "the arguments are nested more than %d deep", maxNesting))
	case offered[at].name() == plan.ResultReadTool:
		t.readOn(key, args)
	case offered[at].name() == plan.HandoffTool:
		t.handOver(key, args)
	default:
		t.callTool(key, offered[at].name(), args)
	}
}

// callsLeft returns how many calls the budget permits before call i, from 0, of the current turn.
func (t turns) callsLeft(i int) int {
	limit := t.agent().Spec.Limit.Calls
	if limit == 0 {
		return maxTurnCalls
	}
	return limit - (t.agent().Spent.Calls - t.agent().Last().Answered.Calls + i)
}

// names lists the names of tools for a model.
func names(offered []offeredTool) string {
	const most = 40
	var all []string
	for _, o := range offered[:min(len(offered), most)] {
		all = append(all, o.Name)
	}
	return strings.Join(all, ", ")
}

// callTool makes a call of a tool ready.
func (t turns) callTool(key, name string, args json.RawMessage) {
	if stubs := t.node.Agent.Stubs; stubs != nil && t.stubbed(stubs, key, name, args) {
		return
	}
	if limit := t.Task.Submitted.MaxSteps; limit > 0 && t.Task.Calls >= limit {
		t.End(t.errMaxSteps())
		return
	}
	found, ok := t.Rules.Catalogue.Get(name)
	if !ok {
		t.deny(key, name, string(args), fault.New(fault.ToolUnavailable, "the tool %s is not offered any more", name))
		return
	}
	value := t.value(args)
	t.Approvals().emitReady(&events.Ready{
		Step: key, Attempt: 1, Tool: name, Args: value, Effect: string(found.Spec().Effect), Queue: t.queueOf(t.node, name),
		Purpose: purposeAgent, For: t.agentsFor(key, name, value),
	})
}

// deny records a call that is not made. Arguments that are not valid JSON, or nested too deeply, are recorded as a text.
func (t turns) deny(key, tool, args string, why *fault.Error) {
	raw := json.RawMessage(args)
	if !json.Valid(raw) || events.Nesting(raw) > maxNesting {
		raw = MustJSON(args)
	}
	t.Emit(events.StepFailed, &events.StepError{
		Step: key, Class: fault.ClassDenied, Tool: tool, Args: t.value(raw), Purpose: purposeAgent, Error: why,
	})
}

// act starts the calls that the model requests. When all of them have ended, it begins the next turn.
func (t turns) act() {
	last, ended := t.agent().Last(), true
	var calls []*models.Call
	var offered []offeredTool
	for i := range last.Answered.Calls {
		key := statemachine.CallKey(t.step.Key, last.Requested.Turn, i+1)
		if t.Task.Steps[key] == nil {
			if calls == nil {
				calls, offered = callsOf(t.said().answer(last.Requested.Turn).Message), t.said().offered()
			}
			if t.stopped() {
				return
			}
			t.activate()
			t.call(key, i, calls[i], offered)
		}
		ended = ended && t.Task.StepState(key).Terminal()
	}
	if !ended {
		return
	}
	if to := t.takenOver(); to != nil {
		t.finishFor(to)
	} else {
		t.ask("")
	}
}

// fail fails the agent step.
func (t turns) fail(err *fault.Error, class string) {
	t.Emit(events.StepFailed, &events.StepError{Step: t.step.Key, Error: err, Class: class, Duration: t.Now.Sub(t.step.Since)})
}
