package plantest

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/index"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// Root is the value of task.root in expressions.
const Root = "/project"

const (
	worker = "test"
	// patience bounds the real time of a case. A case that takes longer loops forever.
	patience = time.Minute
	// maxRounds bounds how often the clock jumps.
	maxRounds = 100_000
)

// Outcome is the result of a case.
type Outcome struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Differences are the differences from the expected outcome.
	Differences []Difference       `json:"differences,omitempty"`
	State       statemachine.State `json:"state,omitempty"`
	Outputs     json.RawMessage    `json:"outputs,omitempty"`
	Error       *fault.Error       `json:"error,omitempty"`
	// Steps are the states of all steps.
	Steps map[string]string `json:"steps,omitempty"`
	// Took is the duration by the clock of the case.
	Took string `json:"took,omitempty"`
}

// run is a running case.
type run struct {
	*orchestrator.Orchestrator

	c     Case
	plan  *plan.Plan
	tools orchestrator.Catalogue
	clock atomic.Pointer[time.Time]
	began time.Time
	id    events.TaskID
	// made counts the answered calls by task and step.
	made map[string]int
	// parents maps tasks to the run steps that spawned them.
	parents map[events.TaskID]string
	// args are the arguments of the last call of each step.
	args map[string]any
	// missed are the differences that were found while the case ran.
	missed []Difference
	// expiring are the approvals that nobody decides.
	expiring map[string]bool
}

// Run runs one case of a file.
func Run(ctx context.Context, f *File, c Case, p *plan.Plan, tools orchestrator.Catalogue) (Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r := &run{c: c, plan: p, tools: catalogue{tools}, began: f.Now, made: map[string]int{}, parents: map[events.TaskID]string{}, args: map[string]any{}, expiring: map[string]bool{}}
	r.clock.Store(&f.Now)
	stop, err := r.start(ctx)
	if err != nil {
		return Outcome{}, err
	}
	defer stop()
	if err := r.checkNames(); err != nil {
		return Outcome{}, err
	}
	if err := r.submit(ctx); err != nil {
		return r.rejected(err), nil
	}
	if err := r.drive(ctx); err != nil {
		return Outcome{}, err
	}
	return r.outcome(ctx)
}

