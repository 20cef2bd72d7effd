package main

import (
	"context"
	"io"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
)

// callOptions are the flags of `orch tools call`.
type callOptions struct {
	task    string
	timeout time.Duration
	people  approvalWait
}

// callWait returns how long one request waits for the end of a call.
func callWait(timeout time.Duration) time.Duration {
	if timeout == 0 {
		return 10 * time.Minute
	}
	return timeout
}

// awaitCall waits for the task of a single call and shows the result of the call.
func (wt *waiter) awaitCall(ctx context.Context, s session, id events.TaskID, o callOptions) error {
	r, err := wt.callReply(ctx, s, id, o)
	if err != nil {
		return err
	}
	return wt.showCall(r)
}

// callReply waits for the task of a single call and returns the result of the call.
func (wt *waiter) callReply(ctx context.Context, s session, id events.TaskID, o callOptions) (api.CallReply, error) {
	f := wt.follower(s, id, 0)
	f.people = wt.peopleWatch(o.people)
	defer f.release(ctx, s)
	if _, err := wt.followTask(ctx, f, o.timeout, newWaitDisplay(wt.env), true); err != nil {
		return api.CallReply{}, err
	}
	t, err := f.session.Get(ctx, api.GetRequest{ID: id})
	if err != nil {
		return api.CallReply{}, err
	}
	for _, step := range t.Steps {
		if step.Key == plan.CallID {
			return api.CallReply{Step: step.Key, State: step.State, Output: step.Output, Error: step.Error}, nil
		}
	}
	return api.CallReply{}, fault.New(fault.Internal, "the task %s has no call", id)
}

// callEnd returns an error with the exit code of a call that did not succeed.
func (wt *waiter) callEnd(r api.CallReply) error {
	if r.Error != nil {
		return &exitError{exit: exitOfCall(r.Error.Code), err: r.Error}
	}
	if !r.State.Terminal() {
		wt.note("the call is %s", r.State)
		for _, q := range r.Questions {
			wt.note("it asks: %s; orch questions %s", message(q), q.ID)
		}
		return &exitError{exit: exitRunning}
	}
	return nil
}

func (wt *waiter) showCall(r api.CallReply) error {
	if err := wt.callEnd(r); err != nil {
		return err
	}
	return wt.emit(view{data: r.Output, names: []string{r.Step}, text: func(w io.Writer) error {
		return writeLines(w, screen.Object(r.Output))
	}})
}

// exitOfCall returns the exit code of a failed call. The code distinguishes a failure of the tool from a failure of orch.
func exitOfCall(code fault.Code) int {
	if exit := exitOfCode(code); exit != exitInternal && exit != exitRunning {
		return exit
	}
	return exitFailed
}
