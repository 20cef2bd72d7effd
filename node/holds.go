package node

import (
	"context"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/holds"
)

// readHolds reads the holds before retention can remove anything. A node that cannot read them does not start.
func (n *Node) readHolds(ctx context.Context) error {
	n.holds = holds.New(n.openHolds)
	return n.holds.Start(ctx)
}

// openHolds opens the journal of the holds; nil if there is none and it is not to be created.
func (h *host) openHolds(ctx context.Context, create bool) (holds.Journal, error) {
	journal, err := h.openJournal(ctx, bus.HoldsJournal, create)
	if err != nil || journal == nil {
		return nil, err // and no journal: a nil pointer in the interface would count as one
	}
	return leasedJournal{journal}, nil
}

// leasedJournal is a journal that acknowledges nothing that the next active node of a cluster might not know.
type leasedJournal struct{ *bus.Journal }

// Append implements holds.Journal.
func (j leasedJournal) Append(ctx context.Context, newest uint64, data []byte) (uint64, error) {
	return j.AppendLeased(ctx, newest, data)
}
