package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
)

// Limits for large answers over HTTP. An answer counts from the time it is made until its client has read it.
const (
	// MaxAnswers is the most bytes of memory for all large answers together.
	MaxAnswers = 16 << 20
	// MaxAnswersEach is the most bytes of memory for the large answers to one identity.
	MaxAnswersEach = MaxAnswers / 2
	// MaxAnswerWait is how long an answer may wait for memory.
	MaxAnswerWait = 10 * time.Second
)

const (
	// largeAnswer is the size in bytes from which an answer counts as large.
	largeAnswer = 64 << 10
	// answerCopies is the number of copies of a result in memory until its answer is read.
	answerCopies = 2
	// maxWaiting is the most requests of one share that wait for memory inside the SDK. Further requests wait before they
	// reach the SDK, where each needs less memory.
	maxWaiting = 32
	// makers is how many large answers are made concurrently: while an answer is made, there are more copies of it.
	makers = 1
)

// answerMemory limits the memory of large answers, so that clients that do not read their answers cannot exhaust the memory.
// A request for which there is no memory waits in a queue; its answer is made afterwards.
type answerMemory struct {
	mu sync.Mutex
	// held is the reserved bytes, heldBy the same for each share.
	held   int
	heldBy map[string]int
	// queue contains the requests inside the SDK that wait for memory.
	queue []*memoryWaiter
	// requests are the requests of each share that wait before they reach the SDK.
	requests map[string][]chan struct{}
	// attachments are the reservations of requests inside the SDK, by the key recorded on the request.
	attachments map[string]*reservation
	// making is the semaphore for large answers being made.
	making chan struct{}
	// share returns the identity that the memory of who counts against: who itself, or the registrar of an agent.
	share func(who string) string
}

// reservation is the memory reserved for the answer to one request. A nil reservation has no limit: stdio has only one client.
type reservation struct {
	memory *answerMemory
	// who is the identity that the memory counts against.
	who  string
	held int
	// making is set while the reservation holds the semaphore, ended when the request has ended.
	making, ended bool
	// unlimited is set for stdio, where only the parts are used.
	unlimited bool
	// parts are extracted from the answer before the SDK encodes it.
	parts []part
}

// memoryWaiter is a request that waits for memory. ready is closed when it has the memory.
type memoryWaiter struct {
	reservation *reservation
	cost        int
	ready       chan struct{}
}

func newAnswerMemory() *answerMemory {
	return &answerMemory{
		heldBy: map[string]int{}, attachments: map[string]*reservation{}, requests: map[string][]chan struct{}{},
		making: make(chan struct{}, makers), share: func(who string) string { return who },
	}
}

// newReservation returns an empty reservation for a request of who. The caller must release it.
func (r *answerMemory) newReservation(who string) *reservation {
	return &reservation{memory: r, who: r.share(who)}
}

// serve creates a reservation, attaches it to the request, and runs next, which passes the request to the SDK. If the answer
// may be large, serve first waits while many requests of the same share wait for memory.
func (r *answerMemory) serve(w http.ResponseWriter, req *http.Request, large bool, next func(http.ResponseWriter)) {
	res := r.newReservation(ownerOf(req))
	if large && !r.waitTurn(req.Context(), res.who) {
		tooMany(w)
		return
	}
	defer res.release()
	late := &deferredWriter{ResponseWriter: w, reservation: res}
	detach := r.attach(req.Header, res)
	defer detach()
	next(late)
	detach()
	late.send()
}

// waitTurn waits while many requests of a share wait for memory; false if that takes too long.
func (r *answerMemory) waitTurn(ctx context.Context, share string) bool {
	r.mu.Lock()
	if r.waiting(share) < maxWaiting {
		r.mu.Unlock()
		return true
	}
	ready := make(chan struct{})
	r.requests[share] = append(r.requests[share], ready)
	r.mu.Unlock()
	late := time.NewTimer(MaxAnswerWait)
	defer late.Stop()
	select {
	case <-ready:
		return true
	case <-late.C:
	case <-ctx.Done():
	}
	return !r.dequeueRequest(share, ready)
}

// dequeueRequest removes a request from those that wait before the SDK; false if it was admitted meanwhile.
func (r *answerMemory) dequeueRequest(share string, request chan struct{}) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.Index(r.requests[share], request)
	if at >= 0 {
		r.setRequests(share, slices.Delete(r.requests[share], at, at+1))
	}
	return at >= 0
}

// admitRequest admits one of the requests of a share that wait before the SDK, if fewer than maxWaiting wait inside it. Each
// request calls it when it ends, so that none waits forever. r.mu must be held.
func (r *answerMemory) admitRequest(share string) {
	if queue := r.requests[share]; len(queue) > 0 && r.waiting(share) < maxWaiting {
		close(queue[0])
		r.setRequests(share, queue[1:])
	}
}

