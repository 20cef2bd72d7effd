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

// orphanTimeout is how long a call without an attempt stays pending: its question has expired by then.
const orphanTimeout = 65 * time.Minute

// pendingCall is a call in progress at a server. It outlives the attempt that started it while the server waits for an
// answer; the attempt that brings the answer joins it.
type pendingCall struct {
	of   Call
	stop context.CancelFunc
	// task is the task of the server that the pending call waits for; nil for none.
	server string
	task   json.RawMessage
	// asks passes on the questions of the server, one at a time.
	asks chan tools.Question
	// done is closed when reply and err are set.
	done  chan struct{}
	reply registry.Reply
	err   error
	// abandonTimer ends and removes the pending call after a long time without an attempt.
	abandonTimer *time.Timer

	mu sync.Mutex
	// attended is set while an attempt waits for the call, progress is the function of that attempt; otherwise nil.
	attended bool
	progress func(done, total float64, message string)
	// answers are the known answers, by the keys of the questions; waiting are the waiters for others.
	answers map[string]json.RawMessage
	waiting map[string]chan json.RawMessage
	// asked counts how often the same question was asked.
	asked map[string]int
}

// pendingCalls are the pending calls, by key.
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

// startCall starts a call.
func (g *Gateway) startCall(of Call, answers map[string]json.RawMessage, request registry.CallRequest) *pendingCall {
	ctx, stop := context.WithCancel(g.life)
	f := &pendingCall{
		of: of, server: request.Server, task: request.Task, attended: true,
		stop: stop, asks: make(chan tools.Question), done: make(chan struct{}),
		answers: map[string]json.RawMessage{}, waiting: map[string]chan json.RawMessage{}, asked: map[string]int{},
	}
	f.abandonTimer = time.AfterFunc(orphanTimeout, func() {
		g.pendingCalls.remove(of.key(), f) // even if it has ended in the meantime
		stop()
	})
	f.deliverAnswers(answers)
	request.Ask, request.Progress = f.ask, f.report
	g.pendingCalls.mu.Lock()
	g.pendingCalls.byKey[of.key()] = f
	g.pendingCalls.mu.Unlock()
	g.group.Go(func() {
		defer close(f.done)
		defer stop()
		f.reply, f.err = g.servers.Call(ctx, request)
	})
	return f
}

// attend waits until a call ends or asks a question. If ctx ends, so does the call.
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

// report reports progress to the waiting attempt.
func (f *pendingCall) report(done, total float64, message string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.progress != nil {
		f.progress(done, total, escape(message, maxTitle))
	}
}

// deliverAnswers passes answers to those that wait for them.
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

// ask answers a request of the server: with a known answer, if the same was asked before a restart, otherwise
// by a question of the call.
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

// register assigns a key to a question, and returns its answer, or the channel on which the answer will arrive.
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

// questionOf converts a request of a server to a question. Its key is derived from the content, so that the same question
// has the same key after a restart.
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
		return q, fault.New(fault.ValidationError, "the parameters are no object")
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

// stripContext removes parameters of a sampling that were not offered to servers: they may not use other context of the client.
func stripContext(params map[string]any) error {
	if params["includeContext"] != nil {
		params["includeContext"] = "none"
	}
	if params["tools"] != nil || params["toolChoice"] != nil {
		return fault.New(fault.ValidationError, "tools of a sampling were not offered").WithField("tools")
	}
	return nil
}

// resultOf converts the answer to a question to the result of a request. A declined sampling is an error for the server.
func resultOf(q tools.Question, answer json.RawMessage) (json.RawMessage, error) {
	if q.Kind == events.Sampling && (len(answer) == 0 || string(answer) == "null") {
		return nil, errors.New("it was declined")
	}
	return answer, nil
}
