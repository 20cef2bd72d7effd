package worker

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// The sizes in bytes to which texts are cut that leave the worker.
const (
	maxName    = 64
	maxMessage = 4 << 10
)

// result is what a tool that succeeded has returned and recorded, without secrets.
type result struct {
	output json.RawMessage
	facts  []events.Event
	values map[string]json.RawMessage
	spawn  *work.Spawn
	with   *work.With
}

// conclude makes the outcome, notes it in the workspace and hands it over.
func (w *Worker) conclude(ctx context.Context, a *attempt, res result, err error) {
	close(a.over)
	w.showRest(ctx, a)
	o := work.Outcome{
		Ref: a.Ref, Worker: w.cfg.Name, StartedAt: events.Time(a.began), Duration: w.cfg.Clock().Sub(a.began),
		Effect: a.resolved(),
	}
	if err == nil {
		o.Output, o.Facts, o.Values, o.Spawn, o.With = res.output, res.facts, res.values, res.spawn, res.with
	} else {
		w.failed(ctx, a, &o, err)
	}
	if fault.Has(err, fault.RateLimited) && a.Recent > 0 {
		o.RetryAfter = a.RetryAfter
	}
	w.note(ctx, a, o)
	a.finish(o)
}

// failed makes the outcome of a call without a result: it waits for an approval or for answers, goes on elsewhere, or
// has failed.
func (w *Worker) failed(ctx context.Context, a *attempt, o *work.Outcome, err error) {
	if waits, ok := errors.AsType[*approvalError](err); ok {
		o.Ask = w.publicAsk(a, waits.ask)
		return
	}
	if asking, ok := errors.AsType[*tools.Asking](err); ok {
		for _, q := range asking.Questions {
			o.Questions = append(o.Questions, work.Question(q))
		}
		o.Note = asking.Note
		return
	}
	if noted, ok := errors.AsType[*tools.Noted](err); ok {
		o.Note = noted.Note
		return
	}
	o.Error, o.Class = w.public(ctx, a, err), classify(err)
}

// Vet checks the size of an output that somebody else has made, and takes the secrets out. VALIDATION_ERROR.
func (w *Worker) Vet(output json.RawMessage) (json.RawMessage, error) { return w.vet(nil, output) }

func (w *Worker) vet(a *attempt, output json.RawMessage) (json.RawMessage, error) {
	if len(output) > w.cfg.MaxOutput {
		return nil, tooLarge("output", w.cfg.MaxOutput)
	}
	if clean, found := w.redact(a, output); found {
		output = clean
	}
	if len(output) > 0 && !json.Valid(output) {
		return nil, fault.New(fault.Internal, "the tool returned no valid JSON")
	}
	if events.Nesting(output) > maxDepth {
		return nil, fault.New(fault.ValidationError, "is nested more than %d deep", maxDepth).WithField("output").
			WithReason("SIZE_LIMIT_EXCEEDED").WithHint("return it as a text, or in a file")
	}
	return output, nil
}

// maxDepth bounds how deep an output is nested. The log holds it inside of a commit, which has to be read again, and people
// see it indented.
const maxDepth = 256

// inspect checks what a tool has returned and recorded, and takes the secrets out.
func (w *Worker) inspect(a *attempt, output json.RawMessage) (result, error) {
	output, err := w.vet(a, output)
	if err != nil {
		return result{}, err
	}
	res := result{output: output, facts: a.takeFacts()}
	limit := min(w.cfg.MaxOutput, work.MaxFacts)
	if len(res.facts) > maxFacts {
		return result{}, tooLarge("facts", limit)
	}
	room := limit
	for i := range res.facts {
		aside := w.setAside(a, &res, i)
		size, err := w.inspectFact(a, &res.facts[i])
		if err != nil {
			return result{}, err
		}
		if room -= size + aside; room < 0 {
			return result{}, tooLarge("facts", limit)
		}
	}
	return w.withChild(a, res)
}

// withChild replaces the output by the child that the call has asked for, if it has.
func (w *Worker) withChild(a *attempt, res result) (result, error) {
	child := a.takeChild()
	if child == nil {
		return res, nil
	}
	if len(child.Plan)+len(child.Inputs) > w.cfg.MaxOutput {
		return result{}, tooLarge("prompt", w.cfg.MaxOutput)
	}
	text, err := json.Marshal(string(child.Plan))
	if err != nil {
		return result{}, fault.Wrap(fault.Internal, err, "the plan of the child cannot be encoded")
	}
	inputs := child.Inputs
	if clean, found := w.redact(a, inputs); found {
		inputs = clean
	}
	res.output, res.spawn = nil, &work.Spawn{Agent: child.Agent, File: child.File, Plan: text, Inputs: inputs}
	return res, nil
}

