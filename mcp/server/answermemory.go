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

// Limits of the answers over HTTP that are being made, or that wait for their clients to read them.
const (
	// MaxAnswers is the bytes of memory of all large answers, MaxAnswersEach those of one identity.
	MaxAnswers     = 16 << 20
	MaxAnswersEach = MaxAnswers / 2
	// MaxAnswerWait is how long an answer may wait for memory.
	MaxAnswerWait = 10 * time.Second
)

const (
	// largeAnswer is the size from which an answer counts.
	largeAnswer = 64 << 10
	// answerCopies is the number of copies of a result in memory until its answer is read.
	answerCopies = 2
	// maxWaiting is how many requests of one share wait for memory inside the SDK. Further ones wait before it, where
	// each needs less memory.
	maxWaiting = 32
	// makers is how many large answers are made concurrently: making one temporarily takes more copies.
	makers = 1
)

// answerMemory limits the memory of large answers, so that clients that do not read their answers cannot exhaust it. A request without
// memory waits in a queue, without its answer.
type answerMemory struct {
	mu   sync.Mutex
	held int
	each map[string]int
	line []*memoryWaiter
	// requests are the requests of each share that wait before the SDK.
	requests map[string][]chan struct{}
	// open are the reservations of requests inside the SDK, by the key recorded on the request.
	open map[string]*reservation
	// making is the semaphore for large answers being made.
	making chan struct{}
	// share returns the identity whose share another one counts against.
	share func(who string) string
}

// reservation is the memory reserved for the answer to one request. A nil reservation is unlimited: stdio has only one client.
type reservation struct {
	memory *answerMemory
	who    string
	held   int
	// making is set while the answer is being made, ended when the request has ended.
	making, ended bool
	// parts are extracted from the answer before the SDK encodes it.
	parts []part
}

type memoryWaiter struct {
	reservation *reservation
	cost        int
	ready       chan struct{}
}

func newAnswerMemory() *answerMemory {
	return &answerMemory{each: map[string]int{}, open: map[string]*reservation{}, requests: map[string][]chan struct{}{}, making: make(chan struct{}, makers), share: func(who string) string { return who }}
}

// newReservation returns the reservation of a request of an identity, which counts against its share. It must be released.
func (r *answerMemory) newReservation(who string) *reservation {
	return &reservation{memory: r, who: r.share(who)}
}

// serve runs the SDK on a request with a reservation, which it records on the request. A request whose answer may be large
// first waits while many of its share wait.
func (r *answerMemory) serve(w http.ResponseWriter, req *http.Request, large bool, next func(http.ResponseWriter)) {
	of := r.newReservation(ownerOf(req))
	if large && !r.waitTurn(req.Context(), of.who) {
		tooMany(w)
		return
	}
	defer of.release()
	late := &deferredWriter{ResponseWriter: w, reservation: of}
	detach := r.attach(req, of)
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

// dequeueRequest removes a request from those before the SDK; false if it was admitted.
func (r *answerMemory) dequeueRequest(share string, request chan struct{}) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.Index(r.requests[share], request)
	if at >= 0 {
		r.setRequests(share, slices.Delete(r.requests[share], at, at+1))
	}
	return at >= 0
}

// admitRequest admits one request of a share that waits before the SDK, if few wait inside. Every ending request calls it, so
// that none waits forever. r.mu must be held.
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
	for _, w := range r.line {
		if w.reservation.who == share {
			n++
		}
	}
	return n
}

// attach records a reservation on a request. detach removes it, and releases the semaphore for making answers.
func (r *answerMemory) attach(req *http.Request, of *reservation) (detach func()) {
	key := rand.Text()
	req.Header.Set(noteRoom, key)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[key] = of
	return sync.OnceFunc(func() {
		r.mu.Lock()
		delete(r.open, key)
		r.mu.Unlock()
		of.doneMaking()
	})
}

// attached returns the reservation recorded under a key, nil for none.
func (r *answerMemory) attached(key string) *reservation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open[key]
}

// hasMemory reports whether an identity may reserve cost more bytes. r.mu must be held.
func (r *answerMemory) hasMemory(who string, cost int) bool {
	return r.held+cost <= MaxAnswers && r.each[who]+cost <= MaxAnswersEach
}

// startMaking acquires the semaphore for making answers.
func (of *reservation) startMaking(ctx context.Context) error {
	if of == nil || of.isMaking() {
		return nil
	}
	select {
	case of.memory.making <- struct{}{}:
		of.setMaking()
		return nil
	case <-ctx.Done():
		return fault.From(ctx.Err())
	}
}

func (of *reservation) isMaking() bool {
	of.memory.mu.Lock()
	defer of.memory.mu.Unlock()
	return of.making
}

// setMaking records that the reservation has the semaphore, or releases it again if the request has ended.
func (of *reservation) setMaking() {
	of.memory.mu.Lock()
	defer of.memory.mu.Unlock()
	if of.ended || of.making {
		<-of.memory.making
		return
	}
	of.making = true
}

