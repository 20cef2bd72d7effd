package orchestrator

import (
	"context"
	"fmt"
	"strings"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
)

// reasonStale is the reason of a CONFLICT with what somebody else has decided since the revision that a request was based on.
const reasonStale = "STALE_REVISION"

// seen is the revision of a task that a decision of somebody is based on. Revision 0 means any.
type seen struct {
	task  events.TaskID
	rev   uint64
	actor string
}

// decisions maps the kinds of events that record what somebody decided about a task to a description. Other events, such as the results of
// steps, make no decision stale: the state machine refuses those that are no longer possible.
var decisions = map[events.Kind]string{ //nolint:gochecknoglobals // a constant table
	events.TaskPaused: "paused the task", events.TaskResumed: "resumed the task", events.TaskCancelRequested: "cancelled the task",
	events.TaskCancelled: "cancelled the task", events.StepResolved: "resolved a step", events.SignalReceived: "sent a signal",
	events.ApprovalVoted: "voted for an approval", events.ApprovalGranted: "granted an approval", events.ApprovalRejected: "rejected an approval",
	events.ApprovalRevoked: "revoked an approval", events.QuestionAnswered: "answered a question", events.AgentTold: "spoke to the agent",
	events.CheckpointRestored: "restored a checkpoint",
}

// change changes a task like engine.change. It returns CONFLICT, and changes nothing, if somebody else has decided about the task
// since the revision that the request has seen.
func (s seen) change(ctx context.Context, rd *reader, fn func(*decide.Turn) error) error {
	if s.rev == 0 {
		return rd.engine.change(ctx, s.task, s.actor, fn)
	}
	for {
		head, err := s.check(ctx, rd)
		if err != nil {
			return err
		}
		moved := false
		err = rd.engine.change(ctx, s.task, s.actor, func(t *decide.Turn) error {
			if moved = t.Task.Rev != head; moved {
				return fault.New(fault.Conflict, "the task has changed") // not returned: what changed is read
			}
			return fn(t)
		})
		if !moved {
			return err
		}
		s.rev = head
	}
}

// check returns the newest revision in the log, and CONFLICT if somebody else has decided about the task since the revision
// that a request has seen. It returns VALIDATION_ERROR for a revision that the task does not have.
func (s seen) check(ctx context.Context, rd *reader) (head uint64, err error) {
	if s.rev == 0 {
		return 0, nil
	}
	for from := s.rev; from != 0; {
		page, err := rd.History(ctx, api.HistoryRequest{ID: s.task, From: from})
		if err != nil {
			return 0, err
		}
		for _, c := range page.Commits {
			if c.Rev > s.rev && c.Actor != s.actor {
				if err := staleBy(c); err != nil {
					return 0, err
				}
			}
			head = c.Rev
		}
		from = page.Next
	}
	if head == 0 {
		return 0, fault.New(fault.ValidationError, "the task has no revision %d yet", s.rev).WithField("seen_rev")
	}
	return head, nil
}

// staleBy returns CONFLICT with what was decided in a commit and by whom; nil if it has no decision.
func staleBy(c api.CommitView) error {
	for _, e := range c.Events {
		done, decided := decisions[e.Kind]
		if !decided {
			continue
		}
		about := ""
		if step := events.StepOf(e.Data); step != "" {
			about = fmt.Sprintf(" (step %s)", decide.Clip(step))
		}
		who := c.Actor
		if who == "" || strings.HasPrefix(who, "worker:") {
			who = decide.ActorNode
		}
		return fault.New(fault.Conflict, "%s %s%s at revision %d, which you have not seen", who, done, about, c.Rev).WithField("seen_rev").WithReason(reasonStale).
			WithHint("look at the task as it is now, then decide again")
	}
	return nil
}