// start starts an orchestrator on a log in memory.
func (r *run) start(ctx context.Context) (stop func(), err error) {
	log := memlog.New(memlog.Config{})
	var seed [32]byte
	r.Orchestrator, err = orchestrator.New(orchestrator.Config{
		Log: log, Blobs: log, Checkpoints: log, Catalogue: r.tools, Lists: index.NewOpen(),
		Clock: func() time.Time { return *r.clock.Load() }, Random: func() float64 { return 0 }, Entropy: rand.NewChaCha8(seed),
		Limits: orchestrator.Limits{Lease: 24 * time.Hour, ArchiveAfter: 100 * 365 * 24 * time.Hour}, Root: Root, Secrets: r.plan.SecretSources(),
		Workspace: func(_ string, id events.TaskID) string { return Root + "/Working/" + string(id) },
		Program: func(_, name string) (events.Program, error) {
			return events.Program{Path: name, SHA256: strings.Repeat("0", 64)}, nil
		},
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	ended, owner := make(chan error, 1), r.Orchestrator
	group.Go(func() { ended <- owner.Run(ctx) })
	stop = func() { cancel(); group.Wait() }
	select {
	case <-r.Ready():
		return stop, nil
	case err := <-ended:
		stop()
		return nil, err
	}
}

func (r *run) submit(ctx context.Context) error {
	request := api.SubmitRequest{Plan: r.plan.JSON(), Actor: "user:tester"}
	if r.c.Inputs != nil {
		inputs, err := rawOf(r.c.Inputs)
		if err != nil {
			return err
		}
		request.Inputs = inputs
	}
	if err := r.setOrigin(&request); err != nil {
		return err
	}
	reply, err := r.Submit(ctx, request)
	if err != nil {
		return err
	}
	r.id = reply.ID
	return r.signal(ctx)
}

// setOrigin sets the delivery or the firing of the case.
func (r *run) setOrigin(request *api.SubmitRequest) error {
	if f := r.c.Schedule; f != nil {
		request.Schedule = &events.Firing{Name: cmp.Or(f.Name, unnamed), Time: f.Time.UTC()}
		if f.Time.IsZero() {
			request.Schedule.Time = r.began
		}
	}
	h := r.c.Hook
	if h == nil {
		return nil
	}
	body, err := rawOf(h.Body)
	if err != nil {
		return err
	}
	request.Hook = &events.Delivery{
		Name: cmp.Or(h.Name, unnamed), ID: cmp.Or(h.ID, unnamed), Subject: h.Subject, Headers: map[string]string{}, Body: events.Inline(body),
	}
	for name, value := range h.Headers {
		request.Hook.Headers[strings.ToLower(name)] = value
	}
	return nil
}

// unnamed is the name of a hook or a schedule, and the id of a delivery, that a case does not name.
const unnamed = "test"

// signal sends the signals of the case.
func (r *run) signal(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(r.c.Signals)) {
		data, err := rawOf(r.c.Signals[name])
		if err != nil {
			return err
		}
		if _, err := r.Signal(ctx, api.SignalRequest{ID: r.id, Name: name, Data: data, Actor: "user:tester"}); err != nil {
			return err
		}
	}
	return nil
}

// drive answers calls, decides approvals and advances the clock until the task has ended or nothing more can happen.
func (r *run) drive(ctx context.Context) error {
	for range maxRounds {
		if err := r.waitIdle(ctx); err != nil {
			return err
		}
		result, err := r.Result(ctx, api.ResultRequest{ID: r.id})
		if err != nil || result.Ended {
			return err
		}
		moved, err := r.step(ctx)
		if err != nil || !moved {
			return err
		}
	}
	return fault.New(fault.QuotaExceeded, "the case %q does not end", r.c.Name)
}

// waitIdle waits until the orchestrator is idle.
func (r *run) waitIdle(ctx context.Context) error {
	for !r.Quiet() {
		select {
		case <-ctx.Done():
			return fault.New(fault.Timeout, "the case %q takes longer than %s", r.c.Name, patience)
		case <-time.After(20 * time.Microsecond):
		}
	}
	return nil
}

// step performs one action that the task waits for. It returns false if there is none.
func (r *run) step(ctx context.Context) (moved bool, err error) {
	if moved, err = r.work(ctx); moved || err != nil {
		return moved, err
	}
	if moved, err = r.decide(ctx); moved || err != nil {
		return moved, err
	}
	next, ok := r.NextTimer()
	if !ok {
		return false, nil
	}
	if next.After(*r.clock.Load()) {
		r.clock.Store(&next)
	}
	r.WakeDue()
	return true, nil
}

// decide decides the pending approvals as specified in the case.
func (r *run) decide(ctx context.Context) (moved bool, err error) {
	open, err := r.Approvals(ctx, api.ApprovalsRequest{})
	if err != nil {
		return false, err
	}
	for _, a := range open.Approvals {
		if r.expiring[a.ID] {
			continue
		}
		d, ok := r.c.Approvals[a.Step]
		if !ok {
			r.missed = append(r.missed, Difference{At: "approvals." + a.Step, Got: a.Description, Note: "the case does not say how it is decided"})
		}
		if !ok || d.As == expire {
			r.expiring[a.ID] = true
			continue
		}
		if err := r.decideOne(ctx, a.ID, d); err != nil {
			r.missed = append(r.missed, Difference{At: "approvals." + a.Step, Want: d.As, Got: fault.From(err).Sentence()})
			r.expiring[a.ID] = true
		}
		moved = true
	}
	return moved, nil
}

// decideOne decides one approval.
func (r *run) decideOne(ctx context.Context, id string, d Decision) error {
	request := api.DecideRequest{ID: id, As: d.As, Reason: d.Reason, Actor: d.By}
	if d.Form != nil {
		form, err := rawOf(d.Form)
		if err != nil {
			return err
		}
		request.Form = form
	}
	_, err := r.Decide(ctx, request)
	return err
}

// work reports results for the calls that are ready.
func (r *run) work(ctx context.Context) (moved bool, err error) {
	batch, err := r.Poll(ctx, work.Poll{Worker: worker, Free: 64, Queues: queues(r.plan)})
	if err != nil {
		return false, err
	}
	for _, call := range batch.Calls {
		if err := r.findParent(ctx, call.Task); err != nil {
			return false, err
		}
		now := *r.clock.Load()
		if err := r.Start(ctx, work.Started{Ref: call.Ref, Worker: worker}); err != nil {
			return false, err
		}
		outcome := work.Outcome{Ref: call.Ref, Worker: worker, StartedAt: now}
		r.answer(call, &outcome)
		if err := r.Report(ctx, outcome); err != nil {
			return false, err
		}
	}
	return len(batch.Calls) > 0, nil
}

// findParent records the step that spawned a task.
func (r *run) findParent(ctx context.Context, id events.TaskID) error {
	if _, known := r.parents[id]; known || id == r.id {
		return nil
	}
	child, err := r.Get(ctx, api.GetRequest{ID: id})
	if err != nil {
		return err
	}
	parent, err := r.Get(ctx, api.GetRequest{ID: child.Parent})
	if err != nil {
		return err
	}
	for _, s := range parent.Steps {
		if s.Child == id {
			all := names(s.Key)
			r.parents[id] = all[len(all)-1]
		}
	}
	return nil
}

// queues returns the default queue and the queues in a plan and its sub-plans.
func queues(p *plan.Plan) []string {
	all := []string{"default"}
	for _, q := range p.Queues() {
		if !slices.Contains(all, q) {
			all = append(all, q)
		}
	}
	return all
}

// answer sets the outcome of a call to its result in the case.
func (r *run) answer(call *work.Call, out *work.Outcome) {
	r.args[call.Step] = plain(call.Args)
	if t, ok := r.tools.Get(call.Tool); ok {
		if _, err := t.Check(call.Args); err != nil {
			out.Error, out.Class = fault.From(err), fault.ClassInvalidArgs
			return
		}
	}
	results, ok := r.resultsFor(call)
	if !ok {
		r.missed = append(r.missed, Difference{At: "results." + call.Step, Got: call.Tool, Note: "the case has no result for this call"})
		out.Error, out.Class = fault.New(fault.ToolUnavailable, "the test has no result for a call of %s", call.Tool), fault.ClassDenied
		return
	}
	key := string(call.Task) + call.Step
	result := results[min(r.made[key], len(results)-1)]
	r.made[key]++
	if result.Error != nil {
		out.Error, out.Class = result.Error.fault()
		return
	}
	raw, err := rawOf(result.Output)
	if err != nil {
		out.Error, out.Class = fault.From(err), fault.ClassToolError
		return
	}
	out.Output = raw
}

// fault returns the error of a call and its class.
func (e *Error) fault() (err *fault.Error, class string) {
	code := fault.ToolFailed
	for _, entry := range fault.Registry() {
		if string(entry.Code) == e.Code {
			code = entry.Code
		}
	}
	message, class := e.Message, e.Class
	if message == "" {
		message = "the test says so"
	}
	if class == "" {
		class = fault.ClassToolError
	}
	return fault.New(code, "%s", message), class
}

// resultsFor returns the results for a call. It looks for its full step key, then for the step id, then for the tool.
func (r *run) resultsFor(call *work.Call) (Results, bool) {
	own := names(call.Step)
	for _, name := range slices.Concat(withPrefix(r.parents[call.Task], own), own, []string{call.Tool}) {
		if results, ok := r.c.Results[name]; ok {
			return results, true
		}
	}
	return nil, false
}

// withPrefix adds the id of a run step as a prefix to step names of its sub-plan.
func withPrefix(parent string, names []string) []string {
	if parent == "" {
		return nil
	}
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = parent + "." + name
	}
	return all
}

