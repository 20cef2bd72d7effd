package notify

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

type notificationSendIn struct {
	Priority string   `json:"priority" jsonschema:"How urgent it is" enum:"low,medium,high,critical"`
	Subject  string   `json:"subject" jsonschema:"Notification subject, one line" minLength:"1" maxLength:"200" pattern:"^[^\\x00-\\x1f\\x7f]+$"`
	Message  string   `json:"message" jsonschema:"Notification content" minLength:"1" maxLength:"16384"`
	Channels []string `json:"channels,omitempty" jsonschema:"Notification channels: log, file, nats and the channels that the operator configured; default: the configured default channels, or log" maxItems:"16"`
}

type notificationSendOut struct {
	Sent        bool       `json:"sent" jsonschema:"At least one channel accepted it"`
	DeliveredAt time.Time  `json:"delivered_at" jsonschema:"Time of delivery"`
	Channels    []delivery `json:"channels" jsonschema:"Result on each channel"`
}

type delivery struct {
	Name  string `json:"name" jsonschema:"Name of the channel"`
	OK    bool   `json:"ok" jsonschema:"The channel accepted it"`
	Error string `json:"error,omitempty" jsonschema:"Why the channel did not accept it"`
}

// notificationSend is NOTIFICATION_SEND (S0-185, A-49).
func notificationSend(c *channels) tools.Tool {
	return tools.Define(tools.Spec{
		Name:       "NOTIFICATION_SEND",
		Title:      "Notify a person",
		Purpose:    "Send notification to human operator",
		Conditions: []string{"Any task state", "For errors, blockers, or status updates", "No secrets in the text"},
		Effect:     tools.Write,
		Gate:       tools.AnyState,
		Approval:   tools.NoApproval,
		Rate:       tools.External,
		OpenWorld:  true,
		Content:    []string{"subject", "message"},
		Errors:     []string{"VALIDATION_ERROR", "SECRET_DETECTED", "NETWORK_ERROR", "RATE_LIMITED"},
	}, func(ctx context.Context, env *tools.Env, in notificationSendIn) (notificationSendOut, error) {
		names, err := c.resolve(in.Channels)
		if err != nil {
			return notificationSendOut{}, err
		}
		n := Notice{
			Task: env.Task, Step: env.Step, Key: env.Key, Priority: in.Priority,
			Subject: in.Subject, Message: in.Message, At: events.Time(env.Now()),
		}
		done := c.deliver(ctx, env, n, names)
		if !slices.ContainsFunc(done, func(d delivery) bool { return d.OK }) {
			return notificationSendOut{}, deliveryError(ctx, done)
		}
		return notificationSendOut{Sent: true, DeliveredAt: events.Time(env.Now()), Channels: done}, nil
	})
}

// resolve returns the names of the requested channels, by default the default channels, without duplicates. It returns
// VALIDATION_ERROR for an unknown channel.
func (c *channels) resolve(requested []string) ([]string, error) {
	if len(requested) == 0 {
		requested = c.defaults
	}
	var names []string
	for i, name := range requested {
		if c.senders[name] == nil {
			return nil, fault.New(fault.ValidationError, "is not a channel of this node").
				WithField("channels["+strconv.Itoa(i)+"]").WithHint("the channels are %s", strings.Join(c.names(), ", "))
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// deliver sends a notice to the named channels concurrently and waits for all of them, for at most sendTime.
func (c *channels) deliver(ctx context.Context, env *tools.Env, n Notice, names []string) []delivery {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	done := make([]delivery, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			done[i] = delivery{Name: name, OK: true}
			if err := c.senders[name](ctx, env, n); err != nil {
				done[i] = delivery{Name: name, Error: fault.From(err).Error()}
			}
		})
	}
	all.Wait()
	return done
}

// deliveryError returns the error of a notification that no channel accepted.
func deliveryError(ctx context.Context, done []delivery) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	why := make([]string, len(done))
	for i, d := range done {
		why[i] = d.Name + " (" + d.Error + ")"
	}
	return fault.New(fault.NetworkError, "no channel accepted the notification: %s", strings.Join(why, "; ")).WithReason("DELIVERY_FAILED")
}
