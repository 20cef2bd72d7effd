package notify

import (
	"context"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// Sender sends notifications of the node itself, on the same channels as NOTIFICATION_SEND.
type Sender struct {
	channels *channels
	names    []string
}

// NewSender returns a Sender for the named channels of the configuration, by default its default channels. It returns
// VALIDATION_ERROR for an unknown channel.
func NewSender(cfg Config, names ...string) (*Sender, error) {
	s := &Sender{channels: newChannels(cfg)}
	var err error
	s.names, err = s.channels.resolve(names)
	return s, err
}

// Send delivers a notice to all channels and waits for all of them, for at most half a minute. The channel log uses
// env.Log and env.Record; the channel file uses env.Root and env.Workspace. The error is NETWORK_ERROR with the reason
// DELIVERY_FAILED; it lists the failed channels and why they failed.
func (s *Sender) Send(ctx context.Context, env *tools.Env, n Notice) error {
	var why []string
	for _, d := range s.channels.deliver(ctx, env, n, s.names) {
		if !d.OK {
			why = append(why, d.Name+" ("+d.Error+")")
		}
	}
	if why == nil {
		return nil
	}
	return fault.New(fault.NetworkError, "the notification was not accepted by %s", strings.Join(why, "; ")).WithReason("DELIVERY_FAILED")
}
