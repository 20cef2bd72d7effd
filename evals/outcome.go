package evals

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

// Outcome is what came of a run.
type Outcome struct {
	Case    string `json:"case"`
	Variant string `json:"variant"`
	// Nr is the number of the run of the case with the variant, from 1.
	Nr   int           `json:"nr"`
	Task events.TaskID `json:"task,omitempty"`
	// State is the state of the task, or of the recorded step. Waits is set if it waits for a person.
	State string `json:"state,omitempty"`
	Waits bool   `json:"waits,omitempty"`
	// OK is set if all assertions hold. Failed lists the others.
	OK     bool     `json:"ok"`
	Failed []Failed `json:"failed,omitempty"`
	// NotRun is why there was no run.
	NotRun string          `json:"not_run,omitempty"`
	Error  *fault.Error    `json:"error,omitempty"`
	Text   string          `json:"text,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	// USD is the cost in US dollars. Turns and Tokens count what the run used, Took is how long it took.
	USD    float64       `json:"usd"`
	Tokens int64         `json:"tokens"`
	Turns  int           `json:"turns"`
	Took   time.Duration `json:"duration"`
	// Calls are the calls that the model requested.
	Calls []Call `json:"calls,omitempty"`
	// Differs names in what the requests differ from the record that they were answered from.
	Differs []string `json:"differs,omitempty"`
}

// Call is a call that a model requested. Refused is set if it was neither made nor answered from a record.
type Call struct {
	Tool    string `json:"tool"`
	Args    string `json:"args"`
	Refused bool   `json:"refused,omitempty"`
}

// Failed is an assertion that does not hold.
type Failed struct {
	Check string `json:"check"`
	Why   string `json:"why"`
}

// toolNames lists the tools that the model called.
func (o *Outcome) toolNames() string {
	var names []string
	for _, c := range o.Calls {
		if !slices.Contains(names, c.Tool) {
			names = append(names, c.Tool)
		}
	}
	if len(names) == 0 {
		return "no tool"
	}
	return strings.Join(names, ", ")
}

// Measure sets what a conversation has used.
func (o *Outcome) Measure(c api.ConversationReply) {
	o.USD, o.Tokens, o.Turns = float64(c.Used.NanoUSD)/1e9, c.Used.Tokens, c.Total
	for _, t := range c.Turns {
		for _, call := range t.Calls {
			refused := call.Error != nil && call.Error.Reason == plan.ReasonNoStub
			o.Calls = append(o.Calls, Call{Tool: call.Tool, Args: call.Args, Refused: refused})
		}
		for _, what := range t.Differs {
			if !slices.Contains(o.Differs, what) {
				o.Differs = append(o.Differs, what)
			}
		}
	}
}

// Answer sets the answer of an agent from the output of its step.
func (o *Outcome) Answer(output json.RawMessage) {
	var out struct {
		Text   string          `json:"text"`
		Result json.RawMessage `json:"result"`
	}
	if json.Unmarshal(output, &out) == nil {
		o.Text, o.Result = out.Text, out.Result
	}
}

// Judge sets OK and Failed by the assertions. Unless one of them expects a failure, the agent has to succeed.
func (o *Outcome) Judge(checks []Check) {
	o.Failed = nil
	var fails fault.Code
	for _, c := range checks {
		if c.fails != "" {
			fails = c.fails
		}
	}
	if why := o.ended(fails); why != "" {
		o.Failed = append(o.Failed, Failed{"ends", why})
		if fails == "" {
			return
		}
	}
	for _, c := range checks {
		if c.test == nil {
			continue
		}
		if why := c.test(o); why != "" {
			o.Failed = append(o.Failed, Failed{c.Name, why})
		}
	}
	o.OK = len(o.Failed) == 0
}

// ended returns why the end of a run is not the expected one; "" if it is.
func (o *Outcome) ended(fails fault.Code) string {
	succeeded := o.State == string(statemachine.Done) || o.State == string(statemachine.StepSucceeded)
	switch {
	case o.NotRun != "":
		return "not run: " + o.NotRun
	case o.Waits:
		return "it waits for a person: orch explain " + string(o.Task)
	case fails == "" && succeeded:
		return ""
	case fails == "" && o.Error != nil:
		return "it is " + o.State + ": " + o.Error.Error()
	case fails == "":
		return "it is " + o.State
	case succeeded:
		return fmt.Sprintf("it is %s, and should fail with %s", o.State, fails)
	case o.Error == nil || o.Error.Code != fails:
		return fmt.Sprintf("it is %s (%v), and should fail with %s", o.State, o.Error, fails)
	default:
		return ""
	}
}
