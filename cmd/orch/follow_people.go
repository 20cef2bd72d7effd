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

// This file ends the wait for a task that only a person can continue, if no person can see that it waits.

const (
	// peopleEvery is the interval at which a command checks whether its task waits for a person.
	peopleEvery = 2 * time.Second
	// maxPeopleTasks limits the tasks that one check reads: the task, and those that its steps run.
	maxPeopleTasks = 100
	// maxPeopleLines limits the lines about what a task waits for.
	maxPeopleLines = 5
)

// peopleWatch ends a wait when the task has been waiting only for people for some time. A nil peopleWatch never does.
type peopleWatch struct {
	now func() time.Time
	// wait is that time. since is when the task was first found waiting, zero while something moves.
	wait  time.Duration
	since time.Time
}

// approvalWait is the flag for how long a command waits for a person.
type approvalWait struct {
	most time.Duration
	flag *pflag.Flag
}

func (o *approvalWait) add(cmd *cobra.Command) {
	const name = "approval-wait"
	cmd.Flags().DurationVar(&o.most, name, 0, "stop when the task has waited for a person alone for this time, with the exit code 9 (default without a terminal: at once; on one: never)")
	o.flag = cmd.Flags().Lookup(name)
}

// peopleWatch returns the watch of a command without a terminal. It returns nil on a terminal, unless the user has set a time.
func (wt *waiter) peopleWatch(o approvalWait) *peopleWatch {
	if (wt.outTTY || wt.errTTY) && (o.flag == nil || !o.flag.Changed) {
		return nil
	}
	return &peopleWatch{now: wt.now, wait: o.most}
}

// patience returns how long a follower may wait for commits before the next check.
func (w *peopleWatch) patience(most time.Duration) time.Duration {
	if w == nil {
		return most
	}
	if w.since.IsZero() {
		return min(most, peopleEvery)
	}
	return max(min(most, peopleEvery, w.wait-w.now().Sub(w.since)), 10*time.Millisecond)
}

// check returns the error that ends the wait, nil if it continues.
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
	// late is true for an approval that nobody can decide any more.
	late bool
}

func (c personCause) open() bool { return !c.late }

// onlyPeople returns what people have to do for a task if nothing else can move; nothing otherwise.
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
		case c.Kind == "approval" && c.Approval == "": // it waits for the other causes
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
	if moves, err := completeCauses(ctx, s, id, found); err != nil || moves {
		return nil, err
	}
	return found, nil
}

// completeCauses completes the causes with the approvals of a task. It reports whether the task moves anyway: an approval was decided
// meanwhile, or its plan says how to continue without a decision.
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

// complete completes a cause with its approval, and reports whether the task continues without a person.
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

// waitsForPeople is the error that says what people have to do for a task, and how it continues then.
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
