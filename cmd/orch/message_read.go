package main

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/messages"
)

// readOptions are the flags of the commands that read an inbox.
type readOptions struct {
	typ, from, correlation string
	minPriority            int
	after                  uint64
	as                     string
	// inbox
	limit    int
	all, ack bool
	wait     time.Duration
	// watch
	count   int
	timeout time.Duration
}

// addReading adds the flags that select messages.
func (c *messageCommands) addReading(cmd *cobra.Command, o *readOptions) {
	f := cmd.Flags()
	f.StringVar(&o.typ, "type", "", "only messages of this type"+choices(append(messages.Types(), "…")))
	f.StringVar(&o.from, "from", "", "only messages of this sender, such as agent:builder")
	f.StringVar(&o.correlation, "correlation", "", "only messages of this conversation")
	f.IntVar(&o.minPriority, "min-priority", 0, "only messages of this priority and above")
	f.Uint64Var(&o.after, "after", 0, "begin after this position, in the order of arrival")
	f.StringVar(&o.as, "as", "", "read the inbox of somebody else, such as agent:builder; the log tells that you did")
	completeFlag(cmd, "type", completeWords(messages.Types()))
	completeFlag(cmd, "from", c.completeAddresses)
	completeFlag(cmd, "as", c.completeAddresses)
}

func (o *readOptions) query() messages.Query {
	return messages.Query{
		Type: o.typ, Sender: o.from, Correlation: o.correlation, MinPriority: o.minPriority, After: o.after,
	}
}

// check validates the flags. It returns VALIDATION_ERROR or INVALID_FORMAT with the flag as the field.
func (o *readOptions) check() error {
	switch {
	case o.count < 0:
		return fault.New(fault.ValidationError, "%d is not a valid number of messages", o.count).WithField("--count").WithHint("use 1 and above, or 0 for no end")
	case o.timeout < 0:
		return fault.New(fault.ValidationError, "%s is not a valid time to wait", o.timeout).WithField("--timeout").WithHint("use a time such as 30s, or 0 for no end")
	case o.wait < 0 || o.wait > messages.MaxWait:
		return fault.New(fault.ValidationError, "%s is not a valid time to wait", o.wait).WithField("--wait").WithHint("use 0s to %s", messages.MaxWait)
	case o.limit < 0 || o.limit > messages.MaxPage:
		return fault.New(fault.ValidationError, "%d is not a valid number of messages", o.limit).WithField("--limit").WithHint("use 1 to %d, or --all", messages.MaxPage)
	}
	return o.checkSelection()
}

func (o *readOptions) checkSelection() error {
	q := o.query()
	err := q.CheckSelection()
	if err == nil {
		return nil
	}
	flags := map[string]string{"type": "--type", "sender": "--from", "correlation_id": "--correlation", "min_priority": "--min-priority"}
	e := *fault.From(err)
	e.Field = cmp.Or(flags[e.Field], e.Field)
	return &e
}

// reader returns whose inbox is read, and the mode that an embedded node needs. Reading the inbox of somebody else needs a node
// that executes tasks, because a task records the reading.
func (c *messageCommands) reader(o readOptions) (messages.Delegation, mode, error) {
	who := c.self()
	if err := o.check(); err != nil {
		return who, idle, err
	}
	if o.as == "" || o.as == who.By {
		return who, idle, nil
	}
	if err := messages.CheckIdentity(o.as); err != nil {
		return who, idle, fault.New(fault.InvalidFormat, "%q has no inbox", o.as).WithField("--as").WithHint("use agent:NAME or user:NAME")
	}
	if o.ack {
		return who, idle, fault.New(fault.InvalidParams, "nobody acknowledges for somebody else").WithField("--ack")
	}
	who.For = o.as
	return who, working, nil
}

