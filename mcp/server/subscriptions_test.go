package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/tools/builtin"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/memory"
	"github.com/orch-dev/orch/tools/toolstest"
)

// patience is the timeout of waits that normally take no time.
const patience = time.Minute

// bench is a node with databases in memory, and the hub of its sessions.
type bench struct {
	*node

	realtime, firestore firebase.Backend
	hub                 *firebase.Hub
	// sessions are the names of those that were opened.
	sessions sync.Map
	// gone is set if the end of a session gets no answer.
	gone atomic.Bool
}

func startBench(tb testing.TB) *bench {
	tb.Helper()
	b := &bench{realtime: memory.NewRealtime(memory.Config{}), firestore: memory.NewFirestore(memory.Config{})}
	b.hub = firebase.NewHub(firebase.HubConfig{Realtime: b.realtime, Firestore: b.firestore})
	tb.Cleanup(b.hub.Close)
	b.node = startNode(tb, func(c *builtin.Config) {
		c.Firebase = firebase.Config{Realtime: b.realtime, Firestore: b.firestore, Subscriptions: b.hub}
	})
	return b
}

// face returns a face whose sessions can subscribe.
func (b *bench) face(change ...func(*server.Config)) *server.Server {
	b.t.Helper()
	return b.node.face(append(change, func(c *server.Config) {
		c.HTTP.Tokens, c.Stores.Subscriptions = tokens{}, subscriptions{b}
	})...)
}

// subscriptions adapts a hub to a face.
type subscriptions struct {
	*bench
}

// OpenSession implements server.Subscriptions.
func (s subscriptions) OpenSession(_ context.Context, name string, single bool) error {
	s.hub.OpenSession(name, single)
	s.sessions.Store(name, nil)
	return nil
}

// CloseSession implements server.Subscriptions.
func (s subscriptions) CloseSession(ctx context.Context, name string) error {
	if s.gone.Load() {
		<-ctx.Done()
		return fault.From(ctx.Err())
	}
	s.hub.CloseSession(name)
	return nil
}

// Messages implements server.Subscriptions.
func (s subscriptions) Messages(ctx context.Context, name string, arrived uint64) ([]server.SubscriptionMessage, error) {
	got, err := s.hub.Next(ctx, name, arrived, patience)
	var all []server.SubscriptionMessage
	for _, m := range got {
		all = append(all, event(m))
	}
	return all, err
}

// Ended implements server.Subscriptions.
func (subscriptions) Ended(id string) server.SubscriptionMessage { return event(firebase.Ended(id)) }

func event(m firebase.Message) server.SubscriptionMessage {
	return server.SubscriptionMessage{No: m.No, Subscription: m.ID, Method: "firebase.event", Params: m.Params, Last: m.Last}
}

// tap receives notifications that the SDK does not know: it also reads the stream of notifications.
type tap struct {
	http.RoundTripper
	heard chan json.RawMessage
}

// RoundTrip implements http.RoundTripper.
func (p tap) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := p.RoundTripper.RoundTrip(r)
	if err != nil || r.Method != http.MethodGet || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	from, to := io.Pipe()
	body := resp.Body
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.TeeReader(body, to), closers{body, to}}
	go p.listen(from)
	return resp, nil
}

type closers []io.Closer

// Close implements io.Closer.
func (c closers) Close() error {
	for _, one := range c {
		_ = one.Close()
	}
	return nil
}

func (p tap) listen(from io.Reader) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && strings.Contains(data, `"firebase.event"`) {
			p.heard <- json.RawMessage(data)
		}
	}
}

// user is a real client over HTTP.
type user struct {
	*mcp.ClientSession

	t     *testing.T
	heard chan json.RawMessage
}

func (b *bench) user(t *testing.T, url, token string) *user {
	t.Helper()
	u := &user{t: t, heard: make(chan json.RawMessage, 10_000)}
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	var err error
	u.ClientSession, err = client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: tap{bearer{token}, u.heard}},
	}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = u.Close() })
	return u
}

func (b *bench) serve(t *testing.T, s *server.Server) string {
	t.Helper()
	web := httptest.NewServer(s.Handler())
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	return web.URL
}

type object = map[string]any

