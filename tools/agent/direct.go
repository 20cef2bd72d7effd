package agent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// Dispatcher assigns work to registered agents and accepts their reports.
type Dispatcher interface {
	// Member returns the agent with an id. Errors: UNAUTHORIZED when it is no longer registered, TOKEN_EXPIRED.
	Member(ctx context.Context, id string) (agents.Member, error)
	// Claim, Heartbeat and Report implement AGENT_CLAIM, AGENT_HEARTBEAT and AGENT_REPORT.
	Claim(ctx context.Context, m agents.Member, c agents.Claim) (agents.Work, error)
	Heartbeat(ctx context.Context, m agents.Member, b agents.Heartbeat) (agents.Work, error)
	Report(ctx context.Context, m agents.Member, r agents.Report) error
}

// directSpec sets the fields that the Direct tools of registered agents share. Their calls are not tasks: heartbeats
// would fill the log, and each waiting claim would occupy a worker.
func directSpec(s tools.Spec) tools.Spec {
	s.Conditions = append([]string{"The call does not become a task", "The caller is a registered agent, with its own credential"}, s.Conditions...)
	s.Gate, s.Approval = tools.AnyState, tools.NoApproval
	s.NoWorkspace, s.AtNode, s.Direct, s.Tasks = true, true, true, tools.NoTask
	s.Errors = append([]string{"FORBIDDEN", "VALIDATION_ERROR"}, s.Errors...)
	return s
}

// caller returns the dispatcher and the registered agent that makes the call. It returns FORBIDDEN if the caller is not
// a registered agent, and TOOL_UNAVAILABLE if there is no dispatcher.
func (c Config) caller(ctx context.Context, env *tools.Env) (Dispatcher, agents.Member, error) {
	if env.Agent == "" {
		return nil, agents.Member{}, fault.New(fault.Forbidden, "only a registered agent may do this, with its own credential").
			WithHint("register with onboarding.registerAgent or orch agents register, and call again with the secret as bearer token")
	}
	var dispatcher Dispatcher
	if c.Dispatcher != nil {
		dispatcher = c.Dispatcher()
	}
	if dispatcher == nil {
		return nil, agents.Member{}, fault.New(fault.ToolUnavailable, "this requires a running node").WithHint("start one: orch serve")
	}
	m, err := dispatcher.Member(ctx, env.Agent)
	return dispatcher, m, err
}

// callRef identifies a call in the inputs and outputs of the tools.
type callRef struct {
	Task    string `json:"task" jsonschema:"Task of the call" minLength:"1" maxLength:"64"`
	Step    string `json:"step" jsonschema:"Step of the call" minLength:"1" maxLength:"512"`
	Attempt int    `json:"attempt" jsonschema:"Attempt of the call" minimum:"1"`
}

func (r callRef) ref() work.Ref {
	return work.Ref{Task: events.TaskID(r.Task), Step: r.Step, Attempt: r.Attempt}
}

func callRefs(all []work.Ref) []callRef {
	refs := make([]callRef, len(all))
	for i, r := range all {
		refs[i] = callRef{string(r.Task), r.Step, r.Attempt}
	}
	return refs
}

// callOut is a call that is assigned to an agent.
type callOut struct {
	callRef

	Call        string       `json:"call" jsonschema:"The call as text. Pass it to orch_submit as for, and to any other call in _meta as orch/call, so that new tasks belong to this call"`
	Key         string       `json:"key" jsonschema:"Idempotency key, the same for every attempt of the call"`
	Name        string       `json:"name,omitempty" jsonschema:"Name of the task"`
	Handover    string       `json:"handover,omitempty" jsonschema:"Who handed the call over, and why"`
	Handed      any          `json:"handover_data,omitempty" jsonschema:"Data that was handed over with the call"`
	Title       string       `json:"title" jsonschema:"What to do, in one line"`
	Description string       `json:"description,omitempty" jsonschema:"What to do, in full"`
	Data        tools.Object `json:"data,omitzero" jsonschema:"What to work on"`
	Deadline    time.Time    `json:"deadline" jsonschema:"When the call times out"`
	Left        float64      `json:"left_seconds" jsonschema:"Seconds until the deadline"`
	Lease       float64      `json:"lease_seconds" jsonschema:"Seconds without AGENT_HEARTBEAT after which the call is reassigned"`
}

// handoverData returns the data that was handed over, nil for none.
func handoverData(data json.RawMessage) any {
	if len(data) == 0 {
		return nil
	}
	return data
}

// callOuts converts calls for a model: with the work to do, and durations in seconds.
func callOuts(all []agents.Assignment) ([]callOut, error) {
	calls := make([]callOut, len(all))
	for i, a := range all {
		var args agentTaskIn
		if err := json.Unmarshal(a.Args, &args); err != nil {
			return nil, fault.Wrap(fault.Internal, err, "the arguments of a call cannot be read")
		}
		calls[i] = callOut{
			callRef: callRef{string(a.Task), a.Step, a.Attempt}, Call: a.String(), Key: a.Key, Name: a.Name, Handover: a.Handover, Handed: handoverData(a.HandoverData),
			Title: args.Title, Description: args.Description, Data: args.Data,
			Deadline: a.Deadline, Left: a.Remaining.Round(time.Millisecond).Seconds(), Lease: a.Lease.Seconds(),
		}
	}
	return calls, nil
}