func newMessageInbox(c *messageCommands) *cobra.Command {
	var o readOptions
	cmd := &cobra.Command{
		Use:   "inbox",
		Short: "List the messages that wait for you",
		Long: `List the messages that wait for you, the most urgent first. Each is listed until it is acknowledged, by --ack or
orch message ack, or expires.`,
		Example: "  orch message inbox --type task\n  orch message inbox --all --ack -o jsonl",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.readInbox(cmd.Context(), o) },
	}
	c.addReading(cmd, &o)
	cmd.Flags().IntVar(&o.limit, "limit", messages.DefaultPage, "how many to list at most, 1 to 100")
	cmd.Flags().BoolVar(&o.all, "all", false, "list all of them, in the order of arrival")
	cmd.Flags().BoolVar(&o.ack, "ack", false, "acknowledge what is listed")
	cmd.Flags().DurationVar(&o.wait, "wait", 0, "wait for a message when there is none, at most 1m")
	addSettings(cmd.Flags(), true, true)
	return cmd
}

func (c *messageCommands) readInbox(ctx context.Context, o readOptions) error {
	who, m, err := c.reader(o)
	if err != nil {
		return err
	}
	if o.ack {
		m = working
	}
	return c.with(ctx, m, func(s session) error {
		list, left, err := c.fetchSelected(ctx, s, who, o)
		if err != nil {
			return err
		}
		if err := c.showMessages(list, left); err != nil || !o.ack || len(list) == 0 {
			return err
		}
		return c.ackListed(ctx, s, list)
	})
}

// fetchSelected returns the selected messages, and the number of messages that it left out because of the limit.
func (c *messageCommands) fetchSelected(ctx context.Context, s session, who messages.Delegation, o readOptions) ([]messages.Message, int, error) {
	if o.wait > 0 {
		defer c.noteLater("waiting for a message, at most " + o.wait.String())()
	}
	q := o.query()
	q.Limit, q.Wait = o.limit, o.wait
	if o.all {
		q.Limit, q.InOrder = messages.MaxPage, true
	}
	list := []messages.Message{}
	for {
		page, err := c.messageBroker(s).Inbox(ctx, who, q)
		if err != nil {
			return nil, 0, err
		}
		list = append(list, page.Messages...)
		if !page.More || !o.all {
			return list, page.Waiting - len(page.Messages), nil
		}
		q.After, q.Wait = page.Next, 0
	}
}

// ackListed acknowledges the listed messages. It is called after they were shown.
func (c *messageCommands) ackListed(ctx context.Context, s session, list []messages.Message) error {
	for len(list) > 0 {
		n := min(len(list), messages.MaxAcks)
		var ids []string
		for _, m := range list[:n] {
			ids = append(ids, m.ID)
		}
		if _, err := c.messageOutput(ctx, s, "MESSAGE_ACK", map[string]any{"message_ids": ids}); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

func (c *messageCommands) showMessages(list []messages.Message, left int) error {
	var names []string
	for _, m := range list {
		names = append(names, m.ID)
	}
	if left > 0 {
		c.note("%d more are not shown; see all with --all", left)
	}
	return c.emit(view{data: list, rows: rowsOf(list), names: names, text: func(w io.Writer) error {
		if len(list) == 0 {
			return writeLines(w, []string{"no message waits"})
		}
		var table screen.Table
		table.Row("MESSAGE", "FROM", "TYPE", "PRIORITY", "EXPIRES", "WHAT")
		for _, m := range list {
			table.Row(m.ID, m.Sender, m.Type, strconv.Itoa(m.Priority), dueText(c.now(), m.ExpiresAt), oneLine(m))
		}
		return table.Write(w, c.width())
	}})
}

// oneLine returns the content of a message in one line. If the content is only a text, it returns the text.
func oneLine(m messages.Message) string {
	var fields map[string]json.RawMessage
	var text string
	if json.Unmarshal(m.Payload, &fields) == nil && len(fields) == 1 && json.Unmarshal(fields["text"], &text) == nil {
		return text
	}
	return string(m.Payload)
}

func newMessageWatch(c *messageCommands) *cobra.Command {
	var o readOptions
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Show messages as they come",
		Long: `Show the messages that wait for you and then each one as it comes, in the order of arrival, until Ctrl-C. With
-o jsonl each line has the position after which to go on: --after POSITION.`,
		Example: "  orch message watch --correlation MSG_01JD0000000000000000000000 --count 1 --timeout 1m -o jsonl",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.watchInbox(cmd.Context(), o) },
	}
	c.addReading(cmd, &o)
	cmd.Flags().IntVar(&o.count, "count", 0, "end after so many messages (0: never)")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "end after this time (0: never)")
	addSettings(cmd.Flags(), true, true)
	return cmd
}

