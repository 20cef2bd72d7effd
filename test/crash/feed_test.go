package crash_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/test/crash"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/firebase"
)

// listener is an MCP client with a session that survives nodes: its face is a separate process, like `orch mcp serve`.
// It subscribes to the list and to a counter, and subscribes again when it is notified that a subscription has ended.
type listener struct {
	t    *testing.T
	load *load
	to   io.WriteCloser
	// answers are those to requests, by id; ended is closed when the face is.
	ended chan struct{}

	mu       sync.Mutex
	requests int
	answers  map[float64]chan map[string]any
	logs     map[string]*crash.SubscriptionLog
	order    []string
	// value is the last received value of the counter, by subscription.
	value map[string]float64
	over  map[string]chan struct{}
}

const (
	// answerOfFace bounds how long a face may take to answer a call: it waits for the node.
	answerOfFace = time.Minute
	// tickPath is the counter to which the listener subscribes.
	tickPath = "tick"
)

// openListener starts a face and a client, which subscribes.
func openListener(r *run, remote *rpc.Remote) *listener {
	r.t.Helper()
	catalogue, err := tools.New(firebase.Tools(firebase.Config{})...)
	require.NoError(r.t, err)
	face, err := server.New(server.Config{API: remote, Local: server.Identity{Name: remote.Identity(), Role: server.Operator}, Catalogue: catalogue, Stores: server.Stores{Subscriptions: node.NewSubscriptions(remote)}, Root: r.cluster.dir, Version: "crash"})
	require.NoError(r.t, err)
	in, to := io.Pipe()
	from, out := io.Pipe()
	l := &listener{
		t: r.t, load: r.load, to: to, ended: make(chan struct{}), answers: map[float64]chan map[string]any{},
		logs: map[string]*crash.SubscriptionLog{}, value: map[string]float64{}, over: map[string]chan struct{}{},
	}
	life, stop := context.WithCancel(context.WithoutCancel(r.t.Context()))
	var group sync.WaitGroup
	group.Go(func() {
		_ = face.Serve(life, in, out) // ends with its streams
		_ = out.Close()
	})
	group.Go(func() { l.listen(from) })
	l.request("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"listener","version":"1"}}`)
	l.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	group.Go(func() { l.follow(life, "list", listPath, "child_added") })
	group.Go(func() { l.follow(life, "tick", tickPath, "value") })
	r.t.Cleanup(func() {
		stop()
		assert.NoError(r.t, to.Close())
		face.Close()
		group.Wait()
	})
	return l
}

func (l *listener) send(line string) {
	_, _ = io.WriteString(l.to, line+"\n") // a closed face answers nothing
}

// request sends a request and returns the answer, or nil.
func (l *listener) request(method, params string) map[string]any {
	l.mu.Lock()
	l.requests++
	id := l.requests
	answer := make(chan map[string]any, 1)
	l.answers[float64(id)] = answer
	l.mu.Unlock()
	l.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params))
	timer := time.NewTimer(answerOfFace)
	defer timer.Stop()
	select {
	case a := <-answer:
		return a
	case <-l.ended:
	case <-timer.C:
		l.load.violate("I17", "", 0, "the face did not answer %s within %s", method, answerOfFace)
	}
	return nil
}

// listen processes the output of the face.
func (l *listener) listen(from io.Reader) {
	defer close(l.ended)
	in := bufio.NewScanner(from)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var m map[string]any
		if err := json.Unmarshal(in.Bytes(), &m); err != nil {
			l.load.violate("I17", "", 0, "the face said %q", in.Text())
			continue
		}
		id, answer := m["id"].(float64)
		l.mu.Lock()
		switch {
		case answer && l.answers[id] != nil:
			l.register(m)
			l.answers[id] <- m
			delete(l.answers, id)
		case m["method"] == "firebase.event":
			l.receive(m["params"])
		}
		l.mu.Unlock()
	}
}

