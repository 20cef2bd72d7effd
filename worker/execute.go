package worker

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/failpoint"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/internal/secret"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// attempt is one call on its way through this worker.
type attempt struct {
	work.Call
	tool tools.Tool
	spec tools.Spec
	args json.RawMessage
	// secrets are those of the call, nil for none; given are the arguments with them, nil for the same.
	secrets atomic.Pointer[secret.Set]
	given   json.RawMessage
	paths   map[string]string
	env     tools.Env
	// asked is the call as the policy sees it.
	asked policy.Call
	// root is that of the worker without the workspaces of other identities.
	root *pathguard.Root
	// began is when the call was taken, later when its tool was called.
	began time.Time
	// cancel ends the context of the call; finish takes the outcome, once.
	cancel context.CancelCauseFunc
	finish func(work.Outcome)

	// begun is when the time of the call began: when the owner was asked to note its start, or else its tool was called.
	begun time.Time
	// renewed is when the lease was last renewed, in uptime.
	renewed atomic.Int64
	// inTool is set once the tool was called, over is closed when that has returned or was given up.
	inTool atomic.Bool
	over   chan struct{}

	// settled is set by who makes the outcome: the call itself, or who gives it up.
	settled atomic.Bool
	// dropped means that nobody wants the outcome.
	dropped atomic.Bool
	// progress is the newest, told the one that was sent last.
	progress, told atomic.Pointer[work.Progress]
	// tail is the newest output of its programs.
	tail tail
	// effect is that of this very call, nil before it is known and where it is that of the contract.
	effect atomic.Pointer[tools.Effect]

	mu    sync.Mutex
	facts []events.Event
	child *tools.Spawn
}

// Execute takes one call through the chain and returns its outcome, without reporting it. It is how
// a single call is made outside of Run. The end of ctx cancels the call.
func (w *Worker) Execute(ctx context.Context, call work.Call) work.Outcome {
	done := make(chan work.Outcome, 1)
	a := w.newAttempt(call)
	a.finish = func(o work.Outcome) { done <- o }
	go w.serve(ctx, a)
	return <-done
}

func (w *Worker) newAttempt(c work.Call) *attempt {
	a := &attempt{Call: c, over: make(chan struct{})}
	a.renewed.Store(int64(w.cfg.Uptime()))
	a.env = tools.Env{
		Task: c.Task, Session: c.Session, Step: c.Step, Attempt: c.Attempt, Key: c.Key(), State: statemachine.State(c.State), Since: c.Since, Requester: c.Requester,
		Root: w.cfg.Root, Exec: w.cfg.Exec, Now: w.cfg.Clock,
		Reads: c.Reads, Checkpoints: c.Checkpoints, Approvals: c.Approvals, Answers: c.Answers, Note: c.Note, Anew: c.Anew, Client: c.Client,
		Progress: func(done, total float64, message string) {
			a.progress.Store(&work.Progress{Done: done, Total: total, Message: message})
			w.tellSoon()
		},
		Output: func(p []byte) { w.output(a, p) },
		Record: a.record,
		Undo:   func(ctx context.Context, u tools.Undo) (tools.Undone, error) { return w.undo(ctx, a, u) },
		Spawn:  a.spawn,
	}
	return a
}

// resolved returns the effect of this very call, "" before it is known and where it is that of the contract.
func (a *attempt) resolved() string {
	if effect := a.effect.Load(); effect != nil {
		return string(*effect)
	}
	return ""
}

// record keeps a fact for the case that the call succeeds.
func (a *attempt) record(kind events.Kind, data events.Payload) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.facts) <= maxFacts {
		a.facts = append(a.facts, events.Event{Kind: kind, Data: data})
	}
}

// spawn keeps the child that the call asks for, for the case that it succeeds.
func (a *attempt) spawn(s tools.Spawn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.child = &s
}

// takeChild returns the child that the call has asked for, nil for none.
func (a *attempt) takeChild() *tools.Spawn {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.child
}

