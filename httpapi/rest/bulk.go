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
	// Progress says how far an act is that was requested with a key by the same actor. It returns NOT_FOUND if there was none.
	Progress(ctx context.Context, r BulkProgressRequest) (BulkProgress, error)
}

// BulkProgressRequest asks how far an act is.
type BulkProgressRequest struct {
	// IdempotencyKey is that of the request for the act.
	IdempotencyKey string `json:"idempotency_key"`
	Actor          string `json:"actor"`
}

// ActorFields returns the field that names who asks.
func (r *BulkProgressRequest) ActorFields() []*string { return []*string{&r.Actor} }

// BulkProgress is how far an act on many tasks is.
type BulkProgress struct {
	// Count is the number of items of the set, Tried that of those that were acted on so far, whatever came of it.
	Count int `json:"count"`
	Tried int `json:"tried"`
	// Ended is set when the request for the act has its answer.
	Ended bool `json:"ended"`
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
	progress := plain(http.MethodGet, "/tasks:bulk", "bulk_progress", "Say how far an act on many tasks is.", operates, anyTool, nothing()).
		query("idempotency_key").checks(prepared(checkProgress))
	service := func(c Config) BulkService { return c.Bulk }
	return []route{served(act, service, BulkService.Bulk), served(progress, service, BulkService.Progress)}
}

func checkProgress(r *BulkProgressRequest) error {
	if r.IdempotencyKey == "" {
		return fault.New(fault.RequiredField, "is missing").WithField("idempotency_key").WithHint("it is that of the request for the act")
	}
	return nil
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
