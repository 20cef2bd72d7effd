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

// Limits of the answers that are made, or wait for their clients to read them, over HTTP.
const (
	// MaxAnswers is the bytes of memory of all large answers, MaxAnswersEach those of one identity.
	MaxAnswers     = 16 << 20
	MaxAnswersEach = MaxAnswers / 2
	// MaxAnswerWait is how long an answer waits until there is memory for it.
	MaxAnswerWait = 10 * time.Second
)

const (
	// largeAnswer is the size from which on an answer is counted.
	largeAnswer = 64 << 10
	// answerCopies is how often the bytes of a result are in memory until its answer is read.
	answerCopies = 2
	// maxInLine is how many requests of one share wait for memory inside of the SDK. More of them wait before it, where
	// each costs a part of that.
	maxInLine = 32
	// makers is how many large answers are made at the same time: that takes some more copies, for a moment.
	makers = 1
)

// rooms bounds the memory of large answers, so that clients that do not read theirs cost no more than that. Who finds none waits
// in a line, and holds nothing of its answer meanwhile.
type rooms struct {
	mu   sync.Mutex
	held int
	each map[string]int
	line []*roomWaiter
	// doors are the requests of a share that wait before the SDK.
	doors map[string][]chan struct{}
	// open are the rooms of requests that the SDK answers, by their notes.
	open map[string]*room
	// making has a place for each large answer that is being made.
	making chan struct{}
	// share returns the identity under which another one counts.
	share func(who string) string
}

// room is what the answer to one request may take. A nil room is unbounded: there is one client over stdio.
type room struct {
	rooms *rooms
	who   string
	held  int
	// making is set while the answer is being made, over when the request has ended.
	making, over bool
	// parts are left out of what the SDK encodes of the answer.
	parts []part
}

type roomWaiter struct {
	room  *room
	cost  int
	ready chan struct{}
}

func newRooms() *rooms {
	return &rooms{each: map[string]int{}, open: map[string]*room{}, doors: map[string][]chan struct{}{}, making: make(chan struct{}, makers), share: func(who string) string { return who }}
}

// room is that of one request of an identity, in the share of that. It has to be left.
func (r *rooms) room(who string) *room { return &room{rooms: r, who: r.share(who)} }

// serve lets the SDK answer a request in a room, which is noted on the request. One whose answer may be large waits while many
// of its share do.
func (r *rooms) serve(w http.ResponseWriter, req *http.Request, large bool, next func(http.ResponseWriter)) {
	of := r.room(ownerOf(req))
	if large && !r.enter(req.Context(), of.who) {
		tooMany(w)
		return
	}
	defer of.leave()
	late := &lateWriter{ResponseWriter: w, room: of}
	shut := r.note(req, of)
	defer shut()
	next(late)
	shut()
	late.send()
}

// enter waits while many requests of a share wait for memory; false when that takes too long.
func (r *rooms) enter(ctx context.Context, share string) bool {
	r.mu.Lock()
	if r.inLine(share) < maxInLine {
		r.mu.Unlock()
		return true
	}
	door := make(chan struct{})
	r.doors[share] = append(r.doors[share], door)
	r.mu.Unlock()
	late := time.NewTimer(MaxAnswerWait)
	defer late.Stop()
	select {
	case <-door:
		return true
	case <-late.C:
	case <-ctx.Done():
	}
	return !r.turnAway(share, door)
}

// turnAway takes a request out of those before the SDK; false when it was let in.
func (r *rooms) turnAway(share string, door chan struct{}) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.Index(r.doors[share], door)
	if at >= 0 {
		r.setDoors(share, slices.Delete(r.doors[share], at, at+1))
	}
	return at >= 0
}

// letIn lets one request of a share in that waits before the SDK, if few wait inside. Each that ends does so, so that none
// is forgotten. The lock is held.
func (r *rooms) letIn(share string) {
	if doors := r.doors[share]; len(doors) > 0 && r.inLine(share) < maxInLine {
		close(doors[0])
		r.setDoors(share, doors[1:])
	}
}

func (r *rooms) setDoors(share string, doors []chan struct{}) {
	if r.doors[share] = doors; len(doors) == 0 {
		delete(r.doors, share)
	}
}

// inLine counts the requests of a share that wait for memory. The lock is held.
func (r *rooms) inLine(share string) (n int) {
	for _, w := range r.line {
		if w.room.who == share {
			n++
		}
	}
	return n
}

// note notes a room on a request. shut takes the note back, and the place among those who make answers.
func (r *rooms) note(req *http.Request, of *room) (shut func()) {
	key := rand.Text()
	req.Header.Set(noteRoom, key)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[key] = of
	return sync.OnceFunc(func() {
		r.mu.Lock()
		delete(r.open, key)
		r.mu.Unlock()
		of.made()
	})
}

// noted is the room that was noted on a request, nil for none.
func (r *rooms) noted(key string) *room {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open[key]
}

// fits reports whether an identity may hold more. The lock is held.
func (r *rooms) fits(who string, cost int) bool {
	return r.held+cost <= MaxAnswers && r.each[who]+cost <= MaxAnswersEach
}

// begin waits until the answer may be made beside few others.
func (of *room) begin(ctx context.Context) error {
	if of == nil || of.isMaking() {
		return nil
	}
	select {
	case of.rooms.making <- struct{}{}:
		of.begun()
		return nil
	case <-ctx.Done():
		return fault.From(ctx.Err())
	}
}

func (of *room) isMaking() bool {
	of.rooms.mu.Lock()
	defer of.rooms.mu.Unlock()
	return of.making
}

