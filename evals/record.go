package evals

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
)

// Record is an agent step in the history of a task.
type Record struct {
	Task events.TaskID
	Step string
	// Keys are the keys of the agent, of which instructions and prompt refer to the inputs of a run.
	Keys map[string]any
	// Instructions and Prompt are what the model was told, Inputs the inputs of the task.
	Instructions, Prompt string
	Inputs               map[string]any
	// Calls are the calls that have a result. Cut counts those whose results are too large for a record.
	Calls []plan.Stub
	Cut   int
	// Outcome is what came of it.
	Outcome Outcome
}

// cutNote ends a text of a conversation that is not shown as a whole.
var cutNote = regexp.MustCompile(`\n\[\d+ of \d+ bytes are shown\]$|^\[\d+ bytes are not shown\]$`)

// NewRecord returns the record of an agent step. c is its whole conversation, spec its specification and t its task.
func NewRecord(c api.ConversationReply, spec *events.Agent, t api.TaskView) (*Record, error) {
	rec := &Record{Task: c.ID, Step: c.Step, Instructions: c.Instructions, Prompt: c.Prompt}
	switch {
	case c.ReusedFrom != "":
		return nil, fault.New(fault.StateNotAllowed, "the conversation of step %s is in %s, whose result it has", c.Step, c.ReusedFrom).WithHint("name that task")
	case c.Total == 0 || spec == nil:
		return nil, fault.New(fault.StateNotAllowed, "the agent of step %s has not asked its model", c.Step)
	case cutNote.MatchString(c.Prompt) || cutNote.MatchString(c.Instructions):
		return nil, fault.New(fault.ValidationError, "its prompt or instructions are too large for a case").WithHint("give the case a prompt of its own")
	}
	_ = json.Unmarshal(t.Inputs, &rec.Inputs) // without inputs there are none
	rec.Keys = keysOf(c, spec)
	outputs := map[string]json.RawMessage{}
	for _, s := range t.Steps {
		outputs[s.Key] = s.Output
	}
	for _, turn := range c.Turns {
		for _, call := range turn.Calls {
			rec.add(call, wholeText(outputs[call.Step]))
		}
	}
	rec.Outcome = Outcome{Task: c.ID, State: string(c.State), Error: c.Error}
	rec.Outcome.Measure(c)
	for _, s := range t.Steps {
		if s.Key == c.Step {
			rec.Outcome.Answer(s.Output)
			rec.Outcome.Took = s.Duration
		}
	}
	return rec, nil
}

// keysOf returns the keys of a recorded agent.
func keysOf(c api.ConversationReply, spec *events.Agent) map[string]any {
	keys := map[string]any{
		"model": c.Models[0], "prompt": "${{ inputs." + inputPrompt + " }}", "max_turns": spec.MaxTurns, "max_tokens": spec.MaxTokens,
	}
	if len(c.Models) > 1 {
		keys["fallback"] = c.Models[1:]
	}
	if c.Instructions != "" {
		keys["instructions"] = "${{ inputs." + inputInstructions + " }}"
	}
	if tools := withoutOwn(c.Tools); len(tools) > 0 {
		keys["tools"] = tools
	}
	if spec.Context != nil {
		keys["context"] = map[string]any{"compact_at": spec.Context.CompactAt, "keep": spec.Context.Keep}
	}
	if len(spec.Result.Raw) > 0 {
		keys["result"] = spec.Result.Raw
	}
	if spec.Temperature != nil {
		keys["temperature"] = *spec.Temperature
	}
	if b := budgetOf(spec); len(b) > 0 {
		keys["budget"] = b
	}
	return keys
}

// withoutOwn returns the names of tools without those that each agent has of its own.
func withoutOwn(tools []string) []string {
	return slices.DeleteFunc(slices.Clone(tools), func(name string) bool { return name == plan.ResultReadTool || name == plan.HandoffTool })
}

// budgetOf returns the budget of a recorded agent.
func budgetOf(spec *events.Agent) map[string]any {
	b := map[string]any{}
	if spec.Limit.NanoUSD > 0 {
		b["usd"] = float64(spec.Limit.NanoUSD) / 1e9
	}
	if spec.Limit.Tokens > 0 {
		b["tokens"] = spec.Limit.Tokens
	}
	if spec.Limit.Calls > 0 {
		b["calls"] = spec.Limit.Calls
	}
	return b
}

// wholeText returns the output of a call as the model would see all of it: a text as it is, anything else as JSON. It returns "" for an output
// that is not there, or that is so large that only its size is.
func wholeText(output json.RawMessage) string {
	var text string
	var left struct {
		Blob    string `json:"$blob"`
		Omitted string `json:"$omitted"`
	}
	switch {
	case json.Unmarshal(output, &text) == nil:
		return text
	case json.Unmarshal(output, &left) == nil && left.Blob+left.Omitted != "":
		return ""
	default:
		return string(output)
	}
}

// add adds a call that has a result. whole is all of its text; "" if that is what the model has seen.
func (rec *Record) add(call api.TurnCall, whole string) {
	stub := plan.Stub{Tool: call.Tool, Args: json.RawMessage(strings.TrimSpace(call.Args))}
	if len(stub.Args) == 0 {
		stub.Args = json.RawMessage("{}")
	}
	var object map[string]any
	switch {
	case !call.State.Terminal() && !call.Failed, call.Error != nil && call.Error.Reason == plan.ReasonNoStub:
		return
	case json.Unmarshal(stub.Args, &object) != nil:
		if cutNote.MatchString(call.Args) {
			rec.Cut++
		}
		return // the call could not be made
	case whole == "" && cutNote.MatchString(call.Result):
		rec.Cut++
		return
	case call.Failed && call.Error == nil:
		return // it was not made, or cancelled
	case call.Failed:
		stub.Error = &plan.StubError{Code: string(call.Error.Code), Message: call.Error.Sentence(), Hint: call.Error.Hint}
	default:
		stub.Output, _ = json.Marshal(cmp.Or(whole, call.Result)) // a text can be encoded
	}
	rec.Calls = append(rec.Calls, stub)
}
