package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/messages"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/rpc"
)

// messageCommands are the commands that send and read messages.
type messageCommands struct {
	*connector

	tools *toolset
	wait  *waiter
}

func newMessage(c *messageCommands) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "message",
		Short: "Send and read messages of agents and people",
		Long: `Send and read messages of agents and people. A message waits for its recipients until they acknowledge it or it
expires, whether they are there or not. You are user:NAME here; agents send and read with the tools MESSAGE_SEND,
MESSAGE_INBOX, MESSAGE_ACK and MESSAGE_GROUP, or with the resource orch://inbox of MCP.

  orch message send --to agent:builder --type task 'build the release branch'
  orch message watch --type status --count 1
  orch message send --reply-to MSG_01JD0000000000000000000000 'thank you'`,
		Example: "  orch message send --to agent:builder 'build the release branch'\n  orch message inbox",
	}
	asGroup(cmd)
	cmd.AddCommand(newMessageSend(c), newMessageInbox(c), newMessageWatch(c), newMessageAck(c),
		newMessageGroup(c, "join", "Join a group: what is sent to it from now on comes into your inbox"),
		newMessageGroup(c, "leave", "Leave a group: what was sent to it is gone from your inbox"), newMessageGroups(c))
	return cmd
}

// sendOptions are the flags of `orch message send`.
type sendOptions struct {
	to, exclude          []string
	typ, ttl             string
	priority             int
	correlation, replyTo string
	key, payload         string
}

