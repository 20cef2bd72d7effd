package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// showOptions are the flags of `orch agent show`.
type showOptions struct {
	turn int
	rev  uint64
}

func newAgentShow(c *agentCommands) *cobra.Command {
	var o showOptions
	cmd := &cobra.Command{
		Use:   "show ID [STEP]",
		Short: "Show the conversation of an agent step with its model",
		Long: `Show what an agent step and its model said: each turn with its time, tokens and cost, the answer of the model, and its
calls with their results as the model sees them. STEP is the key of the step; it can be left out if the task has one agent step.`,
		Example:           "  orch agent show @last\n  orch agent show @last review --turn 3\n  orch agent show @last --rev 40 -o json",
		Args:              takes("ID", "[STEP]"),
		ValidArgsFunction: c.completeIDs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("turn") && o.turn < 1 {
				return fault.New(fault.ValidationError, "the first turn is 1").WithField("--turn")
			}
			r := api.ConversationRequest{Rev: o.rev, From: o.turn, Limit: api.MaxTurns}
			if o.turn > 0 {
				r.Limit = 1
			}
			if len(args) > 1 {
				r.Step = args[1]
			}
			return c.showConversation(cmd.Context(), args[0], r)
		},
	}
	cmd.Flags().IntVar(&o.turn, "turn", 0, "only this turn, with more of its texts")
	cmd.Flags().Uint64Var(&o.rev, "rev", 0, "revision of the task (0: the newest)")
	return cmd
}

func (c *agentCommands) showConversation(ctx context.Context, text string, r api.ConversationRequest) error {
	return c.withTask(ctx, idle, text, func(s session, id events.TaskID) error {
		r.ID = id
		reply, err := conversation(ctx, s, r)
		if err != nil {
			return err
		}
		lines := conversationText{c.style(c.outTTY), r.Limit == 1}
		return c.emit(view{data: reply, rows: rowsOf(reply.Turns), names: []string{reply.Step}, text: func(w io.Writer) error {
			return writeLines(w, lines.conversation(reply))
		}})
	})
}

// conversation reads one turn, or all pages of the conversation at one revision.
func conversation(ctx context.Context, s session, r api.ConversationRequest) (api.ConversationReply, error) {
	reply, err := s.Conversation(ctx, r)
	if err != nil || r.Limit == 1 {
		if err == nil && len(reply.Turns) == 0 {
			err = fault.New(fault.NotFound, "the step %s has %s", reply.Step, screen.Plural(reply.Total, "turn")).WithField("--turn")
		}
		reply.Next = 0
		return reply, err
	}
	for next := reply.Next; next > 0; {
		r.Step, r.Rev, r.From = reply.Step, reply.Rev, next
		page, err := s.Conversation(ctx, r)
		if err != nil {
			return reply, err
		}
		reply.Turns = append(reply.Turns, page.Turns...)
		next = page.Next
	}
	reply.Next = 0
	return reply, nil
}

// conversationText formats a conversation for people.
type conversationText struct {
	style screen.Style
	// whole shows the arguments and results of calls with all their lines.
	whole bool
}

func (d conversationText) conversation(r api.ConversationReply) []string {
	lines := d.head(r)
	for _, t := range r.Turns {
		lines = append(append(lines, ""), d.turn(t)...)
	}
	if len(r.Unheard) > 0 {
		lines = append(append(lines, "", "not heard yet:"), indent(saidLines(r.Unheard))...)
	}
	if r.Error != nil {
		lines = append(append(lines, ""), textLines("error: "+r.Error.Error())...)
	}
	return lines
}

// head returns what the agent is, its limits, and what the model sees at first.
func (d conversationText) head(r api.ConversationReply) []string {
	lines := []string{d.style.Bold(screen.Escape(r.Step)) + "  " + string(r.State) + d.after(r.Reason) + "  " + screen.Plural(r.Total, "turn") + ofMost(r.Limits.MaxTurns)}
	if len(r.Models) == 0 {
		return lines
	}
	lines = append(lines, "models: "+screen.Escape(strings.Join(r.Models, ", then ")), "used: "+usedText(r))
	if r.Carried.Tokens > 0 {
		lines = append(lines, "of it carried over: "+spentText(r.Carried))
	}
	if r.Lost.Tokens > 0 {
		lines = append(lines, "lost: at most "+spentText(r.Lost))
	}
	if r.Reserved.Tokens > 0 {
		lines = append(lines, "reserved: "+spentText(r.Reserved))
	}
	if r.Approval != "" {
		lines = append(lines, d.style.Warn("waits: it has reached a limit; approval "+r.Approval))
	}
	if r.Waits {
		lines = append(lines, d.style.Warn("waits: for a message (orch agent say "+string(r.ID)+" …)"))
	}
	if r.Limits.Until != nil {
		lines = append(lines, "until: "+stamp(*r.Limits.Until))
	}
	if len(r.Tools) > 0 {
		lines = append(lines, "tools: "+screen.Escape(strings.Join(r.Tools, ", ")))
	}
	lines = append(lines, block("instructions", r.Instructions)...)
	return append(lines, block("prompt", r.Prompt)...)
}

// after returns a text that follows others; "" for none.
func (d conversationText) after(text string) string {
	if text == "" {
		return ""
	}
	return "  " + d.style.Dim(screen.Line(text))
}

func ofMost(limit int) string {
	if limit == 0 {
		return ""
	}
	return " of at most " + screen.Number(limit)
}

