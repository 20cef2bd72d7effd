package node

import (
	"context"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
)

// stores are the methods about the store of a node. They implement api.Stores.
type stores struct{ store *bus.Store }

var _ api.Stores = stores{}

// StoreVersion implements api.Stores.
func (s stores) StoreVersion(ctx context.Context, _ api.StoreVersionRequest) (api.StoreVersion, error) {
	v, err := s.store.Version(ctx)
	return api.StoreVersion(v), err
}

// FinalizeStore implements api.Stores.
func (s stores) FinalizeStore(ctx context.Context, _ api.FinalizeStoreRequest) (api.StoreVersion, error) {
	if err := s.store.RaiseVersion(ctx, bus.StoreVersion); err != nil {
		return api.StoreVersion{}, err
	}
	return s.StoreVersion(ctx, api.StoreVersionRequest{})
}
