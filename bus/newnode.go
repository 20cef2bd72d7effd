package bus

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/orch-dev/orch/fault"
)

// nodesNews is where a node says that it takes over, or that it was away. A server that lives on does not tell that the node before has died
// with requests, which would wait for their answers as long as they can.
const nodesNews = "orch.news.nodes"

// announceWithin is how long the server may take to hear of a node.
const announceWithin = time.Second

// AnnounceTakeover tells all who use the server that requests to the node before are not answered any more. The active node of a cluster
// does so once it serves: what was asked until then may have gone to one that stands still. UNAVAILABLE.
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

// AnnounceReturns tells all who use the server, each time that the connection has been made again, that requests to the node may
// have been lost meanwhile. Where the node was connected to a server of a cluster that hangs, others sent them there.
func (c *Conn) AnnounceReturns() {
	c.nc.SetReconnectHandler(func(nc *nats.Conn) {
		_ = nc.Publish(nodesNews, nil) // who is not told waits for as long as it asked to
	})
}

// watchNodes ends the requests that wait when another node takes over or one returns, where that does not end the connection.
func (c *Conn) watchNodes() error {
	if !c.External() || c.lease != nil { // the news are those of the node itself
		return nil
	}
	if _, err := c.nc.Subscribe(nodesNews, func(*nats.Msg) { c.link.lost() }); err != nil {
		return fault.Wrap(fault.Unavailable, err, "nodes cannot be heard of")
	}
	return nil
}

// KnownServers returns the addresses of the servers that the connection was made to, and of those that these have told of, with
// commas between them.
func (c *Conn) KnownServers() string {
	known := []string{c.target.config.URL}
	first, _, _ := strings.Cut(known[0], ",")
	var user *url.Userinfo
	if given, err := url.Parse(first); err == nil {
		user = given.User
	}
	for _, told := range c.nc.DiscoveredServers() {
		if u, err := url.Parse(told); err == nil {
			u.User = user
			known = append(known, u.String())
		}
	}
	return strings.Join(known, ",")
}
