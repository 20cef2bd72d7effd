package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
)

func newNodes(c *nodeCommands) *cobra.Command {
	return &cobra.Command{
		Use:   "nodes",
		Short: "List the nodes that share a log, and which one is active",
		Long: `List the nodes that run on the same NATS cluster. One is active; the others stand by, pass requests on to it, and one of
them takes over when it stops or was not heard of for 2 s. The epoch counts the changes: what a node of an earlier epoch still
sends, the log does not take. SEEN is how long ago a node was last heard of; each renews its word every half second. STORE is the
newest version of a store that a node can open: see orch upgrade.

A node with an embedded server is alone, and active.`,
		Example: "  orch nodes --nats nats://n1:4222,n2:4222,n3:4222",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.listNodes(cmd.Context()) },
	}
}

func (c *nodeCommands) listNodes(ctx context.Context) error {
	reply, err := c.nodes.Nodes(ctx, c.cfg)
	if err != nil {
		return err
	}
	names := make([]string, len(reply.Nodes))
	for i, n := range reply.Nodes {
		names[i] = n.Name()
	}
	return c.emit(view{data: reply, rows: rowsOf(reply.Nodes), names: names, text: func(w io.Writer) error {
		var table screen.Table
		table.Row("NODE", "ROLE", "EPOCH", "SINCE", "SEEN", "VERSION", "STORE", "HTTP")
		for _, n := range reply.Nodes {
			role, epoch, since := "stands by", "-", n.Since
			if n.Active {
				role, epoch = "active", orDash(reply.Epoch)
			}
			if n.ActiveSince != nil {
				since = *n.ActiveSince
			}
			seen := fmt.Sprintf("%.1f s", max(0, c.now().Sub(n.Seen).Seconds()))
			table.Row(screen.Escape(n.Name()), role, epoch, stamp(since), seen, screen.Escape(n.Version), orDash(uint64(max(n.Store, 0))), screen.Escape(n.HTTP))
		}
		return table.Write(w, c.width())
	}})
}

// orDash returns a number; "-" for none.
func orDash(n uint64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatUint(n, 10)
}

// clusterFindings reports the nodes of a cluster; it returns nothing for a node without a cluster.
func clusterFindings(ctx context.Context, s session) []finding {
	const part = "cluster"
	var reply node.NodesReply
	err := s.Ask(ctx, bus.NodesPrefix+".members", struct{}{}, &reply)
	switch {
	case fault.Has(err, fault.Unavailable), err == nil && !reply.Cluster: // a node of an earlier version, or without a cluster
		return nil
	case err != nil:
		return []finding{failed(part, err, "see the log of the node")}
	}
	versions := map[string]bool{}
	text, standby := "no node is active", len(reply.Nodes)
	for _, n := range reply.Nodes {
		versions[n.Version] = true
		if n.Active && n.ActiveSince != nil {
			standby--
			text = fmt.Sprintf("%s is active since %s, epoch %d", n.Name(), stamp(*n.ActiveSince), reply.Epoch)
		}
	}
	if standby > 0 {
		text += "; " + screen.Plural(standby, "node") + " standing by"
	} else {
		text += "; no other node stands by"
	}
	if standby == len(reply.Nodes) {
		return []finding{bad(part, text, "look again in some seconds: orch nodes; if it stays so, see the logs of the nodes")}
	}
	if len(versions) > 1 {
		return []finding{bad(part, text+"; their versions differ", "use the same version of orch on all of them")}
	}
	return []finding{fine(part, "%s", text)}
}
