package node_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/httpapi"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/node"
)

// stream is an answer of /rpc that is a stream of events.
type stream struct {
	t      *testing.T
	events chan string // closed at the end of the stream
	hang   context.CancelFunc
}

// listen posts a call that accepts a stream of events.
func (e *endpoint) listen(token, method string, params any) *stream {
	e.t.Helper()
	body, err := json.Marshal(object{"jsonrpc": "2.0", "id": "s", "method": method, "params": params})
	require.NoError(e.t, err)
	ctx, hang := context.WithCancel(e.t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.RPCURL(), strings.NewReader(string(body)))
	require.NoError(e.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", "application/json, text/event-stream")
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req) //nolint:bodyclose // the reader below closes it
	require.NoError(e.t, err)
	require.Equal(e.t, http.StatusOK, res.StatusCode)
	require.Equal(e.t, "text/event-stream", res.Header.Get("Content-Type"))
	assert.Equal(e.t, "no-store", res.Header.Get("Cache-Control"))
	assert.NotEmpty(e.t, res.Header.Get("X-Request-Id"))
	s := &stream{e.t, make(chan string, 10_000), hang}
	e.t.Cleanup(hang)
	go func() {
		defer close(s.events)
		defer res.Body.Close()
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				s.events <- data
			}
		}
	}()
	return s
}

// next returns the next message of the stream; nil at its end.
func (s *stream) next() (m object) {
	s.t.Helper()
	select {
	case data, open := <-s.events:
		if open {
			require.NoError(s.t, json.Unmarshal([]byte(data), &m))
			assert.Equal(s.t, "2.0", m["jsonrpc"])
		}
		return m
	case <-time.After(time.Minute):
		require.FailNow(s.t, "nothing came")
		return nil
	}
}

// event returns the params of the next message, which must be an event notification.
func (s *stream) event() object {
	s.t.Helper()
	m := s.next()
	require.Equal(s.t, "firebase.event", m["method"], "%v", m)
	assert.NotContains(s.t, m, "id")
	params, ok := m["params"].(object)
	require.True(s.t, ok)
	assert.Contains(s.t, params, "timestamp")
	delete(params, "timestamp")
	return params
}

func (s *stream) ends() {
	s.t.Helper()
	assert.Nil(s.t, s.next(), "the stream goes on")
}

func (e *endpoint) subscribe(token string, params object) *stream {
	e.t.Helper()
	s := e.listen(token, "firebase.subscribe", params)
	first := s.next()
	assert.Equal(e.t, "s", first["id"])
	result, _ := first["result"].(object)
	require.Equal(e.t, true, result["success"], "%v", first)
	return s
}

func (e *endpoint) set(path string, data any) {
	e.t.Helper()
	r := e.call("firebase.write", object{"database": "realtime", "path": path, "data": data})
	require.Nil(e.t, r.Error)
}

// code returns the error code of a call; 0 for none.
func (e *endpoint) code(token, method string, params object) int {
	e.t.Helper()
	body, err := json.Marshal(object{"jsonrpc": "2.0", "id": "1", "method": method, "params": params})
	require.NoError(e.t, err)
	if r := e.post(token, string(body)); r.Error != nil {
		return r.Error.Code
	}
	return 0
}

// S3-040 to S3-048 over /rpc: the answer is the first event of a stream, the events of the database follow in the order of
// the writes, and the same identity ends it with firebase.unsubscribe. A second end finds it gone (S3-151).
func TestRPCSubscription(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	e.set("list", object{"k0": 0.0})
	args := object{"subscriptionId": "s-1", "database": "realtime", "path": "list", "eventType": "child_added"}
	s := e.listen(e.token, "firebase.subscribe", args)
	assert.Equal(t, object{"success": true, "subscriptionId": "s-1", "initialData": object{"k0": 0.0}}, s.next()["result"])
	for i := range 20 {
		e.set(fmt.Sprintf("list/n%02d", i), float64(i))
	}
	for i := range 20 {
		assert.Equal(t, object{"subscriptionId": "s-1", "eventType": "child_added", "key": fmt.Sprintf("n%02d", i), "data": float64(i)}, s.event())
	}
	again := e.listen(e.token, "firebase.subscribe", args)
	refused, _ := again.next()["error"].(object)
	assert.InDelta(t, -32201, refused["code"], 0, "S3-044")
	again.ends()
	assert.Equal(t, -32200, e.code(e.token, "firebase.unsubscribe", object{"subscriptionId": "s-2"}))
	assert.Zero(t, e.code(e.token, "firebase.unsubscribe", object{"subscriptionId": "s-1"}))
	s.ends()
	assert.Equal(t, -32202, e.code(e.token, "firebase.unsubscribe", object{"subscriptionId": "s-1"}))
	s = e.subscribe(e.token, args) // the id is free
	e.set("list/last", 1.0)
	assert.Equal(t, "last", s.event()["key"])
}

