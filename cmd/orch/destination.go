package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/destinations"
	"github.com/orch-dev/orch/fault"
)

// destinationCommands are the commands about destinations.
type destinationCommands struct{ *connector }

// commands implements family.
func (c *destinationCommands) commands() []*cobra.Command {
	cmd := &cobra.Command{
		Use:     "destination",
		Aliases: []string{"destinations"},
		Short:   "Tell other systems about tasks and approvals by signed webhooks",
		Long: `Tell other systems about tasks and approvals by signed webhooks (Standard Webhooks).

A node that runs (orch serve) posts each event that a destination asks for to its URL, at least once, and tries again for three days. What
could not be delivered is a dead letter, which can be delivered again. Webhooks of other systems that start tasks are hooks: orch hook.`,
		Example: `  orch destination create pager https://example.com/orch --event task.failed --event 'approval.*' --secret-file secret.txt
  orch destination deliveries pager`,
	}
	asGroup(cmd)
	cmd.AddCommand(newDestinationList(c), newDestinationGet(c), newDestinationCreate(c), newDestinationDeliveries(c), newDestinationTest(c),
		newDestinationPause(c), newDestinationResume(c), newDestinationRotate(c), newDestinationRedeliver(c), newDestinationDiscard(c), newDestinationDelete(c))
	return []*cobra.Command{cmd}
}

// noteIdle tells that nothing is delivered if no node runs.
func (c *destinationCommands) noteIdle(s session) {
	if s.Embedded() {
		c.note("no node runs here, so nothing is delivered now; start one with: orch serve")
	}
}

func newDestinationList(c *destinationCommands) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the destinations, with the numbers of their deliveries",
		Example: "  orch destination list --json",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd.Context(), idle, func(s session) error {
				reply, err := s.Destinations(cmd.Context(), api.DestinationsRequest{})
				if err != nil {
					return err
				}
				return c.showList(reply.Destinations)
			})
		},
	}
}

func (c *destinationCommands) showList(list []api.DestinationView) error {
	v := view{data: list, rows: rowsOf(list), text: func(w io.Writer) error {
		if len(list) == 0 {
			c.note("no destinations; create one with: orch destination create NAME URL --secret-file FILE")
			return nil
		}
		var table screen.Table
		table.Row("NAME", "STATE", "DELIVERED", "PENDING", "DEAD", "URL")
		for _, d := range list {
			table.Row(d.Name, stateOfDestination(d), screen.Number(d.Delivered), screen.Number(d.Pending), screen.Number(d.Dead), screen.Line(d.Definition.URL))
		}
		return table.Write(w, c.width())
	}}
	for _, d := range list {
		v.names = append(v.names, d.Name)
	}
	return c.emit(v)
}

// stateOfDestination says in a few words whether a destination gets deliveries.
func stateOfDestination(d api.DestinationView) string {
	switch {
	case d.Paused != nil:
		return "paused by " + d.Paused.By
	case !d.HasSecret:
		return "without secret"
	case d.LastFailure != nil:
		return "failing"
	default:
		return "active"
	}
}

func newDestinationGet(c *destinationCommands) *cobra.Command {
	return &cobra.Command{
		Use:               "get NAME",
		Short:             "Show a destination: its definition, and how its deliveries go",
		Example:           "  orch destination get pager",
		Args:              takes("NAME"),
		ValidArgsFunction: c.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd.Context(), idle, func(s session) error {
				reply, err := s.Destinations(cmd.Context(), api.DestinationsRequest{Name: args[0]})
				if err != nil {
					return err
				}
				c.noteIdle(s)
				return c.showDestination(reply.Destinations[0])
			})
		},
	}
}

