package message

import (
	"context"
	"encoding/json"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/messages"
	"github.com/orch-dev/orch/tools"
)

type messageSendIn struct {
	To          []string     `json:"to,omitempty" jsonschema:"Recipients: agent:NAME, user:NAME, group:NAME or all; default: the sender of the message that reply_to names" maxItems:"100"`
	Text        string       `json:"text,omitempty" jsonschema:"Content as text; the payload is then an object with this text"`
	Payload     tools.Object `json:"payload,omitempty" jsonschema:"Content as a JSON object, instead of text"`
	Type        string       `json:"type,omitempty" jsonschema:"What kind of message it is: task, status, learning, patch, consensus, system, error, discovery or another word" default:"status" maxLength:"32"`
	Priority    int          `json:"priority,omitempty" jsonschema:"How urgent it is, 0 to 4, 4 being the most urgent" default:"2" minimum:"0" maximum:"4"`
	TTLSeconds  int          `json:"ttl_seconds,omitempty" jsonschema:"Time until it expires, in seconds" default:"86400" minimum:"1" maximum:"604800"`
	Correlation string       `json:"correlation_id,omitempty" jsonschema:"Id of the conversation; default: that of the message that reply_to names" maxLength:"200"`
	ReplyTo     string       `json:"reply_to,omitempty" jsonschema:"Id of the message that this one answers" pattern:"^MSG_[0-9A-Z]{26}$"`
	Exclude     []string     `json:"exclude,omitempty" jsonschema:"Agents and users to omit from groups and all" maxItems:"100"`
	Key         string       `json:"key,omitempty" jsonschema:"Idempotency key: messages of one sender with the same key are one message; default: a key of the call, so that a repeated call sends nothing twice" maxLength:"200"`
}

type messageSendOut struct {
	ID          string    `json:"message_id" jsonschema:"Id of the message"`
	To          []string  `json:"to" jsonschema:"Its recipients"`
	ExpiresAt   time.Time `json:"expires_at" jsonschema:"When it expires"`
	Correlation string    `json:"correlation_id" jsonschema:"Id of the conversation; replies have the same id"`
	Existing    bool      `json:"existing" jsonschema:"Whether it was sent before"`
	Unknown     []string  `json:"unknown,omitempty" jsonschema:"Recipients that do not exist so far, and groups without members"`
	Displaced   []string  `json:"displaced,omitempty" jsonschema:"Less urgent messages that were removed from full inboxes to make room for it"`
}

// messageSend returns the tool MESSAGE_SEND, which sends a message.
func messageSend(cfg Config) tools.Tool {
	return tools.Define(tools.Spec{
		Name:        "MESSAGE_SEND",
		Title:       "Send a message",
		Purpose:     "Send a message to agents and people; it waits for them until they acknowledge it or it expires",
		Conditions:  []string{"Task state: IN_PROGRESS", "The sender is the caller"},
		Example:     `{"to":["agent:builder","group:ops"],"type":"task","text":"build the release branch"}`,
		Effect:      tools.Idempotent,
		Gate:        tools.InProgress,
		Approval:    tools.NoApproval,
		Content:     []string{"text", "payload"},
		Recipients:  "to",
		NoWorkspace: true,
		Errors:      []string{"INVALID_FORMAT", "REQUIRED_FIELD", "VALIDATION_ERROR", "SECRET_DETECTED", "QUOTA_EXCEEDED", "CONFLICT", "NOT_FOUND", "UNAVAILABLE"},
	}, func(ctx context.Context, env *tools.Env, in messageSendIn) (messageSendOut, error) {
		broker, err := cfg.broker()
		if err != nil {
			return messageSendOut{}, err
		}
		draft, err := in.draft(env.Key)
		if err != nil {
			return messageSendOut{}, err
		}
		r, err := broker.Send(ctx, callOf(env), draft)
		if err != nil {
			return messageSendOut{}, err
		}
		return messageSendOut{
			ID: r.ID, To: r.To, ExpiresAt: r.ExpiresAt, Correlation: r.Correlation,
			Existing: r.Existing, Unknown: r.Unknown, Displaced: r.Displaced,
		}, nil
	})
}

// draft returns the message to send. call is the key of the call. It is the idempotency key of the message if the input
// has none.
func (in messageSendIn) draft(call string) (messages.Draft, error) {
	payload := json.RawMessage(in.Payload)
	switch {
	case in.Text != "" && len(payload) > 0:
		return messages.Draft{}, fault.New(fault.ValidationError, "give a text or a payload, not both").WithField("payload")
	case in.Text != "":
		var err error
		if payload, err = json.Marshal(map[string]string{"text": in.Text}); err != nil {
			return messages.Draft{}, err
		}
	case len(payload) == 0:
		return messages.Draft{}, fault.New(fault.RequiredField, "give a text or a payload").WithField("text")
	}
	key := "key " + in.Key
	if in.Key == "" {
		key = "call " + call
	}
	return messages.Draft{
		Key: key, To: in.To, Type: in.Type, Priority: &in.Priority, TTL: seconds(in.TTLSeconds),
		Correlation: in.Correlation, ReplyTo: in.ReplyTo, Exclude: in.Exclude, Payload: payload,
	}, nil
}