func (r *answerMemory) setRequests(share string, requests []chan struct{}) {
	if r.requests[share] = requests; len(requests) == 0 {
		delete(r.requests, share)
	}
}

// waiting returns how many requests of a share wait for memory. r.mu must be held.
func (r *answerMemory) waiting(share string) (n int) {
	for _, w := range r.queue {
		if w.reservation.who == share {
			n++
		}
	}
	return n
}

// attach records a reservation on a request with the given header. detach removes the reservation, and releases the semaphore for
// making answers.
func (r *answerMemory) attach(header http.Header, res *reservation) (detach func()) {
	key := rand.Text()
	header.Set(noteReservation, key)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attachments[key] = res
	return sync.OnceFunc(func() {
		r.mu.Lock()
		delete(r.attachments, key)
		r.mu.Unlock()
		res.doneMaking()
	})
}

// attached returns the reservation recorded under a key, nil for none.
func (r *answerMemory) attached(key string) *reservation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.attachments[key]
}

// hasMemory reports whether the share of who may reserve cost more bytes. r.mu must be held.
func (r *answerMemory) hasMemory(who string, cost int) bool {
	return r.held+cost <= MaxAnswers && r.heldBy[who]+cost <= MaxAnswersEach
}

// startMaking acquires the semaphore for making answers, unless the reservation has it already.
func (res *reservation) startMaking(ctx context.Context) error {
	if res == nil || res.unlimited || res.isMaking() {
		return nil
	}
	select {
	case res.memory.making <- struct{}{}:
		res.setMaking()
		return nil
	case <-ctx.Done():
		return fault.From(ctx.Err())
	}
}

func (res *reservation) isMaking() bool {
	res.memory.mu.Lock()
	defer res.memory.mu.Unlock()
	return res.making
}

// setMaking records that the reservation has the semaphore. It releases the semaphore if the request has ended, or if the
// reservation has it already.
func (res *reservation) setMaking() {
	res.memory.mu.Lock()
	defer res.memory.mu.Unlock()
	if res.ended || res.making {
		<-res.memory.making
		return
	}
	res.making = true
}

// doneMaking releases the semaphore for making answers.
func (res *reservation) doneMaking() {
	if res == nil {
		return
	}
	res.memory.mu.Lock()
	defer res.memory.mu.Unlock()
	if res.making {
		res.making = false
		<-res.memory.making
	}
}

// grant reserves memory for a request. r.mu must be held.
func (r *answerMemory) grant(res *reservation, cost int) {
	r.held += cost
	r.heldBy[res.who] += cost
	res.held += cost
}

// tryReserve reserves memory for a large result, and reports whether there was enough.
func (res *reservation) tryReserve(size int) bool {
	if res == nil || res.unlimited || size < largeAnswer {
		return true
	}
	r, cost := res.memory, min(size*answerCopies, MaxAnswersEach)
	r.mu.Lock()
	defer r.mu.Unlock()
	if res.ended {
		return true // nobody gets the answer
	}
	if !r.hasMemory(res.who, cost) {
		return false
	}
	r.grant(res, cost)
	return true
}

// reserve reserves memory for a large result, and waits for it if necessary. It returns RATE_LIMITED after MaxAnswerWait.
func (res *reservation) reserve(ctx context.Context, size int) error {
	if res.tryReserve(size) {
		return nil
	}
	w := res.memory.enqueue(res, min(size*answerCopies, MaxAnswersEach))
	late := time.NewTimer(MaxAnswerWait)
	defer late.Stop()
	select {
	case <-w.ready:
		return nil
	case <-late.C:
	case <-ctx.Done():
	}
	if res.memory.dequeue(w) {
		return fault.New(fault.RateLimited, "too many large answers of %s have not been read", res.who).WithReason("UNREAD_ANSWERS").
			WithRetryAt(time.Now().Add(time.Second)).WithHint("read the other answers, then ask again")
	}
	return nil
}

// enqueue appends a waiter to the queue, and grants what memory is free.
func (r *answerMemory) enqueue(res *reservation, cost int) *memoryWaiter {
	w := &memoryWaiter{res, cost, make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, w)
	r.grantWaiting()
	return w
}

// dequeue removes a waiter from the queue; false if it already has its memory.
func (r *answerMemory) dequeue(w *memoryWaiter) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.Index(r.queue, w)
	if at >= 0 {
		r.queue = slices.Delete(r.queue, at, at+1)
	}
	return at >= 0
}

