package main

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

func newSignal(c *steerCommands) *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:               "signal ID NAME [name=value...]",
		Short:             "Hand data to a step that waits for it, now or later",
		Example:           "  orch signal @last deploy region=eu replicas:=3",
		Args:              takes("ID", "NAME", "[name=value...]"),
		ValidArgsFunction: c.completeIDs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.signal(cmd.Context(), args, data)
		},
	}
	cmd.Flags().StringVar(&data, "data", "", "any JSON value instead of name=value")
	return cmd
}

func (c *steerCommands) signal(ctx context.Context, args []string, data string) error {
	raw, err := signalData(args[2:], data)
	if err != nil {
		return err
	}
	return c.withTask(ctx, idle, args[0], func(s session, id events.TaskID) error {
		t, err := s.Signal(ctx, api.SignalRequest{ID: id, Name: args[1], Data: raw, Actor: c.actor()})
		if err != nil {
			return err
		}
		return c.showState(t)
	})
}

func signalData(args []string, data string) (json.RawMessage, error) {
	switch {
	case data != "" && len(args) > 0:
		return nil, fault.New(fault.InvalidParams, "give --data or name=value, not both")
	case data != "":
		return parseJSON("--data", data)
	case len(args) == 0:
		return nil, nil
	}
	v, err := parsePairs(args, inputSchema{}, "argument", asText)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the data cannot be encoded")
	}
	return raw, nil
}
