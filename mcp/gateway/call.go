package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/registry"
	"github.com/orch-dev/orch/tools"
)

// note is the state of a call that the log stores between two attempts.
type note struct {
	// Task is the handle of the MCP task into which the server has turned the call. Task and State are values from the server.
	// They are bytes, encoded in base64, so that the log does not redact them as apparent secrets.
	Task []byte `json:"task,omitempty"`
	// State is registry.Reply.State of a call with several rounds of questions.
	State []byte `json:"state,omitempty"`
	// Keys maps the keys of the questions of the last round to the keys that the server uses (registry.Ask.Key).
	Keys map[string]string `json:"keys,omitempty"`
}

// call makes one attempt of a call (outsideTool.call).
func (g *Gateway) call(ctx context.Context, env *tools.Env, t *outsideTool, args json.RawMessage) (json.RawMessage, error) {
	if err := g.Ready(ctx); err != nil {
		return nil, err
	}
	if err := g.checkRecorded(t); err != nil {
		return nil, err
	}
	n, err := parseNote(env.Note)
	if err != nil {
		return nil, err
	}
	answers, err := n.answers(env.Answers)
	if err != nil {
		return nil, err
	}
	reply, err := g.joinOrStart(ctx, env, t, registry.CallRequest{
		Server: t.Server, Tool: t.Tool, Args: args, Task: n.Task, State: string(n.State), Answers: answers,
		Fit: t.checkOffered, TraceParent: env.TraceParent(), TraceState: env.TraceState,
	})
	switch {
	case err != nil:
		if n.Task != nil && ctx.Err() != nil {
			g.cancelTask(ctx, t.Server, n.Task)
		}
		return nil, t.inDoubtFault(escapeFault(err))
	case reply.Task != nil:
		return nil, &tools.Noted{Note: encode(note{Task: reply.Task})}
	case len(reply.Asks) > 0:
		return nil, n.questions(reply, env.Answers)
	}
	return t.output(reply.Result)
}

// inDoubtFault turns the error of a call that may have had effects into IN_DOUBT, so that the call is not repeated automatically. It
// does so if the tool must be called at most once, and the call was sent but not answered. It returns any other error unchanged.
func (t *outsideTool) inDoubtFault(err error) error {
	coded, ok := errors.AsType[*fault.Error](err)
	if !ok || !errors.Is(err, registry.ErrUnanswered) || !t.Spec().Effect.AtMostOnce() {
		return err
	}
	if coded.Code != fault.ToolUnavailable && coded.Code != fault.Timeout {
		return err
	}
	return fault.Wrap(fault.InDoubt, err, coded.Message+"; it may have happened").
		WithHint("find out whether it did, then decide: orch resolve")
}

// escapeFault escapes the message of a fault, which may contain texts of a server.
func escapeFault(err error) error {
	coded, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return err
	}
	clean := *coded
	clean.Message = escape(coded.Message, maxDescription)
	return &clean
}

// joinOrStart waits for the pending call of an earlier attempt. If there is none, it starts a call. It returns IN_DOUBT if the
// pending call was lost.
func (g *Gateway) joinOrStart(ctx context.Context, env *tools.Env, t *outsideTool, request registry.CallRequest) (registry.Reply, error) {
	call := Call{Task: env.Task, Step: env.Step}
	f := g.pendingCalls.get(call.key())
	if f == nil {
		if wasLost(env, t, request) {
			return registry.Reply{}, fault.New(fault.InDoubt, "%s was asking when its connection ended; it may have happened", t.Spec().Name).
				WithHint("find out whether it did, then decide: orch resolve")
		}
		f = g.startCall(call, env.Answers, request)
	}
	return g.attend(ctx, env, call.key(), f)
}