// call calls a tool; the code is the number of its error, "" for none.
func (u *user) call(tool string, args object) (result object, code string) {
	u.t.Helper()
	r, err := u.CallTool(u.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	require.NoError(u.t, err)
	result, _ = r.StructuredContent.(object)
	if r.IsError {
		text, _ := json.Marshal(r.Meta["orch/error"])
		var e struct{ Code int }
		require.NoError(u.t, json.Unmarshal(text, &e))
		return result, strconv.Itoa(e.Code)
	}
	return result, ""
}

func (u *user) do(tool string, args object) object {
	u.t.Helper()
	result, code := u.call(tool, args)
	require.Empty(u.t, code, "%s %v", tool, args)
	return result
}

func (u *user) write(database, path, operation string, data any) {
	u.t.Helper()
	u.do("firebase.write", object{"database": database, "path": path, "operation": operation, "data": data})
}

func (u *user) subscribe(id, database, path, events string) object {
	u.t.Helper()
	return u.do("firebase.subscribe", object{"subscriptionId": id, "database": database, "path": path, "eventType": events})
}

// notification is the schema of the S3 rules for the params of firebase.event.
const notification = `{"type":"object","required":["subscriptionId","eventType","data"],"properties":{
	"subscriptionId":{"type":"string"},"eventType":{"type":"string"},
	"data":{"type":["object","array","string","number","boolean","null"]},
	"previousData":{"type":["object","array","string","number","boolean","null"]},
	"key":{"type":"string"},"timestamp":{"type":"string","format":"date-time"}},"additionalProperties":false}`

// next returns the params of the next event, which fit the schema.
func (u *user) next() object {
	u.t.Helper()
	select {
	case raw := <-u.heard:
		var m struct {
			JSONRPC, Method string
			ID              any
			Params          object
		}
		require.NoError(u.t, json.Unmarshal(raw, &m))
		assert.Equal(u.t, "2.0", m.JSONRPC)
		assert.Equal(u.t, "firebase.event", m.Method)
		assert.Nil(u.t, m.ID)
		require.NoError(u.t, toolstest.Compile(u.t, json.RawMessage(notification)).Validate(m.Params))
		_, err := time.Parse(time.RFC3339, fmt.Sprint(m.Params["timestamp"]))
		require.NoError(u.t, err)
		delete(m.Params, "timestamp")
		return m.Params
	case <-time.After(patience):
		require.FailNow(u.t, "nobody told of an event")
		return nil
	}
}

// silent fails the test if there was an unexpected event.
func (u *user) silent() {
	u.t.Helper()
	u.subscribe("sentinel", "realtime", "sentinel", "value")
	u.write("realtime", "sentinel", "set", float64(len(u.ID())))
	assert.Equal(u.t, "sentinel", u.next()["subscriptionId"])
	u.do("firebase.unsubscribe", object{"subscriptionId": "sentinel"})
	u.write("realtime", "sentinel", "delete", nil)
}

// S3-042, S3-043: a real client over HTTP receives each of the seven types of events, and no other.
func TestEachTypeOfEvents(t *testing.T) {
	t.Parallel()
	b := startBench(t)
	u := b.user(t, b.serve(t, b.face()), "ada.operator")
	for _, c := range []struct {
		events, database, path string
		writes                 func(path string)
		want                   object
	}{
		{"value", "realtime", "rt/v", func(p string) { u.write("realtime", p+"/x", "set", 1.0) }, object{"data": object{"x": 1.0}}},
		{"value", "firestore", "fs/v", func(p string) { u.write("firestore", p, "set", object{"n": 1.0}) }, object{"data": object{"n": 1.0}}},
		{"child_added", "realtime", "rt/a", func(p string) { u.write("realtime", p, "update", object{"k": "x"}) }, object{"data": "x", "key": "k"}},
		{
			"child_changed", "realtime", "rt/c",
			func(p string) {
				u.write("realtime", p+"/k", "set", false)
				u.write("realtime", p+"/k", "set", object{"on": true})
			},
			object{"data": object{"on": true}, "previousData": false, "key": "k"},
		},
		{
			"child_removed", "realtime", "rt/r",
			func(p string) {
				u.write("realtime", p, "set", object{"k": 1.0, "l": 2.0})
				u.write("realtime", p+"/k", "delete", nil)
			},
			object{"data": 1.0, "key": "k"},
		},
		{"document_added", "firestore", "added", func(p string) { u.write("firestore", p+"/d", "set", object{"n": 1.0}) }, object{"data": object{"n": 1.0}, "key": "d"}},
		{
			"document_modified", "firestore", "modified",
			func(p string) {
				u.write("firestore", p+"/d", "set", object{"n": 1.0})
				u.write("firestore", p+"/d", "update", object{"n": 2.0})
			},
			object{"data": object{"n": 2.0}, "previousData": object{"n": 1.0}, "key": "d"},
		},
		{
			"document_deleted", "firestore", "deleted",
			func(p string) {
				u.write("firestore", p+"/d", "set", object{"n": 1.0})
				u.write("firestore", p+"/d", "delete", nil)
			},
			object{"data": object{"n": 1.0}, "key": "d"},
		},
	} {
		id := c.events + "-" + c.database
		id = strings.ReplaceAll(id, "_", "-")
		got := u.subscribe(id, c.database, c.path, c.events)
		assert.Equal(t, object{"success": true, "subscriptionId": id, "initialData": nil}, got)
		c.writes(c.path)
		c.want["subscriptionId"], c.want["eventType"] = id, c.events
		assert.Equal(t, c.want, u.next())
		u.do("firebase.unsubscribe", object{"subscriptionId": id})
		c.writes(c.path)
	}
	u.silent()
}

// S3-041: the initial data are sent exactly when they are requested; a scalar has its own form.
func TestInitialData(t *testing.T) {
	t.Parallel()
	b := startBench(t)
	u := b.user(t, b.serve(t, b.face()), "ada.operator")
	u.write("realtime", "s", "set", "text")
	u.write("realtime", "o", "set", object{"a": []any{1.0, 2.0}})
	u.write("firestore", "c/d", "set", object{"n": 1.0})
	assert.Equal(t, object{".value": "text"}, u.subscribe("s", "realtime", "s", "value")["initialData"])
	assert.Equal(t, object{"a": []any{1.0, 2.0}}, u.subscribe("o", "realtime", "o", "child_added")["initialData"])
	assert.Equal(t, []any{1.0, 2.0}, u.subscribe("l", "realtime", "o/a", "value")["initialData"])
	assert.Equal(t, object{"d": object{"n": 1.0}}, u.subscribe("c", "firestore", "c", "document_added")["initialData"])
	got := u.do("firebase.subscribe", object{"subscriptionId": "none", "database": "realtime", "path": "s", "includeInitial": false})
	assert.Equal(t, object{"success": true, "subscriptionId": "none"}, got)
	u.silent()
}

// S3-044, S3-048, A-82: invalid subscriptions, and subscriptions of others.
func TestSubscriptionsAreOfTheirSession(t *testing.T) {
	t.Parallel()
	b := startBench(t)
	url := b.serve(t, b.face())
	ada, twin, bob := b.user(t, url, "ada.operator"), b.user(t, url, "ada.operator"), b.user(t, url, "bob.submitter")
	ada.subscribe("one", "realtime", "a", "value")
	refused := func(u *user, tool string, args object, want string) {
		t.Helper()
		_, code := u.call(tool, args)
		assert.Equal(t, want, code, "%v", args)
	}
	one := object{"subscriptionId": "one", "database": "firestore", "path": "c/d"}
	refused(ada, "firebase.subscribe", one, "-32201")
	for _, u := range []*user{twin, bob} {
		refused(u, "firebase.unsubscribe", object{"subscriptionId": "one"}, "-32200")
		u.subscribe("one", "realtime", "b", "value")
	}
	refused(ada, "firebase.unsubscribe", object{"subscriptionId": "two"}, "-32200")
	for _, c := range []struct{ database, path, events, want string }{
		{"firestore", "c", "child_added", "-32300"},
		{"firestore", "c", "child_changed", "-32300"},
		{"firestore", "c", "child_removed", "-32300"},
		{"realtime", "c", "document_added", "-32300"},
		{"realtime", "c", "document_modified", "-32300"},
		{"realtime", "c", "document_deleted", "-32300"},
		{"firestore", "c", "value", "-32300"},
		{"realtime", "a//b", "value", "-32302"},
		{"realtime", "a/../b", "value", "-32302"},
	} {
		refused(ada, "firebase.subscribe", object{"subscriptionId": "x", "database": c.database, "path": c.path, "eventType": c.events}, c.want)
	}
	ada.write("realtime", "b", "set", 1.0)
	for _, u := range []*user{twin, bob} {
		assert.Equal(t, object{"subscriptionId": "one", "eventType": "value", "data": 1.0}, u.next())
	}
	ada.do("firebase.unsubscribe", object{"subscriptionId": "one"})
	refused(ada, "firebase.unsubscribe", object{"subscriptionId": "one"}, "-32202")
	ada.subscribe("one", "realtime", "b", "value")
	ada.silent()
}

// S3-043: events of one path arrive in the order of the writes, and none before the answer to the call.
func TestEventsAreInOrder(t *testing.T) {
	t.Parallel()
	b := startBench(t)
	d := b.pipe(t)
	d.send(initialize)
	d.expect(object{"id": 1.0})
	d.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	ctx, stop := context.WithCancel(t.Context())
	written := make(chan struct{})
	pace := time.NewTicker(time.Millisecond)
	defer pace.Stop()
	go func() {
		defer close(written)
		for n := 0; ctx.Err() == nil; n++ {
			_, err := b.realtime.Write(t.Context(), "list/"+fmt.Sprintf("%06d", n), firebase.Write{Operation: firebase.Set, Data: float64(n)})
			assert.NoError(t, err)
			<-pace.C
		}
	}()
	call := func(id int, tool string, args string) {
		d.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s","arguments":%s}}`, id, tool, args))
	}
	last := -1.0
	for round := range 3 {
		call(10+round, "firebase.subscribe", `{"subscriptionId":"s","database":"realtime","path":"list","eventType":"child_added"}`)
		first := <-d.from
		require.Equal(t, any(float64(10+round)), first["id"], "the answer comes first: %v", first)
		result, _ := first["result"].(object)["structuredContent"].(object)
		initial, _ := result["initialData"].(object)
		for n := range 20 {
			params, _ := (<-d.from)["params"].(object)
			data, _ := params["data"].(float64)
			if n == 0 {
				assert.GreaterOrEqual(t, data, float64(len(initial)), "what was there at the beginning is no event")
				if _, list := result["initialData"].([]any); !list {
					assert.InDelta(t, float64(len(initial)), data, 0, "nothing is missing between the data of the beginning and the first event")
				}
			} else {
				assert.InDelta(t, last+1, data, 0)
			}
			last = data
		}
		call(20+round, "firebase.unsubscribe", `{"subscriptionId":"s"}`)
		for {
			m := <-d.from
			if m["id"] == nil {
				continue
			}
			require.Equal(t, any(float64(20+round)), m["id"])
			break
		}
		d.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, 30+round))
		m := <-d.from
		require.Equal(t, any(float64(30+round)), m["id"], "nothing comes after the end: %v", m)
	}
	stop()
	<-written
}

