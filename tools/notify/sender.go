package notify

import (
	"context"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// Sender sends what the node itself has to say on the channels of the family.
type Sender struct {
	channels *channels
	names    []string
}

// NewSender returns a sender to some channels of the configuration, or to the default ones. VALIDATION_ERROR
// for one that is unknown.
func NewSender(cfg Config, names ...string) (*Sender, error) {
	s := &Sender{channels: newChannels(cfg)}
	var err error
	s.names, err = s.channels.choose(names)
	return s, err
}

// Send delivers a notice to all channels and waits for each, half a minute at most. Of env it uses Log, and
// Root and Workspace for the channel file. The error, NETWORK_ERROR with reason DELIVERY_FAILED, names the
// channels that did not take the notice and why.
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
