package registry

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The methods of requests from a server to its client.
const (
	methodElicit = "elicitation/create"
	methodSample = "sampling/createMessage"
)

// errOvertime is the cause when the context of a call ends because the call has worked for too long.
var errOvertime = errors.New("the call worked for too long")

// pendingCalls are the pending calls of a connection. It finds the call that a request or a progress report of the server
// belongs to.
type pendingCalls struct {
	// patience is how long a request for a task waits for a pending call that waits for the task.
	patience time.Duration
	// onAmbiguous is called for a request that may belong to several calls, onUnowned for a request that belongs to none.
	onAmbiguous, onUnowned func(method string)

	mu  sync.Mutex
	all map[*pendingCall]bool
	// changed is closed and replaced when a pending call is added.
	changed chan struct{}
	// requests counts the requests of the server being answered.
	requests int
}

// pendingCall is a call in progress, or a wait for a task. While it waits for the answer to a request of the server, it is
// suspended: its clock is stopped and its slot is free. calls.mu guards the fields that change.
type pendingCall struct {
	calls  *pendingCalls
	call   CallRequest
	cancel context.CancelCauseFunc
	// ctx is cancelled when the call ends.
	ctx context.Context //nolint:containedctx // requests of the server end with the call
	// token is the progress token.
	token string
	// semaphore limits the concurrent calls; may be nil.
	semaphore *semaphore

	// task is the id of the task that the call waits for, "" for none.
	task string
	// open is set if requests that name no call may belong to this call.
	open bool
	// held is set while the call holds a slot of the semaphore.
	held bool
	// ended is set when the call was removed.
	ended bool
	// asked counts the requests that wait for an answer.
	asked int
	// clock limits the time that the call works; may be nil.
	clock *workTimer
	// resuming is locked while resume runs.
	resuming sync.Mutex
	// reporting is locked while progress is reported.
	reporting   sync.Mutex
	done, total float64
}

// workTimer limits the time that a call works, which does not include the time in which it is suspended.
type workTimer struct {
	timer *time.Timer
	left  time.Duration
	since time.Time
}

func newPendingCalls(patience time.Duration) *pendingCalls {
	none := func(string) {}
	return &pendingCalls{patience: patience, onAmbiguous: none, onUnowned: none, all: map[*pendingCall]bool{}, changed: make(chan struct{})}
}

// newToken returns a unique progress token.
func newToken() string { return "orch-" + rand.Text() }

// add adds a pending call; prepare sets its fields. The context of the call is cancelled when the call is removed.
func (fs *pendingCalls) add(ctx context.Context, c CallRequest, prepare func(*pendingCall)) *pendingCall {
	f := &pendingCall{calls: fs, call: c}
	f.ctx, f.cancel = context.WithCancelCause(ctx)
	prepare(f)
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.all[f] = true
	fs.notify()
	return f
}

// notify wakes goroutines that wait for a new pending call. fs.mu must be held.
func (fs *pendingCalls) notify() {
	close(fs.changed)
	fs.changed = make(chan struct{})
}

// limit cancels the pending call when it has worked for d.
func (f *pendingCall) limit(d time.Duration) {
	f.clock = &workTimer{left: d, since: time.Now(), timer: time.AfterFunc(d, func() { f.cancel(errOvertime) })}
}

// remove removes the pending call. No progress is reported afterwards.
func (f *pendingCall) remove() {
	f.calls.mu.Lock()
	f.ended = true
	delete(f.calls.all, f)
	if f.held {
		f.held = false
		f.semaphore.release()
	}
	if f.clock != nil {
		f.clock.timer.Stop()
	}
	f.calls.mu.Unlock()
	f.cancel(nil)
	f.reporting.Lock() // wait for a report in progress
	defer f.reporting.Unlock()
}

// setOpen sets whether requests that name no call may belong to the pending call.
func (f *pendingCall) setOpen(open bool) {
	f.calls.mu.Lock()
	defer f.calls.mu.Unlock()
	f.open = open
}

// overtime reports whether the call has worked for too long.
func (f *pendingCall) overtime() bool { return errors.Is(context.Cause(f.ctx), errOvertime) }

// suspended returns the number of pending calls that wait for answers.
func (fs *pendingCalls) suspended() int {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	n := 0
	for f := range fs.all {
		if f.asked > 0 {
			n++
		}
	}
	return n
}

// suspend stops the clock and frees the slot of the call while the server waits for an answer. calls.mu must be held.
func (f *pendingCall) suspend() {
	if f.asked++; f.asked > 1 {
		return
	}
	if f.clock != nil {
		f.clock.timer.Stop()
		f.clock.left -= time.Since(f.clock.since)
	}
	if f.held {
		f.held = false
		f.semaphore.release()
	}
}

// resume is called before an answer is returned to the server. If no other request waits for an answer, it acquires a slot
// again and restarts the clock.
func (f *pendingCall) resume() {
	f.resuming.Lock()
	defer f.resuming.Unlock()
	f.calls.mu.Lock()
	last := f.asked == 1
	f.calls.mu.Unlock()
	entered := last && f.semaphore != nil && f.semaphore.acquire(f.ctx) == nil
	f.calls.mu.Lock()
	defer f.calls.mu.Unlock()
	f.asked--
	if entered {
		if f.asked > 0 || f.ended {
			f.semaphore.release()
		} else {
			f.held = true
		}
	}
	if f.asked == 0 && !f.ended && f.clock != nil {
		f.clock.since = time.Now()
		f.clock.timer.Reset(max(0, f.clock.left))
	}
}