// pipe is a client over stdio.
func (b *bench) pipe(t *testing.T) *talker {
	t.Helper()
	in, to := io.Pipe()
	from, out := io.Pipe()
	ended := make(chan error, 1)
	s := b.face()
	go func() {
		ended <- s.Serve(context.Background(), in, out)
		assert.NoError(t, out.Close())
	}()
	d := &talker{t: t, to: to, from: make(chan map[string]any, 100_000), names: map[string]string{}}
	go d.listen(from)
	t.Cleanup(func() {
		assert.NoError(t, to.Close())
		assert.NoError(t, <-ended)
	})
	return d
}

// Over stdio, requests of 2026-07-28 subscribe as well. Over HTTP they have no session, and get an error with a hint.
func TestSubscriptionsWithoutASession(t *testing.T) {
	t.Parallel()
	b := startBench(t)
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}`
	args := `"name":"firebase.subscribe","arguments":{"subscriptionId":"s","database":"realtime","path":"p"}`
	d := b.pipe(t)
	d.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + args + `,` + meta + `}}`)
	d.expect(object{"id": 1.0, "result": object{"structuredContent": object{"success": true}}})
	_, err := b.realtime.Write(t.Context(), "p", firebase.Write{Operation: firebase.Set, Data: 1.0})
	require.NoError(t, err)
	d.expect(object{"method": "firebase.event", "params": object{"subscriptionId": "s", "data": 1.0}})

	w := b.web(t, b.face())
	a := w.modern("tools/call", "firebase.subscribe", args+`,`, `{}`)
	require.Equal(t, http.StatusOK, a.status, a.body)
	assert.Contains(t, a.body, "NO_SESSION")
	assert.Contains(t, a.body, "read with firebase.read")
}

// S3-045: the end of a session ends its subscriptions, however it ends.
func TestSubscriptionsEndWithTheirSession(t *testing.T) {
	t.Parallel()
	b := startBench(t)
	u := b.user(t, b.serve(t, b.face()), "ada.operator")
	u.subscribe("s", "realtime", "p", "value")
	u.write("realtime", "p", "set", 1.0)
	u.next()
	require.Equal(t, 1, b.hub.Count())
	require.NoError(t, u.Close())
	require.Eventually(t, func() bool { return b.hub.Count() == 0 }, patience, 10*time.Millisecond)

	d := b.pipe(t)
	d.send(initialize)
	d.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"firebase.subscribe","arguments":{"subscriptionId":"s","database":"realtime","path":"p"}}}`)
	d.expect(object{"id": 2.0})
	require.Equal(t, 1, b.hub.Count())
	to, ok := d.to.(io.Closer)
	require.True(t, ok)
	require.NoError(t, to.Close())
	require.Eventually(t, func() bool { return b.hub.Count() == 0 }, patience, 10*time.Millisecond)

	s := b.face()
	u = b.user(t, b.serve(t, s), "ada.operator")
	u.subscribe("s", "realtime", "p", "value")
	s.Close()
	assert.Zero(t, b.hub.Count())
}

