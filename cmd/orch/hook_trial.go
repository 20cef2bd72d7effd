package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/hooks"
)

func newHookTest(c *hookCommands) *cobra.Command {
	var body, event, delivery, subject, file string
	var headers []string
	cmd := &cobra.Command{
		Use:   "test [NAME] --body FILE",
		Short: "Show what a delivery to a hook would do, without doing it",
		Long: `Show what a delivery to a hook would do, without doing it. The node signs the body with the stored secret and handles it like a
delivery: it evaluates when and the inputs, and checks the plan with them. It fails if the delivery would be refused. A hook of the
provider nats handles it like a message of its stream.

With -f it tries a definition that is not stored, without a signature. NAME is then what hook.name gives.`,
		Example:           "  orch hook test deploy --body push.json --event push\n  orch hook test -f paid.yaml --body paid.json",
		Args:              takes("[NAME]"),
		ValidArgsFunction: c.completeHooks,
		RunE: func(cmd *cobra.Command, args []string) error {
			r := api.TestHookRequest{Delivery: delivery, Subject: subject, Headers: map[string]string{}, Actor: c.actor()}
			if err := c.tested(cmd.Context(), &r, args, file, body); err != nil {
				return err
			}
			for _, one := range headers {
				name, value, found := strings.Cut(one, ":")
				if !found {
					return fault.New(fault.InvalidFormat, "%q is not of the form NAME: VALUE", one).WithField("--header")
				}
				r.Headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
			}
			if event != "" {
				r.Headers["X-GitHub-Event"] = event
			}
			if body != "" {
				text, err := c.read(body, 1<<20)
				if err != nil {
					return err
				}
				r.Body = string(text)
			}
			return c.with(cmd.Context(), idle, func(s session) error {
				reply, err := s.TestHook(cmd.Context(), r)
				if err != nil {
					return err
				}
				if err := c.showTest(r.Name, reply); err != nil {
					return err
				}
				return refusedTest(reply.Result)
			})
		},
	}
	f := cmd.Flags()
	f.StringVarP(&file, "file", "f", "", "try the definition in this file, - for stdin, instead of that of a hook")
	f.StringVar(&body, "body", "", "file with the body, - for stdin (default: empty)")
	f.StringArrayVar(&headers, "header", nil, "header of the delivery, as 'NAME: VALUE' (repeatable)")
	f.StringVar(&event, "event", "", "event of GitHub, such as push")
	f.StringVar(&delivery, "delivery", "", "id of the delivery (default: a new one)")
	f.StringVar(&subject, "subject", "", "subject of a message of a stream (default: that of the hook, if it takes one alone)")
	return cmd
}

// tested sets what a test is about: the hook that is named, or a definition in a file.
func (c *hookCommands) tested(ctx context.Context, r *api.TestHookRequest, args []string, file, body string) error {
	switch {
	case len(args) == 0 && file == "":
		return fault.New(fault.RequiredField, "is missing").WithField("NAME").WithHint("name a hook, or a file with a definition: -f FILE")
	case file == stdinName && body == stdinName:
		return fault.New(fault.InvalidParams, "stdin is the definition already").WithField("--body")
	}
	if r.Name = "test"; len(args) > 0 {
		r.Name = args[0]
	}
	if file == "" {
		return nil
	}
	d, err := c.definitionFile(ctx, hookOptions{file: file})
	r.Definition = &d
	return err
}

// refusedTest returns an error if a delivery with the result would do nothing although the hook has chosen it.
func refusedTest(result hooks.Result) error {
	if result != hooks.Refused && result != hooks.Rejected {
		return nil
	}
	return fault.New(fault.ValidationError, "the delivery would be %s", result)
}

// showTest shows what a delivery would do.
func (c *hookCommands) showTest(name string, r api.TestHookReply) error {
	return c.emit(view{data: r, names: []string{string(r.Result)}, text: func(w io.Writer) error {
		lines := []string{screen.Escape(name + "  " + string(r.Result) + prefixed(": ", r.Reason))}
		add := func(name, text string) {
			if text != "" {
				lines = append(lines, fmt.Sprintf("  %-9s %s", name, screen.Escape(text)))
			}
		}
		add("delivery", r.Delivery)
		add("event", r.Event)
		add("task", r.Task)
		add("inputs", string(r.Inputs))
		if s := r.Signal; s != nil {
			add("signal", s.Name+" with "+string(s.Data))
		}
		return writeLines(w, lines)
	}})
}
