package main

import (
	"context"
	"slices"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/agents/peer"
	"github.com/orch-dev/orch/fault"
)

// startWait is how long an agent waits for a node that is starting, as in "orch serve & orch agent run …".
const startWait = 10 * time.Second

// dialSoon connects to a running node. If there is none, it waits up to startWait for a node to start.
func (c *agentCommands) dialSoon(ctx context.Context) (s session, err error) {
	defer c.noteLater("no node runs here; waiting a moment for one: orch serve")()
	err = retrySoon(ctx, func() (done bool, err error) {
		s, err = c.nodes.Dial(ctx, c.cfg)
		return !fault.Has(err, fault.Unavailable), err
	})
	return s, err
}

// servedSoon returns the HTTP URL of the agent's node, or "" if the node does not serve HTTP. It waits for a starting node, which
// serves HTTP last.
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

// findNode returns the HTTP URL of the node of an agent whose credential has none: it was registered when the node served no HTTP.
func (c *agentCommands) findNode(ctx context.Context, o agentRunOptions, cred peer.Credential) (url string, err error) {
	if o.credential != "" {
		return "", fault.New(fault.RequiredField, "the credential %s does not say where its node serves HTTP", o.credential).WithField("--url").
			WithHint("name it, as --url http://HOST:PORT")
	}
	s, err := c.dialSoon(ctx)
	if err != nil {
		return "", err
	}
	err = useSession(ctx, s, func(s session) error { url = c.servedSoon(ctx, s, cred); return nil })
	if err == nil && url == "" {
		err = noHTTP()
	}
	return url, err
}

// noHTTP returns the error for a node that agents cannot reach.
func noHTTP() error {
	return fault.New(fault.Unavailable, "the node serves no HTTP, which agents speak").WithHint("start it with: orch serve --http auto; then run this again")
}

// retrySoon repeats do until done is true or startWait has passed, and returns the last error.
func retrySoon(ctx context.Context, do func() (done bool, err error)) error {
	limit := time.NewTimer(startWait)
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
