package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"strconv"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// A gate is one check before a tool is called. An error ends the call.
type gate func(*executor, context.Context, *attempt) error

// runChain runs a call through the gates, in this order, and then calls its tool. It is the only way to a tool (S0-002).
// Nothing before prepare changes anything.
func (x *executor) runChain(ctx context.Context, a *attempt) (res result, err error) {
	defer func() {
		if p := recover(); p != nil {
			res, err = result{}, x.panicked(ctx, a, p)
		}
	}()
	for _, step := range [...]gate{
		(*executor).lookup,
		(*executor).check,
		(*executor).admit,
		(*executor).resolve,
		(*executor).queryIntent,
		(*executor).checkTree,
		(*executor).decide,
		(*executor).prepare,
		(*executor).readSecrets,
		(*executor).announce, // with the automatic checkpoint before destructive calls (S0-171)
	} {
		if ctx.Err() != nil {
			return result{}, context.Cause(ctx)
		}
		if err := step(x, ctx, a); err != nil {
			return result{}, err
		}
	}
	if a.spec.ForAgents {
		return result{agentCall: &work.AgentCall{Args: a.args, Timeout: a.timeout()}}, nil
	}
	output, err := x.invoke(ctx, a)
	if err != nil {
		return result{}, x.cleanQuestions(a, err)
	}
	return x.cleaner.cleanResult(a, output)
}

// lookup finds the tool.
func (x *executor) lookup(_ context.Context, a *attempt) error {
	tool, spec := x.catalogue.Lookup(a.Tool)
	if tool == nil {
		err := fault.Wrap(fault.NotFound, errNoTool, fmt.Sprintf("there is no tool %q", truncate(a.Tool, maxName)))
		if near := x.catalogue.Suggest(a.Tool); near != "" {
			return err.WithHint("did you mean %s?", near)
		}
		return err
	}
	a.tool, a.spec = tool, spec
	if n, enough := x.attempts.hangs(a.spec.Name); enough {
		return fault.New(fault.ToolUnavailable, "%d calls of %s still run here although they were ended", n, a.spec.Name).
			WithHint("restart the worker, and mend the tool")
	}
	return nil
}

// check applies defaults and validates the arguments (S0-005, S0-006).
func (x *executor) check(_ context.Context, a *attempt) error {
	args, err := a.tool.Check(a.Args)
	if err != nil {
		return err
	}
	a.args = args
	return nil
}

// resolve confines the path fields to the root (S0-007). If a path is left out, the tool chooses one inside the workspace
//
func (x *executor) resolve(_ context.Context, a *attempt) error {
	if len(a.spec.Paths) == 0 {
		return nil
	}
	if !events.Valid(a.args) {
		return fault.New(fault.InvalidFormat, "the arguments are not valid JSON")
	}
	a.paths = make(map[string]string, len(a.spec.Paths))
	for _, p := range a.spec.Paths {
		for field, path := range pathsOf(p.Field, tools.Member(a.args, p.Field)) {
			rel, err := confine(a.root, p.Access, path)
			if err != nil {
				return fault.From(err).WithField(field)
			}
			a.paths[field] = x.cfg.Root.Abs(rel)
		}
	}
	a.policyCall.Paths, a.env.Judged = a.paths, a.paths
	return nil
}

// pathsOf yields the paths in a field with their names: the name of the field, or "field[i]" for the paths of a list. A missing
// or empty field yields nothing.
func pathsOf(field string, value json.RawMessage) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		if path, ok := tools.Text(value); ok {
			if path != "" {
				yield(field, path)
			}
			return
		}
		var list []string
		if json.Unmarshal(value, &list) != nil {
			return // the schema check has accepted the value, but it holds no path
		}
		for i, path := range list {
			if !yield(field+"["+strconv.Itoa(i)+"]", path) {
				return
			}
		}
	}
}

func confine(root *pathguard.Root, access tools.Access, path string) (string, error) {
	if access == tools.DeletePath {
		return root.ResolveEntry(path)
	}
	return root.Resolve(path)
}

// admit sets the call as the policy sees it, and makes the checks of the policy that do not depend on the effect of the call:
// the gate of the task state and the read-only mode of the node.
func (x *executor) admit(_ context.Context, a *attempt) error {
	a.policyCall = policy.Call{
		Task: a.Task, Spec: a.spec, State: a.env.State, Args: a.args,
		Agent:     a.Requester,
		Writes:    a.Writes,
		Workspace: x.workspaces.Path(a.Context()), Recent: a.Recent, RetryAfter: a.RetryAfter,
	}
	if a.Client != nil {
		a.policyCall.Roots = a.Client.Roots
	}
	if open := a.Access; open != nil {
		a.policyCall.Allow = policy.Allow{Paths: open.Paths, Endpoints: open.Endpoints, Connections: open.Connections, Packages: open.Packages, Programs: open.Programs}
		a.policyCall.Scopes = open.Scopes
		for _, above := range open.Within {
			a.policyCall.Within = append(a.policyCall.Within, policy.Allow(above))
		}
	}
	x.access.confine(a)
	a.policyCall.Project = a.env.Project()
	if len(a.policyCall.Project) > 0 {
		a.policyCall.Start = a.env.Start()
	}
	return x.rules.Admit(&a.policyCall)
}

// queryIntent sets the intent of the call, if the tool can determine it from the arguments.
func (x *executor) queryIntent(ctx context.Context, a *attempt) error {
	tool, ok := a.tool.(tools.Intender)
	if !ok {
		return nil
	}
	env := a.env
	env.Workspace = a.policyCall.Workspace
	intent, err := tool.Intent(ctx, &env, a.args)
	if err != nil {
		return err
	}
	a.policyCall.Intent = intent
	a.env.Allows = func(t tools.Target) bool { return x.rules.AllowsTarget(&a.policyCall, t) }
	return nil
}

