package node_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/election"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/test/need"
	"github.com/orch-dev/orch/tools"
)

// served is a node of a cluster in this process.
type served struct {
	cfg      node.Config
	mcp      string
	shutDown func()
}

// serveMember runs a node on a server until the test ends, or it is shut down.
func serveMember(t *testing.T, server *bus.Server, change ...func(*node.Config)) *served {
	t.Helper()
	cfg := config(t)
	cfg.Storage.NATSURL, cfg.Faces.HTTP, cfg.User = withCredential(t, server), "127.0.0.1:0", "test"
	cfg.Operator = "user:test"
	for _, c := range change {
		c(&cfg)
	}
	ctx, stop := context.WithCancel(t.Context())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- node.Serve(ctx, cfg, 10*time.Second, func(bus.Holder) {}, func(_, mcp string) { ready <- mcp })
	}()
	s := &served{cfg: cfg}
	var over bool
	s.shutDown = func() {
		if stop(); !over {
			over = true
			assert.NoError(t, <-ended)
		}
	}
	t.Cleanup(s.shutDown)
	select {
	case s.mcp = <-ready:
	case err := <-ended:
		over = true
		require.NoError(t, err)
	}
	return s
}

func natsServer(t *testing.T) *bus.Server {
	t.Helper()
	server, err := bus.StartServer(t.Context(), bus.ServerConfig{DataDir: filepath.Join(t.TempDir(), "nats"), Durability: bus.Relaxed})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close(context.Background())) })
	return server
}

func dialNode(t *testing.T, cfg node.Config) *rpc.Remote {
	t.Helper()
	r, err := node.Dial(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	return r
}

// nodesOf lists the nodes of a cluster.
func nodesOf(t *testing.T, r *rpc.Remote) node.NodesReply {
	t.Helper()
	var reply node.NodesReply
	require.NoError(t, r.Ask(t.Context(), bus.NodesPrefix+".members", struct{}{}, &reply))
	return reply
}

const slowWork = `
orch: v1
name: goes on
steps:
  - {id: slow, tool: BASH_EXECUTE, effect: write, with: {command: "sleep 1; echo done"}}
outputs:
  text: ${{ steps.slow.output.stdout }}
`

// One of two nodes is active. When it is stopped, the other one becomes active, no request fails meanwhile, and calls continue.
func TestStandby(t *testing.T) {
	t.Parallel()
	server := natsServer(t)
	first, second := serveMember(t, server), serveMember(t, server)
	r := dialNode(t, second.cfg)
	before := nodesOf(t, r)
	require.Len(t, before.Nodes, 2)
	assert.True(t, before.Nodes[0].Active)
	assert.False(t, before.Nodes[1].Active)
	assert.Positive(t, before.Epoch)
	assert.Equal(t, second.mcp, before.Nodes[1].HTTP+"/mcp", "the first one that was ready is active")

	id := submit(t, r, slowWork)
	require.Eventually(t, func() bool {
		v, err := r.Get(t.Context(), api.GetRequest{ID: id})
		require.NoError(t, err)
		return v.Steps[0].State == statemachine.StepRunning
	}, time.Minute, 5*time.Millisecond)
	asked := make(chan error, 1)
	gone := make(chan struct{})
	go func() { asked <- askOn(t.Context(), r, gone) }()
	first.shutDown()
	close(gone)
	require.NoError(t, <-asked)
	ended := result(t, r, id)
	assert.Equal(t, statemachine.Done, ended.State, "%v", ended.Error)
	after := nodesOf(t, r)
	require.Len(t, after.Nodes, 1)
	assert.True(t, after.Nodes[0].Active)
	assert.Greater(t, after.Epoch, before.Epoch)
	assert.Equal(t, statemachine.Done, result(t, r, submit(t, r, realWork)).State)
}

// askOn submits and reads until end is closed. It returns the first failure.
func askOn(ctx context.Context, r *rpc.Remote, end <-chan struct{}) error {
	plan, err := json.Marshal("orch: v1\nname: small\nsteps:\n  - {id: a, tool: FILE_READ, with: {file_path: a.txt}}\n")
	if err != nil {
		return err
	}
	for {
		reply, err := r.Submit(ctx, api.SubmitRequest{Plan: plan, Actor: "user:test"})
		if err == nil {
			_, err = r.Get(ctx, api.GetRequest{ID: reply.ID})
		}
		if err != nil {
			return err
		}
		select {
		case <-end:
			return nil
		default:
		}
	}
}

// rpcOf sends a request to /rpc of a node.
func rpcOf(t *testing.T, s *served, token, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, strings.Replace(s.mcp, "/mcp", "/rpc", 1), strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(said)
}

// A node that is stopped while it becomes active stops without an error.
func TestAMemberStopsWhileItStarts(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Storage.NATSURL = withCredential(t, natsServer(t))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	cfg.Wall = func() time.Time { stop(); return time.Now() }
	require.NoError(t, node.Serve(ctx, cfg, time.Minute, func(bus.Holder) {}, func(string, string) {}))
	require.Error(t, ctx.Err(), "it was stopped")
}

// So does a node with its own store.
func TestANodeStopsWhileItStarts(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	cfg.Wall = func() time.Time { stop(); return time.Now() }
	require.NoError(t, node.Serve(ctx, cfg, time.Minute, func(bus.Holder) {}, func(string, string) {}))
	require.Error(t, ctx.Err(), "it was stopped")
	stop()
	require.NoError(t, node.Serve(ctx, cfg, time.Minute, func(bus.Holder) {}, func(string, string) { t.Error("it has started") }))
}

// A standby node answers over HTTP like the active one, before and after a change.
func TestStandbyAnswersHTTP(t *testing.T) {
	t.Parallel()
	server := natsServer(t)
	first, second := serveMember(t, server), serveMember(t, server)
	secret, err := os.ReadFile(filepath.Join(first.cfg.DataDir, bus.LocalTokenFile))
	require.NoError(t, err)
	token := strings.TrimSpace(string(secret))
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(second.cfg.DataDir, bus.LocalTokenFile))
		return err == nil
	}, time.Minute, time.Millisecond, "who runs a node that stands by has a token too")
	const ask = `{"jsonrpc":"2.0","id":"1","method":"system.getTaskQueue","params":{"limit":1}}`
	for _, s := range []*served{first, second} {
		code, said := rpcOf(t, s, token, ask)
		assert.Equal(t, http.StatusOK, code, said)
		assert.Contains(t, said, `"result"`)
		// The active node may refuse a token before the other one has passed the request on as a whole: 503, try again.
		require.Eventually(t, func() bool {
			code, said = rpcOf(t, s, "orch_wrong", ask)
			return code != http.StatusServiceUnavailable
		}, time.Minute, time.Millisecond, said)
		assert.Equal(t, http.StatusUnauthorized, code, said)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, second.mcp, nil)
	require.NoError(t, err)
	request.Host = "evil.example"
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	assert.Equal(t, http.StatusForbidden, answer.StatusCode, "the way round does not hide under which name it was reached")
	first.shutDown()
	code, said := rpcOf(t, second, token, ask)
	assert.Equal(t, http.StatusOK, code, said)
}

