package bus

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/orch-dev/orch/fault"
)

// nodesNews is where a node announces that it takes over, or that it was disconnected. When a node dies and the server survives, the server
// does not end the requests to the node, which would wait until their timeouts.
const nodesNews = "orch.news.nodes"

// announceWithin is how long the server may take to confirm an announcement.
const announceWithin = time.Second

// AnnounceTakeover tells all clients of the server that requests to the previous node will not be answered. The active node of a
// cluster calls it once it serves: earlier requests may have gone to a node that is suspended. UNAVAILABLE.
func (c *Conn) AnnounceTakeover(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, announceWithin)
	defer cancel()
	err := c.nc.Publish(nodesNews, nil)
	if err == nil {
		err = c.nc.FlushWithContext(ctx)
	}
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the server cannot be told of the node")
	}
	return nil
}

// AnnounceReturns tells all clients of the server, after each reconnect, that requests to the node may have been
// lost. If the node was connected to a hanging server of a cluster, other clients sent requests there.
func (c *Conn) AnnounceReturns() {
	c.nc.SetReconnectHandler(func(nc *nats.Conn) {
		_ = nc.Publish(nodesNews, nil) // without the announcement, clients wait until their timeouts
	})
}

// watchNodes cancels waiting requests when another node takes over or a node reconnects, which does not end this connection.
func (c *Conn) watchNodes() error {
	if !c.External() || c.lease != nil { // the announcements are the node's own
		return nil
	}
	if _, err := c.nc.Subscribe(nodesNews, func(*nats.Msg) { c.link.lost() }); err != nil {
		return fault.Wrap(fault.Unavailable, err, "nodes cannot be heard of")
	}
	return nil
}

// KnownServers returns the addresses, separated by commas, of the servers that the connection was made to and of those
// that they announced.
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
