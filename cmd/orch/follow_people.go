package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// This file ends the wait for a task that only a person can move on, where no person can see that it waits.

const (
	// peopleEvery is how often a command looks whether its task waits for a person.
	peopleEvery = 2 * time.Second
	// maxPeopleTasks bounds the tasks that one look reads: the task, and those that its steps run.
	maxPeopleTasks = 100
	// maxPeopleLines bounds what is shown of that for which a task waits.
	maxPeopleLines = 5
)

// peopleWatch ends a wait when the task has waited for a person, and for nothing else, for a time. The nil one never does.
type peopleWatch struct {
	now func() time.Time
	// wait is the time, since when the task was found so, zero while something moves.
	wait  time.Duration
	since time.Time
}

// approvalWait is the flag that says how long a command waits for a person.
type approvalWait struct {
	most time.Duration
	flag *pflag.Flag
}

func (o *approvalWait) add(cmd *cobra.Command) {
	const name = "approval-wait"
	cmd.Flags().DurationVar(&o.most, name, 0, "stop when the task has waited for a person alone for this time, with the exit code 9 (default without a terminal: at once; on one: never)")
	o.flag = cmd.Flags().Lookup(name)
}

// peopleWatch returns the watch of a command without a terminal; nil on one, unless the user has given a time.
func (wt *waiter) peopleWatch(o approvalWait) *peopleWatch {
	if (wt.outTTY || wt.errTTY) && (o.flag == nil || !o.flag.Changed) {
		return nil
	}
	return &peopleWatch{now: wt.now, wait: o.most}
}

// patience is how long a follower may wait for commits before it looks again.
func (w *peopleWatch) patience(most time.Duration) time.Duration {
	if w == nil {
		return most
	}
	if w.since.IsZero() {
		return min(most, peopleEvery)
	}
	return max(min(most, peopleEvery, w.wait-w.now().Sub(w.since)), 10*time.Millisecond)
}

// check returns the end of the wait, nil when it goes on.
func (w *peopleWatch) check(ctx context.Context, s session, id events.TaskID, r api.WatchReply) error {
	waits := r.State == statemachine.AwaitingApproval || r.State == statemachine.Blocked
	if w == nil || r.Ended || len(r.Commits) > 0 && !waits {
		return nil
	}
	left := maxPeopleTasks
	causes, err := onlyPeople(ctx, s, id, &left)
	switch {
	case isLost(err):
		return nil // the follower finds the node again
	case err != nil:
		return err
	case len(causes) == 0:
		w.since = time.Time{}
		return nil
	case w.since.IsZero():
		w.since = w.now()
	}
	if w.now().Sub(w.since) < w.wait && slices.ContainsFunc(causes, personCause.open) {
		return nil
	}
	return &exitError{exit: exitApproval, err: waitsForPeople(id, causes)}
}

// personCause is what a person has to do for a task.
type personCause struct {
	api.Cause

	task events.TaskID
	// late is true for an approval that nobody can decide about any more.
	late bool
}

func (c personCause) open() bool { return !c.late }

// onlyPeople returns what people have to do for a task when nothing else of it moves; nothing otherwise.
func onlyPeople(ctx context.Context, s session, id events.TaskID, left *int) ([]personCause, error) {
	if *left--; *left < 0 {
		return nil, nil
	}
	why, err := s.Explain(ctx, api.GetRequest{ID: id})
	if err != nil {
		return nil, err
	}
	var found []personCause
	for _, c := range why.Causes {
		switch {
		case c.Kind == "approval" && c.Approval == "": // it waits for the others
		case c.Kind == "child":
			below, err := onlyPeople(ctx, s, c.Task, left)
			if err != nil || len(below) == 0 {
				return nil, err
			}
			found = append(found, below...)
		case c.Kind == "approval", c.Kind == "question", c.Kind == "in_doubt" && why.State == statemachine.Blocked:
			found = append(found, personCause{Cause: c, task: id})
		default:
			return nil, nil
		}
	}
	if moves, err := judge(ctx, s, id, found); err != nil || moves {
		return nil, err
	}
	return found, nil
}

// judge says of the approvals of a task who may decide about them. It reports whether the task moves all the same: one was
// decided meanwhile, or its plan says how the task goes on without a decision.
func judge(ctx context.Context, s session, id events.TaskID, found []personCause) (moves bool, err error) {
	if !slices.ContainsFunc(found, func(c personCause) bool { return c.task == id && c.Approval != "" }) {
		return false, nil
	}
	reply, err := s.Approvals(ctx, api.ApprovalsRequest{Task: id, All: true})
	for _, p := range reply.Approvals {
		for i := range found {
			if found[i].Approval == p.ID {
				moves = moves || found[i].moves(p)
			}
		}
	}
	return moves, err
}

// moves completes a cause by its approval, and reports whether that lets the task go on without a person.
func (c *personCause) moves(p api.ApprovalView) bool {
	switch p.Status {
	case statemachine.ApprovalPending:
		c.Next = "orch approve " + p.ID + exampleArgs(p.Form) + " (" + whoMay(p) + ")"
		return p.OnExpiry != "block" && p.OnExpiry != "escalate"
	case statemachine.ApprovalExpired:
		c.late = true
		return false
	default:
		return true
	}
}

// whoMay says who may decide about an approval.
func whoMay(p api.ApprovalView) string {
	who := "any person with the right to approve"
	if len(p.From) > 0 {
		who = strings.Join(p.From, " or ")
	}
	if p.Quorum > 1 {
		who = fmt.Sprintf("%d have to agree, %d have: %s", p.Quorum, len(p.Votes), who)
	}
	if len(p.NotBy) > 0 {
		who += ", but not " + strings.Join(p.NotBy, " and ")
	}
	return who
}

// waitsForPeople says what people have to do for a task, and how it goes on then.
func waitsForPeople(id events.TaskID, causes []personCause) *fault.Error {
	var what, next []string
	for _, c := range causes[:min(len(causes), maxPeopleLines)] {
		what = append(what, strings.TrimSuffix(c.Sentence, "."))
		if c.Next != "" && !slices.Contains(next, c.Next) {
			next = append(next, c.Next)
		}
	}
	if more := len(causes) - maxPeopleLines; more > 0 {
		what = append(what, fmt.Sprintf("and %d more", more))
	}
	return fault.New(fault.ApprovalRequired, "%s waits for a person, and nothing else of it moves: %s", id, strings.Join(what, "; ")).
		WithHint("%s; the task is kept: orch watch %s (or orch serve) goes on with it then", strings.Join(next, ", "), id)
}
