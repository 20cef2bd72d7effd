package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// PolicyService describes the policy of the node and judges calls by it. No method has an effect.
type PolicyService interface {
	// Policy returns the policy in effect.
	Policy(ctx context.Context, r PolicyRequest) (PolicyView, error)
	// Explain says what would happen to a call. Errors: NOT_FOUND for an unknown tool, VALIDATION_ERROR for wrong arguments.
	Explain(ctx context.Context, r ExplainCallRequest) (ExplainedCall, error)
	// Backtest judges past calls by another policy file. Errors: those of the file, with a position, TIMEOUT if the test takes too
	// long, RATE_LIMITED while another one runs.
	Backtest(ctx context.Context, r BacktestRequest) (BacktestReport, error)
}

// PolicyRequest asks for the policy in effect.
type PolicyRequest struct{}

// PolicyView is the policy in effect.
type PolicyView struct {
	// File is the policy file; empty if there is none. Text is the file as the node has read it, without secrets, and SHA256 its
	// digest.
	File   string `json:"file,omitempty"`
	Text   string `json:"text,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	// Changed is set if the file is not what the node has read when it started.
	Changed bool `json:"changed,omitempty"`
	// Default applies to calls that no rule matches.
	Default string       `json:"default"`
	Rules   []PolicyRule `json:"rules"`
	// ReadOnly is set if the node runs no call that changes something.
	ReadOnly bool `json:"read_only,omitempty"`
	// Tools are the names of the tools that calls may name.
	Tools []string `json:"tools"`
}

// PolicyRule is a rule of a policy file.
type PolicyRule struct {
	Name   string `json:"name"`
	Action string `json:"action"`
	// Line is the line of the file at which the rule begins.
	Line   int    `json:"line"`
	Reason string `json:"reason,omitempty"`
	// Criteria maps each criterion of the rule, such as tools, to its patterns.
	Criteria map[string][]string `json:"criteria"`
	// Examples is the number of its examples.
	Examples int `json:"examples,omitempty"`
}

// ExplainCallRequest describes a call that nobody makes.
type ExplainCallRequest struct {
	Tool string `json:"tool"`
	// Args is an object. Paths may be relative to the root.
	Args json.RawMessage `json:"args,omitempty"`
	// Agent is the identity that would submit the task, such as agent:bot; empty if it is unknown.
	Agent string `json:"agent,omitempty"`
	// Task is the task in whose workspace the call would run; empty for a task of its own.
	Task events.TaskID `json:"task,omitempty"`
}

// ExplainedCall says what would happen to a call.
type ExplainedCall struct {
	// Action is allow if the call would run, ask if it would need an approval first, and deny if it would be refused.
	Action string `json:"action"`
	Effect string `json:"effect"`
	// File is the verdict of the policy file alone, and Matches are its rules that match the call or may match it.
	File    PolicyVerdict `json:"file"`
	Matches []RuleMatch   `json:"matches"`
	// Approval is the approval that the call would need. Refused is why it would be refused.
	Approval *NeededApproval `json:"approval,omitempty"`
	Refused  *fault.Error    `json:"refused,omitempty"`
	// Announces is set if the tool determines what a call reaches when it runs, so that it is not known here.
	Announces bool `json:"announces,omitempty"`
}

// PolicyVerdict is the verdict of a policy file about a call.
type PolicyVerdict struct {
	Action string `json:"action"`
	// Rule is the deciding rule, "default" for the default of the file; empty without a file.
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// RuleMatch is a rule that matches a call. Unsure is set if that cannot be told before the call.
type RuleMatch struct {
	Rule   string `json:"rule"`
	Action string `json:"action"`
	Line   int    `json:"line"`
	Unsure bool   `json:"unsure,omitempty"`
}

// NeededApproval is an approval that a call would need.
type NeededApproval struct {
	Rule    string `json:"rule"`
	Reason  string `json:"reason"`
	Field   string `json:"field,omitempty"`
	Instead string `json:"instead,omitempty"`
	Type    string `json:"type"`
	Risk    string `json:"risk"`
	// Scopes are the permissions that the grant would give to the whole task.
	Scopes []string `json:"scopes,omitempty"`
}

// BacktestRequest selects past calls, and contains the policy by which they are judged.
type BacktestRequest struct {
	// Policy is the text of a policy file.
	Policy string `json:"policy"`
	// Task selects the calls of one task. Otherwise the test covers the tasks that have changed since Since, by default one day
	// ago, and not after Until.
	Task  events.TaskID `json:"task,omitempty"`
	Since time.Time     `json:"since,omitzero"`
	Until time.Time     `json:"until,omitzero"`
	// Tool is a pattern of the names of tools.
	Tool   string               `json:"tool,omitempty"`
	States []statemachine.State `json:"states,omitempty"`
	Labels map[string]string    `json:"labels,omitempty"`
}

// BacktestReport says which past calls a policy would treat in another way.
type BacktestReport struct {
	// Rules and Examples are the numbers of rules and of passed examples of the tested file.
	Rules    int `json:"rules"`
	Examples int `json:"examples"`
	// Tasks and Calls are how many were read. Unjudged calls have large arguments or an unknown tool.
	Tasks    int `json:"tasks"`
	Calls    int `json:"calls"`
	Unjudged int `json:"unjudged"`
	// Changes counts the calls by what happens to them before and after.
	Changes []VerdictChange `json:"changes"`
	// Changed are the calls, the newest first. Omitted is the number of further ones.
	Changed []ChangedCall `json:"changed"`
	Omitted int           `json:"omitted,omitempty"`
	// Truncated is set if the selection has more tasks or calls than a test reads.
	Truncated bool `json:"truncated,omitempty"`
}

// VerdictChange counts the calls with a change.
type VerdictChange struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Calls int    `json:"calls"`
}

// ChangedCall is a past call that the tested policy treats in another way.
type ChangedCall struct {
	Task   events.TaskID `json:"task"`
	Step   string        `json:"step"`
	Tool   string        `json:"tool"`
	Agent  string        `json:"agent,omitempty"`
	At     time.Time     `json:"at"`
	Before PolicyVerdict `json:"before"`
	After  PolicyVerdict `json:"after"`
}

// Bounds of requests about the policy, in bytes.
const (
	maxToolName = 256
	maxAgent    = 256
	maxCallArgs = 64 << 10
	maxPolicy   = 256 << 10
)

// policyRoutes returns the routes of the policy.
func policyRoutes() []route {
	const get, post = http.MethodGet, http.MethodPost
	of := func(c Config) PolicyService { return c.Policy }
	return []route{
		served(plain(get, "/policy", "policy", "Read the policy in effect.", readsAll, toolList, nothing()), of, PolicyService.Policy),
		served(plain(post, "/policy/explain", "explain_call", "Say what would happen to a call, without making it.", readsAll, toolList, nothing()).
			checks(prepared(checkExplain)), of, PolicyService.Explain),
		served(plain(post, "/policy/backtest", "backtest_policy", "Judge past calls by another policy file, without any effect.", readsAll, toolList, nothing()).
			checks(prepared(checkBacktest)), of, PolicyService.Backtest),
	}
}

func checkExplain(r *ExplainCallRequest) error {
	switch {
	case r.Tool == "":
		return fault.New(fault.RequiredField, "is required").WithField("tool")
	case len(r.Tool) > maxToolName:
		return tooLong("tool", maxToolName)
	case len(r.Args) > maxCallArgs:
		return tooLong("args", maxCallArgs)
	case len(r.Agent) > maxAgent:
		return tooLong("agent", maxAgent)
	}
	return checkTaskID(r.Task)
}

func checkBacktest(r *BacktestRequest) error {
	switch {
	case r.Policy == "":
		return fault.New(fault.RequiredField, "is required").WithField("policy")
	case len(r.Policy) > maxPolicy:
		return tooLong("policy", maxPolicy)
	case len(r.Tool) > maxToolName:
		return tooLong("tool", maxToolName)
	case !r.Since.IsZero() && !r.Until.IsZero() && r.Until.Before(r.Since):
		return fault.New(fault.ValidationError, "is before since").WithField("until")
	}
	for _, s := range r.States {
		if !slices.Contains(statemachine.States(), s) {
			return fault.New(fault.ValidationError, "%q is not a state of tasks", clip(string(s))).WithField("states")
		}
	}
	return checkTaskID(r.Task)
}

func tooLong(field string, limit int) error {
	return fault.New(fault.ValidationError, "has more than %d bytes", limit).WithField(field)
}

// checkTaskID refuses a text that is neither empty nor a whole id of a task.
func checkTaskID(id events.TaskID) error {
	if id == "" {
		return nil
	}
	if _, err := events.ParseTaskID(string(id)); err != nil {
		return fault.New(fault.InvalidFormat, "is not the whole id of a task").WithField("task")
	}
	return nil
}
