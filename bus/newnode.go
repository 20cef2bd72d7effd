package bus

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/orch-dev/orch/fault"
)

// nodesNews is the subject on which a node announces that it takes over, or that it was disconnected. Clients then cancel
// their waiting requests. Without the announcement, requests to a dead node would wait until their timeouts, because the
// server does not end them.
const nodesNews = "orch.news.nodes"

// announceWithin is how long the server may take to confirm an announcement.
const announceWithin = time.Second

// AnnounceTakeover announces to all clients of the server that requests to the previous node will not be answered. The active
// node of a cluster calls it once it serves requests, because earlier requests may have reached a suspended node. UNAVAILABLE
// if the server does not confirm the announcement.
func (c *Conn) AnnounceTakeover(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, announceWithin)
	defer cancel()
	err := c.nc.Publish(nodesNews, nil)
	if err == nil {
		err = c.nc.FlushWithContext(ctx)
	}
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the node cannot be announced to the clients of the server")
	}
	return nil
}

// AnnounceReturns makes the connection announce each of its reconnects to all clients of the server, because requests to the
// node may have been lost: a hanging server of a cluster still receives requests for the node that is connected to it.
func (c *Conn) AnnounceReturns() {
	c.nc.SetReconnectHandler(func(nc *nats.Conn) {
		_ = nc.Publish(nodesNews, nil) // without the announcement, clients wait until their timeouts
	})
}

// watchNodes subscribes to the announcements of nodes. Each one cancels the requests that wait for a reply, as the loss of the
// connection does.
func (c *Conn) watchNodes() error {
	if !c.External() || c.lease != nil { // there is only one node, or this is a node
		return nil
	}
	if _, err := c.nc.Subscribe(nodesNews, func(*nats.Msg) { c.link.lost() }); err != nil {
		return fault.Wrap(fault.Unavailable, err, "the announcements of nodes cannot be followed")
	}
	return nil
}

// KnownServers returns the configured addresses of the servers and those that the servers have announced, separated by
// commas.
func (c *Conn) KnownServers() string {
	known := []string{c.target.config.URL}
	first, _, _ := strings.Cut(known[0], ",")
	var user *url.Userinfo
	if given, err := url.Parse(first); err == nil {
		user = given.User
	}
	for _, discovered := range c.nc.DiscoveredServers() {
		if u, err := url.Parse(discovered); err == nil {
			u.User = user
			known = append(known, u.String())
		}
	}
	return strings.Join(known, ",")
}