func newDestinationDeliveries(c *destinationCommands) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "deliveries NAME",
		Short: "List the dead letters of a destination, and the deliveries that wait",
		Long: `List the dead letters of a destination, and the deliveries that wait, the oldest first: the id, the event, its task, the attempts,
when the next one is due, and why the last one has failed. What has arrived is only counted.`,
		Example:           "  orch destination deliveries pager -n 20",
		Args:              takes("NAME"),
		ValidArgsFunction: c.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd.Context(), idle, func(s session) error {
				reply, err := s.Destinations(cmd.Context(), api.DestinationsRequest{Name: args[0], Deliveries: limit})
				if err != nil {
					return err
				}
				return c.showDeliveries(reply.Destinations[0])
			})
		},
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 100, "at most this many of each")
	return cmd
}

func (c *destinationCommands) showDeliveries(d api.DestinationView) error {
	all := slices.Concat(d.DeadDeliveries, d.PendingDeliveries)
	v := view{data: all, rows: rowsOf(all), text: func(w io.Writer) error {
		if len(all) == 0 {
			c.note("nothing waits and there are no dead letters")
			return nil
		}
		var table screen.Table
		table.Row("ID", "EVENT", "ATTEMPTS", "NEXT", "LAST")
		for _, one := range all {
			next, last := "dead", "-"
			switch {
			case one.NextAt != nil && one.NextAt.IsZero():
				next = "now"
			case one.NextAt != nil:
				next = one.NextAt.Format("01-02 15:04:05")
			}
			if one.Last != nil {
				last = one.Last.Error
			}
			table.Row(one.ID, one.Type, screen.Number(one.Attempts), next, screen.Line(last))
		}
		return table.Write(w, c.width())
	}}
	for _, one := range all {
		v.names = append(v.names, one.ID)
	}
	return c.emit(v)
}

// destinationOptions are the flags of `orch destination create`.
type destinationOptions struct {
	name, url, file, when, note, secretFile string
	events, labels                          []string
	paused, replace                         bool
}

