package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
)

func newDestinationPause(c *destinationCommands) *cobra.Command {
	var note string
	cmd := c.steering(&cobra.Command{
		Use:     "pause NAME",
		Short:   "Keep the deliveries of a destination until it is resumed",
		Example: "  orch destination pause pager --note 'the receiver moves'",
		Args:    takes("NAME"),
	}, func([]string) (api.SteerDestinationRequest, error) {
		return api.SteerDestinationRequest{Act: api.ActPause, Note: note}, nil
	})
	cmd.Flags().StringVar(&note, "note", "", "why")
	return cmd
}

func newDestinationResume(c *destinationCommands) *cobra.Command {
	return c.steering(&cobra.Command{
		Use:     "resume NAME",
		Short:   "Deliver to a paused destination again, also what has waited",
		Example: "  orch destination resume pager",
		Args:    takes("NAME"),
	}, func([]string) (api.SteerDestinationRequest, error) {
		return api.SteerDestinationRequest{Act: api.ActResume}, nil
	})
}

func newDestinationRotate(c *destinationCommands) *cobra.Command {
	var flags rotation
	cmd := c.steering(&cobra.Command{
		Use:   "rotate NAME --secret-file FILE",
		Short: "Give a destination another secret",
		Long: `Give a destination another secret. For a while deliveries are signed with both, so that the receiver can be changed without a gap. A
second rotation within that time ends it, and so does the same secret again with --keep 0s.`,
		Example: "  orch destination rotate pager --secret-file new.txt --keep 1h",
		Args:    takes("NAME"),
	}, func([]string) (api.SteerDestinationRequest, error) {
		secret, keep, err := c.newSecret(flags)
		return api.SteerDestinationRequest{Act: api.ActRotate, Secret: secret, Keep: keep}, err
	})
	flags.flags(cmd, "signs too")
	return cmd
}

func newDestinationRedeliver(c *destinationCommands) *cobra.Command {
	return c.steering(&cobra.Command{
		Use:     "redeliver NAME [DELIVERY...]",
		Short:   "Deliver now what has failed: the deliveries named, or all, dead letters included",
		Example: "  orch destination redeliver pager",
		Args:    takes("NAME", "[DELIVERY...]"),
	}, func(ids []string) (api.SteerDestinationRequest, error) {
		return api.SteerDestinationRequest{Act: api.ActRedeliver, Deliveries: ids}, nil
	})
}

func newDestinationDiscard(c *destinationCommands) *cobra.Command {
	return c.steering(&cobra.Command{
		Use:     "discard NAME [DELIVERY...]",
		Short:   "Forget dead letters of a destination: those named, or all",
		Example: "  orch destination discard pager",
		Args:    takes("NAME", "[DELIVERY...]"),
	}, func(ids []string) (api.SteerDestinationRequest, error) {
		return api.SteerDestinationRequest{Act: api.ActDiscard, Deliveries: ids}, nil
	})
}

func newDestinationTest(c *destinationCommands) *cobra.Command {
	return &cobra.Command{
		Use:               "test NAME",
		Short:             "Deliver an event of the type orch.test once, and show the answer",
		Example:           "  orch destination test pager",
		Args:              takes("NAME"),
		ValidArgsFunction: c.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.act(cmd.Context(), api.SteerDestinationRequest{Name: args[0], Act: api.ActTest}, func(_ session, v api.DestinationView) error {
				if v.Tested.Error != "" {
					return fault.New(fault.NetworkError, "%s", v.Tested.Error)
				}
				return c.emit(view{data: v.Tested, names: []string{v.Name}, text: func(w io.Writer) error {
					return writeLines(w, []string{v.Name + "  answered " + screen.Number(v.Tested.Status)})
				}})
			})
		},
	}
}

func newDestinationDelete(c *destinationCommands) *cobra.Command {
	return &cobra.Command{
		Use:               "delete NAME",
		Short:             "Delete a destination with its secret and its deliveries",
		Example:           "  orch destination delete pager",
		Args:              takes("NAME"),
		ValidArgsFunction: c.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.act(cmd.Context(), api.SteerDestinationRequest{Name: args[0], Act: api.ActDelete}, func(_ session, v api.DestinationView) error {
				return c.emit(view{data: v, names: []string{args[0]}, text: func(w io.Writer) error {
					return writeLines(w, []string{args[0] + "  deleted"})
				}})
			})
		},
	}
}

// steering completes a command that changes what a destination does. request gets the arguments after the name.
func (c *destinationCommands) steering(cmd *cobra.Command, request func(args []string) (api.SteerDestinationRequest, error)) *cobra.Command {
	cmd.ValidArgsFunction = c.completeNames
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := request(args[1:])
		if err != nil {
			return err
		}
		r.Name = args[0]
		return c.act(cmd.Context(), r, func(s session, v api.DestinationView) error {
			c.noteIdle(s)
			return c.showDestination(v)
		})
	}
	return cmd
}

// act makes a request and passes on the answer.
func (c *destinationCommands) act(ctx context.Context, r api.SteerDestinationRequest, show func(session, api.DestinationView) error) error {
	return c.with(ctx, idle, func(s session) error {
		r.Actor = c.actor()
		v, err := s.SteerDestination(ctx, r)
		if err != nil {
			return err
		}
		return show(s, v)
	})
}

// destinationFindings returns a finding for each destination that fails, has dead letters or no secret, or was paused by the node.
func destinationFindings(ctx context.Context, s session) (all []finding) {
	const part = "destinations"
	reply, err := s.Destinations(ctx, api.DestinationsRequest{})
	if err != nil {
		return []finding{failed(part, err, "orch destination list")}
	}
	for _, d := range reply.Destinations {
		var why string
		mend := "orch destination deliveries " + d.Name
		switch {
		case d.Paused != nil && d.Paused.By == "node":
			why, mend = "was paused: "+d.Paused.Note, "orch destination resume "+d.Name+", when its receiver takes deliveries again"
		case !d.HasSecret:
			why, mend = "has no secret, so nothing is delivered", "orch destination rotate "+d.Name+" --secret-file FILE"
		case d.Dead > 0:
			why = "has " + screen.Number(d.Dead) + " dead letters"
		case d.LastFailure != nil:
			why = "fails: " + d.LastFailure.Error
		default:
			continue
		}
		all = append(all, bad(part, d.Name+" "+why, mend))
	}
	return all
}
