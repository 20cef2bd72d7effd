package node

import (
	"context"
	"maps"
	"slices"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/httpapi"
	"github.com/orch-dev/orch/mcp/gateway"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/messages"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/worker"
)

// NewDelegatedBroker returns a delegatedBroker that calls record for each reading on behalf of another identity.
func NewDelegatedBroker(broker messages.Broker[string], record func(context.Context, messages.Delegation) error) messages.Broker[messages.Delegation] {
	return &delegatedBroker{broker: broker, record: record}
}

// Messages returns the broker of the node.
func (n *Node) Messages() *bus.Messages { return n.messages }

// NewOffers serves tools that never change by themselves.
func NewOffers(entries func() []gateway.Entry) Asker {
	return localMethods{"catalogue": rpc.Handle(offerServer[gateway.Entry]{entries, func() <-chan struct{} { return nil }, bus.MaxPayload / 2}.answer)}
}

// NewFeatures serves features that never change by themselves.
func NewFeatures(list func() []gateway.Feature) Asker {
	return localMethods{"features": rpc.Handle(offerServer[gateway.Feature]{list, func() <-chan struct{} { return nil }, bus.MaxPayload / 2}.answer)}
}

// ElsewhereDatabase returns the database of a node for a remote worker.
func ElsewhereDatabase(c *bus.Conn) firebase.Backend { return remoteDatabases(c).Realtime }

// Kept returns which of the workers with the names actors a chain keeps when only the agents of a roster are left.
func Kept(living agents.Roster, actors ...string) []string {
	c := &chain{workers: map[string]*worker.Worker{}}
	for _, actor := range actors {
		c.workers[actor] = nil
	}
	c.dropRemoved()(living)
	return slices.Sorted(maps.Keys(c.workers))
}

// ReplyOf converts the reply of a tool for /rpc.
func ReplyOf(r server.ToolReply) httpapi.Reply { return replyOf(r) }

// Meter returns the face that counts the requests of all faces.
func (n *Node) Meter() *server.Server { return n.meter.Load() }

// ReadOutput returns an output file of a task, as MCP clients read it.
func (n *Node) ReadOutput(ctx context.Context, task events.TaskID, name string) ([]byte, error) {
	return (&Outputs{Tree: n.executor.tree, files: taskFiles{n.host}}).ReadOutput(ctx, task, name)
}

// ServerFor is serverFor, and DataDirFor dataDirFor.
var (
	ServerFor  = serverFor
	DataDirFor = dataDirFor
)
