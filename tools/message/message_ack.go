package message

import (
	"context"

	"github.com/orch-dev/orch/tools"
)

type messageAckIn struct {
	IDs []string `json:"message_ids" jsonschema:"Messages that have been handled" minItems:"1" maxItems:"1000"`
}

type messageAckOut struct {
	Acknowledged []string `json:"acknowledged" jsonschema:"Messages that will not be delivered again"`
	Unknown      []string `json:"unknown,omitempty" jsonschema:"Messages that are not in the inbox of the caller: already acknowledged, expired, or never sent to the caller"`
}

// messageAck returns the tool MESSAGE_ACK, which acknowledges messages.
func messageAck(cfg Config) tools.Tool {
	return tools.Define(tools.Spec{
		Name:        "MESSAGE_ACK",
		Title:       "Acknowledge messages",
		Purpose:     "Acknowledge messages of the inbox, so that they are not delivered again",
		Conditions:  []string{"Task state: IN_PROGRESS", "The inbox belongs to the caller"},
		Effect:      tools.Idempotent,
		Gate:        tools.InProgress,
		Approval:    tools.NoApproval,
		NoWorkspace: true,
		Errors:      []string{"INVALID_FORMAT", "VALIDATION_ERROR", "FORBIDDEN", "UNAVAILABLE"},
	}, func(ctx context.Context, env *tools.Env, in messageAckIn) (messageAckOut, error) {
		broker, err := cfg.broker()
		if err != nil {
			return messageAckOut{}, err
		}
		a, err := broker.Ack(ctx, callOf(env), in.IDs)
		return messageAckOut{Acknowledged: a.Acknowledged, Unknown: a.Unknown}, err
	})
}