// A call that is a task of the client subscribes as well: events arrive after the handle of the task.
func TestSubscriptionAsATask(t *testing.T) {
	t.Parallel()
	b := startBench(t)
	d := b.pipe(t)
	d.send(initialize)
	d.expect(object{"id": 1.0})
	d.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"firebase.subscribe","arguments":{"subscriptionId":"s","database":"realtime","path":"p"},"task":{}}}`)
	d.expect(object{"id": 2.0, "result": object{"task": object{"taskId": "<ID=>"}}})
	d.send(`{"jsonrpc":"2.0","id":3,"method":"tasks/result","params":{"taskId":"` + d.names["ID"] + `"}}`)
	d.expect(object{"id": 3.0, "result": object{"structuredContent": object{"success": true}}})
	_, err := b.realtime.Write(t.Context(), "p", firebase.Write{Operation: firebase.Set, Data: 1.0})
	require.NoError(t, err)
	d.expect(object{"method": "firebase.event", "params": object{"subscriptionId": "s", "data": 1.0}})
}

// A session whose subscriptions the node has lost, as after its restart, is notified of each, and can subscribe again.
func TestNodeForgetsASession(t *testing.T) {
	t.Parallel()
	b := startBench(t)
	d := b.pipe(t)
	d.send(initialize)
	d.expect(object{"id": 1.0})
	subscribe := func(id int, name string) {
		d.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"firebase.subscribe","arguments":{"subscriptionId":"%s","database":"realtime","path":"p"}}}`, id, name))
		d.expect(object{"id": float64(id), "result": object{"structuredContent": object{"success": true}}})
	}
	subscribe(2, "a")
	subscribe(3, "b")
	subscribe(4, "ended")
	d.send(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"firebase.unsubscribe","arguments":{"subscriptionId":"ended"}}}`)
	d.expect(object{"id": 5.0, "result": object{"structuredContent": object{"success": true}}})
	b.sessions.Range(func(name, _ any) bool { b.hub.CloseSession(fmt.Sprint(name)); return true })
	for _, name := range []string{"a", "b"} {
		d.expect(object{"method": "firebase.event", "params": object{"subscriptionId": name, "eventType": "closed"}})
	}
	require.Eventually(t, func() bool {
		d.send(`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"firebase.subscribe","arguments":{"subscriptionId":"a","database":"realtime","path":"p"}}}`)
		for m := range d.from {
			assert.NotContains(t, fmt.Sprint(m), "ended")
			if m["id"] == any(6.0) {
				result, _ := m["result"].(object)
				return result["isError"] != true
			}
		}
		return false
	}, patience, 10*time.Millisecond)
}

// Events wait for a client that has no stream open yet.
func TestEventsWaitForAStream(t *testing.T) {
	t.Parallel()
	b := startBench(t)
	w := b.web(t, b.face())
	w.open()
	a := w.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"firebase.subscribe","arguments":{"subscriptionId":"s","database":"realtime","path":"p","eventType":"child_added"}}}`)
	require.Contains(t, a.body, `"success":true`)
	for n := range 100 {
		_, err := b.realtime.Write(t.Context(), "p/k"+strconv.Itoa(n), firebase.Write{Operation: firebase.Set, Data: float64(n)})
		require.NoError(t, err)
	}
	resp, err := http.DefaultClient.Do(w.request(http.MethodGet, ""))
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	for n := 0; n < 100; {
		require.True(t, lines.Scan())
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && data != "" {
			assert.Contains(t, data, `"key":"k`+strconv.Itoa(n)+`"`)
			n++
		}
	}
}
