package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
)

func newHookPause(c *hookCommands) *cobra.Command {
	var note string
	cmd := c.steering(&cobra.Command{
		Use:   "pause NAME",
		Short: "Keep a hook from taking deliveries",
		Long: `Keep a hook from taking deliveries. They are answered with 503, so that senders that repeat deliveries send them again later,
and recorded as refused. The messages of a stream wait there.`,
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

// hookFindings returns a finding for each hook that takes nothing.
func hookFindings(ctx context.Context, s session) (all []finding) {
	const part = "hooks"
	reply, err := s.Hooks(ctx, api.HooksRequest{})
	if err != nil {
		return []finding{failed(part, err, "orch hook list")}
	}
	for _, h := range reply.Hooks {
		switch {
		case h.Paused != nil:
		case h.Problem != "":
			all = append(all, bad(part, h.Name+" takes nothing: "+h.Problem, "orch hook get "+h.Name+" shows its stream, and whether it takes messages again"))
		case h.Definition.Provider.Signs() && !h.HasSecret:
			all = append(all, bad(part, h.Name+" has no secret, so it takes nothing", "orch hook rotate "+h.Name+" --secret-file FILE"))
		}
	}
	return all
}
