package rest

import (
	"net/http"

	"github.com/orch-dev/orch/api"
)

// auditRoutes returns the routes of the audit stream.
func auditRoutes() []route {
	return []route{
		plain(http.MethodGet, "/audit", "audit", "List acts, the newest last.", readsAll, anyTool, on(api.API.Audit)).
			query("actor", "act", "target", "outcome", "since", "until", "before", "limit"),
		plain(http.MethodGet, "/audit/entries", "audit_entries", "Read the entries of the audit stream as they are stored.", readsAll, anyTool, on(api.API.AuditEntries)).
			query("after", "limit"),
	}
}
