package node_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/builtin"
)

// firebasePlan writes to both databases and reads both.
const firebasePlan = `
orch: v1
steps:
  - {id: set, tool: firebase.write, with: {database: realtime, path: a/b, data: {n: 1}}}
  - {id: push, tool: firebase.write, with: {database: firestore, path: rooms, operation: push, data: {m: 2}}}
  - {id: one, needs: [set], tool: firebase.read, with: {database: realtime, path: a}}
  - {id: two, needs: [push], tool: firebase.read, with: {database: firestore, path: "rooms/${{ steps.push.output.key }}"}}
outputs:
  one: ${{ steps.one.output.data }}
  two: ${{ steps.two.output.data }}
`

// S3-036: what plans write outlives the node.
func TestDatabasesOfANode(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Storage.Durability = "fsync"
	n := start(t, cfg)
	r := run(t, n.API(), firebasePlan)
	require.Equal(t, statemachine.Done, r.State, "%v", r.Error)
	assert.JSONEq(t, `{"one":{"b":{"n":1}},"two":{"m":2}}`, string(r.Output))
	require.NoError(t, n.Stop(t.Context()))

	n = start(t, cfg)
	r = run(t, n.API(), "orch: v1\nsteps: [{id: a, tool: firebase.read, with: {database: firestore, path: rooms}}, {id: b, tool: firebase.read, with: {database: realtime, path: a/b/n}}]\noutputs: {n: \"${{ steps.a.output.metadata.count }}\", b: \"${{ steps.b.output.data }}\"}\n")
	require.Equal(t, statemachine.Done, r.State, "%v", r.Error)
	assert.JSONEq(t, `{"n":1,"b":{".value":1}}`, string(r.Output))
}

// The error of a subscription outside a session says what to do instead.
func TestPlansDoNotSubscribe(t *testing.T) {
	t.Parallel()
	n := start(t, config(t))
	r := run(t, n.API(), "orch: v1\nsteps: [{id: a, tool: firebase.subscribe, with: {subscriptionId: s, database: realtime, path: a}}]\n")
	require.Equal(t, statemachine.Failed, r.State)
	assert.Equal(t, fault.ValidationError, r.Error.Code)
	assert.Equal(t, "NO_SESSION", r.Error.Reason)
	assert.Contains(t, r.Error.Hint, "firebase.read")
}

// A worker in another process uses the databases of the node. A face in another process receives their events.
func TestDatabasesOfWorkersAndFacesElsewhere(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	only := cfg
	only.Worker.Concurrency, only.Worker.OwnTools = -1, true
	n := start(t, only)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- node.RunWorker(ctx, cfg) }()
	t.Cleanup(func() { stop(); assert.NoError(t, <-ended) })
	r := run(t, n.API(), firebasePlan)
	require.Equal(t, statemachine.Done, r.State, "%v", r.Error)
	assert.JSONEq(t, `{"one":{"b":{"n":1}},"two":{"m":2}}`, string(r.Output))
	r = run(t, n.API(), "orch: v1\nsteps: [{id: a, tool: firebase.read, with: {database: realtime, path: nowhere}}]\n")
	require.Equal(t, statemachine.Failed, r.State)
	assert.Equal(t, fault.NotFound, r.Error.Code)

	remote, err := node.Dial(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, remote.Close()) })
	face, err := server.New(server.Config{API: remote, Local: server.Identity{Name: remote.Identity(), Role: server.Operator}, Catalogue: catalogueOf(t), Stores: server.Stores{Subscriptions: node.NewSubscriptions(remote)}})
	require.NoError(t, err)
	t.Cleanup(face.Close)
	c := newCaller(t, face)
	c.say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	c.hear()
	c.call(1, "firebase.subscribe", `{"subscriptionId":"s","database":"realtime","path":"list","eventType":"child_added"}`)
	assert.Contains(t, c.hear(), `"success":true`)
	const children = 5
	for i := range children {
		c.call(10+i, "firebase.write", fmt.Sprintf(`{"database":"realtime","path":"list/k%d","data":%d}`, i, i))
	}
	for answers, next := 0, 0; answers < children || next < children; {
		line := c.hear()
		var m struct {
			ID     *int
			Method string
			Params struct{ Key string }
		}
		require.NoError(t, json.Unmarshal([]byte(line), &m))
		if m.ID != nil {
			assert.Contains(t, line, `"success":true`)
			answers++
			continue
		}
		assert.Equal(t, "firebase.event", m.Method)
		assert.Contains(t, line, `"subscriptionId":"s"`)
		next++
	}
	c.call(20, "firebase.unsubscribe", `{"subscriptionId":"s"}`)
	assert.Contains(t, c.hear(), `"success":true`)
	c.call(21, "firebase.unsubscribe", `{"subscriptionId":"s"}`)
	assert.Contains(t, c.hear(), "GONE")
}

// caller is a client over a pair of pipes.
type caller struct {
	t     *testing.T
	to    io.Writer
	lines chan string
}