func newDestinationCreate(c *destinationCommands) *cobra.Command {
	var o destinationOptions
	cmd := &cobra.Command{
		Use:   "create NAME [URL]",
		Short: "Create a destination, or replace its definition",
		Long: `Create a destination, or replace its definition. It hears of what happens from then on.

The definition is a URL and flags, or a file (-f) in YAML or JSON with url, events, labels, when and note. The URL is https, or http at a
loopback address. Addresses that are not public need the setting net_allow. The expression sees the body of the delivery as hook.body.

The secret (whsec_ and base64 of 24 to 64 bytes) signs the deliveries. It is read from a file or stdin, stored with the secrets of the node,
and shown nowhere. The same command again changes nothing; another definition needs --replace, which keeps secret, pause and deliveries.`,
		Example: `  orch destination create pager https://example.com/orch --event task.failed --label team=shop --secret-file secret.txt
  orch destination create audit -f audit.yaml --secret-file - < secret.txt`,
		Args: takes("NAME", "[URL]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			if len(args) > 1 {
				o.url = args[1]
			}
			return c.create(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", "", "file with the definition, - for stdin")
	f.StringArrayVar(&o.events, "event", nil, "type of events, or a group such as task.* (repeatable; default: all)")
	f.StringArrayVar(&o.labels, "label", nil, "label that the task must have, as KEY=VALUE (repeatable)")
	f.StringVar(&o.when, "when", "", "expression that chooses events (default: all)")
	f.StringVar(&o.note, "note", "", "what the destination is for")
	f.StringVar(&o.secretFile, "secret-file", "", "file with the secret that signs, - for stdin")
	f.BoolVar(&o.paused, "paused", false, "pause it as well")
	f.BoolVar(&o.replace, "replace", false, "replace the definition of an existing destination")
	for _, flag := range []string{"event", "label", "when", "note"} {
		cmd.MarkFlagsMutuallyExclusive("file", flag)
	}
	completeFlag(cmd, "event", completeWords(destinations.Types()))
	return cmd
}

func (c *destinationCommands) create(ctx context.Context, o destinationOptions) error {
	if o.file == stdinName && o.secretFile == stdinName {
		return fault.New(fault.InvalidParams, "stdin is the definition already").WithField("--secret-file")
	}
	d, err := c.definition(o)
	if err != nil {
		return err
	}
	secret, err := c.secretFrom(o.secretFile)
	if err != nil {
		return err
	}
	return c.with(ctx, idle, func(s session) error {
		v, err := s.PutDestination(ctx, api.PutDestinationRequest{Name: o.name, Definition: d, Secret: secret, Replace: o.replace, Paused: o.paused, Actor: c.actor()})
		if err != nil {
			return err
		}
		c.noteIdle(s)
		return c.showDestination(v)
	})
}

// definition returns what the command line defines.
func (c *destinationCommands) definition(o destinationOptions) (destinations.Definition, error) {
	if o.file != "" {
		if o.url != "" {
			return destinations.Definition{}, fault.New(fault.InvalidParams, "the file has a URL").WithField("URL")
		}
		text, err := c.read(o.file, destinations.MaxText)
		if err != nil {
			return destinations.Definition{}, err
		}
		return destinations.Parse(text)
	}
	d := destinations.Definition{URL: o.url, Events: o.events, When: o.when, Note: o.note}
	for _, pair := range o.labels {
		key, value, found := strings.Cut(pair, "=")
		if !found || key == "" {
			return d, fault.New(fault.InvalidFormat, "%q is not of the form KEY=VALUE", pair).WithField("--label")
		}
		if d.Labels == nil {
			d.Labels = map[string]string{}
		}
		d.Labels[key] = value
	}
	return d, d.Check()
}

func (c *destinationCommands) showDestination(d api.DestinationView) error {
	return c.emit(view{data: d, names: []string{d.Name}, text: func(w io.Writer) error {
		return writeLines(w, c.destinationLines(d))
	}})
}

func (c *destinationCommands) destinationLines(v api.DestinationView) []string {
	d := v.Definition
	lines := []string{v.Name + "  " + screen.Escape(d.URL)}
	add := func(name, format string, args ...any) {
		lines = append(lines, fmt.Sprintf("  %-10s %s", name, screen.Escape(fmt.Sprintf(format, args...))))
	}
	if d.Note != "" {
		add("note", "%s", d.Note)
	}
	if len(d.Events) > 0 {
		add("events", "%s", strings.Join(d.Events, ", "))
	}
	for _, key := range slices.Sorted(maps.Keys(d.Labels)) {
		add("label", "%s=%s", key, d.Labels[key])
	}
	if d.When != "" {
		add("when", "%s", d.When)
	}
	add("defined", "by %s, %s", v.Requestor, c.agoText(v.UpdatedAt))
	if p := v.Paused; p != nil {
		add("paused", "by %s, %s%s", p.By, c.agoText(p.At), prefixed(": ", p.Note))
	}
	if !v.HasSecret {
		add("secret", "missing, so nothing is delivered: orch destination rotate %s --secret-file FILE", v.Name)
	}
	if v.PreviousUntil != nil {
		add("secret", "the one before signs too until %s", v.PreviousUntil.Format("2006-01-02 15:04:05 MST"))
	}
	add("deliveries", "%d delivered, %d pending, %d dead", v.Delivered, v.Pending, v.Dead)
	if v.OldestPending != nil {
		add("oldest", "what waits longest happened %s", c.agoText(*v.OldestPending))
	}
	if v.Full {
		add("full", "what follows waits in the log")
	}
	if v.LastFailure != nil {
		add("failing", "%s: %s", c.agoText(v.LastFailure.At), v.LastFailure.Error)
	}
	return lines
}

// completeNames completes names of destinations as the first argument. It returns none if no node runs.
func (c *destinationCommands) completeNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.completeFrom(cmd, args, func(ctx context.Context, s session) ([]string, error) {
		reply, err := s.Destinations(ctx, api.DestinationsRequest{})
		var words []string
		for _, one := range reply.Destinations {
			words = append(words, one.Name)
		}
		return words, err
	})
}
