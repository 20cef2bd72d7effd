package node

import (
	"context"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/holds"
	"github.com/orch-dev/orch/internal/journaled"
)

// readHolds reads the holds before retention can remove anything. A node that cannot read them does not start.
func (n *Node) readHolds(ctx context.Context) error {
	n.holds = holds.New(opens(n.host, bus.HoldsJournal, func(j *bus.Journal) journaled.Journal { return leasedJournal{j} }))
	return n.holds.Start(ctx)
}

// leasedJournal is a journal that acknowledges nothing that the next active node of a cluster might not know.
type leasedJournal struct{ *bus.Journal }

// Append implements journaled.Journal.
func (j leasedJournal) Append(ctx context.Context, newest uint64, data []byte) (uint64, error) {
	return j.AppendLeased(ctx, newest, data)
}
