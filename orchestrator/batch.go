package orchestrator

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/orchestrator/dispatch"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// maxDelivery limits the bytes of the calls in one answer to a poll. A message has at most 8 MiB.
const maxDelivery = 4 << 20

// batch fetches the large values of a delivery. Calls that do not fit into the answer return to the queue.
func (ws *workSource) batch(ctx context.Context, worker string, d dispatch.Delivery) work.Batch {
	b := work.Batch{Number: d.Number, Cancel: d.Cancel, Calls: make([]*work.Call, 0, len(d.Offers))}
	room := maxDelivery
	for i, of := range d.Offers {
		call := &of.Call
		err := ws.fill(ctx, of)
		if err == nil && callSize(call) > maxDelivery {
			err = fault.New(fault.ValidationError, "the arguments of the call and what comes with them have more than %d bytes", maxDelivery).
				WithField("args").WithReason("SIZE_LIMIT_EXCEEDED").WithHint("hand over less at a time, or the path of a file")
		}
		if err != nil {
			ws.handleUndeliverable(ctx, of.Call.Ref, worker, err)
			continue
		}
		if room -= callSize(call); room < 0 {
			ws.requeueDelivery(worker, dispatch.Delivery{Offers: d.Offers[i:]})
			break
		}
		b.Calls = append(b.Calls, call)
	}
	return b
}

// fill completes the call of an offer with everything that its worker needs.
func (ws *workSource) fill(ctx context.Context, of *dispatch.Offer) (err error) {
	call := &of.Call
	if call.Args, err = ws.blobs.fetch(ctx, of.Args); err != nil {
		return err
	}
	if call.Handed, err = ws.blobs.fetch(ctx, of.Handed); err != nil {
		return err
	}
	if call.Session != "" {
		if err = ws.addContext(ctx, of); err != nil {
			return err
		}
	}
	if call.Answers, err = ws.blobs.fetchAnswers(ctx, of.Answers); err != nil {
		return err
	}
	var named struct {
		ID string `json:"checkpoint_id"`
	}
	if len(of.Checkpoints) == 0 || json.Unmarshal(call.Args, &named) != nil {
		return nil //nolint:nilerr // the tool reports arguments without the field
	}
	i := slices.IndexFunc(of.Checkpoints, func(c events.Checkpointed) bool { return c.ID == named.ID })
	if i < 0 {
		return nil // the tool reports the unknown id
	}
	state, err := ws.blobs.fetch(ctx, of.Checkpoints[i].State)
	call.Checkpoints = map[string]json.RawMessage{named.ID: state}
	return err
}

// handleUndeliverable fails the step of a call that can never be sent to a worker. After a transient error, the call returns to
// its queue after a short delay.
func (ws *workSource) handleUndeliverable(ctx context.Context, r work.Ref, worker string, err error) {
	ws.cfg.Logger.ErrorContext(ctx, "call_undeliverable", slog.Any("task", r.Task), slog.Any("step", r.Step), slog.Any("error", err))
	class := fault.ClassInvalidArgs
	switch {
	case lost(err):
		class, err = fault.ClassExpression, decide.Unreadable(err)
	case !fault.Has(err, fault.ValidationError):
		ws.postpone(r, worker)
		return
	}
	ws.lock()
	defer ws.unlock()
	ws.engine.turn(r.Task, decide.ActorNode, func(t *decide.Turn) error {
		if s := t.Task.Steps[r.Step]; t.Holds(r, worker) && s.State == statemachine.StepReady {
			t.Emit(events.StepFailed, &events.StepError{Step: s.Key, Attempt: s.Attempt, Error: fault.From(err), Class: class})
		}
		return nil
	}, ignore)
}

// postpone shortens the lease of a call that could not be sent, so that it is requeued soon.
func (ws *workSource) postpone(r work.Ref, worker string) {
	ws.lock()
	defer ws.unlock()
	e := ws.engine.tasks[r.Task]
	if e == nil {
		return
	}
	if l := e.calls.Leases.Get(r.Step); l != nil && l.Worker == worker && l.Attempt == r.Attempt {
		l.Undelivered, l.Expires = true, ws.now().Add(catchUpAfter)
	}
}

// callSize estimates the bytes of a call in a message.
func callSize(c *work.Call) int {
	const frame, quotes = 1 << 10, 8
	size := frame + wireSize(c.Args) + wireSize(c.Handed)
	for id, state := range c.Checkpoints {
		size += len(id) + wireSize(state) + quotes
	}
	for key, answer := range c.Answers {
		size += len(key) + wireSize(answer) + quotes
	}
	for path, sum := range c.Reads {
		size += wireSize([]byte(path)) + len(sum) + quotes
	}
	return size
}

// wireSize returns the length of JSON text inside a message, where encoding/json escapes <, > and & as \u003c and so on.
func wireSize(raw []byte) int {
	const longer = len(`\u003c`) - 1
	size := len(raw)
	for _, sign := range []string{"<", ">", "&"} {
		size += longer * bytes.Count(raw, []byte(sign))
	}
	return size
}