// wasLost reports whether an earlier attempt has started the call, its pending call was lost, for example in a restart, and the
// call must not be repeated unless a person decides so.
func wasLost(env *tools.Env, t *outsideTool, request registry.CallRequest) bool {
	return !env.Anew && len(env.Answers) > 0 && request.Task == nil && request.Answers == nil && t.Spec().Effect.AtMostOnce()
}

// cancelTask requests a server to cancel a task if ctx was cancelled or has timed out. It does nothing if only this process ends,
// because the next process continues to wait for the task.
func (g *Gateway) cancelTask(ctx context.Context, server string, task json.RawMessage) {
	if code := fault.CodeOf(context.Cause(ctx)); code != fault.Cancelled && code != fault.Timeout {
		return
	}
	g.endTask(ctx, server, task)
}

func parseNote(raw json.RawMessage) (note, error) {
	var n note
	if len(raw) > 0 && json.Unmarshal(raw, &n) != nil {
		return n, fault.New(fault.DataLoss, "the note of the call cannot be read")
	}
	return n, nil
}

// answers returns the answers to the questions of the last round, by the keys of the server. It returns TOOL_FAILED if an answer is
// missing, that is, a sampling was declined, because a round has no answer for that.
func (n note) answers(known map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	if len(n.Keys) == 0 {
		return nil, nil //nolint:nilnil // the last attempt has asked no questions
	}
	all := make(map[string]json.RawMessage, len(n.Keys))
	for key, serverKey := range n.Keys {
		if answer := known[key]; len(answer) > 0 && string(answer) != "null" {
			all[serverKey] = answer
			continue
		}
		return nil, fault.New(fault.ToolFailed, "what the server asked for was declined")
	}
	return all, nil
}

// questions returns the questions of a round as *tools.Asking, or another error if a question cannot be asked. known are the answers
// of earlier rounds, by question key.
func (note) questions(reply registry.Reply, known map[string]json.RawMessage) error {
	next := note{State: []byte(reply.State), Keys: map[string]string{}}
	asking := &tools.Asking{}
	for _, a := range reply.Asks {
		q, err := questionOf(a.Method, a.Params)
		if err != nil {
			return fault.New(fault.ToolFailed, "the server asks what cannot be asked: %s", fault.From(err).Message)
		}
		for n := 0; known[q.Key] != nil || next.Keys[q.Key] != ""; n++ {
			q.Key = q.Kind + "_" + digest(encode([]any{q.Params, n}))[:16]
		}
		next.Keys[q.Key] = a.Key
		asking.Questions = append(asking.Questions, q)
	}
	asking.Note = encode(next)
	return asking
}

// checkRecorded checks that the catalogue still contains a tool with the definition for which the call was permitted. It returns
// CONFLICT if the definition has changed, TOOL_UNAVAILABLE if the tool was removed, or the error of a refused tool.
func (g *Gateway) checkRecorded(t *outsideTool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.IndexFunc(g.present[t.Server], func(present *outsideTool) bool { return present.Tool == t.Tool })
	if i < 0 {
		return fault.New(fault.ToolUnavailable, "the server %s does not offer %s any more", t.Server, t.Tool).WithHint("orch mcp test %s", t.Server)
	}
	present := g.present[t.Server][i]
	switch {
	case present.Refused != nil:
		return present.Refused
	case present.pinned != t.pinned, present.Spec().Effect != t.Spec().Effect:
		return t.changedFault()
	}
	return nil
}

// checkOffered returns CONFLICT if the definition of the tool on the connection differs from the one for which the call was
// permitted. It is used as registry.CallRequest.Fit.
func (t *outsideTool) checkOffered(offered *registry.Tool) error {
	if t.verified.Load() == offered {
		return nil
	}
	if digest(pinnedPart(offered)) != t.pinned {
		return t.changedFault()
	}
	t.verified.Store(offered)
	return nil
}

func (t *outsideTool) changedFault() error {
	return fault.New(fault.Conflict, "the definition of %s has changed since the call was judged", t.Spec().Name).WithHint("call it again")
}