// doneMaking releases the semaphore for making answers.
func (of *reservation) doneMaking() {
	if of == nil {
		return
	}
	of.memory.mu.Lock()
	defer of.memory.mu.Unlock()
	if of.making {
		of.making = false
		<-of.memory.making
	}
}

// grant reserves memory for a request. r.mu must be held.
func (r *answerMemory) grant(of *reservation, cost int) {
	r.held += cost
	r.each[of.who] += cost
	of.held += cost
}

// tryReserve reserves memory for a large result, and reports whether there was enough.
func (of *reservation) tryReserve(size int) bool {
	if of == nil || size < largeAnswer {
		return true
	}
	r, cost := of.memory, min(size*answerCopies, MaxAnswersEach)
	r.mu.Lock()
	defer r.mu.Unlock()
	if of.ended {
		return true // nobody gets the answer
	}
	if !r.hasMemory(of.who, cost) {
		return false
	}
	r.grant(of, cost)
	return true
}

// reserve waits until there is memory for a large result: RATE_LIMITED if that takes too long.
func (of *reservation) reserve(ctx context.Context, size int) error {
	if of.tryReserve(size) {
		return nil
	}
	w := of.memory.enqueue(of, min(size*answerCopies, MaxAnswersEach))
	late := time.NewTimer(MaxAnswerWait)
	defer late.Stop()
	select {
	case <-w.ready:
		return nil
	case <-late.C:
	case <-ctx.Done():
	}
	if of.memory.dequeue(w) {
		return fault.New(fault.RateLimited, "too many large answers of %s have not been read", of.who).WithReason("UNREAD_ANSWERS").
			WithRetryAt(time.Now().Add(time.Second)).WithHint("read the other answers, then ask again")
	}
	return nil
}

// enqueue appends a waiter to the queue.
func (r *answerMemory) enqueue(of *reservation, cost int) *memoryWaiter {
	w := &memoryWaiter{of, cost, make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.line = append(r.line, w)
	r.grantWaiting()
	return w
}

// dequeue removes a waiter from the queue; false if it already got its memory.
func (r *answerMemory) dequeue(w *memoryWaiter) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.Index(r.line, w)
	if at >= 0 {
		r.line = slices.Delete(r.line, at, at+1)
	}
	return at >= 0
}

// isLarge reports whether memory is reserved, that is, the answer is large.
func (of *reservation) isLarge() bool {
	of.memory.mu.Lock()
	defer of.memory.mu.Unlock()
	return of.held > 0
}

// release frees the reserved memory and gives it to waiters.
func (of *reservation) release() {
	r := of.memory
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.admitRequest(of.who)
	of.ended = true
	if of.making {
		of.making = false
		<-r.making
	}
	if of.held == 0 {
		return
	}
	r.held -= of.held
	if r.each[of.who] -= of.held; r.each[of.who] == 0 {
		delete(r.each, of.who)
	}
	of.held = 0
	r.grantWaiting()
}

// grantWaiting gives free memory to waiters in order. It skips waiters whose identity has reached its limit.
// r.mu must be held.
func (r *answerMemory) grantWaiting() {
	r.line = slices.DeleteFunc(r.line, func(w *memoryWaiter) bool {
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

// result is API.Result within the reservation of a request: it reads a large output once there is memory for it.
func (co *core) result(ctx context.Context, of *reservation, r api.ResultRequest) (api.ResultReply, error) {
	r.SizeOnly = of != nil
	now, err := co.cfg.API.Result(ctx, r)
	if err != nil || now.Size == 0 {
		return now, err
	}
	if err := of.reserve(ctx, int(now.Size)); err != nil {
		return now, fault.From(err).WithHint(toolResult+` with {"task_id": %q} has the result once other answers are read`, string(r.ID))
	}
	if err := of.startMaking(ctx); err != nil {
		return now, err
	}
	r.SizeOnly = false
	return co.cfg.API.Result(ctx, r)
}

// withinMemory makes an answer without side effects. If there is no memory for it, it is dropped, and made again when there is.
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

// attempt makes an answer, and drops it if there is no memory for it. It keeps the semaphore only for a large one.
func (of *reservation) attempt(ctx context.Context, answer func() (mcp.Result, error)) (result mcp.Result, size int, err error) {
	if err := of.startMaking(ctx); err != nil {
		return nil, 0, err
	}
	if result, err = answer(); err != nil {
		of.doneMaking()
		return nil, 0, err
	}
	size = sizeOf(result) + of.partsSize()
	if size < largeAnswer {
		of.doneMaking()
		return result, size, nil
	}
	if !of.tryReserve(size) {
		of.dropParts()
		of.doneMaking()
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

// sizeOfFields returns the size of those fields of an object that are JSON already.
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

// readWithinMemory returns a finished task; it reads the task again if there was no memory for its output at first.
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
