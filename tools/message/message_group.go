package message

import (
	"context"

	"github.com/orch-dev/orch/messages"
	"github.com/orch-dev/orch/tools"
)

type messageGroupIn struct {
	Join  string `json:"join,omitempty" jsonschema:"Group to join: messages to it are delivered to the inbox from now on" minLength:"1" maxLength:"256"`
	Leave string `json:"leave,omitempty" jsonschema:"Group to leave: messages to it are removed from the inbox" minLength:"1" maxLength:"256"`
}

type messageGroupOut struct {
	Groups []string `json:"groups" jsonschema:"Groups of the caller after the call, each as group:NAME"`
}

// messageGroup returns the tool MESSAGE_GROUP, which changes and lists the groups of the caller.
func messageGroup(cfg Config) tools.Tool {
	return tools.Define(tools.Spec{
		Name:        "MESSAGE_GROUP",
		Title:       "Join and leave groups",
		Purpose:     "Join or leave a group of recipients of messages, or list the groups of the caller",
		Conditions:  []string{"Task state: IN_PROGRESS", "The member is the caller"},
		Effect:      tools.Idempotent,
		Gate:        tools.InProgress,
		Approval:    tools.NoApproval,
		NoWorkspace: true,
		Errors:      []string{"INVALID_FORMAT", "VALIDATION_ERROR", "QUOTA_EXCEEDED", "FORBIDDEN", "UNAVAILABLE"},
	}, func(ctx context.Context, env *tools.Env, in messageGroupIn) (messageGroupOut, error) {
		broker, err := cfg.broker()
		if err != nil {
			return messageGroupOut{}, err
		}
		g, err := broker.Group(ctx, callOf(env), messages.GroupChange{Join: in.Join, Leave: in.Leave})
		return messageGroupOut{Groups: g.Groups}, err
	})
}
