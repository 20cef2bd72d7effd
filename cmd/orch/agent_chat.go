package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// The lines that are commands of a chat and no messages.
const (
	chatEnd  = "/end"
	chatHelp = "/help"
)

func newAgentChat(c *agentCommands) *cobra.Command {
	var o submitOptions
	var model, task string
	cmd := &cobra.Command{
		Use:   "chat [NAME|FILE] [PROMPT]",
		Short: "Talk with an agent that a file describes; the conversation survives everything",
		Long: `Talk with an agent, in lines: each line is a message, and the answer follows when the agent has made the calls that it
needs. NAME is that of a file .orch/agents/NAME.yaml, as for orch agent ask. The conversation is a task: it survives
crashes and the end of this command, which --task continues. The line ` + chatEnd + ` ends it; its report is the last answer.
Ctrl-C and Ctrl-D leave it. ` + chatHelp + ` says how the chat works. A message that begins with a slash is written with two.`,
		Example: "  orch agent chat helper\n  orch agent chat helper 'What changed this week?' --model local/qwen\n  orch agent chat --task @last",
		Args:    takes("[NAME|FILE]", "[PROMPT]"), ValidArgsFunction: c.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case task != "" && len(args) > 0:
				return fault.New(fault.InvalidParams, "--task continues a chat and takes no %s", "NAME|FILE")
			case task != "":
				return c.continueChat(cmd.Context(), task)
			case len(args) == 0:
				return fault.New(fault.RequiredField, "is missing").WithField("NAME|FILE").WithHint("usage: %s", cmd.UseLine())
			}
			var err error
			if o.file, err = c.agentFile(args[0]); err != nil {
				return err
			}
			o.inputs = []string{"chat:=true"}
			if model != "" {
				o.inputs = append(o.inputs, "model="+model)
			}
			return c.startChat(cmd.Context(), o, args[1:])
		},
	}
	f := cmd.Flags()
	f.StringVar(&model, "model", "", "model to ask instead of that in the file")
	f.StringVar(&task, "task", "", "continue the chat of this task")
	f.StringVar(&o.name, "name", "", "name of the task")
	f.StringArrayVar(&o.labels, "label", nil, "label as key=value (repeatable)")
	addSettings(f, true, true)
	return cmd
}

// startChat submits a chat with its first message, and goes on with it.
func (c *agentCommands) startChat(ctx context.Context, o submitOptions, prompt []string) error {
	lines := bufio.NewReader(c.in)
	first := strings.Join(prompt, " ")
	if first == "" {
		first, _, _ = c.nextMessage(ctx, lines, "ID") // without a message there is no chat, whatever the reason
	}
	if ctx.Err() != nil {
		return fault.From(ctx.Err())
	}
	if first == "" {
		return fault.New(fault.RequiredField, "a chat begins with a message").WithField("PROMPT")
	}
	o.inputs = append(o.inputs, "prompt="+first)
	request, err := c.submits.submitRequest(ctx, o)
	if err != nil {
		return err
	}
	return c.with(ctx, working, func(s session) error {
		request.Actor = c.actor()
		reply, err := s.Submit(ctx, request)
		if err != nil {
			return err
		}
		c.wait.noteStarted(reply)
		return c.chat(ctx, s, reply.ID, lines, 0)
	})
}

// continueChat goes on with a chat. It shows the last answer again.
func (c *agentCommands) continueChat(ctx context.Context, task string) error {
	return c.withTask(ctx, working, task, func(s session, id events.TaskID) error {
		r, err := s.Conversation(ctx, api.ConversationRequest{ID: id, From: -1, Limit: 1})
		if err != nil {
			return err
		}
		return c.chat(ctx, s, id, bufio.NewReader(c.in), max(r.Total-1, 0))
	})
}

