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
	// Task is the handle of the task that the server has made of the call. Task and State are chosen by the server: as
	// bytes they do not look like secrets, which the log would redact.
	Task []byte `json:"task,omitempty"`
	// State continues a call of several rounds, with the answers to its questions: key of the question → key of the
	// server.
	State []byte            `json:"state,omitempty"`
	Keys  map[string]string `json:"keys,omitempty"`
}

// call makes one attempt of a call.
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
		Fit: t.checkOffered,
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

// inDoubtFault turns the error of a call that may have had effects into IN_DOUBT, so that it is not repeated automatically: it was sent,
// it has effects, and there was no answer.
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

// escapeFault escapes the texts of a server in an error.
func escapeFault(err error) error {
	coded, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return err
	}
	clean := *coded
	clean.Message = escape(coded.Message, maxDescription)
	return &clean
}

// joinOrStart joins the pending call of an earlier attempt, or starts a new one.
func (g *Gateway) joinOrStart(ctx context.Context, env *tools.Env, t *outsideTool, request registry.CallRequest) (registry.Reply, error) {
	of := Call{Task: env.Task, Step: env.Step}
	f := g.pendingCalls.get(of.key())
	if f == nil {
		if lost(env, t, request) {
			return registry.Reply{}, fault.New(fault.InDoubt, "%s was asking when its connection ended; it may have happened", t.Spec().Name).
				WithHint("find out whether it did, then decide: orch resolve")
		}
		f = g.startCall(of, env.Answers, request)
	}
	return g.attend(ctx, env, of.key(), f)
}

// lost reports whether an earlier attempt has started the call on a connection that was lost, and the call must not be repeated
// unless a person decides so.
func lost(env *tools.Env, t *outsideTool, request registry.CallRequest) bool {
	return !env.Anew && len(env.Answers) > 0 && request.Task == nil && request.Answers == nil && t.Spec().Effect.AtMostOnce()
}

// cancelTask asks a server to cancel a task that nobody waits for, unless only this process ends: then the next process
// waits for it.
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

// answers returns the answers to the questions of the last round, by the keys of the server. A round cannot express a declined
// sampling: the call ends.
func (n note) answers(known map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	if len(n.Keys) == 0 {
		return nil, nil //nolint:nilnil // a call without rounds
	}
	all := make(map[string]json.RawMessage, len(n.Keys))
	for ours, theirs := range n.Keys {
		if answer := known[ours]; len(answer) > 0 && string(answer) != "null" {
			all[theirs] = answer
			continue
		}
		return nil, fault.New(fault.ToolFailed, "what the server asked for was declined")
	}
	return all, nil
}

// questions returns the questions of a round as an error.
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

// checkRecorded returns TOOL_DISABLED if the definition of a tool differs from the one for which the call was permitted.
func (g *Gateway) checkRecorded(t *outsideTool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.IndexFunc(g.present[t.Server], func(now *outsideTool) bool { return now.Tool == t.Tool })
	if i < 0 {
		return fault.New(fault.ToolUnavailable, "the server %s does not offer %s any more", t.Server, t.Tool).WithHint("orch mcp test %s", t.Server)
	}
	now := g.present[t.Server][i]
	switch {
	case now.Refused != nil:
		return now.Refused
	case now.pinned != t.pinned, now.Spec().Effect != t.Spec().Effect:
		return t.changedFault()
	}
	return nil
}

// checkOffered returns CONFLICT if the tool that a server offers differs from the one for which the call was permitted.
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