func newCaller(t *testing.T, face *server.Server) *caller {
	t.Helper()
	in, to := io.Pipe()
	from, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- face.Serve(context.Background(), in, out)
		assert.NoError(t, out.Close())
	}()
	c := &caller{t: t, to: to, lines: make(chan string, 1000)}
	go func() {
		defer close(c.lines)
		for lines := bufio.NewScanner(from); lines.Scan(); {
			c.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		assert.NoError(t, to.Close())
		assert.NoError(t, <-ended)
	})
	return c
}

func (c *caller) say(text string) {
	c.t.Helper()
	_, err := io.WriteString(c.to, text+"\n")
	require.NoError(c.t, err)
}

func (c *caller) call(id int, tool, args string) {
	c.t.Helper()
	c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, args))
}

func (c *caller) hear() string {
	c.t.Helper()
	select {
	case line, open := <-c.lines:
		require.True(c.t, open)
		return line
	case <-time.After(time.Minute):
		require.FailNow(c.t, "nothing was said")
		return ""
	}
}

// A client cannot act on the session of another client, and the log contains no session ids.
func TestSessionsAreUnknownToTheLog(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	n := start(t, cfg)
	face, err := server.New(server.Config{API: n.API(), Catalogue: catalogueOf(t), Stores: server.Stores{Subscriptions: node.NewSubscriptions(n)}})
	require.NoError(t, err)
	t.Cleanup(face.Close)
	c := newCaller(t, face)
	c.say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	c.hear()
	c.call(1, "firebase.subscribe", `{"subscriptionId":"s","database":"realtime","path":"list"}`)
	assert.Contains(t, c.hear(), `"success":true`)
	c.call(2, "firebase.read", `{"database":"realtime","path":"list"}`)
	assert.Contains(t, c.hear(), "NOT_FOUND")
	list, err := n.API().List(t.Context(), api.ListRequest{})
	require.NoError(t, err)
	require.Len(t, list.Tasks, 2)
	for _, task := range list.Tasks {
		history, err := n.API().History(t.Context(), api.HistoryRequest{ID: task.ID})
		require.NoError(t, err)
		submitted, ok := history.Commits[0].Events[0].Data.(*events.Submitted)
		require.True(t, ok)
		if submitted.Client != nil && submitted.Client.Session != "" {
			assert.Len(t, submitted.Client.Session, 26, "a random name")
		} else {
			assert.Equal(t, "firebase.read", task.Name)
		}
	}
}

func catalogueOf(t *testing.T) *tools.Catalogue {
	t.Helper()
	c, err := tools.New(builtin.All(builtin.Config{})...)
	require.NoError(t, err)
	return c
}

// A worker has access to the databases, but not to the messages of sessions.
func TestWorkersHearNothing(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	start(t, cfg)
	c, err := bus.Dial(t.Context(), bus.DialConfig{DataDir: cfg.DataDir, User: bus.WorkerUser})
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = node.NewSubscriptions(rpc.NewRemote(c)).Messages(ctx, "session", 0)
	require.Error(t, err)
	assert.False(t, fault.Has(err, fault.NotFound), "the node has answered: %v", err)
}

// Subscriptions pass the gates: without an approval there is none, and one that the policy denies is never made.
func TestSubscriptionsWaitAtTheGate(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Confinement.Policy = filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(cfg.Confinement.Policy, []byte(`
version: 1
default: allow
rules:
  - {name: watch, action: ask, tools: [firebase.subscribe]}
  - {name: keep, action: deny, tools: [firebase.unsubscribe]}
`), 0o600))
	n := start(t, cfg)
	face, err := server.New(server.Config{API: n.API(), Catalogue: catalogueOf(t), Stores: server.Stores{Subscriptions: node.NewSubscriptions(n)}})
	require.NoError(t, err)
	t.Cleanup(face.Close)
	c := newCaller(t, face)
	c.say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	c.hear()
	c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"firebase.subscribe","arguments":{"subscriptionId":"s","database":"realtime","path":"p"},"task":{}}}`)
	c.heardOf(`"id":1`)
	var approvals api.ApprovalsReply
	require.Eventually(t, func() bool {
		approvals, err = n.API().Approvals(t.Context(), api.ApprovalsRequest{})
		return err == nil && len(approvals.Approvals) == 1
	}, time.Minute, 10*time.Millisecond)
	c.call(2, "firebase.write", `{"database":"realtime","path":"p","data":1}`)
	assert.NotContains(t, c.heardOf(`"id":2`), "firebase.event", "nothing is heard before somebody has approved")
	_, err = n.API().Decide(t.Context(), api.DecideRequest{ID: approvals.Approvals[0].ID, As: "granted", Actor: "user:ada"})
	require.NoError(t, err)
	result(t, n.API(), approvals.Approvals[0].Task)
	c.call(3, "firebase.write", `{"database":"realtime","path":"p","data":2}`)
	heard := c.heardOf(`"firebase.event"`)
	assert.Contains(t, heard, `"data":2`)
	assert.Contains(t, heard, `"previousData":1`)
	c.call(4, "firebase.unsubscribe", `{"subscriptionId":"s"}`)
	assert.Contains(t, c.heardOf(`"id":4`), "FORBIDDEN")
}

// heardOf reads lines until one contains a text, and returns them all.
func (c *caller) heardOf(text string) (all string) {
	c.t.Helper()
	for !strings.Contains(all, text) {
		all += c.hear()
	}
	return all
}
