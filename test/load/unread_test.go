package load_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/test/need"
	"github.com/orch-dev/orch/tools"
)

// eachToken is an identity of its own for each token.
type eachToken struct{}

// Verify implements server.Tokens.
func (eachToken) Verify(_ context.Context, token string) (server.Identity, time.Time, error) {
	return server.Identity{Name: "user:" + token, Role: server.Operator}, time.Time{}, nil
}

type largeOutput struct {
	Text string `json:"text"`
}

// large is a tool with a result of 1.2 MB.
func large() tools.Tool {
	return tools.Define(spec("LOAD_LARGE", tools.Read), func(context.Context, *tools.Env, nothing) (largeOutput, error) {
		return largeOutput{strings.Repeat("large \"result\"\n", 75_000)}, nil
	})
}

// neverReads sends a request, and reads only the first bytes of the answer.
func neverReads(t *testing.T, host, path, headers, body string) error {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", host)
	if err != nil {
		return err
	}
	t.Cleanup(func() { _ = conn.Close() })
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(4 << 10) // else it takes some more to fill
	}
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer load\r\nContent-Type: application/json\r\n"+
		"Accept: application/json, text/event-stream\r\n%sContent-Length: %d\r\n\r\n%s", path, host, headers, len(body), body)
	if err != nil {
		return err
	}
	_, err = io.ReadFull(conn, make([]byte, len("HTTP/1.1 200")))
	return err
}

// unreadScale is how many clients do not read, for each path.
func unreadScale() int {
	if os.Getenv(envFull) != "" {
		return 500
	}
	return 60
}

// unreadMemory is by how many MiB the node may grow for them.
func unreadMemory() int {
	if os.Getenv(envFull) != "" {
		return 60 // half of it are the stacks and the buffers of 500 connections
	}
	return 48
}

// Clients that do not read their answers use only the shared memory limit of large answers and the memory of their
// connections, and do not delay others.
func TestClientsThatDoNotRead(t *testing.T) { //nolint:paralleltest // it measures
	const meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
		`"io.modelcontextprotocol/clientInfo":{"name":"load","version":"1"}}`
	for name, test := range map[string]struct{ path, headers, method, params string }{ //nolint:paralleltest // it measures
		"rpc":       {"/rpc", "", "orch_result", `{"task_id":"TASK"}`},
		"session":   {"/mcp", "Mcp-Session-Id: SESSION\r\n", "tools/call", `{"name":"orch_result","arguments":{"task_id":"TASK"}}`},
		"stateless": {"/mcp", "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: orch_result\r\n", "tools/call", `{"name":"orch_result","arguments":{"task_id":"TASK"}` + meta + `}`},
		"resource":  {"/mcp", "Mcp-Session-Id: SESSION\r\n", "resources/read", `{"uri":"orch://task/TASK"}`},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "session" {
				need.Long(t)
			}
			node := spawn(t, roleFace, t.TempDir())
			at, err := url.Parse(node.ready)
			require.NoError(t, err)
			c := open(t, node.ready)
			require.Greater(t, len(c.call("LOAD_LARGE", `{}`)), 1<<20)
			task := regexp.MustCompile("TASK_[0-9A-Z]+").FindString(c.call("orch_list", `{"limit":1}`))
			fill := strings.NewReplacer("TASK", task, "SESSION", c.session)
			body := func(n int) string {
				return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, 100+n, test.method, fill.Replace(test.params))
			}
			other := &client{t: t, url: node.ready, token: "other"}
			other.open()
			heapBefore := node.ask(askHeap)
			before, _ := node.memory()

			var group sync.WaitGroup
			for n := range unreadScale() {
				group.Go(func() { assert.NoError(t, neverReads(t, at.Host, test.path, fill.Replace(test.headers), body(n))) })
			}
			answered := make(chan struct{})
			go func() { defer close(answered); group.Wait() }()
			most, slowest := before, time.Duration(0)
			for open := true; open; {
				select {
				case <-answered:
					open = false
				default:
				}
				begin := time.Now()
				assert.Contains(t, other.call("orch_list", `{"limit":1}`), task)
				slowest = max(slowest, time.Since(begin))
				now, _ := node.memory()
				most = max(most, now)
			}
			t.Logf("%d clients that do not read: the resident memory of the node grew from %d by at most %d MiB, the heap in use is %d MiB before and %d after; the slowest call of another one took %v",
				unreadScale(), before, most-before, heapBefore, node.ask(askHeap), slowest)
			assert.Less(t, most-before, unreadMemory()*detector)
			assert.Less(t, slowest, 5*time.Second)
		})
	}
}