// usedText returns what an agent has used of its budget.
func usedText(r api.ConversationReply) string {
	text := spentText(r.Used) + ", " + screen.Plural(r.Used.Calls, "call")
	var limits []string
	if r.Limits.NanoUSD > 0 {
		limits = append(limits, "$"+events.Dollars(r.Limits.NanoUSD))
	}
	if r.Limits.Tokens > 0 {
		limits = append(limits, screen.Plural(int(r.Limits.Tokens), "token"))
	}
	if r.Limits.Calls > 0 {
		limits = append(limits, screen.Plural(r.Limits.Calls, "call"))
	}
	if len(limits) > 0 {
		text += " (of at most " + strings.Join(limits, ", ") + ")"
	}
	return text
}

// spentText returns tokens with their cost.
func spentText(s events.Spent) string {
	text := screen.Plural(int(s.Tokens), "token")
	if s.NanoUSD > 0 {
		text += ", $" + events.Dollars(s.NanoUSD)
	}
	return text
}

// block returns a text with its name: short ones in one line, others indented.
func block(name, text string) []string {
	text = strings.TrimRight(screen.EscapeLines(text), "\n")
	switch {
	case text == "":
		return nil
	case !strings.Contains(text, "\n"):
		return []string{name + ": " + text}
	default:
		return append([]string{name + ":"}, indent(strings.Split(text, "\n"))...)
	}
}

// turn returns the lines of a turn: its time, tokens and cost, what it adds, the answer, and the calls.
func (d conversationText) turn(t api.TurnView) []string {
	lines := []string{d.turnHead(t)}
	if len(t.Differs) > 0 {
		lines = append(lines, "  "+d.style.Warn("differs from the record: "+screen.Escape(strings.Join(t.Differs, ", "))))
	}
	lines = append(lines, indent(saidLines(t.Heard))...)
	if t.Added != "" {
		lines = append(lines, indent(block("added", t.Added))...)
	}
	if text := strings.TrimRight(screen.EscapeLines(t.Text), "\n"); text != "" {
		lines = append(lines, indent(strings.Split(text, "\n"))...)
	}
	for _, call := range t.Calls {
		lines = append(lines, indent(d.call(call))...)
	}
	if t.Error != nil {
		lines = append(lines, indent(textLines(d.style.Bad("error: ")+t.Error.Error()))...)
	}
	return lines
}

// saidLines returns what people have said.
func saidLines(said []api.SaidView) (lines []string) {
	for _, s := range said {
		lines = append(lines, block(screen.Escape(s.By), s.Text)...)
	}
	return lines
}

func (d conversationText) turnHead(t api.TurnView) string {
	parts := []string{d.style.Bold(fmt.Sprintf("turn %d", t.Turn))}
	if t.State != api.TurnAnswered {
		parts = append(parts, d.style.Warn(string(t.State)))
	}
	if t.Model != "" {
		parts = append(parts, screen.Escape(t.Model))
	}
	if t.AskedAt != nil {
		parts = append(parts, stamp(*t.AskedAt))
	}
	if text := durationText(t.Duration); text != "" {
		parts = append(parts, text)
	}
	if text := costText(t); text != "" {
		parts = append(parts, text)
	}
	if t.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", t.Attempt))
	}
	if t.ReusedFrom != "" {
		parts = append(parts, "from "+string(t.ReusedFrom))
	}
	if t.Due != nil {
		parts = append(parts, "again at "+stamp(*t.Due))
	}
	if t.Stop != "" && t.Stop != "end" && t.Stop != "calls" {
		parts = append(parts, "stopped: "+screen.Escape(t.Stop))
	}
	switch {
	case t.Final:
		parts = append(parts, "without tools")
	case t.Summarizes > 0:
		parts = append(parts, "summarizes turns 1 to "+screen.Number(t.Summarizes))
	}
	return strings.TrimRight(strings.Join(parts, "  "), " ")
}

// costText returns the tokens and the cost of a turn, or what they are at most; "" for a refused turn, which costs nothing.
func costText(t api.TurnView) string {
	if t.State == api.TurnRefused {
		return ""
	}
	if t.Usage == nil {
		return strings.TrimPrefix(reservedText(t.Reserved), ", ")
	}
	text := fmt.Sprintf("%s + %s tokens", screen.Number(int(t.Usage.Request())), screen.Number(int(t.Usage.Output)))
	if t.NanoUSD > 0 {
		text += ", $" + events.Dollars(t.NanoUSD)
	}
	if t.Estimated {
		text += " (estimated)"
	}
	if t.Charged.Tokens > 0 {
		text += "; child tasks " + spentText(t.Charged)
	}
	return text
}

// call returns a call in two lines: its arguments and its result.
func (d conversationText) call(c api.TurnCall) []string {
	mark := treeRenderer{style: d.style}.mark(c.State)
	head := []string{mark + " " + d.style.Bold(screen.Escape(c.Tool))}
	if !d.whole {
		head = append(head, screen.Line(c.Args))
	}
	head = append(head, d.style.Dim(screen.Escape(c.Step)))
	if c.Duration > 0 {
		head = append(head, screen.Duration(c.Duration))
	}
	if c.Child != "" {
		head = append(head, string(c.Child))
	}
	if c.Recorded {
		head = append(head, d.style.Dim("recorded"))
	}
	ended := c.State.Terminal() || c.Failed
	if !ended {
		head = append(head, string(c.State)+approvalText(c))
	}
	lines := []string{strings.Join(head, "  ")}
	switch {
	case d.whole:
		lines = append(lines, indent(block("args", c.Args))...)
		return append(lines, indent(block("result", c.Result))...)
	case ended:
		return append(lines, "  → "+screen.Line(c.Result))
	default:
		return lines
	}
}

// approvalText names the approval that a call waits for.
func approvalText(c api.TurnCall) string {
	if c.State != statemachine.StepParked || c.Approval == "" {
		return ""
	}
	return ", waits for approval " + c.Approval
}
