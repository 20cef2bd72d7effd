package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/orch-dev/orch/fault"
)

const (
	// shortestPoll and longestPoll limit the polling interval of a task, usualPoll is the default.
	shortestPoll, usualPoll, longestPoll = 100 * time.Millisecond, time.Second, 30 * time.Second
	// maxTaskID is the most bytes of the id of a task.
	maxTaskID = 1 << 10
)

// errAgain means that a poll has not returned the result of a task, but a later poll may.
var errAgain = errors.New("the server did not answer")

// taskHandle identifies a task of a server.
type taskHandle struct {
	// Generation is the version of the protocol in which the server has created the task.
	Generation string `json:"generation"`
	ID         string `json:"id"`
	Tool       string `json:"tool"`
	// Token is the progress token of the call.
	Token string `json:"progress_token"`
	// Poll is the polling interval that the server requests, TTL how long the server stores the task; 0 if unknown.
	Poll float64 `json:"poll_ms,omitempty"`
	TTL  float64 `json:"ttl_ms,omitempty"`
}

// taskState is the state of a task that a server returns, in either generation of the protocol.
type taskState struct {
	TaskID        string  `json:"taskId"`
	Status        string  `json:"status"`
	StatusMessage string  `json:"statusMessage"`
	TTL           float64 `json:"ttl"`
	TTLMs         float64 `json:"ttlMs"`
	Poll          float64 `json:"pollInterval"`
	PollMs        float64 `json:"pollIntervalMs"`
}

// handle returns the handle of a new task.
func (t taskState) handle(generation string, f *pendingCall) (json.RawMessage, error) {
	if t.TaskID == "" || len(t.TaskID) > maxTaskID {
		return nil, errors.New("the server turns the call into a task with an invalid id")
	}
	return json.Marshal(taskHandle{
		Generation: generation, ID: t.TaskID, Tool: f.call.Tool, Token: f.token,
		Poll: max(t.Poll, t.PollMs), TTL: max(t.TTL, t.TTLMs),
	})
}

// parseHandle decodes a handle returned by Call.
func parseHandle(raw json.RawMessage) (taskHandle, error) {
	var h taskHandle
	if err := json.Unmarshal(raw, &h); err != nil || h.ID == "" || h.Generation == "" {
		return h, fault.New(fault.InvalidParams, "it is not a task handle").WithField("Task")
	}
	return h, nil
}

// taskLost returns the error for a task that is unknown to its server.
func taskLost(server string, h taskHandle) error {
	return fault.Wrap(fault.InDoubt, ErrTaskLost, "the MCP server "+server+" does not know the task of "+h.Tool+" any more: what became of it is unknown")
}

// taskWait is the wait for a task.
type taskWait struct {
	taskHandle

	s    *server
	call CallRequest
	// a is the connection, f the pending call on it; both are nil before the first request.
	a *activeSession
	f *pendingCall
	// open is pendingCall.open.
	open bool
	// silentSince is when the server stopped answering; zero while it answers.
	silentSince time.Time
	// message is the last status message.
	message string
	// asked are the keys of the requests passed to the caller.
	asked map[string]bool
	// answered receives the caller's answers, answers are those not yet sent to the server, by key.
	answered chan answer
	answers  map[string]json.RawMessage
}

// answer is the caller's answer to a request of the server.
type answer struct {
	Ask

	result json.RawMessage
	err    error
}

