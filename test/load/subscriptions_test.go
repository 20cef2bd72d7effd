package load_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/memory"
)

// everybody accepts every token.
type everybody struct{}

// Verify implements server.Tokens.
func (everybody) Verify(context.Context, string) (server.Identity, time.Time, error) {
	return server.Identity{Name: "user:load", Role: server.Operator}, time.Time{}, nil
}

// client is an MCP client over HTTP with a session.
type client struct {
	t            *testing.T
	url, session string
	// token is "load" when it is empty.
	token string
	id    atomic.Int64
}

// send sends a request and returns its answer; nil after a failure, which it reports.
func (c *client) send(method, body string) *http.Response {
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.url, strings.NewReader(body))
	if err != nil {
		c.t.Error(err)
		return nil
	}
	r.Header = http.Header{
		"Authorization": {"Bearer " + cmp.Or(c.token, "load")}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2025-11-25"},
	}
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Error(err)
		return nil
	}
	return answer
}

// post sends a request and reads its answer.
func (c *client) post(body string) (text, session string) {
	answer := c.send(http.MethodPost, body)
	if answer == nil {
		return "", ""
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Error(err)
	}
	return string(data), answer.Header.Get("Mcp-Session-Id")
}

func open(t *testing.T, url string) *client {
	t.Helper()
	c := &client{t: t, url: url}
	c.open()
	return c
}

// open opens the session.
func (c *client) open() {
	_, c.session = c.post(`{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"load","version":"1"}}}`)
	require.NotEmpty(c.t, c.session)
	c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func (c *client) call(tool, args string) string {
	text, _ := c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, c.id.Add(1), tool, args))
	return text
}

// do calls a tool that must succeed.
func (c *client) do(tool, args string) {
	assert.Contains(c.t, c.call(tool, args), `"success":true`)
}

// subscribe creates subscriptions "0" and so on, each to the children of its own path.
func (c *client) subscribe(n int, root string) {
	var group sync.WaitGroup
	const callers = 8
	for caller := range callers {
		group.Go(func() {
			for i := caller; i < n; i += callers {
				c.do("firebase.subscribe", fmt.Sprintf(`{"subscriptionId":"%d","database":"realtime","path":"%s/%d","eventType":"child_added","includeInitial":false}`, i, root, i))
			}
		})
	}
	group.Wait()
}

// arrival is an event that has arrived.
type arrival struct {
	subscription string
	data         int
	took         time.Duration
}

// listen reads the stream of the session until ctx ends.
func (c *client) listen(ctx context.Context, arrived chan<- arrival) (stop func()) {
	answer := c.send(http.MethodGet, "") //nolint:bodyclose // stop closes it
	require.NotNil(c.t, answer)
	require.Equal(c.t, http.StatusOK, answer.StatusCode)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(answer.Body); lines.Scan() && ctx.Err() == nil; {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			var m struct {
				Params struct {
					ID   string    `json:"subscriptionId"`
					Data int       `json:"data"`
					At   time.Time `json:"timestamp"`
				} `json:"params"`
			}
			if ok && json.Unmarshal([]byte(data), &m) == nil && m.Params.ID != "" {
				arrived <- arrival{m.Params.ID, m.Params.Data, time.Since(m.Params.At)}
			}
		}
	}()
	return func() { _ = answer.Body.Close(); <-ended }
}

// subscriptionScale returns the small scale, or the full one if ORCH_LOAD is set, as by `make load`.
func subscriptionScale() (subscriptions, writes int) {
	if os.Getenv(envFull) != "" {
		return 1000, 3000
	}
	return 200, 200
}

// startFace starts a node with a face, and returns where it is served.
func startFace(t *testing.T, change func(*node.Config)) string {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	require.NoError(t, os.Mkdir(root, 0o700))
	cfg := node.Config{
		DataDir: filepath.Join(dir, "data"), Root: root, Worker: node.Worker{Concurrency: 16}, Version: "load", Faces: node.Faces{HTTP: "127.0.0.1:0", Tokens: everybody{}}, Storage: node.Storage{MinFree: 1 << 20},
	}
	change(&cfg)
	n, err := node.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		assert.NoError(t, n.Stop(context.Background()))
	})
	return n.FaceURL()
}

