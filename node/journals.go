package node

import (
	"context"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/internal/journaled"
)

// opens returns a function that opens a journal of the store as a J; the zero J if there is none and it is not to be created.
func opens[J any](h *host, name string, as func(*bus.Journal) J) func(ctx context.Context, create bool) (J, error) {
	return func(ctx context.Context, create bool) (none J, err error) {
		if !create {
			if exists, err := h.store.HasJournal(ctx, name); err != nil || !exists {
				return none, err
			}
		}
		journal, err := h.store.OpenJournal(ctx, name)
		if err != nil {
			return none, err // a nil pointer in the interface would count as a journal
		}
		return as(journal), nil
	}
}

// ofState returns a journal for the state of a service.
func ofState(j *bus.Journal) journaled.Journal { return j }