// names returns the names of a step, such as each[0].call, each.call and call.
func names(key string) []string {
	each, id, inner := strings.Cut(key, "].")
	if !inner {
		return []string{key}
	}
	outer, _, _ := strings.Cut(each, "[")
	return []string{key, outer + "." + id, id}
}

// rejected returns the outcome of a case if its submission was rejected.
func (r *run) rejected(err error) Outcome {
	f := fault.From(err)
	o := Outcome{Name: r.c.Name, Error: f}
	if want := r.c.Expect.Error; want == "" || !strings.Contains(f.Sentence(), want) {
		o.Differences = []Difference{{At: "submit", Want: want, Got: f.Sentence()}}
	}
	o.OK = len(o.Differences) == 0
	return o
}

// outcome compares the state of the task with the expected one.
func (r *run) outcome(ctx context.Context) (Outcome, error) {
	view, err := r.Get(ctx, api.GetRequest{ID: r.id})
	if err != nil {
		return Outcome{}, err
	}
	result, err := r.Result(ctx, api.ResultRequest{ID: r.id})
	if err != nil {
		return Outcome{}, err
	}
	o := Outcome{
		Name: r.c.Name, State: result.State, Outputs: result.Output, Error: result.Error, Steps: map[string]string{},
		Took: r.clock.Load().Sub(r.began).String(),
	}
	for _, s := range view.Steps {
		o.Steps[s.Key] = string(s.State)
	}
	o.Differences = slices.Concat(r.missed, r.compare(o, view.Reason))
	o.OK = len(o.Differences) == 0
	return o, nil
}

// compare returns the differences from the expected outcome.
func (r *run) compare(o Outcome, reason string) []Difference {
	var all []Difference
	want := r.c.Expect
	state := want.State
	if state == "" {
		state = string(statemachine.Done)
	}
	message := ""
	if o.Error != nil {
		message = o.Error.Sentence()
	}
	if state != string(o.State) {
		note := message
		if note == "" {
			note = reason
		}
		all = append(all, Difference{At: "state", Want: state, Got: o.State, Note: note})
	}
	if want.Error != "" && !strings.Contains(message, want.Error) {
		all = append(all, Difference{At: "error", Want: want.Error, Got: message})
	}
	if want.Outputs != nil {
		all = append(all, differences("outputs", plain(want.Outputs), plain(o.Outputs))...)
	}
	for _, step := range slices.Sorted(maps.Keys(want.Steps)) {
		if got, ok := o.Steps[step]; want.Steps[step] != got {
			d := Difference{At: "steps." + step, Want: want.Steps[step], Got: got}
			if !ok {
				d.Note = "there is no such step"
			}
			all = append(all, d)
		}
	}
	for _, step := range slices.Sorted(maps.Keys(want.Calls)) {
		all = append(all, differences("calls."+step, plain(want.Calls[step]), r.args[step])...)
	}
	if took, err := time.ParseDuration(want.Took); err == nil && took.String() != o.Took {
		all = append(all, Difference{At: "took", Want: took.String(), Got: o.Took})
	}
	return all
}
