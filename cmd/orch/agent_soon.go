package main

import (
	"context"
	"slices"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/agents/peer"
	"github.com/orch-dev/orch/fault"
)

// soon is how long an agent waits for a node that is about to start, as in "orch serve & orch agent run …".
const soon = 10 * time.Second

// dialSoon connects to a running node, or to one that starts within soon.
func (c *agentCommands) dialSoon(ctx context.Context) (s session, err error) {
	defer c.noteLater("no node runs here; waiting a moment for one: orch serve")()
	err = retrySoon(ctx, func() (done bool, err error) {
		s, err = c.nodes.Dial(ctx, c.cfg)
		return !fault.Has(err, fault.Unavailable), err
	})
	return s, err
}

// servedSoon returns the URL of the agent's node over HTTP, which a starting node serves last; "" if it does not serve HTTP.
func (*agentCommands) servedSoon(ctx context.Context, s session, cred peer.Credential) string {
	url := cred.URL
	_ = retrySoon(ctx, func() (done bool, err error) { // without an answer there is no URL
		if url != "" {
			return true, nil
		}
		all, err := s.Agents(ctx)
		if i := slices.IndexFunc(all, func(v agents.View) bool { return v.ID == cred.Agent }); i >= 0 {
			url = all[i].URL
		}
		return url != "", err
	})
	return url
}

// retrySoon repeats do until it is done, or soon has passed. Then it returns the last error.
func retrySoon(ctx context.Context, do func() (done bool, err error)) error {
	limit := time.NewTimer(soon)
	defer limit.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		done, err := do()
		if done {
			return err
		}
		select {
		case <-ctx.Done():
			return fault.From(ctx.Err())
		case <-limit.C:
			return err
		case <-tick.C:
		}
	}
}
