package bus

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/orch-dev/orch/fault"
)

// nodesNews is where a node says that it takes over. A server that lives on does not tell that the node before has died
// with requests, which would wait for their answers as long as they can.
const nodesNews = "orch.news.nodes"

// aliveWithin is how long a node may take to answer another one that starts.
const aliveWithin = time.Second

// TakeOver tells all who use the server that requests to the node before are not answered any more, unless a node answers
// them. A node does so before it serves. UNAVAILABLE.
func (c *Conn) TakeOver(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, aliveWithin)
	defer cancel()
	if _, err := c.nc.RequestWithContext(ctx, CommandPrefix+".alive", nil); err == nil {
		return nil // whatever it says
	}
	err := c.nc.Publish(nodesNews, nil)
	if err == nil {
		err = c.nc.Flush()
	}
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the server cannot be told of the node")
	}
	return nil
}

// heedNodes ends the requests that wait when another node takes over, where that does not end the connection.
func (c *Conn) heedNodes() error {
	if c.target.server != nil || c.target.nodeDir != "" {
		return nil
	}
	if _, err := c.nc.Subscribe(nodesNews, func(*nats.Msg) { c.link.lost() }); err != nil {
		return fault.Wrap(fault.Unavailable, err, "nodes cannot be heard of")
	}
	return nil
}