// A node that cannot stand by lists the nodes as well.
func TestACommandsNodeIsListed(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Storage.NATSURL = withCredential(t, natsServer(t))
	start(t, cfg)
	reply, err := node.Nodes(t.Context(), cfg)
	require.NoError(t, err)
	require.Len(t, reply.Nodes, 1)
	assert.True(t, reply.Nodes[0].Active)
}

// takeLease replaces the current lease by that of another holder, and returns a function that ends it.
func takeLease(t *testing.T, address string) (end func()) {
	t.Helper()
	c, err := bus.Dial(t.Context(), bus.DialConfig{URL: address})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	ask := func(subject, body string) {
		answer, err := c.NATS().Request(subject, []byte(body), time.Minute)
		require.NoError(t, err)
		require.NotContains(t, string(answer.Data), `"error"`)
	}
	ask("$KV."+election.Bucket+".active", `{"id":"another"}`)
	return func() { ask("$JS.API.STREAM.PURGE.KV_"+election.Bucket, `{"filter":"$KV.`+election.Bucket+`.active"}`) }
}

// The node of a command that loses its lease hands over: it answers nothing any more, its call continues, and the outcome
// counts at the next node.
// next node.
func TestACommandsNodeGivesWay(t *testing.T) {
	t.Parallel()
	slow := slowTool{make(chan struct{}, 2), make(chan struct{})}
	cfg := config(t)
	cfg.Storage.NATSURL, cfg.Extra = withCredential(t, natsServer(t)), []tools.Tool{slow.tool()}
	told := make(chan struct{})
	cfg.HandedOver = func() { close(told) }
	n := start(t, cfg)
	id := submit(t, n.API(), slowPlan)
	<-slow.runs
	end := takeLease(t, cfg.Storage.NATSURL)
	select {
	case <-told:
	case <-time.After(time.Minute):
		t.Fatal("it does not notice")
	}
	assert.True(t, n.HandedOver())
	_, err := n.API().Get(t.Context(), api.GetRequest{ID: id})
	require.True(t, fault.Has(err, fault.Unavailable), "%v", err)

	end()
	next := cfg
	next.HandedOver = nil
	other := start(t, next)
	close(slow.let)
	assert.Equal(t, statemachine.Done, result(t, other.API(), id).State)
	assert.Empty(t, slow.runs, "the call was made twice")
}

// heldLease is a lease that its holder believes to hold.
type heldLease struct{ lost chan struct{} }

