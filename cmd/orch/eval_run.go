package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/evals"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

// The labels of the tasks of `orch eval`.
const (
	labelEval    = "eval"
	labelSet     = "eval.set"
	labelCase    = "eval.case"
	labelVariant = "eval.variant"
	labelNr      = "eval.nr"
)

// choose sets the name of the runs: that of the flag, that of an interrupted command with the same runs, or a new one.
func (e *evaluation) choose(ctx context.Context) error {
	if e.options.run != "" {
		e.name = e.options.run
		return nil
	}
	open, err := e.interrupted(ctx)
	if err != nil {
		return err
	}
	if open != "" {
		e.note("continues the runs %s", open)
	}
	id := strings.ToLower(string(events.NewTaskID(e.now())))
	e.name = cmp.Or(open, e.now().UTC().Format("20060102-150405-")+id[len(id)-4:])
	return nil
}

// interrupted returns the name of the newest runs with the same digest, if some of them have not ended or not begun; "" for none.
func (e *evaluation) interrupted(ctx context.Context) (string, error) {
	name, open, found := "", false, 0
	var newest time.Time
	r := api.ListRequest{Labels: map[string]string{labelSet: e.digest}, Limit: 1000}
	for {
		page, err := e.session.List(ctx, r)
		if err != nil {
			return "", err
		}
		for _, t := range page.Tasks {
			if run := t.Labels[labelEval]; run != name && t.CreatedAt.After(newest) {
				name, newest, open, found = run, t.CreatedAt, false, 0
			}
			if t.Labels[labelEval] == name {
				open, found = open || !t.State.Terminal(), found+1
			}
		}
		if r.Cursor = page.Next; r.Cursor == "" {
			break
		}
	}
	if name != "" && (open || found < e.live()) {
		return name, nil
	}
	return "", nil
}

// live returns the number of runs that are tasks.
func (e *evaluation) live() (n int) {
	for _, r := range e.runs {
		if r.Live() {
			n++
		}
	}
	return n
}

// runAll runs what has not been run, some runs at a time, and returns the outcomes in the order of the runs.
func (e *evaluation) runAll(ctx context.Context) ([]evals.Outcome, error) {
	outcomes, errs := make([]evals.Outcome, len(e.runs)), make([]error, len(e.runs))
	limited, stop := context.WithCancel(ctx)
	defer stop()
	p := &evalProgress{line: e.progressLine(), of: len(e.runs)}
	defer p.line("")
	next := make(chan int)
	var group sync.WaitGroup
	for range e.options.parallel {
		group.Go(func() {
			for i := range next {
				if outcomes[i], errs[i] = e.runOne(limited, e.runs[i], p); errs[i] != nil {
					stop()
				}
			}
		})
	}
	for i := range e.runs {
		next <- i
	}
	close(next)
	group.Wait()
	return outcomes, e.firstError(ctx, errs)
}

// firstError returns the error that has ended the runs.
func (e *evaluation) firstError(ctx context.Context, errs []error) error {
	var first error
	for _, err := range errs {
		if err != nil && (first == nil || isLost(first)) {
			first = err
		}
	}
	if first == nil {
		return nil
	}
	e.note("the runs %s have not ended; the same command continues them", e.name)
	if ctx.Err() != nil {
		return &exitError{exit: exitDetached}
	}
	return first
}

// evalProgress shows how many runs have ended, and counts what they have cost. It is safe for concurrent use.
type evalProgress struct {
	mu    sync.Mutex
	line  func(string)
	of    int
	ended int
	usd   float64
}

// spent returns what the runs have cost so far.
func (p *evalProgress) spent() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.usd
}

func (p *evalProgress) add(usd float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended++
	p.usd += usd
	p.line(fmt.Sprintf("%s of %s, $%.4f", screen.Number(p.ended), screen.Plural(p.of, "run"), p.usd))
}

// runOne runs a case with a variant, unless it was run, and judges the outcome.
func (e *evaluation) runOne(ctx context.Context, r evals.Run, p *evalProgress) (o evals.Outcome, err error) {
	switch rec := e.records[r.Case.RecordKey()]; {
	case ctx.Err() != nil:
		return o, ctx.Err()
	case r.Variant.Recorded:
		o = rec.Outcome
		p.add(0)
	case r.NotRun != "":
		o.NotRun = r.NotRun
		p.add(0)
	case e.set.MaxUSD > 0 && p.spent() >= e.set.MaxUSD:
		o.NotRun = fmt.Sprintf("the runs have cost $%.4f, and the limit is $%g", p.spent(), e.set.MaxUSD)
		p.add(0)
	default:
		if o, err = e.task(ctx, r); err != nil {
			return o, err
		}
		p.add(o.USD)
	}
	o.Case, o.Variant, o.Nr = r.Case.Name, r.Variant.Name, r.Nr
	o.Judge(append(append([]evals.Check{}, e.set.Expect...), r.Case.Expect...))
	return o, nil
}

// task submits the task of a run, waits for its end, and measures what it has used.
func (e *evaluation) task(ctx context.Context, r evals.Run) (evals.Outcome, error) {
	reply, err := e.session.Submit(ctx, api.SubmitRequest{
		Plan: r.Plan, Inputs: r.Inputs, Name: "eval " + r.Case.Name, Actor: e.actor(),
		Labels: map[string]string{
			labelEval: e.name, labelSet: e.digest, labelCase: r.Case.Name, labelVariant: r.Variant.Name, labelNr: strconv.Itoa(r.Nr),
		},
		IdempotencyKey: "eval/" + e.name + "/" + r.Digest(), IdempotencyScope: plan.ScopeForever,
	})
	if refusesContent(err) {
		return evals.Outcome{NotRun: err.Error()}, nil
	}
	if err != nil {
		return evals.Outcome{}, err
	}
	end, err := e.end(ctx, reply.ID)
	if err != nil {
		return evals.Outcome{}, err
	}
	c, err := conversation(ctx, e.session, api.ConversationRequest{ID: reply.ID, Step: evals.StepID, Limit: api.MaxTurns})
	if err != nil {
		return evals.Outcome{}, err
	}
	t, err := e.session.Get(ctx, api.GetRequest{ID: reply.ID})
	if err != nil {
		return evals.Outcome{}, err
	}
	o := evals.Outcome{Task: reply.ID, State: string(end.State), Waits: !end.Ended, Error: end.Error}
	o.Measure(c)
	o.Answer(end.Output)
	for _, s := range t.Steps {
		if s.Key == evals.StepID {
			o.Took = s.Duration
		}
	}
	return o, nil
}

// refusesContent reports whether an error is about what a run contains, so that others may succeed.
func refusesContent(err error) bool {
	return fault.Has(err, fault.ValidationError) || fault.Has(err, fault.InvalidPlan) || fault.Has(err, fault.SecretDetected)
}

// end waits until a task has ended, or waits for people.
func (e *evaluation) end(ctx context.Context, id events.TaskID) (api.ResultReply, error) {
	for {
		r, err := e.session.Result(ctx, api.ResultRequest{ID: id, Wait: watchWait, Attend: true})
		switch {
		case err != nil, r.Ended, r.Waits, r.State == statemachine.Blocked:
			return r, err
		case ctx.Err() != nil:
			return r, ctx.Err()
		}
	}
}