const (
	// tailWait is how long one request of a watch waits.
	tailWait = 30 * time.Second
	// tailAgain is the pause between two attempts of a watch while no node answers.
	tailAgain = time.Second
)

func (c *messageCommands) watchInbox(ctx context.Context, o readOptions) error {
	who, _, err := c.reader(o)
	if err != nil {
		return err
	}
	limited, cancel := ctx, context.CancelFunc(func() {})
	if o.timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, o.timeout)
	}
	defer cancel()
	err = c.with(ctx, staying, func(s session) error { return c.tail(limited, s, who, o) })
	timedOut := limited.Err() != nil || o.timeout > 0 && fault.Has(err, fault.Timeout) // the node may notice the timeout first
	if !timedOut || ctx.Err() != nil {
		return err
	}
	if o.count > 0 {
		return fault.New(fault.Timeout, "fewer than %d messages came in %s", o.count, o.timeout)
	}
	return nil
}

// tail shows new messages until ctx ends or o.count messages were shown. It reconnects to a restarted node.
func (c *messageCommands) tail(ctx context.Context, s session, who messages.Delegation, o readOptions) error {
	q := o.query()
	q.InOrder, q.Limit, q.Wait = true, messages.MaxPage, tailWait
	if o.count > 0 {
		q.Limit = min(o.count, messages.MaxPage)
	}
	stopNote := c.noteLater("waiting for messages; stop with Ctrl-C")
	defer stopNote()
	noted := false
	for shown := 0; o.count == 0 || shown < o.count; {
		page, err := c.messageBroker(s).Inbox(ctx, who, q)
		switch {
		case ctx.Err() != nil:
			return fault.From(ctx.Err())
		case fault.Has(err, fault.Unavailable) && !s.Embedded():
			if !noted {
				c.note("the node does not answer; waiting for it")
			}
			noted = true
			_ = pause.For(ctx, tailAgain)
			continue
		case err != nil:
			return err
		}
		noted = false
		if len(page.Messages) > 0 {
			stopNote()
		}
		for _, m := range page.Messages[:limitTo(len(page.Messages), o.count, shown)] {
			if err := c.showMessage(m); err != nil {
				return err
			}
			shown++
		}
		q.After = page.Next
	}
	return nil
}

// limitTo returns how many of n messages to show if shown of count messages have been shown. A count of 0 is no limit.
func limitTo(n, count, shown int) int {
	if count == 0 {
		return n
	}
	return min(n, count-shown)
}

// showMessage shows one message in one line.
func (c *messageCommands) showMessage(m messages.Message) error {
	switch c.cfg.Output {
	case "json", "jsonl":
		return writeLine(c.out, m)
	case "name":
		return writeLines(c.out, []string{m.ID})
	default:
		head := []string{m.At.Local().Format(time.TimeOnly), m.ID, m.Sender, m.Type, "p" + strconv.Itoa(m.Priority)}
		line := screen.Escape(strings.Join(head, "  ")) + "  " + screen.Escape(cmp.Or(oneLine(m), "-"))
		return writeLines(c.out, []string{line})
	}
}
