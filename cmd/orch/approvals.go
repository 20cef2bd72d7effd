package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bulk"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// approvalCommands are the commands for decisions of people: approvals, grants and answers.
type approvalCommands struct {
	*connector

	wait *waiter
}

// approvalsOptions are the flags of `orch approvals`.
type approvalsOptions struct {
	task, submitter string
	all             bool
}

func newApprovals(c *approvalCommands) *cobra.Command {
	var o approvalsOptions
	cmd := &cobra.Command{
		Use:   "approvals [ID]",
		Short: "List what waits for an approval, or show one",
		Long: `List the approvals that are pending, the most urgent first, or show one with the arguments that it is
bound to. A grant is good for exactly these arguments, once.`,
		Example: "  orch approvals\n  orch approvals --task @last --all",
		Args:    takes("[ID]"),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.approvals(cmd.Context(), args, o) },
	}
	cmd.Flags().StringVar(&o.task, "task", "", "those of one task")
	cmd.Flags().StringVar(&o.submitter, "submitter", "", "those of tasks that somebody has submitted, such as agent:ci")
	cmd.Flags().BoolVar(&o.all, "all", false, "also those that are decided")
	return cmd
}

func (c *approvalCommands) approvals(ctx context.Context, args []string, o approvalsOptions) error {
	return c.with(ctx, idle, func(s session) error {
		r := api.ApprovalsRequest{All: o.all, Submitter: o.submitter}
		if len(args) > 0 {
			id, err := c.approvalID(ctx, s, args[0])
			if err != nil {
				return err
			}
			r.ID = id
		}
		if o.task != "" {
			found, err := s.Find(ctx, api.FindRequest{Text: o.task, Actor: c.actor()})
			if err != nil {
				return err
			}
			r.Task = found.ID
		}
		reply, err := s.Approvals(ctx, r)
		if err != nil {
			return err
		}
		if reply.Unread > 0 {
			c.note("%d tasks cannot be read yet; their approvals are missing here", reply.Unread)
		}
		if reply.Omitted > 0 {
			c.note("%d more are not shown: of each submitter the most urgent ones are; --submitter and --task show others", reply.Omitted)
		}
		if r.ID != "" {
			return c.showApproval(reply.Approvals[0])
		}
		return c.listApprovals(reply.Approvals)
	})
}

func (c *approvalCommands) listApprovals(list []api.ApprovalView) error {
	var names []string
	for _, p := range list {
		names = append(names, p.ID)
	}
	return c.emit(view{data: list, rows: rowsOf(list), names: names, text: func(w io.Writer) error {
		if len(list) == 0 {
			return writeLines(w, []string{"nothing waits for an approval"})
		}
		var table screen.Table
		table.Row("APPROVAL", "STATUS", "PRIORITY", "EXPIRES", "WHAT", "DIFFERS", "WHY")
		differs := differing(list)
		for i, p := range list {
			table.Row(p.ID, string(p.Status), p.Priority, c.deadline(p), approvalSubject(p), differs[i], p.Rationale)
		}
		return table.Write(w, c.width())
	}})
}

// deadline returns the time that is left to decide about a pending approval, as text.
func (c *approvalCommands) deadline(p api.ApprovalView) string {
	if p.Status != statemachine.ApprovalPending {
		return ""
	}
	return dueText(c.now(), p.ExpiresAt)
}

// approvalSubject returns the name of the call that needs approval, or the question to people.
func approvalSubject(p api.ApprovalView) string {
	if p.Tool == "" {
		return p.Description
	}
	return p.Tool + " in " + p.TaskName + "/" + p.Step
}

func (c *approvalCommands) showApproval(p api.ApprovalView) error {
	return c.emit(view{data: p, names: []string{p.ID}, text: func(w io.Writer) error {
		return writeLines(w, approvalLines(p))
	}})
}

