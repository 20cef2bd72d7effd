package main

import (
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
	var body, event, delivery, subject string
	var headers []string
	cmd := &cobra.Command{
		Use:   "test NAME --body FILE",
		Short: "Show what a delivery to a hook would do, without doing it",
		Long: `Show what a delivery to a hook would do, without doing it. The node signs the body with the stored secret and handles it like a
delivery: it evaluates when and the inputs, and checks the plan with them. It fails if the delivery would be refused. A hook of the
provider nats handles it like a message of its stream.`,
		Example:           `  orch hook test deploy --body push.json --event push`,
		Args:              takes("NAME"),
		ValidArgsFunction: c.completeHooks,
		RunE: func(cmd *cobra.Command, args []string) error {
			r := api.TestHookRequest{Name: args[0], Delivery: delivery, Subject: subject, Headers: map[string]string{}, Actor: c.actor()}
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
				if err := c.showTest(args[0], reply); err != nil {
					return err
				}
				return refusedTest(reply.Result)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&body, "body", "", "file with the body, - for stdin (default: empty)")
	f.StringArrayVar(&headers, "header", nil, "header of the delivery, as 'NAME: VALUE' (repeatable)")
	f.StringVar(&event, "event", "", "event of GitHub, such as push")
	f.StringVar(&delivery, "delivery", "", "id of the delivery (default: a new one)")
	f.StringVar(&subject, "subject", "", "subject of a message of a stream (default: that of the hook, if it takes one alone)")
	return cmd
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