// suspendOwner finds the pending call that a request belongs to, and suspends it. It returns nil if no call matches, or more than
// one.
func (fs *pendingCalls) suspendOwner(ctx context.Context, method string, meta map[string]any) *pendingCall {
	if task := relatedTask(meta); task != "" {
		return fs.suspendTaskOwner(ctx, method, task)
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.byToken(meta[metaCall]); f != nil {
		f.suspend()
		return f
	}
	var working, waiting []*pendingCall
	for f := range fs.all {
		switch {
		case !f.open:
		case f.asked == 0:
			working = append(working, f)
		default:
			waiting = append(waiting, f)
		}
	}
	switch {
	case len(working) == 1:
	case len(working) == 0 && len(waiting) == 1: // it asks several questions at once
		working = waiting
	case len(working)+len(waiting) == 0:
		fs.onUnowned(method)
		return nil
	default:
		fs.onAmbiguous(method)
		return nil
	}
	working[0].suspend()
	return working[0]
}

// byToken returns the pending call of a token; nil if there is none. fs.mu must be held.
func (fs *pendingCalls) byToken(token any) *pendingCall {
	for f := range fs.all {
		if f.token != "" && f.token == token {
			return f
		}
	}
	return nil
}

// suspendTaskOwner finds and suspends the pending call that waits for a task. If there is none, it waits up to fs.patience for one,
// because the server may send a request before a call waits for the task.
func (fs *pendingCalls) suspendTaskOwner(ctx context.Context, method, task string) *pendingCall {
	timer := time.NewTimer(fs.patience)
	defer timer.Stop()
	for {
		f, changed := fs.findTaskOwner(task)
		if f != nil {
			return f
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		case <-timer.C:
			fs.onUnowned(method)
			return nil
		}
	}
}

// findTaskOwner suspends and returns the pending call that waits for a task. If there is none, it returns a channel that is closed
// when a pending call is added.
func (fs *pendingCalls) findTaskOwner(task string) (*pendingCall, <-chan struct{}) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for f := range fs.all {
		if f.task == task {
			f.suspend()
			return f, nil
		}
	}
	return nil, fs.changed
}

// middleware answers elicitation and sampling requests of the server.
func (fs *pendingCalls) middleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch method {
		case methodElicit, methodSample:
			return fs.answer(ctx, method, req.GetParams())
		default:
			return next(ctx, method, req)
		}
	}
}

// answer answers a request of the server.
func (fs *pendingCalls) answer(ctx context.Context, method string, params mcp.Params) (mcp.Result, error) {
	raw, err := paramsOf(params)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the request has no parameters"}
	}
	defer fs.addRequests(-1)
	if fs.addRequests(1) > maxAsks {
		return refusal(method)
	}
	f := fs.suspendOwner(ctx, method, params.GetMeta())
	if f == nil {
		return refusal(method)
	}
	answer, err := f.ask(ctx, method, raw)
	f.resume()
	if err != nil {
		return refusal(method)
	}
	return &rawResult{raw: answer}, nil
}

// addRequests adds change to the number of requests being answered, and returns the new number.
func (fs *pendingCalls) addRequests(change int) int {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.requests += change
	return fs.requests
}

// paramsOf encodes the parameters of a request, without fields added by this package.
func paramsOf(params mcp.Params) (json.RawMessage, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return nil, errors.New("the parameters are not an object")
	}
	if string(fields["mode"]) == `""` {
		delete(fields, "mode")
	}
	if meta := maps.Clone(params.GetMeta()); meta[metaCall] != nil {
		if delete(meta, metaCall); len(meta) == 0 {
			delete(fields, "_meta")
		} else if fields["_meta"], err = json.Marshal(meta); err != nil {
			return nil, err
		}
	}
	return json.Marshal(fields)
}

// ask passes a request of the server to the caller (CallRequest.Ask). The context passed to the caller ends with ctx and with the
// call.
func (f *pendingCall) ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if f.call.Ask == nil {
		return nil, errors.New("nobody answers")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.ctx, cancel)()
	answer, err := f.call.Ask(ctx, method, params)
	if err == nil && !json.Valid(answer) {
		err = errors.New("the answer is not JSON")
	}
	return answer, err
}

// refusal returns the answer to a request that nobody answers. It does not reveal the reason.
func refusal(method string) (mcp.Result, error) {
	if method == methodElicit {
		return &rawResult{raw: json.RawMessage(`{"action":"cancel"}`)}, nil
	}
	return nil, &jsonrpc.Error{Code: -1, Message: "the request was refused"}
}

// relatedTask returns the id of the task named in the _meta of a message; "" if it names none.
func relatedTask(meta map[string]any) string {
	related, ok := meta["io.modelcontextprotocol/related-task"].(map[string]any)
	if !ok {
		return ""
	}
	id, _ := related["taskId"].(string)
	return id
}

// onProgress forwards the progress that the server reports for a call.
func (fs *pendingCalls) onProgress(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
	fs.mu.Lock()
	found := fs.byToken(req.Params.ProgressToken)
	fs.mu.Unlock()
	if found != nil {
		found.report(func() { found.done, found.total = req.Params.Progress, req.Params.Total }, req.Params.Message)
	}
}

// reportMessage reports a message, with the progress numbers of the last report.
func (f *pendingCall) reportMessage(message string) { f.report(func() {}, message) }

// report calls change, which may set f.done and f.total, and reports the progress to the caller. It does nothing if the call has
// ended.
func (f *pendingCall) report(change func(), message string) {
	f.reporting.Lock()
	defer f.reporting.Unlock()
	if f.call.Progress == nil || f.ctx.Err() != nil {
		return
	}
	change()
	f.call.Progress(f.done, f.total, message)
}