// S3-043, S3-045: many subscriptions of one session receive all writes, a hundred per second, in order for each path.
func TestManySubscriptions(t *testing.T) { //nolint:paralleltest // it measures
	subscriptions, writes := subscriptionScale()
	c := open(t, startFace(t, func(*node.Config) {}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	arrived := make(chan arrival, writes)
	stop := c.listen(ctx, arrived)
	defer stop()
	begun := time.Now()
	c.subscribe(subscriptions, "many")
	t.Logf("%d subscriptions in %v", subscriptions, time.Since(begun).Round(time.Millisecond))

	const perSecond = 100
	pace := time.NewTicker(time.Second / perSecond)
	defer pace.Stop()
	begun = time.Now()
	const writers = 8 // each writes to paths of its own
	var group sync.WaitGroup
	for writer := range writers {
		group.Go(func() {
			for n := writer; n < writes; n += writers {
				<-pace.C
				c.do("firebase.write", fmt.Sprintf(`{"database":"realtime","path":"many/%d/k%d","data":%d}`, n%subscriptions, n, n))
			}
		})
	}
	group.Wait()
	wrote := time.Since(begun)
	heard, times := map[string]int{}, []time.Duration{}
	for range writes {
		select {
		case a := <-arrived:
			assert.Equal(t, a.subscription, strconv.Itoa(a.data%subscriptions))
			if last, ok := heard[a.subscription]; ok {
				assert.Equal(t, last+subscriptions, a.data, "in order, without gaps")
			}
			heard[a.subscription] = a.data
			times = append(times, a.took)
		case <-time.After(5 * time.Minute):
			require.FailNow(t, "events are missing", "%d of %d came", len(times), writes)
		}
	}
	slices.Sort(times)
	t.Logf("%d writes in %v (%.0f a second), all events in order; from write to client p50 %v, p99 %v", writes, wrote.Round(time.Millisecond),
		float64(writes)/wrote.Seconds(), times[len(times)/2].Round(time.Microsecond), times[len(times)*99/100].Round(time.Microsecond))
}

// S3-045: a session that does not read costs a bounded amount of memory, and no other waits for it.
func TestStuckSubscriber(t *testing.T) { //nolint:paralleltest // it measures
	subscriptions, writes := subscriptionScale()
	realtime := memory.NewRealtime(memory.Config{})
	url := startFace(t, func(cfg *node.Config) { cfg.Realtime = realtime })
	stuck, quick := open(t, url), open(t, url)
	answer := stuck.send(http.MethodGet, "") // and nobody reads it
	require.NotNil(t, answer)
	defer answer.Body.Close()
	stuck.subscribe(subscriptions, "all")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	arrived := make(chan arrival, writes)
	stop := quick.listen(ctx, arrived)
	defer stop()
	quick.subscribe(1, "quick")

	before := heap()
	const size, rounds = 16 << 10, 20
	for n := range writes * rounds {
		path, blob := fmt.Sprintf("all/%d/k%d", n%subscriptions, n%7), strings.Repeat("x", size)+strconv.Itoa(n)
		for _, w := range []firebase.Write{{Operation: firebase.Set, Data: blob}, {Operation: firebase.Delete}} {
			_, err := realtime.Write(t.Context(), path, w)
			require.NoError(t, err)
		}
	}
	_, err := realtime.Write(t.Context(), "quick/0/k", firebase.Write{Operation: firebase.Set, Data: 1.0})
	require.NoError(t, err)
	select {
	case <-arrived:
	case <-time.After(time.Minute):
		require.FailNow(t, "another session waits for the one that is stuck")
	}
	const mib = 1 << 20
	grown := (heap() - before) / mib
	produced := writes * rounds * size / mib
	t.Logf("%d MiB of events for a session that does not read: the heap grew by %d MiB", produced, grown)
	assert.Less(t, grown, 64*detector)
}

// heap is the memory in use, in bytes.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// S3-033: a hundred transactions at the same time on one path, on the databases of a node that syncs.
func TestManyTransactions(t *testing.T) { //nolint:paralleltest // it measures
	c := open(t, startFace(t, func(*node.Config) {}))
	const callers = 100
	var done atomic.Int64
	var group sync.WaitGroup
	begun := time.Now()
	for range callers {
		group.Go(func() {
			answer := c.call("firebase.write", `{"database":"realtime","path":"n","data":{".sv":{"increment":1}},"transaction":true}`)
			if strings.Contains(answer, `"success":true`) {
				done.Add(1)
			} else {
				assert.Contains(t, answer, "CONFLICT")
			}
		})
	}
	group.Wait()
	took := time.Since(begun)
	require.Positive(t, done.Load())
	assert.Contains(t, c.call("firebase.read", `{"database":"realtime","path":"n"}`), `".value":`+strconv.FormatInt(done.Load(), 10)+"}")
	t.Logf("%d of %d transactions at the same time in %v, none lost", done.Load(), callers, took.Round(time.Millisecond))
}