// approvalLines returns a complete description of an approval, so that people know what they decide about.
func approvalLines(p api.ApprovalView) []string {
	lines := []string{p.ID + "  " + string(p.Status)}
	add := func(name, value string) {
		if value != "" {
			lines = append(lines, fmt.Sprintf("  %-12s %s", name, screen.Escape(value)))
		}
	}
	add("task", string(p.Task)+" ("+p.TaskName+")")
	add("step", p.Step)
	add("tool", p.Tool)
	add("asks", p.Description)
	add("why", p.Rationale)
	add("priority", p.Priority)
	add("risk", p.Risk)
	add("requester", p.Requester)
	add("submitter", p.Submitter)
	add("called by", p.Caller)
	add("expires", p.ExpiresAt.Format(time.RFC3339))
	add("opens", strings.Join(p.Scopes, ", "))
	add("offers", strings.Join(p.Offers, ", "))
	add("for good", strings.Join(p.Lasting, ", "))
	add("quorum", quorum(p))
	add("from", strings.Join(p.From, ", "))
	add("agreed", strings.Join(p.Votes, ", "))
	add("on expiry", expiryText(p))
	add("decided by", p.Approver)
	add("reason", p.Reason)
	add("digest", p.ArgsSHA256)
	for _, part := range []struct {
		name string
		raw  json.RawMessage
	}{{"details", p.Details}, {"arguments", p.Args}, {"form", p.Form}} {
		if len(part.raw) > 0 && string(part.raw) != "null" {
			lines = append(append(lines, "  "+part.name+":"), indented(screen.Object(part.raw))...)
		}
	}
	if diff := diffLines(p.Tool, p.Args); p.Status == statemachine.ApprovalPending && diff != nil {
		lines = append(append(lines, "  changes:"), indented(diff)...)
	}
	lines = append(lines, callLines(p)...)
	if p.Status == statemachine.ApprovalPending {
		lines = append(lines, "", "decide: orch approve "+p.ID+exampleArgs(p.Form)+" | orch reject "+p.ID+" --reason …")
		for _, offer := range p.Offers {
			lines = append(lines, "for the session: orch approve "+p.ID+" --for-session '"+screen.Escape(offer)+"'")
		}
		for _, offer := range p.Lasting {
			lines = append(lines, "for good: orch approve "+p.ID+" --always '"+screen.Escape(offer)+"'")
		}
	}
	return lines
}

// quorum returns a text about the number of people who have to agree; "" if one is enough.
func quorum(p api.ApprovalView) string {
	if p.Quorum < 2 {
		return ""
	}
	return fmt.Sprintf("%d of %d have agreed", len(p.Votes), p.Quorum)
}

// expiryText returns a text about what happens if nobody decides in time; "" if the approval only expires.
func expiryText(p api.ApprovalView) string {
	if p.Status != statemachine.ApprovalPending || p.OnExpiry == "block" {
		return ""
	}
	return p.OnExpiry
}

func indented(lines []string) []string {
	lines = slices.Clone(lines)
	for i := range lines {
		lines[i] = "    " + lines[i]
	}
	return lines
}

// decideOptions are the flags of `orch approve` and `orch reject`.
type decideOptions struct {
	reason, form string
	revise       bool
	opens        []string
	always       []string
	bulk         bulkOptions

	waitOptions
}