// decide makes the checks of the policy for limits, protected paths, secrets and approvals. It returns an approvalError for a
// call that needs an approval and has none. A grant for different arguments does not count (M-3).
func (x *executor) decide(_ context.Context, a *attempt) error {
	a.policyCall.Program = x.program(a)
	ask, err := x.rules.Decide(&a.policyCall)
	if err != nil || ask == nil {
		return err
	}
	digest, err := policy.Digest(a.spec.Name, a.args)
	if err != nil {
		return err
	}
	inState := slices.Contains(a.spec.Gate.States(), a.env.State) // a tool may ask in a state in which it must not run
	if a.Grant != nil && a.Grant.ArgsSHA256 == digest && (len(ask.Scopes) == 0 || a.Grant.Whole) && inState {
		a.env.Approval = a.Grant.ID
		return nil
	}
	return &approvalError{ask.Error(), work.ApprovalRequest{
		Rule: ask.Rule, Reason: ask.Reason, Type: ask.Type, Risk: ask.Risk, Scopes: ask.Scopes, Offers: ask.Offers,
		ArgsSHA256: digest, Impact: a.impact(),
	}}
}

// cleanQuestions removes the secrets from the questions and the note of a call. Questions that nobody could answer, and a note
// that cannot be stored, are errors of the call.
func (x *executor) cleanQuestions(a *attempt, err error) error {
	if noted, ok := errors.AsType[*tools.Noted](err); ok {
		clean := &tools.Noted{Note: x.cleaner.cleanNote(a, noted.Note)}
		if err := clean.Check(); err != nil {
			return err
		}
		return clean
	}
	asking, ok := errors.AsType[*tools.Asking](err)
	if !ok {
		return err
	}
	clean := &tools.Asking{Questions: slices.Clone(asking.Questions), Note: x.cleaner.cleanNote(a, asking.Note)}
	for i, q := range clean.Questions {
		if params, found := x.cleaner.redact(a, q.Params); found {
			clean.Questions[i].Params = params
		}
	}
	if err := clean.Check(); err != nil {
		return err
	}
	return clean
}

// hasNote reports whether an error of a tool contains a note, which must not be lost.
func hasNote(err error) bool {
	if _, ok := errors.AsType[*tools.Noted](err); ok {
		return true
	}
	asking, ok := errors.AsType[*tools.Asking](err)
	return ok && len(asking.Note) > 0
}

// approvalError ends a call that needs an approval.
type approvalError struct {
	fault *fault.Error
	ask   work.ApprovalRequest
}

// Error returns APPROVAL_REQUIRED with the reason.
func (p *approvalError) Error() string { return p.fault.Error() }

// Unwrap returns the coded error.
func (p *approvalError) Unwrap() error { return p.fault }

// prepare creates the workspace, and limits the paths that the tool can access.
func (x *executor) prepare(_ context.Context, a *attempt) error {
	x.access.hidePaths(a)
	a.env.Writable = existing(a.policyCall.Writable())
	if a.spec.NoWorkspace {
		return nil
	}
	dir, err := x.workspaces.Ensure(a.Context(), a.noteContext())
	if err != nil {
		return err
	}
	a.env.Workspace = dir
	return x.workspaces.RecordAccess(a.Context(), a.Requester)
}

// existing returns the places that exist.
func existing(places []string) []string {
	return slices.DeleteFunc(places, func(place string) bool {
		_, err := os.Lstat(place)
		return err != nil
	})
}

// announce waits until the start of a call with effects is durable. After a crash, the call is then in doubt and does not run
// twice. The effect of this particular call counts, so that a SELECT or a GET has none; if the plan declares an effect,
// the stricter of both counts. Calls without effects wait only if the owner requests it. A call that continues work outside the
// worker was announced when it started that work, and is never in doubt.
func (x *executor) announce(ctx context.Context, a *attempt) error {
	effect := x.rules.Effect(&a.policyCall)
	if effect != a.spec.Effect {
		a.effect.Store(&effect)
	}
	if a.Away {
		return nil
	}
	if !a.Announce && a.env.Approval == "" && !effect.AtMostOnce() && !a.ownerAssumesEffects() {
		return nil
	}
	a.startClock() // the owner may count from the first request
	for failures := 0; ; failures++ {
		err := x.owner.Start(ctx, work.Started{Ref: a.Ref, Worker: x.cfg.Name, Effect: string(effect), Timeout: a.timeout()})
		switch {
		case err == nil:
			x.notes.recordRisk(ctx, a, effect)
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case fault.Has(err, fault.Conflict):
			a.dropped.Store(true)
			return err
		case !transient(err):
			return err
		}
		if pause.For(ctx, backoff(failures)) != nil {
			return context.Cause(ctx)
		}
	}
}

// panicked logs a panic with its stack, and returns an error without details of it (S3-144).
func (x *executor) panicked(ctx context.Context, a *attempt, p any) error {
	x.cfg.Logger.LogAttrs(ctx, slog.LevelError, "a tool panicked", append(a.logAttrs(nil),
		slog.String("panic", x.cleaner.clean(a, fmt.Sprint(p))), slog.String("stack", x.cleaner.clean(a, string(debug.Stack()))))...)
	return fault.New(fault.Internal, "the tool failed unexpectedly").WithHint("details are in the log of the worker")
}
