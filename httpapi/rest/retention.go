package rest

import (
	"net/http"

	"github.com/orch-dev/orch/api"
)

// retentionRoutes returns the routes of retention and holds.
func retentionRoutes() []route {
	const get, post = http.MethodGet, http.MethodPost
	return []route{
		plain(get, "/retention", "retention", "Say what retention would remove now.", readsAll, toolList, on(api.API.Retention)).query("tasks"),
		plain(get, "/holds", "holds", "List the holds, by task.", readsAll, toolList, on(api.API.Holds)).query("task", "released", "limit", "cursor"),
		plain(post, "/holds", "hold", "Place a hold on tasks, which retention then keeps.", operates, anyTool, on(api.API.PlaceHold)),
		plain(post, "/holds/release", "release_hold", "End holds.", operates, anyTool, on(api.API.ReleaseHold)),
	}
}