// register registers the subscription in an answer: its events follow the answer. The mutex must be held.
func (l *listener) register(m map[string]any) {
	result, _ := m["result"].(map[string]any)
	out, _ := result["structuredContent"].(map[string]any)
	id, _ := out["subscriptionId"].(string)
	if id == "" {
		return
	}
	h := &crash.SubscriptionLog{ID: id}
	initial, _ := out["initialData"].(map[string]any)
	for key := range initial {
		if key != ".value" {
			h.Initial = append(h.Initial, key)
		}
	}
	if v, ok := initial[".value"].(float64); ok {
		l.value[id] = v
	}
	l.logs[id], l.order = h, append(l.order, id)
}

// receive processes an event. The mutex must be held.
func (l *listener) receive(params any) {
	e, _ := params.(map[string]any)
	id, _ := e["subscriptionId"].(string)
	h := l.logs[id]
	switch {
	case h == nil:
		// the end of one whose beginning was not answered
	case h.Ended:
		l.load.violate("I17", "", 0, "the subscription %s was over, and heard %v", id, e["eventType"])
	case e["eventType"] == firebase.Closed:
		h.Ended = true
		close(l.over[id])
	case e["eventType"] == "value":
		v, _ := e["data"].(float64)
		if v <= l.value[id] {
			l.load.violate("I17", "", 0, "the subscription %s heard of %v after %v", id, v, l.value[id])
		}
		l.value[id] = v
	default:
		key, _ := e["key"].(string)
		h.Received = append(h.Received, key)
	}
}

// follow subscribes, and subscribes again when the subscription ends, until ctx ends.
func (l *listener) follow(ctx context.Context, name, path, events string) {
	for n := 1; ctx.Err() == nil; n++ {
		id := fmt.Sprintf("%s-%d", name, n)
		over := make(chan struct{})
		l.mu.Lock()
		l.over[id] = over
		l.mu.Unlock()
		l.request("tools/call", fmt.Sprintf(`{"name":"firebase.subscribe","arguments":{"subscriptionId":%q,"database":"realtime","path":%q,"eventType":%q}}`, id, path, events))
		l.mu.Lock()
		begun := l.logs[id] != nil
		l.mu.Unlock()
		if !begun { // the node has died meanwhile
			_ = pause.For(ctx, 10*retryEvery)
			continue
		}
		select {
		case <-over:
		case <-l.ended:
			return
		case <-ctx.Done():
		}
	}
}

// hearingsOf are what was heard of the list so far.
func (l *listener) received() []crash.SubscriptionLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []crash.SubscriptionLog
	for _, id := range l.order {
		if h := l.logs[id]; id[0] == listPath[0] {
			list = append(list, crash.SubscriptionLog{ID: h.ID, Initial: slices.Clone(h.Initial), Received: slices.Clone(h.Received), Ended: h.Ended})
		}
	}
	return list
}

// current returns the list and the counter according to the live subscriptions; false if there are none.
func (l *listener) current() (heard map[string]bool, tick float64, there bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	heard = map[string]bool{}
	both := map[byte]bool{}
	for _, id := range l.order {
		h := l.logs[id]
		if h.Ended {
			continue
		}
		both[id[0]] = true
		if id[0] != listPath[0] {
			tick = l.value[id]
			continue
		}
		for _, key := range slices.Concat(h.Initial, h.Received) {
			heard[key] = true
		}
	}
	return heard, tick, both[listPath[0]] && both[tickPath[0]]
}

// awaitFeed writes once more and waits until the listener has received it: no subscription ended without notification.
func (r *run) awaitFeed(round int, within time.Duration) {
	r.t.Helper()
	end, tick := time.Now().Add(within), float64(round)
	_, _, err := insist(r.t.Context(), func(ctx context.Context, w firebase.Write) (firebase.Written, error) {
		return r.databases.realtime.Write(ctx, tickPath, w)
	}, firebase.Write{Operation: firebase.Set, Data: tick})
	require.NoError(r.t, err)
	for {
		_, heard, there := r.listener.current()
		if there && heard == tick {
			return
		}
		if time.Now().After(end) {
			r.load.violate("I17", "", round, "the listener heard %v within %s, not %v (subscribed: %t)", heard, within, tick, there)
			return
		}
		wait(20 * time.Millisecond)
	}
}
