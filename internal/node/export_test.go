package node

import (
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/mcp/gateway"
	"github.com/orch-dev/orch/tools/firebase"
)

// NewOffers hands out tools that never change by themselves.
func NewOffers(entries func() []gateway.Entry) Asker {
	return local{"catalogue": bus.Handle(offers[gateway.Entry]{entries, func() <-chan struct{} { return nil }, bus.MaxPayload / 2}.answer)}
}

// NewFeatures hands out features that never change by themselves.
func NewFeatures(list func() []gateway.Feature) Asker {
	return local{"features": bus.Handle(offers[gateway.Feature]{list, func() <-chan struct{} { return nil }, bus.MaxPayload / 2}.answer)}
}

// ElsewhereDatabase is a database of a node as a worker elsewhere has it.
func ElsewhereDatabase(c *bus.Conn) firebase.Backend { return remoteDatabases(c).Realtime }
