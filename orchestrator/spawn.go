package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// This file handles child tasks that calls start (TASK_SPAWN). A worker reports the plan of the child instead of a result. From
// then on no worker holds the call, and it ends when the child ends. A child never has more access than the task that started
// it (S0-181).

const spawnedStatus = string(statemachine.Done)

// acceptSpawn checks the child that a call starts and stores its large values. If the child is invalid, acceptSpawn sets the
// error of the outcome. It returns only errors that do not concern the child.
func (ws *workSource) acceptSpawn(ctx context.Context, r *work.Outcome) (*events.Spawned, error) {
	var err error
	var spawned *events.Spawned
	if r.Spawn != nil && r.Error == nil && r.ApprovalRequest == nil {
		spawned, err = ws.checkSpawn(ctx, r.Spawn)
	}
	if permanent(err) {
		r.Error, r.Class, r.Spawn, err = fault.From(err), fault.ClassInvalidArgs, nil, nil
	}
	return spawned, err
}

func (ws *workSource) checkSpawn(ctx context.Context, s *work.Spawn) (*events.Spawned, error) {
	if s.Agent == "" || len(s.Agent) > maxText {
		return nil, fault.New(fault.ValidationError, "must be 1 to %d bytes", maxText).WithField("subagent_type")
	}
	prog, err := ws.compiler.programFrom(source{text: s.Plan, file: cmp.Or(s.File, "plan"), internal: s.File == ""})
	if err != nil {
		return nil, inFile(s.File, err)
	}
	inputs, err := ws.clean.inputs(prog, s.Inputs)
	if err != nil {
		return nil, inFile(s.File, err)
	}
	spawned := &events.Spawned{Agent: s.Agent}
	if spawned.Plan, err = ws.blobs.offload(ctx, prog.text); err == nil {
		spawned.Inputs, err = ws.blobs.offload(ctx, inputs)
	}
	return spawned, err
}

// inFile adds the name of the file to an error. INVALID_PLAN errors contain it already.
func inFile(file string, err error) error {
	if file == "" || fault.Has(err, fault.InvalidPlan) {
		return err
	}
	named := *fault.From(err)
	named.Message = file + ": " + named.Message
	return &named
}

// bind sets the bounds of a child that a call of the task starts: the resources that the plan of the task allows, and the time
// left for the call.
func (e *entry) bind(step string, child *submitExtra) {
	allow := events.Allow{}
	if own := allowOf(e); own != nil {
		allow = *own
	}
	child.within = append(slices.Clone(child.within), allow)
	child.deadline = e.task.Submitted.Deadline
	if s := e.task.Steps[step]; s.Timeout > 0 {
		child.deadline = earliest(child.deadline, new(events.Time(s.CalledAt.Add(s.Timeout))))
	}
	if s := e.task.Steps[statemachine.AgentOf(step)]; s.Agent != nil {
		child.deadline = earliest(child.deadline, s.Agent.Spec.Until)
	}
}

func earliest(a, b *time.Time) *time.Time {
	if a == nil || (b != nil && b.Before(*a)) {
		return b
	}
	return a
}

// toolsFor returns the tools that a task may call: those in `limits.tools` of its plan that the parent task may call as well
// (above). nil means any tool. It returns FORBIDDEN if the plan calls any other tool.
func toolsFor(p *plan.Plan, above []string) ([]string, error) {
	allowed := above
	if own := p.Limits.Tools; len(own) > 0 {
		allowed = own
		if len(above) > 0 {
			allowed = slices.DeleteFunc(slices.Clone(own), func(name string) bool { return !slices.Contains(above, name) })
		}
		if len(allowed) == 0 {
			return nil, fault.New(fault.Forbidden, "none of the tools in `limits.tools` is one that the task above may call").WithField("plan")
		}
	}
	if len(allowed) == 0 {
		return nil, nil // any tool
	}
	for _, name := range p.Tools() {
		if !decide.MayCall(allowed, name) {
			return nil, fault.New(fault.Forbidden, "the plan calls %s, which is not among the tools that the task may call", name).
				WithField("plan").WithHint("they are %s: see `limits.tools` of the plan and of those above it", strings.Join(allowed, ", "))
		}
	}
	return allowed, nil
}

// Callable returns the tools that a task may call. An empty list means any tool.
func (rd *reader) Callable(ctx context.Context, id events.TaskID) ([]string, error) {
	var names []string
	err := rd.engine.inspect(ctx, id, func(e *entry) error { names = slices.Clone(e.task.Submitted.Tools); return nil })
	return names, err
}

