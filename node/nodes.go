package node

import (
	"context"
	"os"
	"time"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/election"
	"github.com/orch-dev/orch/rpc"
)

// NodesReply lists the nodes that share a log.
type NodesReply struct {
	// Cluster is set if the log is on an external server, where more nodes can join.
	Cluster bool `json:"cluster"`
	// Epoch is the number of the lease of the active node; 0 without a cluster.
	Epoch uint64          `json:"epoch,omitempty"`
	Nodes []election.View `json:"nodes"`
}

// serveNodeList serves the list of the nodes of a cluster. Every node serves it, because no node may be active, and some may be
// stalled.
func serveNodeList(c *bus.Conn, seat *election.Member, cfg Config) (*rpc.Endpoint, error) {
	return rpc.Serve(c, bus.NodesPrefix, map[string]rpc.Method{
		"members": rpc.Handle(func(ctx context.Context, _ struct{}) (NodesReply, error) {
			nodes, err := seat.Members(ctx)
			if err != nil {
				return NodesReply{}, err
			}
			epoch, err := c.Epoch(ctx)
			return NodesReply{Cluster: true, Epoch: epoch, Nodes: nodes}, err
		}),
	}, rpc.EndpointConfig{Logger: cfg.logger(), Everyone: true})
}

// nodesWithin is how long Nodes waits for an answer.
const nodesWithin = 3 * time.Second

// Nodes lists the nodes that share a log. It works without an active node, because standby nodes answer too.
func Nodes(ctx context.Context, cfg Config) (NodesReply, error) {
	c, err := dial(ctx, cfg, bus.OperatorUser)
	if err != nil {
		return NodesReply{}, err
	}
	defer c.Close()
	ctx, stop := context.WithTimeout(ctx, nodesWithin)
	defer stop()
	var reply NodesReply
	err = rpc.Call(ctx, c, bus.NodesPrefix+".members", struct{}{}, &reply)
	return reply, err
}

// alone returns the reply of a node with its own NATS server.
func (n *Node) alone() NodesReply {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	began := n.began
	return NodesReply{Nodes: []election.View{{
		Info: election.Info{Host: host, PID: os.Getpid(), Version: n.cfg.Version, Store: bus.StoreVersion, HTTP: n.address(), Since: began},
		Seen: time.Now().UTC(), Active: true, ActiveSince: &began,
	}}}
}

// serveAlone serves the list of nodes in a node with its own NATS server. The list contains only this node.
func (n *Node) serveAlone(context.Context) error {
	if n.server == nil {
		return nil
	}
	end, err := rpc.Serve(n.requests, bus.NodesPrefix, map[string]rpc.Method{
		"members": rpc.Handle(func(context.Context, struct{}) (NodesReply, error) { return n.alone(), nil }),
	}, rpc.EndpointConfig{Logger: n.cfg.logger()})
	if err == nil {
		n.onStop(closeSoon(end))
	}
	return err
}
