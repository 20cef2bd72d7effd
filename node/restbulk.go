package node

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/audit"
	"github.com/orch-dev/orch/bulk"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi/rest"
)

// restBulk implements rest.BulkService.
type restBulk struct {
	host    *host
	api     api.API
	answers bulkAnswers
	// acting is held while an act is done.
	acting sync.Mutex
}

var _ rest.BulkService = (*restBulk)(nil)

// Bulk implements rest.BulkService. One act is done at a time. It goes on if its client leaves, who gets the answer with the same key.
func (b *restBulk) Bulk(ctx context.Context, r rest.BulkRequest) (bulk.Report, error) {
	r.Via = "http"
	switch {
	case r.DryRun:
		return bulk.Select(ctx, b.api, r.Request)
	case r.IdempotencyKey == "":
		return b.act(ctx, r.Request, func(int, int) {})
	}
	a, known, err := b.answers.claim(r, b.host.clock())
	if err != nil {
		return bulk.Report{}, err
	}
	if known {
		return a.await(ctx)
	}
	a.report, a.err = b.act(ctx, r.Request, a.advance)
	b.answers.finish(a)
	return a.report, a.err
}

// Progress implements rest.BulkService.
func (b *restBulk) Progress(_ context.Context, r rest.BulkProgressRequest) (rest.BulkProgress, error) {
	a := b.answers.find(r.Actor, r.IdempotencyKey)
	if a == nil {
		return rest.BulkProgress{}, fault.New(fault.NotFound, "there is no act with this key").WithField("idempotency_key")
	}
	return rest.BulkProgress{Count: int(a.count.Load()), Tried: int(a.tried.Load()), Ended: a.ended()}, nil
}

// act selects the set and acts on it. The whole is an act in the audit stream, beside those on the tasks. An error means that nothing was
// done. progress is called with the number of items, and of those that were tried.
func (b *restBulk) act(ctx context.Context, r bulk.Request, progress func(count, tried int)) (bulk.Report, error) {
	if !b.acting.TryLock() {
		return bulk.Report{}, fault.New(fault.RateLimited, "another act on many tasks is being done").WithHint("try again in some seconds").
			WithRetryAt(time.Now().Add(5 * time.Second))
	}
	defer b.acting.Unlock()
	report, err := bulk.Select(ctx, b.api, r)
	if err != nil || report.Count == 0 {
		return report, err
	}
	began := false
	act := audit.Act{Actor: r.Actor, Face: audit.FaceHTTP, Name: "bulk." + r.Act, Target: report.Set, Params: r.Params(report.Count)}
	err = b.host.act(ctx, act, true, func() (string, *audit.Link, error) {
		began = true
		return "", nil, bulk.Do(context.WithoutCancel(ctx), b.api, r, &report, func(tried int) { progress(report.Count, tried) })
	})
	if !began {
		return bulk.Report{}, err
	}
	progress(report.Count, report.Count)
	for i := range report.Items {
		if e := report.Items[i].Error; e != nil {
			clean := *e
			clean.Message = b.host.redactText(e.Message)
			report.Items[i].Error = &clean
		}
	}
	return report, nil
}

const (
	// keepAnswers is how long the answer of an act is kept for repetitions of its request.
	keepAnswers = 24 * time.Hour
	// maxAnswers and maxAnswerItems bound the answers that are kept, and the items in them.
	maxAnswers, maxAnswerItems = 1000, 2 * bulk.MaxItems
)

// bulkAnswers are the answers of acts on many tasks, the oldest first.
type bulkAnswers struct {
	mu  sync.Mutex
	all []*bulkAnswer
}

// bulkAnswer is the answer of an act. report and err are set when done is closed.
type bulkAnswer struct {
	actor, key string
	// request is the digest of the request, which may name thousands of ids.
	request [sha256.Size]byte
	at      time.Time
	// count and tried are the numbers of items of the set, and of those that were acted on.
	count, tried atomic.Int64
	done         chan struct{}
	report       bulk.Report
	err          error
}

// advance notes how far the act is.
func (a *bulkAnswer) advance(count, tried int) {
	a.count.Store(int64(count))
	a.tried.Store(int64(tried))
}

// await returns the answer when there is one.
func (a *bulkAnswer) await(ctx context.Context) (bulk.Report, error) {
	select {
	case <-a.done:
		return a.report, a.err
	case <-ctx.Done():
		return bulk.Report{}, fault.From(ctx.Err())
	}
}

// ended reports whether there is an answer.
func (a *bulkAnswer) ended() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// claim returns the answer with the key of a request, and whether the request was made before. The caller must finish a new one. It returns
// CONFLICT if the key belongs to another request.
func (b *bulkAnswers) claim(r rest.BulkRequest, now time.Time) (a *bulkAnswer, known bool, err error) {
	text, err := json.Marshal(r.Request)
	if err != nil {
		return nil, false, fault.Wrap(fault.Internal, err, "a request cannot be encoded")
	}
	request := sha256.Sum256(text)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = slices.DeleteFunc(b.all, func(a *bulkAnswer) bool { return a.ended() && now.Sub(a.at) >= keepAnswers })
	switch a = b.lookup(r.Actor, r.IdempotencyKey); {
	case a != nil && a.request != request:
		return nil, false, fault.New(fault.Conflict, "the key belongs to another request").WithField("idempotency_key").WithHint("choose another one")
	case a != nil:
		return a, true, nil
	}
	a = &bulkAnswer{actor: r.Actor, key: r.IdempotencyKey, request: request, at: now, done: make(chan struct{})}
	b.all = append(b.all, a)
	return a, false, nil
}

// find returns the answer of a key, nil if there is none.
func (b *bulkAnswers) find(actor, key string) *bulkAnswer {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lookup(actor, key)
}

// lookup is find for a caller that holds mu.
func (b *bulkAnswers) lookup(actor, key string) *bulkAnswer {
	for _, a := range b.all {
		if a.actor == actor && a.key == key {
			return a
		}
	}
	return nil
}

// finish makes an answer known to those who wait, and keeps it, unless nothing was done.
func (b *bulkAnswers) finish(a *bulkAnswer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(a.done)
	if a.err != nil {
		b.all = slices.DeleteFunc(b.all, func(other *bulkAnswer) bool { return other == a })
		return
	}
	items := 0
	for _, one := range b.all {
		items += one.items()
	}
	for len(b.all) > 1 && (len(b.all) > maxAnswers || items > maxAnswerItems) && b.all[0].ended() {
		items -= b.all[0].items()
		b.all = slices.Delete(b.all, 0, 1)
	}
}

// items returns the number of items in an answer; 0 while there is none.
func (a *bulkAnswer) items() int {
	if !a.ended() {
		return 0
	}
	return len(a.report.Items)
}