// setAside moves the large state data of a checkpoint from fact i to the values, and returns its size in
// bytes, 0 when it stays.
func (w *Worker) setAside(a *attempt, res *result, i int) int {
	c, ok := res.facts[i].Data.(*events.Checkpointed)
	if !ok || !c.State.MustOffload() {
		return 0
	}
	raw := c.State.Raw
	if clean, found := w.redact(a, raw); found {
		raw = clean
	}
	light := *c
	light.State = events.Offloaded(raw)
	if res.values == nil {
		res.values = map[string]json.RawMessage{}
	}
	res.values[light.State.Ref] = raw
	res.facts[i].Data = &light
	return len(raw)
}

// inspectFact takes the secrets out of a fact and returns its size in bytes.
func (w *Worker) inspectFact(a *attempt, fact *events.Event) (int, error) {
	data, err := json.Marshal(fact)
	if err != nil {
		return 0, fault.Wrap(fault.Internal, err, "the tool recorded something that is no valid JSON")
	}
	clean, found := w.redact(a, data)
	if !found {
		return len(data), nil
	}
	if err := json.Unmarshal(clean, fact); err != nil {
		return 0, fault.Wrap(fault.SecretDetected, err, "the tool recorded a secret")
	}
	return len(clean), nil
}

func tooLarge(field string, limit int) error {
	return fault.New(fault.ValidationError, "is larger than %d bytes", limit).
		WithField(field).WithReason("SIZE_LIMIT_EXCEEDED").WithHint("ask for less at a time")
}

// public returns the error as it may leave the worker: coded, of bounded size, without secrets and
// without its cause, which only goes to the log.
func (w *Worker) public(ctx context.Context, a *attempt, err error) *fault.Error {
	known := fault.From(err)
	if known.Err != nil {
		w.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "a call failed", append(a.about(nil),
			slog.String("code", string(known.Code)), slog.String("cause", w.clean(a, known.Err.Error())))...)
	}
	return &fault.Error{
		Code: known.Code, Message: w.clean(a, known.Message), Reason: w.clean(a, known.Reason),
		Field: w.clean(a, known.Field), Hint: w.clean(a, known.Hint), RetryAt: known.RetryAt,
	}
}

// publicAsk returns a request for approval as it may leave the worker.
func (w *Worker) publicAsk(a *attempt, ask work.Ask) *work.Ask {
	ask.Reason = w.clean(a, ask.Reason)
	for i, name := range ask.Impact {
		ask.Impact[i] = w.clean(a, name)
	}
	return &ask
}

// clean returns a text for people without secrets and not too long.
func (w *Worker) clean(a *attempt, text string) string {
	if text == "" {
		return text
	}
	clean, _ := w.redact(a, []byte(text))
	return cut(string(clean), maxMessage)
}

// cut shortens text to at most limit bytes and an ellipsis.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

// note adds the call to PROGRESS.md if it got a workspace and did more than read, and checkpoints to CHECKPOINTS.md.
// The notes are for people, who look for the steps that matter (B-1): that they cannot be written does not fail a
// call. The log of the task has every call.
func (w *Worker) note(ctx context.Context, a *attempt, o work.Outcome) {
	if a.dropped.Load() {
		return
	}
	var err error
	for _, fact := range o.Facts {
		if c, ok := fact.Data.(*events.Checkpointed); ok {
			err = errors.Join(err, w.noteCheckpoint(a, w.stamp()+c.ID+" "+c.Name))
		}
	}
	if a.env.Workspace != "" && a.spec.Effect != tools.Read {
		result := "ok"
		switch {
		case o.Ask != nil:
			result = string(fault.ApprovalRequired)
		case len(o.Questions) > 0:
			result = "asks"
		case len(o.Note) > 0:
			result = "goes on elsewhere"
		case o.Error != nil:
			result = string(o.Error.Code)
		}
		line := w.stamp() + a.Step + " " + a.Tool + " " + o.Duration.Round(time.Millisecond).String() + " " + result
		err = errors.Join(err, w.workspaces.AppendProgress(a.Context(), line))
	}
	if err != nil {
		w.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "the notes of a task cannot be written", a.about(err)...)
	}
}

// noteRisk adds the checkpoint that the owner has made before a destructive call to CHECKPOINTS.md of a task that has one.
func (w *Worker) noteRisk(ctx context.Context, a *attempt, effect tools.Effect) {
	if effect != tools.Destructive || len(a.Note) > 0 || a.env.Workspace == "" {
		return
	}
	err := w.workspaces.AppendCheckpoint(a.Context(), w.stamp()+"before "+a.Step+" ("+a.Tool+")")
	if err != nil {
		w.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "the notes of a task cannot be written", a.about(err)...)
	}
}

// stamp begins a line of the notes.
func (w *Worker) stamp() string {
	return "[" + w.cfg.Clock().UTC().Format("2006-01-02T15:04:05.000Z") + "] "
}

// noteCheckpoint makes the workspace if need be: the tool for checkpoints itself needs none.
func (w *Worker) noteCheckpoint(a *attempt, line string) error {
	if _, err := w.workspaces.Ensure(a.Context(), a.place()); err != nil {
		return err
	}
	return w.workspaces.AppendCheckpoint(a.Context(), line)
}
