package node

import (
	"context"
	"encoding/json"

	"github.com/orch-dev/orch/audit"
	"github.com/orch-dev/orch/auditor"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/registry"
	"github.com/orch-dev/orch/rpc"
)

// RefusedMethod is the method that an MCP server in another process calls to report a refused call.
const RefusedMethod = bus.AuditPrefix + ".refused"

// Refusal is a call that was refused before a task was created, so no task records it.
type Refusal struct {
	// By is the identity that made the call.
	By string `json:"by"`
	// Tool and Args are the tool and its arguments. For a refused plan, Tool is empty and Args is the plan. Task is the task that
	// the call would have belonged to, if any.
	Tool string          `json:"tool,omitempty"`
	Args json.RawMessage `json:"args,omitempty"`
	Task events.TaskID   `json:"task,omitempty"`
	// Error is the reason.
	Error *fault.Error `json:"error"`

	// face is the face at which the call was refused, operation the act if it is not a call.
	face, operation string
}

// ActorFields implements rpc.ActorRequest.
func (r *Refusal) ActorFields() []*string { return []*string{&r.By} }

// soleCall returns the tool and the arguments of a plan that has a single step. For any other plan, it returns no tool and the
// plan.
func soleCall(plan json.RawMessage) (tool string, args json.RawMessage) {
	var parsed struct {
		Steps []struct {
			Tool string          `json:"tool"`
			With json.RawMessage `json:"with"`
		} `json:"steps"`
	}
	if json.Unmarshal(plan, &parsed) == nil && len(parsed.Steps) == 1 && parsed.Steps[0].Tool != "" {
		return parsed.Steps[0].Tool, parsed.Steps[0].With
	}
	return "", plan
}

// The acts of refused calls and submissions.
const (
	actCall   = "tool.call"
	actSubmit = "task.submit"
)

// act returns the act of a refusal. It has the arguments if they are short and contain no secret, and their digest.
func (r *Refusal) act(ctx context.Context, redact func([]byte) ([]byte, bool)) audit.Act {
	o := audit.OriginOf(ctx)
	act := audit.Act{Actor: r.By, Credential: o.Credential, Face: r.face, Source: o.Source, Name: actCall, Target: r.Tool, Params: map[string]string{
		"task": string(r.Task), "args_digest": audit.Digest(r.Args),
	}}
	if r.Tool == "" {
		act.Name = actSubmit
	}
	if r.operation != "" {
		act.Name, act.Target = r.operation, ""
	}
	if len(r.Args) > 0 && r.Error.Code != fault.SecretDetected {
		const searched = 4 << 10
		if _, secret := redact(r.Args[:min(len(r.Args), searched)]); !secret {
			act.Params["args"] = string(r.Args[:min(len(r.Args), audit.MaxText+1)])
		}
	}
	return act
}

// journal records in the log events that belong to no task: changes of external MCP servers.
type journal struct {
	*host

	// changes are changes of MCP servers that are not recorded yet.
	changes chan registry.Change
}

// refused records a refused call, unless its error is no refusal.
func (jn *journal) refused(ctx context.Context, r Refusal) { jn.recordRefusal(ctx, r) }

func (h *host) recordRefusal(ctx context.Context, r Refusal) {
	if acts := h.acts.Load(); acts != nil && auditor.IsRefusal(r.Error) {
		acts.Refused(r.act(ctx, h.executor.policy.Redact), r.Error)
	}
}

// startRefusals serves the reports of refused calls by MCP servers in other processes, and those of acts by commands that work on files.
func (jn *journal) startRefusals(context.Context) error {
	end, err := rpc.Serve(jn.requests, bus.AuditPrefix, jn.auditMethods(), jn.forOperator())
	if err != nil {
		return err
	}
	jn.onStop(closeSoon(end))
	return nil
}

func (jn *journal) auditMethods() localMethods {
	return localMethods{
		"refused": rpc.Handle(func(ctx context.Context, r Refusal) (struct{}, error) {
			r.face = audit.FaceMCP
			jn.refused(ctx, r)
			return struct{}{}, nil
		}),
		"record": rpc.Handle(jn.recordLocal),
	}
}
