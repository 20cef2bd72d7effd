package server_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/tools/firebase"
)

// A session over HTTP that a restart has ended is reopened, and its client is notified that its subscriptions have ended, except
// one that it has started again before.
func TestSubscriptionsEndWithTheNode(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]bool{"node that answers": false, "node that is gone": true} {
		t.Run(name, func(t *testing.T) { t.Parallel(); endsWithTheNode(t, gone) })
	}
}

func endsWithTheNode(t *testing.T, gone bool) {
	t.Helper()
	b, sessions := startBench(t), &kept{}
	b.gone.Store(gone)
	keeping := func(c *server.Config) { c.Stores.Sessions = sessions }
	first := b.face(keeping)
	w := b.web(t, first)
	w.open()
	subscribe := func(id string) {
		t.Helper()
		a := w.post(`{"jsonrpc":"2.0","id":"` + id + `","method":"tools/call","params":{"name":"firebase.subscribe","arguments":{"subscriptionId":"` + id + `","database":"realtime","path":"p"}}}`)
		require.Contains(t, a.body, `"success":true`)
	}
	for _, id := range []string{"a", "b", "c", "cancelled"} {
		subscribe(id)
	}
	a := w.post(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"firebase.unsubscribe","arguments":{"subscriptionId":"cancelled"}}}`)
	require.Contains(t, a.body, `"success":true`)
	first.Close()

	w.url = b.serve(t, b.face(keeping))
	subscribe("b")
	resp, err := http.DefaultClient.Do(w.request(http.MethodGet, ""))
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	heard := map[string]string{}
	lines := bufio.NewScanner(resp.Body)
	next := func() {
		t.Helper()
		for lines.Scan() {
			var m struct {
				Params struct{ SubscriptionID, EventType string }
			}
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && data != "" {
				require.NoError(t, json.Unmarshal([]byte(data), &m))
				heard[m.Params.SubscriptionID] = m.Params.EventType
				return
			}
		}
		require.FailNow(t, "the stream has ended")
	}
	next()
	next()
	_, err = b.realtime.Write(t.Context(), "p", firebase.Write{Operation: firebase.Set, Data: 1.0})
	require.NoError(t, err)
	next()
	assert.Equal(t, map[string]string{"a": "closed", "c": "closed", "b": "value"}, heard)
}

// The ids are freed while calls that started before still record their subscriptions.
func TestEarsAreClosedBesideCalls(t *testing.T) {
	t.Parallel()
	ids := make([]string, server.MaxListeners)
	for i := range ids {
		ids[i] = strconv.Itoa(i)
	}
	note, closing := server.ListenSessionOf(ids...)
	begun, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		close(begun)
		for _, id := range ids {
			note(id)
		}
	}()
	<-begun
	closing()
	<-done
}

// listenFor opens a request that listens, and returns the lines of its stream.
func listenFor(w *web, filter string) *bufio.Scanner {
	w.t.Helper()
	l := &web{t: w.t, url: w.url, token: w.token, header: map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"}}
	resp, err := http.DefaultClient.Do(l.request(http.MethodPost, `{"jsonrpc":"2.0","id":"L","method":"subscriptions/listen","params":{"notifications":{`+filter+
		`},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = resp.Body.Close() })
	require.Equal(w.t, http.StatusOK, resp.StatusCode)
	return bufio.NewScanner(resp.Body)
}

// heardOn is the next message of a stream.
func heardOn(t *testing.T, lines *bufio.Scanner) (m object) {
	t.Helper()
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && data != "" {
			require.NoError(t, json.Unmarshal([]byte(data), &m))
			return m
		}
	}
	require.FailNow(t, "the stream has ended")
	return nil
}

// A client of 2026-07-28 over HTTP receives subscription messages on a listening request that names the ids; other ids get
// NO_SESSION, and another identity has no access.
func TestListeningForSubscriptions(t *testing.T) {
	t.Parallel()
	b := startBench(t)
	w := b.web(t, b.face())
	call := func(w *web, tool, id string) string {
		return w.modern("tools/call", tool, `"name":"`+tool+`","arguments":{"subscriptionId":"`+id+`","database":"realtime","path":"p"},`, `{}`).body
	}
	cancel := func(w *web, id string) string {
		return w.modern("tools/call", "firebase.unsubscribe", `"name":"firebase.unsubscribe","arguments":{"subscriptionId":"`+id+`"},`, `{}`).body
	}
	stamp := object{"io.modelcontextprotocol/subscriptionId": "L"}
	lines := listenFor(w, `"orch/subscriptions":["a","b"]`)
	first := heardOn(t, lines)
	assert.Equal(t, "notifications/subscriptions/acknowledged", first["method"])
	assert.Equal(t, object{"_meta": stamp, "notifications": object{"orch/subscriptions": []any{"a", "b"}}}, first["params"])
	assert.Contains(t, call(w, "firebase.subscribe", "a"), `"success":true`)
	assert.Contains(t, call(w, "firebase.subscribe", "a"), "CONFLICT")
	assert.Contains(t, call(w, "firebase.subscribe", "other"), "NO_SESSION")
	eve := &web{t: t, url: w.url, token: "eve.submitter"}
	assert.Contains(t, call(eve, "firebase.subscribe", "a"), "NO_SESSION")
	assert.Contains(t, cancel(eve, "a"), "NO_SESSION")
	write := func(value float64) {
		t.Helper()
		_, err := b.realtime.Write(t.Context(), "p", firebase.Write{Operation: firebase.Set, Data: value})
		require.NoError(t, err)
	}
	write(1)
	event := heardOn(t, lines)
	assert.Equal(t, "firebase.event", event["method"])
	params, _ := event["params"].(object)
	assert.Equal(t, stamp, params["_meta"])
	assert.Equal(t, "a", params["subscriptionId"])
	assert.InDelta(t, 1.0, params["data"], 0)
	assert.Contains(t, cancel(w, "a"), `"success":true`)
	assert.Contains(t, cancel(w, "a"), "GONE")
	assert.Contains(t, call(w, "firebase.subscribe", "b"), `"success":true`)

	both := listenFor(w, `"orch/subscriptions":["b","c"],"toolsListChanged":true`) // b is in use
	assert.Equal(t, "notifications/subscriptions/acknowledged", heardOn(t, both)["method"])
	assert.Contains(t, call(w, "firebase.subscribe", "c"), `"success":true`)
	write(2)
	for lines, id := range map[*bufio.Scanner]string{lines: "b", both: "c"} {
		params, _ := heardOn(t, lines)["params"].(object)
		assert.Equal(t, id, params["subscriptionId"])
	}
}
