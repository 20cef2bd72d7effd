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

// orphanTimeout is how long a call stays under way that nobody attends: its question has expired by then.
const orphanTimeout = 65 * time.Minute

// pendingCall is a call that is under way at a server. It outlives the attempt that began it while the server waits for an
// answer; the attempt that comes with the answer attends it on.
type pendingCall struct {
	of   Call
	stop context.CancelFunc
	// task is that of the server, for which the pending call waits; nil for a call that is none.
	server string
	task   json.RawMessage
	// asks hands over the questions of the server, one at a time.
	asks chan tools.Question
	// done is closed when reply and err are set.
	done  chan struct{}
	reply registry.Reply
	err   error
	// abandonTimer ends the pending call, and forgets it, when nobody attends it for long.
	abandonTimer *time.Timer

	mu sync.Mutex
	// attended says whether an attempt attends, progress is that of the attempt; nil while none does.
	attended bool
	progress func(done, total float64, message string)
	// answers are those that are known, by the keys of the questions; waiting are who wait for others.
	answers map[string]json.RawMessage
	waiting map[string]chan json.RawMessage
	// asked counts how often the same was asked.
	asked map[string]int
}

// pendingCalls are the calls that are under way, by their keys.
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

// startCall begins a call.
func (g *Gateway) startCall(of Call, answers map[string]json.RawMessage, request registry.CallRequest) *pendingCall {
	ctx, stop := context.WithCancel(g.life)
	f := &pendingCall{
		of: of, server: request.Server, task: request.Task, attended: true,
		stop: stop, asks: make(chan tools.Question), done: make(chan struct{}),
		answers: map[string]json.RawMessage{}, waiting: map[string]chan json.RawMessage{}, asked: map[string]int{},
	}
	f.abandonTimer = time.AfterFunc(orphanTimeout, func() {
		g.pendingCalls.remove(of.key(), f) // also one that has ended meanwhile
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

// attend waits until a call ends or asks something. The end of ctx ends the call.
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

// setAttended sets whether somebody attends, and is told of progress.
func (f *pendingCall) setAttended(attended bool, progress func(done, total float64, message string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.attended, f.progress = attended, progress
}

// report tells progress to who attends.
func (f *pendingCall) report(done, total float64, message string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.progress != nil {
		f.progress(done, total, escape(message, maxTitle))
	}
}

// deliverAnswers hands answers to those who wait for them.
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

// ask answers a request of the server: with an answer that is known, because the same was asked before a restart, else
// with that of a question of the call.
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

// register gives a question its key, and returns its answer, or where to wait for it.
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

// questionOf turns a request of a server into a question. Its key follows from what is asked, so that the same question
// has it again after a restart.
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

// stripContext takes out of a sampling what was not offered to servers: what the client knows from elsewhere is not for them.
func stripContext(params map[string]any) error {
	if params["includeContext"] != nil {
		params["includeContext"] = "none"
	}
	if params["tools"] != nil || params["toolChoice"] != nil {
		return fault.New(fault.ValidationError, "tools of a sampling were not offered").WithField("tools")
	}
	return nil
}

// resultOf turns the answer of a question into that of a request. A declined sampling is an error to a server.
func resultOf(q tools.Question, answer json.RawMessage) (json.RawMessage, error) {
	if q.Kind == events.Sampling && (len(answer) == 0 || string(answer) == "null") {
		return nil, errors.New("it was declined")
	}
	return answer, nil
}
