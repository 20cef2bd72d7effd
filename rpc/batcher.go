package rpc

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/orch-dev/orch/fault"
)

// The rules for sharing messages between requests of one kind.
const (
	// While maxInFlight messages are in flight, further requests are batched.
	maxInFlight = 4
	// maxBatch is the maximum number of requests in one message. A message has at most maxBatchBytes, unless it
	// contains a single request, so that a large request does not fail together with others.
	maxBatch      = 256
	maxBatchBytes = 256 << 10
)

// batcher lets concurrent requests share messages. A request is sent at once, unless maxInFlight messages are in flight. Then it
// waits, and is sent together with the other waiting requests.
type batcher[Out any] struct {
	// send sends encoded requests, separated by commas, in one message. It returns one answer for each request, or an error that
	// applies to all requests.
	send func(ctx context.Context, requests []byte) ([]batchAnswer[Out], error)

	mu       sync.Mutex
	inFlight int
	waiting  []*batchItem[Out]
}

type batchAnswer[Out any] struct {
	out Out
	err error
}

type batchItem[Out any] struct {
	request any
	done    chan batchAnswer[Out]
}

// do sends one request and returns its answer. If ctx ends first, do returns an error, with the reason OutcomeUnknown if the request
// was sent.
func (b *batcher[Out]) do(ctx context.Context, request any) (Out, error) {
	item := &batchItem[Out]{request: request, done: make(chan batchAnswer[Out], 1)}
	if b.tryStart(item) {
		b.sendBatch(ctx, []*batchItem[Out]{item})
		if batch := b.nextBatch(); len(batch) > 0 {
			go b.sendWaiting(batch)
		}
	}
	select {
	case a := <-item.done:
		return a.out, a.err
	case <-ctx.Done():
		return *new(Out), b.giveUp(ctx, item)
	}
}

// giveUp removes a request from the queue and returns the error of its caller, whose context has ended.
func (b *batcher[Out]) giveUp(ctx context.Context, item *batchItem[Out]) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiting, item); i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
		return fault.From(ctx.Err())
	}
	return fault.From(callFault("the request", ctx.Err()))
}

// tryStart returns true if the request may be sent at once. Otherwise it queues the request and returns false.
func (b *batcher[Out]) tryStart(item *batchItem[Out]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inFlight < maxInFlight {
		b.inFlight++
		return true
	}
	b.waiting = append(b.waiting, item)
	return false
}

// sendWaiting sends batches until no request is queued.
func (b *batcher[Out]) sendWaiting(batch []*batchItem[Out]) {
	for len(batch) > 0 {
		b.sendBatch(context.Background(), batch)
		batch = b.nextBatch()
	}
}

// nextBatch returns the next batch, empty if no request is queued.
func (b *batcher[Out]) nextBatch() []*batchItem[Out] {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.waiting), maxBatch)
	batch := b.waiting[:n:n]
	if b.waiting = b.waiting[n:]; n == 0 {
		b.inFlight--
		b.waiting = nil
	}
	return batch
}

// sendBatch sends a batch in as few messages as possible.
func (b *batcher[Out]) sendBatch(ctx context.Context, batch []*batchItem[Out]) {
	for len(batch) > 0 {
		var requests []byte
		var included []*batchItem[Out]
		if requests, included, batch = encodeBatch(batch); len(included) > 0 {
			b.askOnce(ctx, requests, included)
		}
	}
}

// encodeBatch encodes the requests that fit into one message, and returns the included and the remaining items.
func encodeBatch[Out any](batch []*batchItem[Out]) (requests []byte, included, rest []*batchItem[Out]) {
	for i, p := range batch {
		body, err := json.Marshal(p.request)
		if err != nil {
			p.done <- batchAnswer[Out]{err: fault.Wrap(fault.Internal, err, "the request cannot be encoded")}
			continue
		}
		if len(included) > 0 {
			if len(requests)+len(body) > maxBatchBytes {
				return requests, included, batch[i:]
			}
			requests = append(requests, ',')
		}
		requests, included = append(requests, body...), append(included, p)
	}
	return requests, included, nil
}

func (b *batcher[Out]) askOnce(ctx context.Context, requests []byte, batch []*batchItem[Out]) {
	answers, err := b.send(ctx, requests)
	if err == nil && len(answers) != len(batch) {
		err = fault.New(fault.Internal, "the node answered %d of %d requests", len(answers), len(batch))
	}
	for i, p := range batch {
		a := batchAnswer[Out]{err: err}
		if err == nil {
			a = answers[i]
		}
		p.done <- a
	}
}
