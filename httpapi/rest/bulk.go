package rest

import (
	"context"
	"net/http"

	"github.com/orch-dev/orch/bulk"
	"github.com/orch-dev/orch/fault"
)

// BulkService acts on many tasks.
type BulkService interface {
	// Bulk selects tasks, and acts on them unless the request is a dry run. A request with the same key and actor as an earlier one gets
	// the answer of that.
	Bulk(ctx context.Context, r BulkRequest) (bulk.Report, error)
}

// BulkRequest asks for an act on many tasks.
type BulkRequest struct {
	bulk.Request

	// IdempotencyKey identifies the request, so that it is done once.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
}

// bulkRoutes returns the route of acts on many tasks.
func bulkRoutes() []route {
	act := plain(http.MethodPost, "/tasks:bulk", "bulk", "Cancel, retry or redrive all tasks that a filter selects, or grant their approvals.", operates, anyTool, nothing()).
		with(fromHeader("Idempotency-Key", "idempotency_key")).checks(prepared(checkBulk))
	return []route{served(act, func(c Config) BulkService { return c.Bulk }, BulkService.Bulk)}
}

// maxKey bounds BulkRequest.IdempotencyKey, in bytes.
const maxKey = 256

func checkBulk(r *BulkRequest) error {
	switch {
	case !r.DryRun && r.Set == nil:
		return fault.New(fault.RequiredField, "is missing").WithField("set").WithHint(`ask with "dry_run": true first, and send the set of its answer`)
	case len(r.IdempotencyKey) > maxKey:
		return fault.New(fault.ValidationError, "has %d bytes, the limit is %d", len(r.IdempotencyKey), maxKey).WithField("idempotency_key")
	}
	return r.Check()
}
