package main

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// waiter waits for tasks and calls, for the commands that start them.
type waiter struct{ *connector }

// waitOptions are the flags that determine how a command waits for the task that it has started.
type waitOptions struct {
	wait, detach, quiet bool
	timeout             time.Duration
	people              approvalWait
}

// addWait adds the flags of commands that start a task. They wait for it unless a flag says otherwise.
func addWait(cmd *cobra.Command, o *waitOptions) { addWaitOr(cmd, o, true) }

// addWaitOr adds the flags of commands that may wait for a task. wait is whether they do so by default.
func addWaitOr(cmd *cobra.Command, o *waitOptions, wait bool) {
	f := cmd.Flags()
	f.BoolVarP(&o.wait, "wait", "w", wait, "watch the task until it is over and print its outputs")
	f.BoolVarP(&o.detach, "detach", "d", false, "return as soon as the task is durable")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "do not show progress")
	f.DurationVar(&o.timeout, "timeout", 0, "stop waiting after this time, with the exit code 8 (0: never)")
	o.people.add(cmd)
	cmd.MarkFlagsMutuallyExclusive("wait", "detach")
}

// leaves reports whether the user detaches from the task.
func (o waitOptions) leaves() bool { return o.detach || !o.wait }

// mode returns the mode of a command that starts a task.
func (o waitOptions) mode() mode {
	if o.leaves() {
		return detached
	}
	return working
}

// afterStart prints the id of a new task, and waits for the task unless the user detached.
func (wt *waiter) afterStart(ctx context.Context, s session, reply api.SubmitReply, o waitOptions) error {
	if o.leaves() && !s.Embedded() {
		return wt.emit(view{data: reply, names: []string{string(reply.ID)}, text: func(w io.Writer) error {
			wt.noteStarted(reply)
			return writeLines(w, []string{string(reply.ID)})
		}})
	}
	if o.leaves() {
		wt.note("no node runs here, so this command executes the task and waits for it; start one to detach: orch serve")
	}
	wt.noteStarted(reply)
	if wt.cfg.Output == "name" {
		if err := writeLines(wt.out, []string{string(reply.ID)}); err != nil {
			return err
		}
	}
	return wt.await(ctx, s, reply.ID, o)
}

func (wt *waiter) noteStarted(reply api.SubmitReply) {
	switch {
	case wt.cfg.Output != "text":
	case reply.Existing:
		wt.note("%s exists already and is %s", reply.ID, reply.State)
	case reply.Reused > 0:
		wt.note("%s submitted; it reuses the results of %d steps", reply.ID, reply.Reused)
	default:
		wt.note("%s submitted", reply.ID)
	}
}

// await shows the progress of a task on stderr, and writes its outputs to stdout when it has ended.
func (wt *waiter) await(ctx context.Context, s session, id events.TaskID, o waitOptions) error {
	if err := wt.checkContinued(ctx, s, id); err != nil {
		return err
	}
	f := wt.follower(s, id, 0)
	f.people = wt.peopleWatch(o.people)
	defer f.release(ctx, s)
	d, snapshots := wt.awaitDisplay(o)
	state, err := wt.followTask(ctx, f, o.timeout, d, snapshots)
	if err != nil {
		return err
	}
	if wt.cfg.Output == "name" { // the id was written at the start
		return endOf(state)
	}
	return wt.finish(ctx, f)
}

// awaitDisplay returns a display on stderr, because stdout is for the outputs.
func (wt *waiter) awaitDisplay(o waitOptions) (d display, snapshots bool) {
	switch {
	case o.quiet:
		return nopDisplay{}, false
	case wt.cfg.Output != "text":
		return newWaitDisplay(wt.env), true
	case wt.errTTY:
		return newLiveDisplay(wt.env, wt.err), true
	default:
		return &plainDisplay{env: wt.env, w: wt.err}, false
	}
}

// follower returns a follower of the task that starts after a revision.
func (wt *waiter) follower(s session, id events.TaskID, after uint64) *follower {
	f := &follower{session: s, id: id, after: after, notify: func(note string) {
		if note != "" {
			wt.note("%s", note)
		}
	}}
	if !s.Embedded() {
		f.redial = wt.redial
	}
	return f
}