func newMessageSend(c *messageCommands) *cobra.Command {
	var o sendOptions
	cmd := &cobra.Command{
		Use:   "send --to ADDRESS... TEXT | - | --payload OBJECT",
		Short: "Send a message",
		Long: `Send a message to agent:NAME, user:NAME, group:NAME or all, or to who sent the message that it answers. It is a call
of MESSAGE_SEND, so that the log tells who sent what. - reads the text from stdin.`,
		Example: `  orch message send --to agent:builder,agent:tester --priority 4 'stop'
  orch message send --to all --type discovery --ttl 7d --payload '{"skill":"translate"}'
  orch message send --reply-to MSG_01JD0000000000000000000000 - <answer.txt`,
		Args: takes("[TEXT | -]"),
		RunE: func(cmd *cobra.Command, args []string) error { return c.sendMessage(cmd.Context(), args, o) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.to, "to", nil, "recipients: agent:NAME, user:NAME, group:NAME or all (default: who sent the message of --reply-to)")
	f.StringSliceVar(&o.exclude, "exclude", nil, "agents and users that groups and all leave out")
	f.StringVar(&o.typ, "type", messages.DefaultType, "what kind of message it is"+choices(append(messages.Types(), "…")))
	f.IntVar(&o.priority, "priority", messages.DefaultPriority, "how urgent it is, 0 to 4, 4 being the most urgent")
	f.StringVar(&o.ttl, "ttl", "1d", "how long it waits, such as 90s, 12h or 7d, which is the most")
	f.StringVar(&o.correlation, "correlation", "", "id of the conversation (default: that of the message of --reply-to)")
	f.StringVar(&o.replyTo, "reply-to", "", "id of the message that this one answers")
	f.StringVar(&o.key, "key", "", "the same key with the same content is the same message")
	f.StringVar(&o.payload, "payload", "", "a JSON object to send instead of a text")
	addSettings(f, true, true)
	completeFlag(cmd, "type", completeWords(messages.Types()))
	completeFlag(cmd, "to", c.completeAddresses)
	return cmd
}

func (c *messageCommands) sendMessage(ctx context.Context, args []string, o sendOptions) error {
	in, err := c.sendArgs(args, o)
	if err != nil {
		return err
	}
	return c.messageCall(ctx, "MESSAGE_SEND", in, func(out json.RawMessage) error {
		var sent struct {
			ID        string   `json:"message_id"`
			To        []string `json:"to"`
			Existing  bool     `json:"existing"`
			Unknown   []string `json:"unknown"`
			Displaced []string `json:"displaced"`
		}
		if err := json.Unmarshal(out, &sent); err != nil {
			return fault.Wrap(fault.Internal, err, "the answer cannot be read")
		}
		for _, who := range sent.Unknown {
			c.note("nobody is known as %s so far", who)
		}
		for _, id := range sent.Displaced {
			c.note("%s made room for it in a full inbox; its sender is told", id)
		}
		return c.emit(view{data: out, names: []string{sent.ID}, text: func(w io.Writer) error {
			verb := " is sent to "
			if sent.Existing {
				verb = " was sent before to "
			}
			return writeLines(w, []string{sent.ID + verb + screen.Escape(strings.Join(sent.To, ", "))})
		}})
	})
}

// sendArgs returns the arguments of MESSAGE_SEND.
func (c *messageCommands) sendArgs(args []string, o sendOptions) (map[string]any, error) {
	life, err := parseSpan(o.ttl)
	if err != nil || life < messages.MinTTL || life > messages.MaxTTL {
		return nil, fault.New(fault.InvalidFormat, "%q is not a valid lifetime of a message", o.ttl).WithField("--ttl").
			WithHint("write it as 90s, 12h or 7d; 7d is the most")
	}
	in := map[string]any{"type": o.typ, "priority": o.priority, "ttl_seconds": int(life.Seconds())}
	for name, value := range map[string]string{"correlation_id": o.correlation, "reply_to": o.replyTo, "key": o.key} {
		if value != "" {
			in[name] = value
		}
	}
	for name, list := range map[string][]string{"to": o.to, "exclude": o.exclude} {
		if len(list) > 0 {
			in[name] = list
		}
	}
	if len(o.to) == 0 && o.replyTo == "" {
		return nil, fault.New(fault.RequiredField, "is missing").WithField("--to").WithHint("such as --to agent:builder, or --reply-to MESSAGE")
	}
	for _, to := range o.to {
		if err := messages.CheckAddress(to); err != nil {
			return nil, fault.From(err).WithField("--to")
		}
	}
	switch {
	case o.payload != "" && len(args) > 0:
		return nil, fault.New(fault.InvalidParams, "give a text or --payload, not both")
	case o.payload != "":
		in["payload"], err = parseJSON("--payload", o.payload)
	case len(args) == 0:
		return nil, fault.New(fault.RequiredField, "is missing").WithField("TEXT").WithHint("give a text, - for stdin, or --payload")
	case c.json && isObject(args[0]):
		return nil, fault.New(fault.InvalidParams, "--json is the form of the output").WithField("TEXT").
			WithHint("a payload is --payload OBJECT; to send this as a text, use -o json")
	default:
		in["text"], err = c.textArg(args[0])
	}
	return in, err
}

// isObject reports whether a text is a JSON object.
func isObject(text string) bool {
	_, ok := screen.Fields(json.RawMessage(text))
	return ok
}

// messageCall calls a messaging tool in a new task, and passes its output to do.
func (c *messageCommands) messageCall(ctx context.Context, name string, in map[string]any, do func(json.RawMessage) error) error {
	var out json.RawMessage
	err := c.with(ctx, working, func(s session) (err error) {
		out, err = c.messageOutput(ctx, s, name, in)
		return err
	})
	if err != nil {
		return err
	}
	return do(out)
}

// messageOutput calls a messaging tool in a new task and returns its output. The node of the session must execute tasks.
func (c *messageCommands) messageOutput(ctx context.Context, s session, name string, in map[string]any) (json.RawMessage, error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the arguments cannot be encoded")
	}
	t, err := c.tools.tool(ctx, name)
	if err != nil {
		return nil, err
	}
	checked, err := t.Check(raw)
	if err != nil {
		return nil, err
	}
	p, err := plan.FromCall(name, checked)
	if err != nil {
		return nil, err
	}
	reply, err := s.Submit(ctx, api.SubmitRequest{Plan: p.JSON(), Actor: c.actor()})
	if err != nil {
		return nil, err
	}
	r, err := c.wait.callReply(ctx, s, reply.ID, callOptions{})
	if err == nil {
		err = c.wait.callEnd(r)
	}
	return r.Output, err
}

func newMessageAck(c *messageCommands) *cobra.Command {
	return &cobra.Command{
		Use:     "ack MESSAGE...",
		Short:   "Say that messages are dealt with, so that they do not come again",
		Example: "  orch message ack MSG_01JD0000000000000000000000",
		Args:    takes("MESSAGE..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := messages.CheckIDs(args); err != nil {
				return fault.From(err).WithField("MESSAGE")
			}
			return c.ackMessages(cmd.Context(), args)
		},
	}
}