// Two identities cannot see each other's subscriptions, and two streams of one identity are independent.
func TestRPCSubscriptionsOfIdentities(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	other := e.issue(bus.NewToken{Name: "bob", Role: bus.RoleSubmitter})
	mine := e.subscribe(e.token, object{"subscriptionId": "x", "database": "realtime", "path": "a"})
	more := e.subscribe(e.token, object{"subscriptionId": "y", "database": "realtime", "path": "b"})
	assert.Equal(t, -32200, e.code(other, "firebase.unsubscribe", object{"subscriptionId": "x"}), "nobody else's")
	bobs := e.subscribe(other, object{"subscriptionId": "x", "database": "realtime", "path": "a"})
	e.set("b", 2.0)
	e.set("a", 1.0)
	assert.Equal(t, object{"subscriptionId": "x", "eventType": "value", "data": 1.0}, mine.event())
	assert.Equal(t, object{"subscriptionId": "x", "eventType": "value", "data": 1.0}, bobs.event())
	assert.Equal(t, object{"subscriptionId": "y", "eventType": "value", "data": 2.0}, more.event())
	assert.Zero(t, e.code(other, "firebase.unsubscribe", object{"subscriptionId": "x"}))
	bobs.ends()
	e.set("a", 3.0)
	assert.Equal(t, object{"subscriptionId": "x", "eventType": "value", "data": 3.0, "previousData": 1.0}, mine.event())
	mine.hang()
	require.Eventually(t, func() bool { return e.code(e.token, "firebase.unsubscribe", object{"subscriptionId": "x"}) == -32202 },
		time.Minute, 10*time.Millisecond, "the end of a stream is that of its subscription")
}

// A call that fails, or needs an approval, is answered in the stream, which then ends. Without a stream, and as a notification,
// there is no subscription.
func TestRPCSubscriptionsThatAreNone(t *testing.T) {
	t.Parallel()
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(policy, []byte("version: 1\ndefault: allow\nrules:\n  - {name: w, action: ask, tools: [firebase.subscribe], agents: [\"user:bob\"]}\n"), 0o600))
	e := serveRPC(t, func(c *node.Config) { c.Confinement.Policy = policy })
	args := object{"subscriptionId": "x", "database": "realtime", "path": "a"}
	plain := e.call("firebase.subscribe", args)
	require.NotNil(t, plain.Error)
	assert.Equal(t, "NO_SESSION", plain.Error.Data["reason"])
	assert.Contains(t, plain.Error.Data["suggestion"], "text/event-stream")
	assert.Equal(t, http.StatusNoContent, e.post(e.token, `{"jsonrpc":"2.0","method":"firebase.subscribe","params":{"subscriptionId":"x","database":"realtime","path":"a"}}`, "Accept", "text/event-stream").Status)
	for _, c := range []struct {
		token string
		args  object
		want  float64
	}{
		{e.token, object{"subscriptionId": "x", "database": "firestore", "path": "c", "eventType": "child_added"}, -32300},
		{e.token, object{"subscriptionId": "not an id", "database": "realtime", "path": "a"}, -32302},
		{e.issue(bus.NewToken{Name: "bob", Role: bus.RoleSubmitter}), args, -32103},
	} {
		s := e.listen(c.token, "firebase.subscribe", c.args)
		refused, _ := s.next()["error"].(object)
		assert.InDelta(t, c.want, refused["code"], 0)
		s.ends()
	}
	assert.Equal(t, -32200, e.code(e.token, "firebase.unsubscribe", object{"subscriptionId": "x"}), "none of them has begun")
	assert.NotNil(t, e.call("system.getTaskQueue", object{"limit": 5}, "Accept", "text/event-stream").Result, "other methods have one answer")
}