// redial reconnects to a node. After a grace period it starts a node in this process, because the lost node may have been that of
// another command, which does not restart.
func (wt *waiter) redial(ctx context.Context, lost time.Duration) (session, error) {
	if lost < grace {
		return wt.nodes.Dial(ctx, wt.cfg)
	}
	return wt.open(ctx, working)
}

// followTask follows a task until it ends. If the user interrupts or the timeout expires (0 is none), it writes how to continue
// to watch the task, and returns an error with the exit code for that case.
func (wt *waiter) followTask(ctx context.Context, f *follower, timeout time.Duration, d display, snapshots bool) (statemachine.State, error) {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	state, err := follow(limited, f, wt.redraw, d, snapshots)
	switch {
	case err == nil && !state.Terminal(): // no commit follows, so it was imported
		return state, fault.New(fault.StateNotAllowed, "task %s was imported when it was %s, and never ends here", f.id, state).WithReason("IMPORTED").
			WithHint("orch history %s shows how far it has got; orch fork %s goes on from there", f.id, f.id)
	case err == nil:
		return state, nil
	case ctx.Err() != nil:
		wt.noteDetached(f)
		return state, &exitError{exit: exitDetached}
	case limited.Err() != nil, timeout > 0 && fault.Has(err, fault.Timeout): // the node may notice the timeout first
		return state, wt.timeoutError(ctx, f, timeout)
	default:
		return state, err
	}
}

// noteDetached writes what happens to a task that is no longer watched.
func (wt *waiter) noteDetached(f *follower) {
	if f.session.Embedded() {
		wt.note("stopping: calls that run have 10 seconds to end, unless you interrupt again; the task is kept as it is and goes on with: orch watch %s (or: orch serve)", f.id)
		return
	}
	wt.note("detached; the task goes on. Re-attach with: orch watch %s", f.id)
}

// timeoutError returns the error for a wait whose timeout has expired.
func (wt *waiter) timeoutError(ctx context.Context, f *follower, timeout time.Duration) error {
	r, err := f.session.Result(ctx, api.ResultRequest{ID: f.id})
	if err != nil {
		return err
	}
	wt.note("%s is %s after %s; go on watching: orch watch %s", f.id, r.State, timeout, f.id)
	if r.State == statemachine.Blocked || r.State == statemachine.AwaitingApproval {
		wt.note("what it needs: orch explain %s", f.id)
	} else if why, err := f.session.Explain(ctx, api.GetRequest{ID: f.id}); err == nil && mainCause(why.Causes) != nil && mainCause(why.Causes).Kind != "running" {
		wt.note("%s", mainCause(why.Causes).Sentence)
	}
	return endOf(r.State)
}

// finish writes the result of a task and returns an error with the exit code for its state.
func (wt *waiter) finish(ctx context.Context, f *follower) error {
	r, err := f.session.Result(ctx, api.ResultRequest{ID: f.id})
	if err != nil {
		return err
	}
	if err := wt.emit(view{data: r, names: []string{string(f.id)}, text: func(io.Writer) error { return wt.showResult(r) }}); err != nil {
		return err
	}
	return endOf(r.State)
}

// showResult writes the outputs of a task to stdout. It writes the error of the task, or the reason for missing outputs, to stderr.
func (wt *waiter) showResult(r api.ResultReply) error {
	if r.Error != nil {
		wt.note("%s %s: %s", r.ID, r.State, r.Error.Error())
		if r.Error.Hint != "" {
			wt.note("hint: %s", r.Error.Hint)
		}
	} else if !r.Ended || len(r.Output) == 0 {
		wt.note("%s", strings.TrimSpace(string(r.ID)+" is "+string(r.State)+" "+r.Reason))
	}
	if len(r.Output) == 0 {
		return nil
	}
	return writeLines(wt.out, screen.Object(wt.shortPaths(r.Output)))
}
