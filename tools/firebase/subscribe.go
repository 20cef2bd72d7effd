package firebase

import (
	"context"
	"encoding/json"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

type subscribeIn struct {
	SubscriptionID string    `json:"subscriptionId" jsonschema:"Unique identifier for this subscription" pattern:"^[a-zA-Z0-9-]+$"`
	Database       Database  `json:"database" jsonschema:"Database type to subscribe to" enum:"realtime,firestore"`
	Path           string    `json:"path" jsonschema:"Path to monitor" pattern:"^[a-zA-Z0-9/_-]+$"`
	EventType      EventType `json:"eventType,omitempty" jsonschema:"Type of events to listen for" enum:"value,child_added,child_changed,child_removed,document_added,document_modified,document_deleted" default:"value"`
	IncludeInitial bool      `json:"includeInitial,omitempty" jsonschema:"Include initial data in subscription" default:"true"`
}

type subscribeOut struct {
	Success        bool            `json:"success" jsonschema:"Always true; a call that fails has an error instead"`
	SubscriptionID string          `json:"subscriptionId" jsonschema:"The id as it was given"`
	InitialData    json.RawMessage `json:"initialData,omitempty" jsonschema:"Initial data at subscription path" types:"object,array,null"`
}

type unsubscribeIn struct {
	SubscriptionID string `json:"subscriptionId" jsonschema:"Subscription ID to cancel"`
}

type unsubscribeOut struct {
	Success        bool   `json:"success" jsonschema:"Always true; a call that fails has an error instead"`
	SubscriptionID string `json:"subscriptionId" jsonschema:"The id as it was given"`
}

// maxID is the maximum length of the id of a subscription in bytes.
const maxID = 256

// subscribeTool is firebase.subscribe (S3-040 to S3-045).
func subscribeTool(cfg Config) tools.Tool {
	return tools.Define(tools.Spec{
		Name:    "firebase.subscribe",
		Title:   "Subscribe to Firebase",
		Purpose: "Subscribe to real-time updates from Firebase",
		Conditions: []string{
			"Any task state",
			"Called by a session of an MCP client, which then gets firebase.event notifications, or at /rpc for a stream of events",
		},
		Effect:      tools.Read,
		Gate:        tools.AnyState,
		Approval:    tools.NoApproval,
		NoWorkspace: true,
		Session:     tools.Subscribes,
		AtNode:      true,
		Timeout:     callTime,
		Errors:      errorNames("CONFLICT", "NOT_FOUND"),
	}, func(ctx context.Context, env *tools.Env, in subscribeIn) (subscribeOut, error) {
		session, err := cfg.session(env)
		if err != nil {
			return subscribeOut{}, err
		}
		s := Subscription{ID: in.SubscriptionID, Database: in.Database, Path: in.Path, Events: in.EventType, Call: env.Key}
		if err := s.check(); err != nil {
			return subscribeOut{}, err
		}
		initial, err := cfg.Subscriptions.Subscribe(ctx, session, s)
		if err != nil {
			return subscribeOut{}, err
		}
		out := subscribeOut{Success: true, SubscriptionID: in.SubscriptionID}
		if in.IncludeInitial {
			out.InitialData, err = outputData(initial)
		}
		return out, err
	})
}

// session returns the session to which the call belongs.
func (c Config) session(env *tools.Env) (string, error) {
	if env.Client == nil || env.Client.Session == "" || c.Subscriptions == nil {
		return "", fault.New(fault.ValidationError, "a subscription belongs to a session of an MCP client, and this call does not come from one").WithReason("NO_SESSION").
			WithHint("call it as a tool of its own over stdio, over HTTP in a session of 2025-11-25 or while subscriptions/listen names the id in orch/subscriptions, or at /rpc with Accept: text/event-stream; elsewhere read with firebase.read")
	}
	return env.Client.Session, nil
}

// check returns VALIDATION_ERROR for an event type of the other database, or an id that is too long.
func (s Subscription) check() error {
	expected := Realtime
	switch s.Events {
	case DocumentAdded, DocumentModified, DocumentDeleted:
		expected = Firestore
	case Value:
		expected = s.Database
	case ChildAdded, ChildChanged, ChildRemoved:
	}
	if expected != s.Database {
		return refusal.New(refusal.ValidationError, "events %s are for the database %s", s.Events, expected).WithField("eventType")
	}
	if len(s.ID) > maxID {
		return fault.New(fault.ValidationError, "must have at most %d bytes", maxID).WithField("subscriptionId")
	}
	return nil
}

// unsubscribeTool is firebase.unsubscribe (S3-048).
func unsubscribeTool(cfg Config) tools.Tool {
	return tools.Define(tools.Spec{
		Name:        "firebase.unsubscribe",
		Title:       "End a subscription to Firebase",
		Purpose:     "Cancel an active Firebase subscription",
		Conditions:  []string{"Any task state", "Called by the session of the MCP client that has subscribed, or at /rpc by the same identity"},
		Effect:      tools.Read,
		Gate:        tools.AnyState,
		Approval:    tools.NoApproval,
		NoWorkspace: true,
		Session:     tools.Unsubscribes,
		AtNode:      true,
		Timeout:     callTime,
		Errors:      []string{"NOT_FOUND", "GONE", "CONNECTION_ERROR", "VALIDATION_ERROR", "TIMEOUT", "TOOL_UNAVAILABLE"},
	}, func(ctx context.Context, env *tools.Env, in unsubscribeIn) (unsubscribeOut, error) {
		session, err := cfg.session(env)
		if err != nil {
			return unsubscribeOut{}, err
		}
		if err := cfg.Subscriptions.Unsubscribe(ctx, session, in.SubscriptionID); err != nil {
			return unsubscribeOut{}, err
		}
		return unsubscribeOut{Success: true, SubscriptionID: in.SubscriptionID}, nil
	})
}