func (heldLease) Epoch() uint64                 { return 1 }
func (heldLease) Held() bool                    { return true }
func (l heldLease) Lost() <-chan struct{}       { return l.lost }
func (heldLease) Release(context.Context) error { return nil }

// A member whose log was taken over by a late node becomes active again, and answers.
func TestAMemberLeadsAnew(t *testing.T) {
	t.Parallel()
	m := serveMember(t, natsServer(t))
	r := dialNode(t, m.cfg)
	before := nodesOf(t, r)
	c, err := bus.Dial(t.Context(), bus.DialConfig{URL: m.cfg.Storage.NATSURL})
	require.NoError(t, err)
	defer c.Close()
	late, err := c.OpenStore(t.Context(), bus.StoreConfig{Lease: heldLease{make(chan struct{})}})
	require.NoError(t, err)
	require.NoError(t, late.Close(t.Context()))
	require.Greater(t, late.Epoch(), before.Epoch)
	gone := make(chan struct{})
	close(gone)
	require.Eventually(t, func() bool { return askOn(t.Context(), r, gone) == nil }, time.Minute, 10*time.Millisecond)
	assert.Greater(t, nodesOf(t, r).Epoch, late.Epoch())
}

// The same applies to a member that has nothing to append.
func TestAnIdleMemberLeadsAnew(t *testing.T) {
	t.Parallel()
	m := serveMember(t, natsServer(t))
	c, err := bus.Dial(t.Context(), bus.DialConfig{URL: m.cfg.Storage.NATSURL})
	require.NoError(t, err)
	defer c.Close()
	late, err := c.OpenStore(t.Context(), bus.StoreConfig{Lease: heldLease{make(chan struct{})}})
	require.NoError(t, err)
	require.NoError(t, late.Close(t.Context()))
	require.Eventually(t, func() bool {
		epoch, err := c.Epoch(t.Context())
		return err == nil && epoch > late.Epoch()
	}, time.Minute, 10*time.Millisecond)
}

// cable is a connection to a NATS server that can be cut.
type cable struct {
	to string

	mu    sync.Mutex // guards the fields below
	cut   bool
	conns []net.Conn
}

// layCable returns a cable to the server of a URL, and the URL of its other end.
func layCable(t *testing.T, address string) (*cable, string) {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	c := &cable{to: u.Host}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, listener.Close()); c.set(true) })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go c.carry(conn)
		}
	}()
	u.Host = listener.Addr().String()
	return c, u.String()
}

func (c *cable) carry(from net.Conn) {
	defer from.Close() //nolint:errcheck // it may be closed already
	to, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer to.Close() //nolint:errcheck // it may be closed already
	c.mu.Lock()
	c.conns = append(c.conns, from, to)
	cut := c.cut
	c.mu.Unlock()
	if cut {
		return
	}
	go func() {
		_, _ = io.Copy(to, from) // until one of them is closed
		_ = to.Close()
	}()
	_, _ = io.Copy(from, to) // the same
}

// set cuts the cable, or restores it.
func (c *cable) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	for _, conn := range c.conns {
		_ = conn.Close() // both sides see it
	}
	c.conns = nil
}

// An active node that reaches no server answers nothing from memory once its lease has expired, also over HTTP, because another
// node may be active. When it reaches the server again, it continues.
func TestAnIdleMemberThatIsCutOffAnswersNothing(t *testing.T) {
	t.Parallel()
	need.Long(t)
	var c *cable
	m := serveMember(t, natsServer(t), func(cfg *node.Config) { c, cfg.Storage.NATSURL = layCable(t, cfg.Storage.NATSURL) })
	secret, err := os.ReadFile(filepath.Join(m.cfg.DataDir, bus.LocalTokenFile))
	require.NoError(t, err)
	ask := func() int {
		code, _ := rpcOf(t, m, strings.TrimSpace(string(secret)), `{"jsonrpc":"2.0","id":"1","method":"system.getTaskQueue","params":{"limit":1}}`)
		return code
	}
	require.Equal(t, http.StatusOK, ask())
	c.set(true)
	require.Eventually(t, func() bool { return ask() == http.StatusServiceUnavailable }, time.Minute, 10*time.Millisecond)
	c.set(false)
	require.Eventually(t, func() bool { return ask() == http.StatusOK }, time.Minute, 10*time.Millisecond)
	m.shutDown()
}

// A node that cannot stand by is refused while another one is active.
func TestOnlyOneIsActive(t *testing.T) {
	t.Parallel()
	server := natsServer(t)
	first := serveMember(t, server)
	cfg := config(t)
	cfg.Storage.NATSURL = first.cfg.Storage.NATSURL
	_, err := node.Start(t.Context(), cfg)
	assert.True(t, fault.Has(err, fault.Conflict), "%v", err)
}