// isLarge reports whether the answer is large, that is, whether memory is reserved for it.
func (res *reservation) isLarge() bool {
	res.memory.mu.Lock()
	defer res.memory.mu.Unlock()
	return res.held > 0
}

// release frees the reserved memory and gives it to waiters.
func (res *reservation) release() {
	r := res.memory
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.admitRequest(res.who)
	res.ended = true
	if res.making {
		res.making = false
		<-r.making
	}
	if res.held == 0 {
		return
	}
	r.held -= res.held
	if r.heldBy[res.who] -= res.held; r.heldBy[res.who] == 0 {
		delete(r.heldBy, res.who)
	}
	res.held = 0
	r.grantWaiting()
}

// grantWaiting gives free memory to waiters in order. It skips waiters whose identity has reached its limit.
// r.mu must be held.
func (r *answerMemory) grantWaiting() {
	r.queue = slices.DeleteFunc(r.queue, func(w *memoryWaiter) bool {
		if !w.reservation.ended && !r.hasMemory(w.reservation.who, w.cost) {
			return false
		}
		if !w.reservation.ended {
			r.grant(w.reservation, w.cost)
		}
		close(w.ready)
		return true
	})
}

// result is API.Result within the reservation of a request: it waits for memory before it reads a large output.
func (co *core) result(ctx context.Context, res *reservation, r api.ResultRequest) (api.ResultReply, error) {
	r.SizeOnly = res != nil
	reply, err := co.cfg.API.Result(ctx, r)
	if err != nil || reply.Size == 0 {
		return reply, err
	}
	if err := res.reserve(ctx, int(reply.Size)); err != nil {
		return reply, fault.From(err).WithHint(toolResult+` with {"task_id": %q} has the result once other answers are read`, string(r.ID))
	}
	if err := res.startMaking(ctx); err != nil {
		return reply, err
	}
	r.SizeOnly = false
	return co.cfg.API.Result(ctx, r)
}

// withinMemory calls answer, which must have no side effects: if there is no memory for its result, withinMemory drops the
// result, waits for memory, and calls answer again.
func withinMemory(ctx context.Context, c client, answer func() (mcp.Result, error)) (mcp.Result, error) {
	if c.reservation == nil {
		return answer()
	}
	result, size, err := c.reservation.attempt(ctx, answer)
	if result != nil || err != nil {
		return result, err
	}
	if err := c.reservation.reserve(ctx, size); err != nil {
		return nil, err
	}
	if err := c.reservation.startMaking(ctx); err != nil {
		return nil, err
	}
	return answer()
}

// attempt calls answer. If there is no memory for the result, it drops the result and returns only its size. The semaphore
// remains acquired only if a large result is returned.
func (res *reservation) attempt(ctx context.Context, answer func() (mcp.Result, error)) (result mcp.Result, size int, err error) {
	if err := res.startMaking(ctx); err != nil {
		return nil, 0, err
	}
	if result, err = answer(); err != nil {
		res.doneMaking()
		return nil, 0, err
	}
	size = sizeOf(result) + res.partsSize()
	if size < largeAnswer {
		res.doneMaking()
		return result, size, nil
	}
	if !res.tryReserve(size) {
		res.dropParts()
		res.doneMaking()
		return nil, size, nil
	}
	return result, size, nil
}

// sizeOf returns the approximate size of an answer.
func sizeOf(result mcp.Result) (size int) {
	const definition = 2 << 10
	switch r := result.(type) {
	case *mcp.ReadResourceResult:
		for _, c := range r.Contents {
			size += len(c.Text) + len(c.Blob)
		}
	case *mcp.ListToolsResult:
		size = len(r.Tools) * definition
	case *reply:
		size = sizeOfFields(r.fields)
	}
	return size
}

// sizeOfFields returns the total size of the fields that contain encoded JSON.
func sizeOfFields(o object) (size int) {
	for _, value := range o {
		switch v := value.(type) {
		case json.RawMessage:
			size += len(v)
		case object:
			size += sizeOfFields(v)
		}
	}
	return size
}

// readWithinMemory returns the finished task t. If there is no memory for its output, it drops t, waits for memory, and reads
// the task again.
func (co *core) readWithinMemory(ctx context.Context, c client, t api.TaskView) (api.TaskView, error) {
	size := len(t.Output)
	for _, step := range t.Steps {
		size = max(size, len(step.Output))
	}
	if c.reservation.tryReserve(size) {
		return t, nil
	}
	id := t.ID
	t = api.TaskView{}
	if err := c.reservation.reserve(ctx, size); err != nil {
		return t, err
	}
	if err := c.reservation.startMaking(ctx); err != nil {
		return t, err
	}
	return co.cfg.API.Get(ctx, api.GetRequest{ID: id})
}
