package rest

import (
	"context"
	"net/http"

	"github.com/orch-dev/orch/api"
)

// storeRoutes returns the routes of the store.
func storeRoutes() []route {
	return []route{
		plain(http.MethodGet, "/store", "store_version", "Say which versions of orch can open the store.", readsAll, anyTool, on(api.API.StoreVersion)),
		plain(http.MethodPost, "/store/finalize", "finalize_store", "Keep older versions of orch from opening the store from now on.", operates, anyTool, on(api.API.FinalizeStore)),
	}
}

// StoreVersion implements api.API. The store is that of those who see all tasks.
func (s scoped) StoreVersion(context.Context, api.StoreVersionRequest) (api.StoreVersion, error) {
	return api.StoreVersion{}, forbidden()
}

// FinalizeStore implements api.API.
func (s scoped) FinalizeStore(context.Context, api.FinalizeStoreRequest) (api.StoreVersion, error) {
	return api.StoreVersion{}, forbidden()
}