// maxFacts bounds what a call may record; with one more it fails.
const maxFacts = 10_000

// takeFacts returns the facts so far. What a tool records later is lost.
func (a *attempt) takeFacts() []events.Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	facts := a.facts
	a.facts = nil
	return facts
}

// serve executes a call and settles it. It is the goroutine of the call.
func (w *Worker) serve(ctx context.Context, a *attempt) {
	a.began = w.cfg.Clock()
	res, err := result{}, error(fault.Wrap(fault.Internal, errNoReturn, "the tool failed unexpectedly"))
	defer func() { w.settle(ctx, a, res, err) }() // also when the tool ends the goroutine (runtime.Goexit)
	res, err = w.pass(ctx, a)
}

// settle takes the end of a call, unless the call was given up before.
func (w *Worker) settle(ctx context.Context, a *attempt, res result, err error) {
	if !a.settled.CompareAndSwap(false, true) {
		w.attempts.returned(a.Tool)
		w.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "an abandoned tool has returned", a.about(nil)...)
		return
	}
	w.conclude(ctx, a, res, err)
}

// invoke calls the tool with its deadline. When the deadline, a cancellation or the stop of the worker
// has ended the call, that is its error, whatever the tool says: but for a note, without which what it has begun
// elsewhere would be lost.
func (w *Worker) invoke(ctx context.Context, a *attempt) (json.RawMessage, error) {
	limit := a.timeout()
	a.begin()
	ctx, cancel := context.WithDeadlineCause(ctx, a.begun.Add(limit), limitError(limit))
	defer cancel()
	w.owner.look()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	a.inTool.Store(true)
	a.env.Log = slog.New(callHandler{redactingHandler{w.cfg.Logger.Handler(), w.cleanerOf(a)}, &a.Call})
	a.began = w.cfg.Clock()
	disarm := context.AfterFunc(ctx, func() {
		time.AfterFunc(w.cfg.Grace, func() { w.abandon(ctx, a) })
	})
	defer disarm()
	keep, guard := w.keepProject(ctx, a), a.guardObeyed()
	failpoint.Pass(failpoint.BeforeEffect)
	output, err := a.tool.Call(ctx, &a.env, a.arguments())
	failpoint.Pass(failpoint.AfterEffect)
	made := guard()
	keep()
	if err == nil {
		err = made
	} else if made != nil {
		w.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "a call that failed has made what git or orch would obey", a.about(made)...)
	}
	if err != nil && ctx.Err() != nil && !hasNote(err) {
		return nil, context.Cause(ctx)
	}
	return output, err
}

// abandon gives up a call whose tool ignores that it was ended. The tool's goroutine goes on, because
// Go cannot end it; its result will be thrown away.
func (w *Worker) abandon(ctx context.Context, a *attempt) {
	if !a.settled.CompareAndSwap(false, true) {
		return
	}
	w.attempts.abandon(a.Tool)
	w.cfg.Logger.LogAttrs(ctx, slog.LevelError, "a tool ignores the end of its call and is abandoned", a.about(nil)...)
	w.conclude(ctx, a, result{}, context.Cause(ctx))
}

// begin begins the time of the call, once.
func (a *attempt) begin() {
	if a.begun.IsZero() {
		a.begun = time.Now()
	}
}

func (a *attempt) timeout() time.Duration {
	switch {
	case a.Timeout > 0:
		return a.Timeout
	case a.spec.Timeout > 0:
		return a.spec.Timeout
	default:
		return work.UsualTimeout
	}
}

// limitError is the cause with which a call ends that took longer than this.
type limitError time.Duration

// Error says what the user should know.
func (e limitError) Error() string { return "the call took longer than " + time.Duration(e).String() }

// Is makes it a TIMEOUT.
func (e limitError) Is(target error) bool { return target == context.DeadlineExceeded }

// place is what the notes in the workspace of the call say that it belongs to.
func (a *attempt) place() string {
	if a.Session != "" {
		return "session"
	}
	return a.Name
}
