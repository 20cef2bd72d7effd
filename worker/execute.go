package worker

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/failpoint"
	"github.com/orch-dev/orch/internal/pathindex"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// executor runs calls through the chain of gates to their tools.
type executor struct {
	*core

	catalogue *tools.Catalogue
	cleaner   *cleaner
	leases    *leaseKeeper
	notes     *notebook
	access    *access
	undos     *undoKeeper
}

func newExecutor(co *core, cleaner *cleaner, leases *leaseKeeper, catalogue *tools.Catalogue) *executor {
	r := &access{core: co, names: pathindex.New(co.cfg.Root.Name(), co.workspaces.Name())}
	return &executor{
		core: co, catalogue: catalogue, cleaner: cleaner, leases: leases, notes: &notebook{co}, access: r,
		undos: &undoKeeper{co, r, newUndoStore(co, co.workspaces)},
	}
}

func (x *executor) newAttempt(c *work.Call) *attempt {
	a := &attempt{Call: c, ended: make(chan struct{})}
	a.renewed.Store(int64(x.cfg.Uptime()))
	a.env = tools.Env{
		Task: c.Task, Session: c.Session, Step: c.Step, Attempt: c.Attempt, Trace: c.Trace, TraceState: c.TraceState, Key: c.Key(), State: statemachine.State(c.State), Since: c.Since, Requester: c.Requester,
		Root: x.cfg.Root, Exec: x.cfg.Exec, Now: x.cfg.Clock,
		Reads: c.Reads, Checkpoints: c.Checkpoints, Approvals: c.Approvals, Answers: c.Answers, Note: c.Note, Anew: c.Anew, Client: c.Client,
		Progress: func(done, total float64, message string) {
			a.progress.Store(&work.Progress{Done: done, Total: total, Message: message})
			x.leases.wakeSoon()
		},
		Output: func(p []byte) { x.leases.output(a, p) },
		Record: a.record,
		Undo:   func(ctx context.Context, u tools.Undo) (tools.Undone, error) { return x.undos.undo(ctx, a, u) },
		Spawn:  a.spawn,
	}
	return a
}

// maxFacts limits the facts of a call. With more, the call fails.
const maxFacts = 10_000

// serve executes a call and concludes it. It runs in the goroutine of the call.
func (x *executor) serve(ctx context.Context, a *attempt) {
	a.startedAt = x.cfg.Clock()
	res, err := result{}, errNoReturn
	defer func() { // deferred, in case the tool ends the goroutine (runtime.Goexit)
		if errors.Is(err, errNoReturn) {
			err = fault.Wrap(fault.Internal, errNoReturn, "the tool failed unexpectedly")
		}
		x.concludeOnce(ctx, a, res, err)
	}()
	res, err = x.runChain(ctx, a)
}

// concludeOnce concludes a call, unless it was abandoned before.
func (x *executor) concludeOnce(ctx context.Context, a *attempt, res result, err error) {
	if !a.concluded.CompareAndSwap(false, true) {
		x.attempts.returned(a.Tool)
		x.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "an abandoned tool has returned", a.logAttrs(nil)...)
		return
	}
	x.conclude(ctx, a, res, err)
}

// invoke calls the tool with its deadline. After the deadline, a cancellation or the stop of the worker, invoke returns that
// cause if the tool returns an error. An error with a note is returned all the same: without the note, the work that the call
// has started elsewhere would be lost.
func (x *executor) invoke(ctx context.Context, a *attempt) (json.RawMessage, error) {
	limit := a.timeout()
	a.startClock()
	ctx, cancel := context.WithDeadlineCause(ctx, a.clockStart.Add(limit), limitError(limit))
	defer cancel()
	x.owner.check()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	a.inTool.Store(true)
	a.env.Log = slog.New(callHandler{redactingHandler{x.cfg.Logger.Handler(), x.cleaner.cleanerOf(a)}, a.Call})
	a.startedAt = x.cfg.Clock()
	disarm := context.AfterFunc(ctx, func() {
		time.AfterFunc(x.cfg.Grace, func() { x.abandon(ctx, a) })
	})
	defer disarm()
	recordChanges, guard := x.undos.saveProject(ctx, a), a.guardObeyed()
	failpoint.Pass(failpoint.BeforeEffect)
	output, err := a.tool.Call(ctx, &a.env, a.arguments())
	failpoint.Pass(failpoint.AfterEffect)
	protected := guard()
	recordChanges()
	if err == nil {
		err = protected
	} else if protected != nil {
		x.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "a failed call has created files that git or orch would obey", a.logAttrs(protected)...)
	}
	if err != nil && ctx.Err() != nil && !hasNote(err) {
		return nil, context.Cause(ctx)
	}
	return output, err
}

// abandon concludes a call whose tool ignores its cancelled context. The tool's goroutine continues, because Go cannot end it,
// and its result is discarded.
func (x *executor) abandon(ctx context.Context, a *attempt) {
	if !a.concluded.CompareAndSwap(false, true) {
		return
	}
	x.attempts.abandon(a.Tool)
	x.cfg.Logger.LogAttrs(ctx, slog.LevelError, "a tool ignores the end of its call and is abandoned", a.logAttrs(nil)...)
	x.conclude(ctx, a, result{}, context.Cause(ctx))
}

// limitError is the cancellation cause of a call that exceeded this time limit.
type limitError time.Duration

// Error implements error.
func (e limitError) Error() string { return "the call took longer than " + time.Duration(e).String() }

// Is matches context.DeadlineExceeded, so that the error is a TIMEOUT.
func (e limitError) Is(target error) bool { return target == context.DeadlineExceeded }