// A client with a stream gets the same answer to a call as any other client.
func TestRPCRepliesAreWhole(t *testing.T) {
	t.Parallel()
	assert.Equal(t, httpapi.Reply{Output: []byte(`1`), Task: "t", Approval: "a", Question: "q", Method: "m"},
		node.ReplyOf(server.ToolReply{Output: []byte(`1`), Task: "t", Approval: "a", Question: "q", Tool: "m"}))
}

// A stream ends with the token that opened it, and with the node.
func TestRPCStreamsEnd(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	brief := e.issue(bus.NewToken{Name: "brief", Role: bus.RoleSubmitter})
	s := e.subscribe(brief, object{"subscriptionId": "x", "database": "realtime", "path": "a"})
	last := e.subscribe(e.token, object{"subscriptionId": "x", "database": "realtime", "path": "a"})
	_, err := e.Tokens().RevokeToken(t.Context(), bus.RevokeToken{Token: "brief", Actor: "user:ada"})
	require.NoError(t, err)
	s.ends()
	e.set("a", 1.0)
	assert.InDelta(t, 1.0, last.event()["data"], 0)
	require.NoError(t, e.Stop(t.Context()))
	last.ends()
}

// The embedded database is the same for the next active node on a NATS server.
func TestTheNextNodeHasTheDatabase(t *testing.T) {
	t.Parallel()
	natsServer, err := bus.StartServer(t.Context(), bus.ServerConfig{DataDir: filepath.Join(t.TempDir(), "nats"), Durability: bus.Relaxed})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, natsServer.Close(context.Background())) })
	external := func(c *node.Config) { c.Storage.NATSURL = withCredential(t, natsServer) }
	first := serveRPC(t, external)
	for i := range 10 {
		first.set(fmt.Sprintf("list/k%d", i), float64(i))
	}
	require.NoError(t, first.Stop(t.Context()))
	second := serveNode(t, external, func(c *node.Config) { c.User = "bob" })
	second.token = first.token // one list of tokens
	require.Eventually(t, func() bool { return second.call("system.getTaskQueue", object{"limit": 1}).Result != nil }, time.Minute, 10*time.Millisecond)
	for i := range 10 {
		r := second.call("firebase.read", object{"database": "realtime", "path": fmt.Sprintf("list/k%d", i)})
		require.Equal(t, object{".value": float64(i)}, r.Result["data"])
	}
}

// S3-151: a task that clients see no more is gone for who had it, and was never there for others.
func TestRPCTaskIsGone(t *testing.T) {
	t.Parallel()
	var later atomic.Bool
	e := serveRPC(t, func(c *node.Config) {
		c.Faces.Face = func(f *server.Config) {
			f.Now = func() time.Time {
				if later.Load() {
					return time.Now().Add(25 * time.Hour)
				}
				return time.Now()
			}
		}
	})
	mine, other := e.issue(bus.NewToken{Name: "ann", Role: bus.RoleSubmitter}), e.issue(bus.NewToken{Name: "bob", Role: bus.RoleSubmitter})
	failed := e.post(mine, `{"jsonrpc":"2.0","id":"1","method":"test.fail","params":{"code":"CONFLICT"}}`)
	require.NotNil(t, failed.Error)
	id, _ := failed.Error.Data["task"].(string)
	require.NotEmpty(t, id)
	assert.Zero(t, e.code(mine, "orch_status", object{"task_id": id}))
	later.Store(true)
	for _, method := range []string{"orch_status", "orch_result", "orch_cancel"} {
		assert.Equal(t, -32202, e.code(mine, method, object{"task_id": id}), method)
		assert.Equal(t, -32202, e.code(e.token, method, object{"task_id": id}), "the operator sees all: "+method)
		assert.Equal(t, -32200, e.code(other, method, object{"task_id": id}), method)
		assert.Equal(t, -32200, e.code(mine, method, object{"task_id": "TASK_01J00000000000000000000000"}), method)
	}
}