func newApprove(c *approvalCommands) *cobra.Command {
	var o decideOptions
	cmd := &cobra.Command{
		Use:   "approve ID [name=value...]",
		Short: "Grant an approval, with the fields of its form",
		Long: `Grant an approval. The call that waits for it then runs with exactly the arguments that
` + "`orch approvals ID`" + ` shows, once. Fields of a form are given as name=value. ID may be shortened to the beginning or the
end of that of a pending approval, or be a task (@last too) of which one approval is pending.

The node goes on with the task. Where none runs, the decision is in the history, and the task goes on with the next node
or command that runs it: orch serve, or orch watch TASK. With --wait this command goes on with it, as orch submit would: it
waits until the task is over and prints its outputs.`,
		Example: "  orch approve APR_01JD0000000000000000000000_AAAAAAAA --reason 'as planned'\n  orch approve --where label=release=v2 --dry-run",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(o.bulk.where) > 0 {
				return c.approveAll(cmd.Context(), o)
			}
			form, err := signalData(args[1:], o.form)
			if err != nil {
				return err
			}
			return c.approve(cmd.Context(), api.DecideRequest{
				ID: args[0], As: "granted", Reason: o.reason, Form: form, Opens: o.opens, Always: o.always,
			}, o.waitOptions)
		},
	}
	cmd.Flags().StringVar(&o.reason, "reason", "", "why, for the log")
	cmd.Flags().StringVar(&o.form, "form", "", "the form as JSON instead of name=value")
	cmd.Flags().StringArrayVar(&o.opens, "for-session", nil, "open this for the session of the call as well: one of what the approval offers (repeatable)")
	cmd.Flags().StringArrayVar(&o.always, "always", nil, "open `VALUE` for all sessions of whoever submitted the call, until orch revoke: one of what the approval offers for good (repeatable)")
	addWaitOr(cmd, &o.waitOptions, false)
	addSettings(cmd.Flags(), true, true)
	addBulk(cmd, &o.bulk, "ID", "[name=value...]")
	return cmd
}

// approveAll grants the pending approvals of the tasks that a filter selects, each as it was when it was listed.
func (c *approvalCommands) approveAll(ctx context.Context, o decideOptions) error {
	if o.form != "" || len(o.opens)+len(o.always) > 0 {
		return fault.New(fault.InvalidParams, "a form and what a grant opens are for one approval").WithField("--where").WithHint("decide about those with a form one by one: orch approve ID")
	}
	b := bulkRun{connector: c.connector, options: o.bulk, request: bulk.Request{Act: bulk.Approve, Reason: o.reason}}
	return b.run(ctx)
}

func newReject(c *approvalCommands) *cobra.Command {
	var o decideOptions
	cmd := &cobra.Command{
		Use:     "reject ID --reason TEXT",
		Short:   "Refuse an approval, or ask for another version",
		Example: "  orch reject APR_01JD0000000000000000000000_AAAAAAAA --reason 'not in production'",
		Args:    takes("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r := api.DecideRequest{ID: args[0], As: "rejected", Reason: o.reason}
			if o.revise {
				r.As = "revise"
			}
			return c.decide(cmd.Context(), r)
		},
	}
	cmd.Flags().StringVar(&o.reason, "reason", "", "why, for the log and the agent; required")
	cmd.Flags().BoolVar(&o.revise, "revise", false, "pause the task for another version; it asks again when it is resumed")
	return cmd
}

func (c *approvalCommands) decide(ctx context.Context, r api.DecideRequest) error {
	return c.with(ctx, idle, func(s session) error {
		p, err := c.decideAs(ctx, s, r)
		if err != nil {
			return err
		}
		c.noteLeft(ctx, s, p)
		return c.showDecision(p)
	})
}

// decideAs decides as this user about the approval that the id of a request refers to.
func (c *approvalCommands) decideAs(ctx context.Context, s session, r api.DecideRequest) (p api.ApprovalView, err error) {
	resolve := c.approvalID
	if r.As == "revoked" {
		resolve = c.grantID
	}
	if r.ID, err = resolve(ctx, s, r.ID); err != nil {
		return p, err
	}
	r.Actor = c.actor()
	return s.Decide(ctx, r)
}

func (c *approvalCommands) showDecision(p api.ApprovalView) error {
	return c.emit(view{data: p, names: []string{p.ID}, text: func(w io.Writer) error {
		return writeLines(w, []string{decisionText(p)})
	}})
}

func decisionText(p api.ApprovalView) string {
	if p.Status == statemachine.ApprovalPending {
		return fmt.Sprintf("%s: %d of %d have agreed", p.ID, len(p.Votes), p.Quorum)
	}
	return fmt.Sprintf("%s is %s; task %s is %s", p.ID, p.Status, p.Task, p.TaskState)
}
