package node

import (
	"context"
	"maps"
	"slices"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/httpapi"
	"github.com/orch-dev/orch/mcp/gateway"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/messages"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/worker"
)

// NewDelegatedBroker lets somebody read the inboxes of others, which is noted.
func NewDelegatedBroker(broker messages.Broker[string], note func(context.Context, messages.Delegation) error) messages.Broker[messages.Delegation] {
	return &delegatedBroker{broker: broker, note: note}
}

// Messages is the broker of the node.
func (n *Node) Messages() *bus.Messages { return n.messages }

// NewOffers hands out tools that never change by themselves.
func NewOffers(entries func() []gateway.Entry) Asker {
	return localMethods{"catalogue": rpc.Handle(offerServer[gateway.Entry]{entries, func() <-chan struct{} { return nil }, bus.MaxPayload / 2}.answer)}
}

// NewFeatures hands out features that never change by themselves.
func NewFeatures(list func() []gateway.Feature) Asker {
	return localMethods{"features": rpc.Handle(offerServer[gateway.Feature]{list, func() <-chan struct{} { return nil }, bus.MaxPayload / 2}.answer)}
}

// ElsewhereDatabase is a database of a node as a worker elsewhere has it.
func ElsewhereDatabase(c *bus.Conn) firebase.Backend { return remoteDatabases(c).Realtime }

// Kept returns the actors whose workers a chain keeps of some when only those agents are left.
func Kept(living agents.Living, actors ...string) []string {
	c := &chain{workers: map[string]*worker.Worker{}}
	for _, actor := range actors {
		c.workers[actor] = nil
	}
	c.drop()(living)
	return slices.Sorted(maps.Keys(c.workers))
}

// ReplyOf is what /rpc hears of a call.
func ReplyOf(r server.ToolReply) httpapi.Reply { return replyOf(r) }

// Meter is the face that counts the requests of all.
func (n *Node) Meter() *server.Server { return n.meter.Load() }
