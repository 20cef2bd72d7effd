package notify

import (
	"context"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// Sender sends notifications of the node itself on the channels of the family.
type Sender struct {
	channels *channels
	names    []string
}

// NewSender returns a sender for channels of the configuration, by default its default channels. It returns
// VALIDATION_ERROR for an unknown one.
func NewSender(cfg Config, names ...string) (*Sender, error) {
	s := &Sender{channels: newChannels(cfg)}
	var err error
	s.names, err = s.channels.resolve(names)
	return s, err
}

// Send delivers a notice to all channels and waits for each, for at most half a minute. Of env it uses Log, and Root
// and Workspace for the channel file. The error, NETWORK_ERROR with reason DELIVERY_FAILED, lists the failed channels
// and the reasons.
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
	return fault.New(fault.NetworkError, "the notification was not taken by %s", strings.Join(why, "; ")).WithReason("DELIVERY_FAILED")
}