// notifySpawner reports the end of a child to the call that started it (S0-180). mu must be held.
func (en *engine) notifySpawner(e *entry, c endedChild) {
	parent, child := c.parent, c.id
	switch e.task.State {
	case statemachine.Done:
		report := reportOf(e)
		en.outbox = append(en.outbox, func() {
			en.background(func(ctx context.Context) { en.finishSpawn(ctx, c, report) }, func() {})
		})
	case statemachine.Cancelled:
		why := childFault(child, nil)
		en.childEndedLocked(c, func(t *decide.Turn) {
			t.Emit(events.StepFailed, &events.StepError{Step: parent.Step, Attempt: t.Task.Steps[parent.Step].Attempt, Error: why, Class: fault.ClassCancelled, Duration: t.Elapsed(parent.Step)})
		})
	default:
		why := childFault(child, e.task.Error)
		en.childEndedLocked(c, func(t *decide.Turn) {
			t.Attempts().Failed(t.Task.Steps[parent.Step], why, fault.ClassChild, t.Elapsed(parent.Step))
		})
	}
}

// reportOf returns the final report of a child: its outputs, or the result of its last step if its plan has no outputs.
func reportOf(e *entry) events.Value {
	p := e.plan.Program.Plan()
	if p == nil || len(p.Outputs) > 0 {
		return e.task.Output
	}
	if last := e.task.Steps[p.Steps[len(p.Steps)-1].ID]; last != nil {
		return last.Output
	}
	return events.Value{}
}

// finishSpawn makes the report of a child the result of the call that started it.
func (en *engine) finishSpawn(ctx context.Context, c endedChild, report events.Value) {
	parent := c.parent
	output, raw, err := en.blobs.spawnOutput(ctx, c.id, report)
	switch {
	case lost(err):
		en.childEnded(c, func(t *decide.Turn) {
			t.Attempts().Failed(t.Task.Steps[parent.Step], decide.Unreadable(err), fault.ClassChild, t.Elapsed(parent.Step))
		})
	case err != nil:
		en.cfg.Logger.WarnContext(ctx, "report_not_brought", slog.Any("task", parent.Task), slog.Any("step", parent.Step), slog.Any("error", err))
		en.lock()
		defer en.unlock()
		en.wakeLater(parent.Task)
	default:
		en.childEnded(c, func(t *decide.Turn) {
			t.Attempts().Succeeded(t.Task.Steps[parent.Step], output, raw, t.Elapsed(parent.Step))
		})
	}
}

// spawnOutput returns the output of TASK_SPAWN (O-1). Outputs with a single field `report` are replaced by that field.
func (bs *blobStore) spawnOutput(ctx context.Context, child events.TaskID, report events.Value) (events.Value, json.RawMessage, error) {
	raw, err := bs.fetch(ctx, report)
	if err != nil {
		return events.Value{}, nil, err
	}
	var only map[string]json.RawMessage
	if json.Unmarshal(raw, &only) == nil && len(only) == 1 && only["report"] != nil {
		raw = only["report"]
	}
	if len(raw) == 0 {
		raw = json.RawMessage("null")
	}
	raw = decide.MustJSON(struct {
		TaskID events.TaskID   `json:"task_id"`
		Status string          `json:"status"`
		Report json.RawMessage `json:"report"`
	}{child, spawnedStatus, raw})
	output, err := bs.offload(ctx, raw)
	return output, raw, err
}

// childFault returns the error for a step after its child failed or was cancelled. failure is nil if the child was cancelled.
func childFault(child events.TaskID, failure *fault.Error) *fault.Error {
	if failure == nil {
		return fault.New(fault.Cancelled, "the child task %s was cancelled", child)
	}
	e := fault.New(failure.Code, "child task %s: %s", child, failure.Message)
	e.Hint = failure.Hint
	return e
}

// clientOfChild returns the client of a child task: the roots of the parent's client, and its model (see clientmodel.go). The
// client answers no other questions of a child.
func clientOfChild(c *events.Client) *events.Client {
	if c == nil {
		return nil
	}
	child := &events.Client{Roots: c.Roots}
	for _, kind := range c.Asks {
		if kind == events.Sampling || kind == events.SamplingTools {
			child.Asks = append(child.Asks, kind)
		}
	}
	if len(child.Roots) == 0 && len(child.Asks) == 0 {
		return nil
	}
	return child
}
