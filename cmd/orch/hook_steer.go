package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/hooks"
)

func newHookPause(c *hookCommands) *cobra.Command {
	var note string
	cmd := c.steering(&cobra.Command{
		Use:   "pause NAME",
		Short: "Keep a hook from taking deliveries",
		Long: `Keep a hook from taking deliveries. They are answered with 503, so that senders that repeat deliveries send them again later,
and recorded as refused.`,
		Example: "  orch hook pause deploy --note 'the release is frozen'",
	}, func() (api.SteerHookRequest, error) { return api.SteerHookRequest{Act: api.ActPause, Note: note}, nil })
	cmd.Flags().StringVar(&note, "note", "", "why")
	return cmd
}

func newHookResume(c *hookCommands) *cobra.Command {
	return c.steering(&cobra.Command{
		Use:     "resume NAME",
		Short:   "Let a paused hook take deliveries again",
		Example: "  orch hook resume deploy",
	}, func() (api.SteerHookRequest, error) { return api.SteerHookRequest{Act: api.ActResume}, nil })
}

func newHookRotate(c *hookCommands) *cobra.Command {
	var flags rotation
	cmd := c.steering(&cobra.Command{
		Use:   "rotate NAME --secret-file FILE",
		Short: "Give a hook another secret",
		Long: `Give a hook another secret. The secret before stays valid for a while, so that the sender can be changed without a gap. A second
rotation within that time ends it.`,
		Example: "  orch hook rotate deploy --secret-file new.txt --keep 1h",
	}, func() (api.SteerHookRequest, error) {
		secret, keep, err := c.newSecret(flags)
		return api.SteerHookRequest{Act: api.ActRotate, Secret: secret, Keep: keep}, err
	})
	flags.flags(cmd, "stays valid")
	return cmd
}

func newHookDelete(c *hookCommands) *cobra.Command {
	return &cobra.Command{
		Use:               "delete NAME",
		Short:             "Delete a hook with its secret; its tasks go on",
		Example:           "  orch hook delete deploy",
		Args:              takes("NAME"),
		ValidArgsFunction: c.completeHooks,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd.Context(), idle, func(s session) error {
				v, err := s.SteerHook(cmd.Context(), api.SteerHookRequest{Name: args[0], Act: api.ActDelete, Actor: c.actor()})
				if err != nil {
					return err
				}
				return c.emit(view{data: v, names: []string{args[0]}, text: func(w io.Writer) error {
					return writeLines(w, []string{args[0] + "  deleted"})
				}})
			})
		},
	}
}

// steering completes a command that changes what a hook does.
func (c *hookCommands) steering(cmd *cobra.Command, request func() (api.SteerHookRequest, error)) *cobra.Command {
	cmd.Args = takes("NAME")
	cmd.ValidArgsFunction = c.completeHooks
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := request()
		if err != nil {
			return err
		}
		r.Name = args[0]
		return c.with(cmd.Context(), idle, func(s session) error {
			r.Actor = c.actor()
			v, err := s.SteerHook(cmd.Context(), r)
			if err != nil {
				return err
			}
			c.noteIdle(s, v)
			return c.showHook(v)
		})
	}
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