// begun notes that the room has a place among those who make answers, unless its request has ended.
func (of *room) begun() {
	of.rooms.mu.Lock()
	defer of.rooms.mu.Unlock()
	if of.over || of.making {
		<-of.rooms.making
		return
	}
	of.making = true
}

// made lets others make theirs.
func (of *room) made() {
	if of == nil {
		return
	}
	of.rooms.mu.Lock()
	defer of.rooms.mu.Unlock()
	if of.making {
		of.making = false
		<-of.rooms.making
	}
}

// grant gives a room what it needs. The lock is held.
func (r *rooms) grant(of *room, cost int) {
	r.held += cost
	r.each[of.who] += cost
	of.held += cost
}

// take holds the memory of a large result, and reports whether there is enough now.
func (of *room) take(size int) bool {
	if of == nil || size < largeAnswer {
		return true
	}
	r, cost := of.rooms, min(size*answerCopies, MaxAnswersEach)
	r.mu.Lock()
	defer r.mu.Unlock()
	if of.over {
		return true // nobody gets the answer
	}
	if !r.fits(of.who, cost) {
		return false
	}
	r.grant(of, cost)
	return true
}

// hold waits until there is memory for a large result: RATE_LIMITED when that takes too long.
func (of *room) hold(ctx context.Context, size int) error {
	if of.take(size) {
		return nil
	}
	w := of.rooms.enqueue(of, min(size*answerCopies, MaxAnswersEach))
	late := time.NewTimer(MaxAnswerWait)
	defer late.Stop()
	select {
	case <-w.ready:
		return nil
	case <-late.C:
	case <-ctx.Done():
	}
	if of.rooms.giveUp(w) {
		return fault.New(fault.RateLimited, "too many large answers of %s have not been read", of.who).WithReason("UNREAD_ANSWERS").
			WithRetryAt(time.Now().Add(time.Second)).WithHint("read the other answers, then ask again")
	}
	return nil
}

// enqueue puts a room into the line.
func (r *rooms) enqueue(of *room, cost int) *roomWaiter {
	w := &roomWaiter{of, cost, make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.line = append(r.line, w)
	r.admit()
	return w
}

// giveUp takes a waiter out of the line; false when it has got what it waits for.
func (r *rooms) giveUp(w *roomWaiter) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.Index(r.line, w)
	if at >= 0 {
		r.line = slices.Delete(r.line, at, at+1)
	}
	return at >= 0
}

// holds reports whether the answer is a large one.
func (of *room) holds() bool {
	of.rooms.mu.Lock()
	defer of.rooms.mu.Unlock()
	return of.held > 0
}

// leave gives back what a room holds, to those in the line.
func (of *room) leave() {
	r := of.rooms
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.letIn(of.who)
	of.over = true
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
	r.admit()
}

// admit gives those in the line what there is, the first ones first. One whose identity holds its part lets the others by. The
// lock is held.
func (r *rooms) admit() {
	r.line = slices.DeleteFunc(r.line, func(w *roomWaiter) bool {
		if !w.room.over && !r.fits(w.room.who, w.cost) {
			return false
		}
		if !w.room.over {
			r.grant(w.room, w.cost)
		}
		close(w.ready)
		return true
	})
}

// result is Result of the API in the room of a request: a large output is read when there is memory for it.
func (co *core) result(ctx context.Context, of *room, r api.ResultRequest) (api.ResultReply, error) {
	r.SizeOnly = of != nil
	now, err := co.cfg.API.Result(ctx, r)
	if err != nil || now.Size == 0 {
		return now, err
	}
	if err := of.hold(ctx, int(now.Size)); err != nil {
		return now, fault.From(err).WithHint(toolResult+` with {"task_id": %q} has the result once other answers are read`, string(r.ID))
	}
	if err := of.begin(ctx); err != nil {
		return now, err
	}
	r.SizeOnly = false
	return co.cfg.API.Result(ctx, r)
}

// inRoom makes an answer that changes nothing. One for which there is no memory is dropped, and made again when there is.
func inRoom(ctx context.Context, c client, answer func() (mcp.Result, error)) (mcp.Result, error) {
	if c.room == nil {
		return answer()
	}
	result, size, err := c.room.attempt(ctx, answer)
	if result != nil || err != nil {
		return result, err
	}
	if err := c.room.hold(ctx, size); err != nil {
		return nil, err
	}
	if err := c.room.begin(ctx); err != nil {
		return nil, err
	}
	return answer()
}

// attempt makes an answer beside few others, and drops it when there is no memory for it. Only a large one keeps its place.
func (of *room) attempt(ctx context.Context, answer func() (mcp.Result, error)) (result mcp.Result, size int, err error) {
	if err := of.begin(ctx); err != nil {
		return nil, 0, err
	}
	if result, err = answer(); err != nil {
		of.made()
		return nil, 0, err
	}
	size = sizeOf(result) + of.spared()
	if size < largeAnswer {
		of.made()
		return result, size, nil
	}
	if !of.take(size) {
		of.drop()
		of.made()
		return nil, size, nil
	}
	return result, size, nil
}

// sizeOf is about the size of an answer.
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

// sizeOfFields is that of the parts of an object that are JSON already.
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

// withRoom is a task that is over in the room of a request: read again, if there was no memory for its output at first.
func (co *core) withRoom(ctx context.Context, c client, t api.TaskView) (api.TaskView, error) {
	size := len(t.Output)
	for _, step := range t.Steps {
		size = max(size, len(step.Output))
	}
	if c.room.take(size) {
		return t, nil
	}
	id := t.ID
	t = api.TaskView{}
	if err := c.room.hold(ctx, size); err != nil {
		return t, err
	}
	if err := c.room.begin(ctx); err != nil {
		return t, err
	}
	return co.cfg.API.Get(ctx, api.GetRequest{ID: id})
}
