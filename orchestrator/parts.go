package orchestrator

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/costs"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/traces"
)

// This file runs the parts of a for_each with many items. A part is a child task with the plan and the inputs of its parent.

// parts runs the parts of the for_each of a task.
type parts struct{ *engine }

func (en *engine) parts() parts { return parts{en} }

// spawnPart creates the task of a part after its step is durable. mu must be held.
func (pa parts) spawnPart(e *entry, d *events.Spawned) {
	r := e.read()
	part := r.PartOf(d.Step)
	if part == nil {
		return
	}
	sub := pa.submissionOfPart(e, d, part)
	extra := &submitExtra{parent: sub.payload.Parent, share: sub.payload.Share, limited: sub.payload.Limited, part: part}
	origin, divided := continuedBy(e.task), e.task.Steps[part.Step].Divided
	pa.outbox = append(pa.outbox, func() {
		pa.background(func(ctx context.Context) {
			ctx, stop := context.WithTimeout(ctx, time.Minute)
			defer stop()
			var err error
			if extra.reuse, err = pa.reuseInPart(ctx, origin, d.Step, divided); err == nil {
				err = pa.blobs.share(ctx, sub.payload, part)
			}
			pa.createPartOf(ctx, sub, extra, err)
		}, func() {})
	})
}

// submissionOfPart returns the submission of a part: that of its parent, without what concerns the parent as a whole.
func (pa parts) submissionOfPart(e *entry, d *events.Spawned, part *events.Part) *submission {
	above := e.task.Submitted
	p := *above
	p.Name, p.Labels = api.PartName+decide.NameOf(e.task), nil
	p.Parent = &events.Parent{Task: e.id, Step: d.Step, Requester: pa.requester(e), Labels: costs.OriginOf(e.task).Labels, Since: sinceOf(e), Level: levelOf(above)}
	p.Parent.Trace, p.Parent.TraceState, p.TraceParent, p.TraceState = traces.Below(e.id, above), traces.StateBelow(above), "", ""
	if above.Parent != nil {
		p.Parent.Depth = above.Parent.Depth // a part is no level of its own
	}
	p.IdempotencyKey, p.KeyScope, p.Request, p.RequestSHA256, p.Concurrency = "", "", "", "", nil
	p.DependsOn, p.NotBefore, p.RetryOf, p.Via = nil, nil, "", ""
	p.KeyOf = events.TaskID(cmp.Or(string(above.KeyOf), string(e.id)))
	p.Client = clientOfChild(above.Client)
	if p.Created == nil {
		p.Created = new(createdOf(e.task))
	}
	if p.MaxSteps > 0 {
		p.MaxSteps = max(p.MaxSteps-e.task.Calls, 1)
	}
	return &submission{id: d.Child, chosen: true, prog: e.plan.Program.Part(part.Step), payload: &p}
}

// maxCopied is the size from which a value that all parts have is stored once, in bytes.
const maxCopied = 1 << 10

// createPartOf creates the task of a part, unless an error has kept it from being prepared. After an error the parent tries
// again later.
func (pa parts) createPartOf(ctx context.Context, sub *submission, extra *submitExtra, err error) {
	parent := extra.parent
	done := func(_ api.SubmitReply, err error) {
		switch whole := pa.tasks[parent.Task]; {
		case fault.Has(err, fault.Cancelled):
		case permanent(err):
			r := decide.PartResult{Error: fault.From(err), Class: fault.ClassChild}
			pa.childEndedLocked(endedChild{id: sub.id, parent: parent}, func(t *decide.Turn) { t.EndPart(parent.Step, r) })
		case err != nil:
			pa.cfg.Logger.WarnContext(ctx, "child_not_started", slog.Any("task", parent.Task), slog.Any("step", parent.Step), slog.Any("error", err))
			pa.wakeLater(parent.Task)
		case whole != nil && whole.task != nil:
			pa.syncPart(whole, parent.Step) // it may have been paused meanwhile
		}
	}
	pa.lock()
	defer pa.unlock()
	if err != nil {
		done(api.SubmitReply{}, err)
		return
	}
	pa.createPart(sub, "task:"+string(parent.Task), extra, done)
}

// syncParts makes the open parts of a task follow it after it was paused or resumed, or is ending. mu must be held.
func (pa parts) syncParts(e *entry) {
	for _, s := range e.task.In(statemachine.StepRunning) {
		if s.Parallel > 0 {
			pa.syncPart(e, s.Key)
		}
	}
}

// syncPart makes a part of a task follow it. mu must be held.
func (pa parts) syncPart(e *entry, step string) {
	pa.turn(e.task.Steps[step].Child, decide.ActorNode, func(t *decide.Turn) error {
		if e.task != nil {
			t.FollowWhole(e.read(), step)
		}
		return nil
	}, ignore)
}

// resume resumes the open parts of a task, whoever paused them, and asks their expired approvals again.
func (pa parts) resume(id events.TaskID, by string) {
	pa.lock()
	defer pa.unlock()
	e := pa.tasks[id]
	if e == nil || e.task == nil {
		return
	}
	for _, s := range e.task.In(statemachine.StepRunning) {
		if s.Parallel == 0 {
			continue
		}
		pa.turn(s.Child, by, func(t *decide.Turn) error {
			if t.Task.Paused && !t.Task.State.Terminal() {
				t.Emit(events.TaskResumed, &events.Paused{})
			}
			if !t.Task.State.Terminal() {
				t.Approvals().AskAgain(by)
			}
			return nil
		}, ignore)
	}
}

// share moves the values that all parts of a for_each have to the blob store, unless they are small.
func (bs *blobStore) share(ctx context.Context, p *events.Submitted, part *events.Part) error {
	values := []*events.Value{&p.Plan, &p.Inputs}
	if p.Hook != nil {
		p.Hook = new(*p.Hook)
		values = append(values, &p.Hook.Body)
	}
	for i := range part.Known {
		values = append(values, &part.Known[i].Output)
	}
	for _, v := range values {
		if err := bs.move(ctx, v); err != nil {
			return err
		}
	}
	return nil
}

// move moves a value to the blob store, unless it is small or there already.
func (bs *blobStore) move(ctx context.Context, v *events.Value) error {
	if v.Ref() != "" || len(v.Raw) < maxCopied {
		return nil
	}
	raw := v.Raw
	ref, err := bs.cfg.Blobs.Put(ctx, raw)
	if err != nil {
		return err
	}
	*v = events.InBlobs(ref, int64(len(raw)))
	bs.values.put(ref, raw)
	return nil
}

// partEnded reports the end of a part to the step that started it. mu must be held.
func (pa parts) partEnded(e *entry, c endedChild) {
	r := decide.ResultOfPart(e.task)
	if e.task.State != statemachine.Done && r.Class == fault.ClassChild {
		r.Error = childFault(c.id, r.Error)
	}
	pa.childEndedLocked(c, func(t *decide.Turn) { t.EndPart(c.parent.Step, r) })
}

// wholeOf returns the task of the for_each that a task is a part of; nil for any other task. mu must be held.
func (pa parts) wholeOf(e *entry) *statemachine.Task {
	if e.task.Part == nil {
		return nil
	}
	if whole := pa.tasks[decide.HomeOf(e.task)]; whole != nil {
		return whole.task
	}
	return nil
}

// readsOf returns the files that a task has read; for a part of a for_each, with those of its parent. mu must be held.
func (pa parts) readsOf(e *entry) map[string]string {
	reads := map[string]string{}
	if whole := pa.wholeOf(e); whole != nil {
		maps.Copy(reads, whole.Reads)
	}
	maps.Copy(reads, e.task.Reads)
	return reads
}