// awaitTask waits for the end of the task c.Task and returns its result.
func (s *server) awaitTask(ctx context.Context, c CallRequest) (Reply, error) {
	h, err := parseHandle(c.Task)
	if err != nil {
		return Reply{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	v := &taskWait{
		taskHandle: h, s: s, call: c,
		asked: map[string]bool{}, answers: map[string]json.RawMessage{}, answered: make(chan answer),
	}
	defer v.detach()
	poll := v.pollOlder
	if h.Generation >= newerVersion {
		poll = v.pollNewer
	}
	for {
		result, err := poll(ctx)
		if err == nil {
			return Reply{Result: v.a.redact(result)}, nil
		}
		if errors.Is(err, errAgain) && ctx.Err() == nil {
			err = v.pause(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return Reply{}, s.notSentError(ctx, h.Tool)
		case err != nil:
			return Reply{}, v.failure(ctx, err)
		}
	}
}

// failure converts an error to a fault for the caller.
func (v *taskWait) failure(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	return v.s.callError(ctx, v.a, v.s.name+"__"+v.Tool, err)
}

// pause waits until the next poll is due, or until the caller has answered a request.
func (v *taskWait) pause(ctx context.Context) error {
	poll := usualPoll
	if v.Poll > 0 {
		poll = time.Duration(min(v.Poll, float64(longestPoll.Milliseconds())) * float64(time.Millisecond))
	}
	timer := time.NewTimer(max(shortestPoll, poll))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-v.s.r.abortCalls:
		return closed()
	case got := <-v.answered:
		return v.recordAnswer(ctx, got)
	}
	return nil
}

// detach removes the pending call from its connection.
func (v *taskWait) detach() {
	if v.f != nil {
		v.f.remove()
	}
}

// attach adds a pending call for the wait to a connection, unless it has one there.
func (v *taskWait) attach(ctx context.Context, a *activeSession) {
	if v.a == a {
		return
	}
	v.detach()
	v.a = a
	v.f = a.conn.pendingCalls.add(ctx, a.redactCall(v.call), func(f *pendingCall) { f.token, f.task, f.open = v.Token, v.ID, v.open })
}

// request sends a request for the task with the fields in more. With within, it uses the timeout of the server. If the server is
// not connected, request waits for the connection. It returns errAgain for a transport problem, ErrTaskLost if the server now
// uses the other generation of the protocol, and a *jsonrpc.Error for an error that the server returns.
func (v *taskWait) request(ctx context.Context, method string, within bool, more object) (json.RawMessage, error) {
	a, err := v.s.waitAcquire(ctx)
	if err != nil {
		if coded := fault.From(err); coded.Code == fault.ToolUnavailable {
			coded.Err = ErrUnanswered
		}
		return nil, err
	}
	defer v.s.release(a)
	v.attach(ctx, a)
	if a.conn.modern() != (v.Generation >= newerVersion) {
		return nil, taskLost(v.s.name, v.taskHandle)
	}
	if within {
		bounded, cancel := context.WithTimeout(ctx, a.timeout)
		defer cancel()
		ctx = bounded
	}
	fields := object{"taskId": v.ID}
	maps.Copy(fields, more)
	raw, err := a.conn.request(ctx, method, &rawParams{fields: fields}, requestMeta{name: v.ID, token: v.Token})
	if _, answered := errors.AsType[*jsonrpc.Error](err); err == nil || answered {
		v.silentSince = time.Time{}
		return raw, err
	}
	return nil, v.recordDisturbance(a, err)
}

// recordDisturbance records that the server did not answer. It returns errAgain, or err itself once the server has not answered
// for longer than its timeout.
func (v *taskWait) recordDisturbance(a *activeSession, err error) error {
	now := v.s.r.now()
	if v.silentSince.IsZero() {
		v.silentSince = now
	}
	if now.Sub(v.silentSince) > a.timeout {
		return err
	}
	return fmt.Errorf("%w: %w", errAgain, err)
}

// get requests the state of the task and decodes it into state.
func (v *taskWait) get(ctx context.Context, state any) error {
	raw, err := v.request(ctx, "tasks/get", true, nil)
	if rpcErr, ok := errors.AsType[*jsonrpc.Error](err); ok && unknownTask(rpcErr) {
		return taskLost(v.s.name, v.taskHandle)
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, state); err != nil {
		return errors.New("the server returns an invalid task")
	}
	return nil
}

// unknownTask reports whether an error means that the task does not exist.
func unknownTask(rpcErr *jsonrpc.Error) bool {
	return rpcErr.Code == jsonrpc.CodeInvalidParams || rpcErr.Code == jsonrpc.CodeMethodNotFound
}

// record records the polling interval and the status message of the task, and reports a new message.
func (v *taskWait) record(t taskState) {
	if poll := max(t.Poll, t.PollMs); poll > 0 {
		v.Poll = poll
	}
	if t.StatusMessage != "" && t.StatusMessage != v.message && t.Status == "working" {
		v.f.reportMessage(v.a.conceal(t.StatusMessage))
	}
	v.message = t.StatusMessage
}

// cancelled returns the error of a cancelled task.
func (v *taskWait) cancelled() error {
	return fault.New(fault.Cancelled, "the task of %s__%s was cancelled: %s", v.s.name, v.Tool, v.a.conceal(v.message))
}

// pollOlder polls a task of 2025-11-25. It returns errAgain until the task has a result.
func (v *taskWait) pollOlder(ctx context.Context) (json.RawMessage, error) {
	var t taskState
	if err := v.get(ctx, &t); err != nil {
		return nil, err
	}
	v.record(t)
	switch t.Status {
	case "cancelled":
		return nil, v.cancelled()
	case "completed", "failed", "input_required":
		return v.result(ctx, t.Status)
	default:
		return nil, errAgain
	}
}

// result requests the result of the task. It does so even if the task needs input: some servers send their questions only to a
// client that waits for the result.
func (v *taskWait) result(ctx context.Context, status string) (json.RawMessage, error) {
	ended := status != "input_required"
	v.setOpen(true)
	raw, err := v.request(ctx, "tasks/result", ended, nil)
	v.setOpen(false)
	rpcErr, answered := errors.AsType[*jsonrpc.Error](err)
	switch {
	case answered && !ended:
		return nil, errAgain // the next poll returns the reason
	case answered && status == "completed" && unknownTask(rpcErr):
		return nil, taskLost(v.s.name, v.taskHandle)
	}
	return raw, err
}

// setOpen sets whether requests that name no call may belong to the wait.
func (v *taskWait) setOpen(open bool) {
	v.open = open
	v.f.setOpen(open)
}

// newerState is the state of a task of 2026-07-28.
type newerState struct {
	taskState

	Result        json.RawMessage    `json:"result"`
	Error         *jsonrpc.Error     `json:"error"`
	InputRequests map[string]request `json:"inputRequests"`
}

// pollNewer polls a task of 2026-07-28, and passes its questions to the caller. It returns errAgain until the task has a result.
func (v *taskWait) pollNewer(ctx context.Context) (json.RawMessage, error) {
	if err := v.sendAnswers(ctx); err != nil {
		return nil, err
	}
	var t newerState
	if err := v.get(ctx, &t); err != nil {
		return nil, err
	}
	v.record(t.taskState)
	switch t.Status {
	case "cancelled":
		return nil, v.cancelled()
	case "completed":
		if len(t.Result) == 0 || t.Result[0] != '{' {
			return nil, errors.New("the task is completed without a result")
		}
		return t.Result, nil
	case "failed":
		if t.Error == nil {
			t.Error = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the task has failed: " + t.StatusMessage}
		}
		return nil, t.Error
	}
	if err := v.askAll(ctx, t.InputRequests); err != nil {
		v.abandon(ctx)
		return nil, err
	}
	return nil, errAgain
}

// askAll passes requests to the caller, except those that it has passed before.
func (v *taskWait) askAll(ctx context.Context, requests map[string]request) error {
	asks, err := inputRequests(requests)
	if err != nil {
		return err
	}
	for _, ask := range asks {
		if v.asked[ask.Key] {
			continue
		}
		if len(v.asked) == maxAsks {
			return fmt.Errorf("the server asks more than %d things", maxAsks)
		}
		v.asked[ask.Key], ask.Params = true, v.a.redact(ask.Params)
		go v.ask(ctx, ask)
	}
	return nil
}

// ask passes a request to the caller, and sends the answer to v.answered.
func (v *taskWait) ask(ctx context.Context, ask Ask) {
	got := answer{Ask: ask, err: errors.New("nobody answers")}
	if v.call.Ask != nil {
		got.result, got.err = v.call.Ask(ctx, ask.Method, ask.Params)
	}
	select {
	case v.answered <- got:
	case <-ctx.Done():
	}
}

// recordAnswer records an answer to send to the server. If the caller has not answered, an elicitation is answered with cancel;
// for any other request the task is cancelled, because the protocol has no such answer.
func (v *taskWait) recordAnswer(ctx context.Context, got answer) error {
	if got.err != nil || !json.Valid(got.result) {
		if got.Method != methodElicit {
			v.abandon(ctx)
			return fmt.Errorf("the server asks for %s, which was refused", got.Method)
		}
		got.result = json.RawMessage(`{"action":"cancel"}`)
	}
	v.answers[got.Key] = got.result
	return nil
}

// sendAnswers sends the recorded answers to the server.
func (v *taskWait) sendAnswers(ctx context.Context) error {
	if len(v.answers) == 0 {
		return nil
	}
	_, err := v.request(ctx, "tasks/update", true, object{"inputResponses": v.answers})
	if rpcErr, ok := errors.AsType[*jsonrpc.Error](err); ok && unknownTask(rpcErr) {
		return taskLost(v.s.name, v.taskHandle)
	}
	if err == nil {
		clear(v.answers)
	}
	return err
}

// abandon asks the server to cancel a task that cannot continue.
func (v *taskWait) abandon(ctx context.Context) {
	_, _ = v.request(ctx, "tasks/cancel", true, nil) // the caller gets the reason
}

// cancelTask asks the server to cancel a task.
func (s *server) cancelTask(ctx context.Context, raw json.RawMessage) error {
	h, err := parseHandle(raw)
	if err != nil {
		return err
	}
	v := &taskWait{taskHandle: h, s: s, call: CallRequest{Server: s.name, Tool: h.Tool}}
	defer v.detach()
	_, err = v.request(ctx, "tasks/cancel", true, nil)
	if rpcErr, ok := errors.AsType[*jsonrpc.Error](err); ok && unknownTask(rpcErr) {
		var t taskState
		err = v.get(ctx, &t) // no error if the task exists, that is, has ended
	}
	if ctx.Err() != nil {
		return s.notSentError(ctx, h.Tool)
	}
	if err != nil {
		return v.failure(ctx, err)
	}
	return nil
}
