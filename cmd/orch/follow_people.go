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

// This file ends the wait for a task that only a person can continue, if the command has no terminal to tell a person.

const (
	// peopleEvery is the interval at which a command checks whether its task waits for a person.
	peopleEvery = 2 * time.Second
	// maxPeopleTasks limits the tasks that one check reads: the task, and the child tasks of its steps.
	maxPeopleTasks = 100
	// maxPeopleLines limits the lines about what a task waits for.
	maxPeopleLines = 5
)

// peopleWatch ends the wait for a task that has been waiting only for people for some time. A nil peopleWatch never ends it.
type peopleWatch struct {
	now func() time.Time
	// wait is how long the task may wait for people. since is when it began to; zero while it does not.
	wait  time.Duration
	since time.Time
}

// approvalWait is the flag --approval-wait: how long a command waits while its task waits for a person.
type approvalWait struct {
	limit time.Duration
	flag  *pflag.Flag
}

func (o *approvalWait) add(cmd *cobra.Command) {
	const name = "approval-wait"
	cmd.Flags().DurationVar(&o.limit, name, 0, "stop when the task has waited for a person alone for this time, with the exit code 9 (default without a terminal: at once; on one: never)")
	o.flag = cmd.Flags().Lookup(name)
}

// peopleWatch returns the watch for a command. It returns nil if the command has a terminal, unless the user has set the flag.
func (wt *waiter) peopleWatch(o approvalWait) *peopleWatch {
	if (wt.outTTY || wt.errTTY) && (o.flag == nil || !o.flag.Changed) {
		return nil
	}
	return &peopleWatch{now: wt.now, wait: o.limit}
}

// patience returns how long a follower may wait for commits before the next check, at most limit.
func (w *peopleWatch) patience(limit time.Duration) time.Duration {
	if w == nil {
		return limit
	}
	if w.since.IsZero() {
		return min(limit, peopleEvery)
	}
	return max(min(limit, peopleEvery, w.wait-w.now().Sub(w.since)), 10*time.Millisecond)
}

// check returns an error to end the wait, or nil to continue it.
func (w *peopleWatch) check(ctx context.Context, s session, id events.TaskID, r api.WatchReply) error {
	waits := r.State == statemachine.AwaitingApproval || r.State == statemachine.Blocked
	if w == nil || r.Ended || len(r.Commits) > 0 && !waits {
		return nil
	}
	left := maxPeopleTasks
	causes, err := onlyPeople(ctx, s, id, &left)
	switch {
	case isLost(err):
		return nil // the follower reconnects to the node
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

// personCause is something that a person has to do for a task.
type personCause struct {
	api.Cause

	task events.TaskID
	// late is true for an approval that can no longer be decided.
	late bool
}

func (c personCause) open() bool { return !c.late }

// onlyPeople returns what people have to do for a task that waits only for people. For any other task, it returns nothing. left
// is the number of tasks that may still be read.
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
		case c.Kind == "approval" && c.Approval == "", c.Kind == "agent": // other causes say what is waited for
		case c.Kind == "child":
			below, err := onlyPeople(ctx, s, c.Task, left)
			switch {
			case fault.Has(err, fault.NotFound): // the step has named the child, which is not submitted yet
				return nil, nil
			case err != nil || len(below) == 0:
				return nil, err
			}
			found = append(found, below...)
		case c.Kind == "approval", c.Kind == "question", c.Kind == "message", c.Kind == "in_doubt" && why.State == statemachine.Blocked:
			found = append(found, personCause{Cause: c, task: id})
		default:
			return nil, nil
		}
	}
	if moves, err := completeCauses(ctx, s, id, found); err != nil || moves {
		return nil, err
	}
	return found, nil
}

// completeCauses adds the details of the approvals of a task to the causes. moves is true if the task continues without a person:
// an approval was decided meanwhile, or the plan determines how to continue without a decision.
func completeCauses(ctx context.Context, s session, id events.TaskID, found []personCause) (moves bool, err error) {
	if !slices.ContainsFunc(found, func(c personCause) bool { return c.task == id && c.Approval != "" }) {
		return false, nil
	}
	reply, err := s.Approvals(ctx, api.ApprovalsRequest{Task: id, All: true})
	for _, p := range reply.Approvals {
		for i := range found {
			if found[i].Approval == p.ID {
				moves = moves || found[i].complete(p)
			}
		}
	}
	return moves, err
}

// complete adds the details of an approval to a cause, and reports whether the task continues without a person.
func (c *personCause) complete(p api.ApprovalView) bool {
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

// whoMay returns a text about who may decide about an approval.
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

// waitsForPeople returns the error for a task that waits only for people. It lists what they have to do, and how the task
// continues after that.
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