// readMessage reads a line. At the end of the input it returns io.EOF, perhaps with a last line. When ctx ends it returns the error of ctx;
// lines is not read again then.
func (c *agentCommands) readMessage(ctx context.Context, lines *bufio.Reader) (string, error) {
	if c.inTTY && c.errTTY {
		_, _ = io.WriteString(c.err, "> ") // if stderr is closed, nobody sees it
	}
	var line string
	read := make(chan error, 1)
	go func() { // a read cannot be cancelled; it ends with the process
		text, err := lines.ReadString('\n')
		line = strings.TrimSpace(text)
		read <- err
	}()
	select {
	case err := <-read:
		return line, err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// nextMessage reads lines until one is a message or ends the chat. The other commands of the chat are answered at once. At the end of the
// input it returns io.EOF, perhaps with a last message.
func (c *agentCommands) nextMessage(ctx context.Context, lines *bufio.Reader, id events.TaskID) (text string, end bool, err error) {
	for text == "" && !end && err == nil {
		var line string
		line, err = c.readMessage(ctx, lines)
		text, end = c.interpret(line, id)
	}
	return text, end, err
}

// interpret returns the message in a line, or whether the line ends the chat. It answers the other commands of the chat.
func (c *agentCommands) interpret(line string, id events.TaskID) (text string, end bool) {
	word, _, _ := strings.Cut(line, " ")
	switch {
	case !strings.HasPrefix(line, "/"):
		return line, false
	case strings.HasPrefix(line, "//"):
		return line[1:], false
	case line == chatEnd:
		return "", true
	case line == chatHelp:
		c.note("each line is a message. %s ends the chat; Ctrl-D leaves it, and orch agent chat --task %s goes on", chatEnd, id)
		c.note("tokens and costs: orch agent show %s. A message that begins with a slash: write two, such as //word", id)
	default:
		c.note("%s is no command of the chat, and nothing was sent; %s lists them, and with two slashes the line is a message: /%s",
			screen.Line(word), chatHelp, screen.Line(word))
	}
	return "", false
}

// chat shows the answers of an agent and sends it the lines of the user, until it has ended or there are no more lines. shown is how
// many turns have been shown.
func (c *agentCommands) chat(ctx context.Context, s session, id events.TaskID, lines *bufio.Reader, shown int) error {
	f := c.wait.follower(s, id, 0)
	f.hold = chatQuiet
	defer f.release(ctx, s)
	t := &chatting{agentCommands: c, follower: f, shown: shown}
	if c.inTTY && c.errTTY {
		c.note("each line is a message; %s ends the chat, Ctrl-D leaves it, %s says more", chatEnd, chatHelp)
	}
	for {
		ended, err := t.listen(ctx)
		switch {
		case ctx.Err() != nil:
			return c.leaveChat(id)
		case err != nil:
			return err
		case ended:
			return c.endChat(ctx, f)
		}
		text, end, err := c.nextMessage(ctx, lines, id)
		if ctx.Err() != nil || text == "" && !end && errors.Is(err, io.EOF) {
			return c.leaveChat(id)
		}
		if _, err := f.session.Say(ctx, api.SayRequest{ID: id, Text: text, End: end, Actor: c.actor()}); err != nil {
			return err
		}
	}
}

// leaveChat says how to go on with a chat that has not ended.
func (c *agentCommands) leaveChat(id events.TaskID) error {
	c.note("the chat waits; go on: orch agent chat --task %s, end it: orch agent say %s --end", id, id)
	return nil
}

// endChat shows the end of a chat, and how to go on with one that has failed or was cancelled.
func (c *agentCommands) endChat(ctx context.Context, f *follower) error {
	err := c.wait.finish(ctx, f)
	if _, failed := errors.AsType[*exitError](err); failed {
		c.note("go on from the last answer: orch retry %s --detach, then orch agent chat --task @last", f.id)
	}
	return err
}

// chatting shows what an agent says.
type chatting struct {
	*agentCommands
	*follower

	shown int
	// waits is the newest line about what the agent waits for.
	waits string
}

// listen shows the turns of the agent until it waits for a message. It returns true if the task has ended.
func (t *chatting) listen(ctx context.Context) (ended bool, err error) {
	for {
		seen := t.seen
		reply, err := t.next(ctx)
		if err != nil {
			return false, err
		}
		t.notePeople(reply.Commits)
		t.noteRetries(reply.Commits)
		if len(reply.Commits) == 0 && reply.Version == seen && !reply.Ended { // nothing has happened
			t.noteWait(ctx)
		}
		r, err := t.showTurns(ctx)
		if err != nil || reply.Ended || r.Waits {
			return reply.Ended, err
		}
	}
}

// showTurns shows the turns that have been answered since it was called last.
func (t *chatting) showTurns(ctx context.Context) (api.ConversationReply, error) {
	for {
		r, err := t.session.Conversation(ctx, api.ConversationRequest{ID: t.id, From: t.shown + 1})
		if err != nil {
			return r, err
		}
		for _, turn := range r.Turns {
			if turn.State == api.TurnAsking || turn.State == api.TurnActing {
				return r, nil
			}
			if err := t.showTurn(turn); err != nil {
				return r, err
			}
			t.shown = turn.Turn
		}
		if r.Next == 0 {
			return r, nil
		}
	}
}

// showTurn writes an answer to stdout, and its calls to stderr.
func (t *chatting) showTurn(turn api.TurnView) error {
	for _, call := range turn.Calls {
		t.note("  %s %s  %s", treeRenderer{}.mark(call.State), call.Tool, screen.Line(call.Args))
	}
	switch {
	case t.cfg.Output != "text":
		return t.emit(view{data: turn, names: []string{turn.Asks}})
	case turn.State == api.TurnRefused:
		t.note("  (the conversation is too long for the model)")
		return nil
	case turn.Summarizes > 0:
		t.note("  (a summary replaces the turns 1 to %d)", turn.Summarizes)
		return nil
	case turn.Text == "":
		return nil
	default:
		return writeLines(t.out, []string{strings.TrimRight(screen.EscapeLines(turn.Text), "\n")})
	}
}

// notePeople says what waits for a person: approvals and questions that the commits contain and do not settle.
func (t *chatting) notePeople(commits []api.CommitView) {
	settled := map[string]bool{}
	for _, commit := range commits {
		for _, e := range commit.Events {
			switch d := e.Data.(type) {
			case *events.Decision:
				settled[d.ID] = e.Kind != events.ApprovalVoted
			case *events.Answer:
				settled[d.ID] = true
			}
		}
	}
	for _, commit := range commits {
		for _, e := range commit.Events {
			switch d := e.Data.(type) {
			case *events.Approval:
				if !settled[d.ID] {
					t.note("  %s waits for approval: orch approve %s", screen.Line(d.Description), d.ID)
				}
			case *events.Question:
				if !settled[d.ID] {
					t.note("  step %s asks: %s: orch questions %s", d.Step, screen.Line(questionText(d)), d.ID)
				}
			}
		}
	}
}

// questionText returns the text of a question, or its kind if it has none here.
func questionText(q *events.Question) string {
	var params struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(q.Params.Raw, &params) != nil || params.Message == "" {
		return q.Kind
	}
	return params.Message
}