func (c *messageCommands) ackMessages(ctx context.Context, ids []string) error {
	return c.messageCall(ctx, "MESSAGE_ACK", map[string]any{"message_ids": ids}, func(out json.RawMessage) error {
		var acked messages.Acked
		if err := json.Unmarshal(out, &acked); err != nil {
			return fault.Wrap(fault.Internal, err, "the answer cannot be read")
		}
		for _, id := range acked.Unknown {
			c.note("%s does not wait for you", screen.Escape(id))
		}
		return c.emit(view{data: acked, rows: rowsOf(acked.Acknowledged), names: acked.Acknowledged, text: func(w io.Writer) error {
			return writeLines(w, []string{fmt.Sprintf("acknowledged: %d", len(acked.Acknowledged))})
		}})
	})
}

// newMessageGroup creates a command that changes a membership. name is the name of the command and of the tool's argument.
func newMessageGroup(c *messageCommands, name, short string) *cobra.Command {
	return &cobra.Command{
		Use: name + " GROUP", Short: short, Example: "  orch message " + name + " ops", Args: takes("GROUP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkGroup(name, args[0]); err != nil {
				return err
			}
			return c.messageCall(cmd.Context(), "MESSAGE_GROUP", map[string]any{name: args[0]}, func(out json.RawMessage) error {
				var g messages.Groups
				if err := json.Unmarshal(out, &g); err != nil {
					return fault.Wrap(fault.Internal, err, "the answer cannot be read")
				}
				return c.showGroups(g)
			})
		},
	}
}

// checkGroup returns an error if the name of a group is invalid. It accepts any name for leaving a group, because the group may
// have been joined before the current rules for names.
func checkGroup(verb, group string) error {
	if group == "" {
		return fault.New(fault.RequiredField, "is empty").WithField("GROUP").WithHint("write it as NAME or group:NAME")
	}
	if _, err := messages.CheckGroup(group); verb == "join" && err != nil {
		return fault.From(err).WithField("GROUP")
	}
	return nil
}

func newMessageGroups(c *messageCommands) *cobra.Command {
	return &cobra.Command{
		Use: "groups", Short: "List the groups that you are in", Example: "  orch message groups", Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), idle, func(s session) error {
				g, err := c.messageBroker(s).Group(cmd.Context(), c.self(), messages.GroupChange{})
				if err != nil {
					return err
				}
				return c.showGroups(g)
			})
		},
	}
}

func (c *messageCommands) showGroups(g messages.Groups) error {
	return c.emit(view{data: g, rows: rowsOf(g.Groups), names: g.Groups, text: func(w io.Writer) error {
		if len(g.Groups) == 0 {
			return writeLines(w, []string{c.actor() + " is in no group"})
		}
		return writeLines(w, g.Groups)
	}})
}

// messageBroker returns the broker of a session's node.
func (*messageCommands) messageBroker(s session) messages.Broker[messages.Delegation] {
	return rpc.NewMessageClient[messages.Delegation](s, bus.MessagesPrefix)
}

// self returns the delegation with which a user reads their own inbox.
func (c *messageCommands) self() messages.Delegation {
	return messages.Delegation{For: c.actor(), By: c.actor()}
}

// completeAddresses completes an address with the identities that have tokens. It returns none if no node runs.
func (c *messageCommands) completeAddresses(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	words := []string{messages.All, c.actor()}
	if c.configure(cmd) != nil {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
	defer cancel()
	s, err := c.nodes.Dial(ctx, c.cfg)
	if err != nil {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
	defer func() { _ = closeSession(ctx, s) }() // a completion cannot show an error
	store, ok := s.(bus.TokenStore)
	if !ok {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
	list, _ := store.ListTokens(ctx) // a completion cannot show an error
	for _, t := range list {
		kind := "user:"
		if t.Role == bus.RoleAgent {
			kind = events.AgentPrefix
		}
		if safeWord(t.Name) {
			words = append(words, kind+t.Name)
		}
	}
	slices.Sort(words)
	return slices.Compact(words), cobra.ShellCompDirectiveNoFileComp
}
