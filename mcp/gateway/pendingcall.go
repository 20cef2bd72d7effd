package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/registry"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/tools"
)

// orphanTimeout is how long a call remains pending while no attempt waits for it. Its question has expired by then.
const orphanTimeout = 65 * time.Minute

// pendingCall is a call in progress at a server. When the server asks a question, the attempt that has started the call ends, but
// the pending call continues. The next attempt, which has the answer, attends the same pending call.
type pendingCall struct {
	call Call
	stop context.CancelFunc
	// server is the name of the server. task is the handle of an MCP task at the server, if the call waits for its result.
	server string
	task   json.RawMessage
	// asks receives the questions of the server, one at a time.
	asks chan tools.Question
	// done is closed when reply and err are set.
	done  chan struct{}
	reply registry.Reply
	err   error
	// abandonTimer ends and removes the pending call when no attempt has waited for it for orphanTimeout.
	abandonTimer *time.Timer

	mu sync.Mutex
	// attended is set while an attempt waits for the call.
	attended bool
	// progress reports progress to that attempt; may be nil.
	progress func(done, total float64, message string)
	// answers are the known answers, by question key.
	answers map[string]json.RawMessage
	// waiting are the channels that receive the missing answers, by question key.
	waiting map[string]chan json.RawMessage
	// asked counts how often the same question was asked, by its first key.
	asked map[string]int
}

// pendingCalls are the pending calls, by Call.key.
type pendingCalls struct {
	mu    sync.Mutex
	byKey map[string]*pendingCall
}

func (all *pendingCalls) get(key string) *pendingCall {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.byKey[key]
}

func (all *pendingCalls) remove(key string, f *pendingCall) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.byKey[key] == f {
		delete(all.byKey, key)
	}
}

// startCall starts a call. It is attended by the caller.
func (g *Gateway) startCall(call Call, answers map[string]json.RawMessage, request registry.CallRequest) *pendingCall {
	ctx, stop := context.WithCancel(g.life)
	f := &pendingCall{
		call: call, server: request.Server, task: request.Task, attended: true,
		stop: stop, asks: make(chan tools.Question), done: make(chan struct{}),
		answers: map[string]json.RawMessage{}, waiting: map[string]chan json.RawMessage{}, asked: map[string]int{},
	}
	f.abandonTimer = time.AfterFunc(orphanTimeout, func() {
		g.pendingCalls.remove(call.key(), f) // even if the call has ended in the meantime
		stop()
	})
	f.deliverAnswers(answers)
	request.Ask, request.Progress = f.ask, f.report
	g.pendingCalls.mu.Lock()
	g.pendingCalls.byKey[call.key()] = f
	g.pendingCalls.mu.Unlock()
	g.group.Go(func() {
		defer close(f.done)
		defer stop()
		f.reply, f.err = g.servers.Call(ctx, request)
	})
	return f
}

// attend waits until a call ends or asks a question; a question is returned as *tools.Asking. If ctx ends, attend ends the call.
func (g *Gateway) attend(ctx context.Context, env *tools.Env, key string, f *pendingCall) (registry.Reply, error) {
	f.abandonTimer.Stop()
	f.setAttended(true, env.Progress)
	defer f.setAttended(false, nil)
	f.deliverAnswers(env.Answers)
	select {
	case <-f.done:
		g.pendingCalls.remove(key, f)
		return f.reply, f.err
	case q := <-f.asks:
		f.abandonTimer.Reset(orphanTimeout)
		return registry.Reply{}, &tools.Asking{Questions: []tools.Question{q}}
	case <-ctx.Done():
		f.stop()
		<-f.done
		g.pendingCalls.remove(key, f)
		return registry.Reply{}, fault.From(context.Cause(ctx))
	}
}

// setAttended sets whether an attempt waits for the call, and its progress function.
func (f *pendingCall) setAttended(attended bool, progress func(done, total float64, message string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.attended, f.progress = attended, progress
}

// report reports progress to the attempt that waits for the call, if there is one.
func (f *pendingCall) report(done, total float64, message string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.progress != nil {
		f.progress(done, total, escape(message, maxTitle))
	}
}

// deliverAnswers records answers, and passes them to the requests that wait for them.
func (f *pendingCall) deliverAnswers(answers map[string]json.RawMessage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, answer := range answers {
		f.answers[key] = answer
		if c := f.waiting[key]; c != nil {
			delete(f.waiting, key)
			c <- answer
		}
	}
}

// ask answers a request of the server. If the answer to the same question is already known, for example from before a restart, ask
// returns it. Otherwise it makes the call ask the question, and waits for the answer.
func (f *pendingCall) ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	q, err := questionOf(method, params)
	if err != nil {
		return nil, err
	}
	answer, wait := f.register(&q)
	if wait == nil {
		return resultOf(q, answer)
	}
	select {
	case f.asks <- q:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case answer := <-wait:
		return resultOf(q, answer)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// register sets the key of a question, which is unique in the call. It returns the answer if it is known, otherwise a channel that
// will receive the answer.
func (f *pendingCall) register(q *tools.Question) (json.RawMessage, <-chan json.RawMessage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[q.Key]++
	if n := f.asked[q.Key]; n > 1 {
		q.Key += "_" + strconv.Itoa(n)
	}
	if answer, ok := f.answers[q.Key]; ok {
		return answer, nil
	}
	c := make(chan json.RawMessage, 1)
	f.waiting[q.Key] = c
	return nil, c
}

// questionOf converts a request of a server to a question. The key is derived from the content, so that the same question has the
// same key after a restart. questionOf returns VALIDATION_ERROR for an invalid or unsupported request.
func questionOf(method string, params json.RawMessage) (tools.Question, error) {
	q := tools.Question{Params: params}
	switch method {
	case "elicitation/create":
		q.Kind = events.Elicitation
	case "sampling/createMessage":
		q.Kind = events.Sampling
	default:
		return q, fault.New(fault.ValidationError, "nobody here answers %s", escape(method, maxTitle))
	}
	var tree map[string]any
	if decode(params, &tree) != nil || tree == nil {
		return q, fault.New(fault.ValidationError, "the parameters are not an object")
	}
	delete(tree, "_meta")
	if q.Kind == events.Sampling {
		if err := stripContext(tree); err != nil {
			return q, err
		}
	}
	q.Params = encode(tree)
	q.Key = q.Kind + "_" + digest(q.Params)[:16]
	if err := (&tools.Asking{Questions: []tools.Question{q}}).Check(); err != nil {
		return q, err
	}
	schema, form := tree["requestedSchema"]
	if q.Kind == events.Elicitation && form {
		return q, plan.CheckRestricted(encode(schema))
	}
	return q, nil
}

// stripContext sets includeContext of a sampling request to "none", and returns an error if the request has tools: neither was
// offered to servers.
func stripContext(params map[string]any) error {
	if params["includeContext"] != nil {
		params["includeContext"] = "none"
	}
	if params["tools"] != nil || params["toolChoice"] != nil {
		return fault.New(fault.ValidationError, "tools of a sampling were not offered").WithField("tools")
	}
	return nil
}

// resultOf converts the answer to a question to the result of a request. It returns an error for a declined sampling, because MCP
// has no result for that.
func resultOf(q tools.Question, answer json.RawMessage) (json.RawMessage, error) {
	if q.Kind == events.Sampling && (len(answer) == 0 || string(answer) == "null") {
		return nil, errors.New("it was declined")
	}
	return answer, nil
}
