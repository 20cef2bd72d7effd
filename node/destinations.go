package node

import (
	"context"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/sender"
)

// newSender returns a sender that reads the log of the store. Destinations may have the addresses that tools may reach.
func (h *host) newSender() (*sender.Sender, error) {
	net, err := h.cfg.network()
	if err != nil {
		return nil, err
	}
	return sender.New(sender.Config{
		Log: h.store, Secrets: h.store, Open: opens(h, bus.DestinationsJournal, ofState), Net: net, Page: h.pageOf, Redact: h.redactText,
		Clock: h.cfg.wall(), Logger: h.cfg.logger(),
	}), nil
}

// readDestinations reads the destinations, before clients can change them.
func (n *Node) readDestinations(ctx context.Context) error { return n.sender.Start(ctx) }

// runDeliveries delivers events to destinations. The log keeps what a temporary node does not deliver.
func (n *Node) runDeliveries(ctx context.Context) error { return n.runService(ctx, n.sender.Run) }
