package bus_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/eventstest"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/rpc"
)

// a second node on the directory gets an error that names the first.
func TestSecondServerIsRefused(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	_, err := bus.StartServer(t.Context(), bus.ServerConfig{DataDir: n.Config.DataDir})
	var e *fault.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, fault.Conflict, e.Code)
	assert.Equal(t, bus.DataDirInUse, e.Reason)
	assert.Contains(t, e.Message, strconv.Itoa(os.Getpid()))
	assert.Contains(t, e.Message, n.Server.Addr())
	assert.NotEmpty(t, e.Hint)
	eventstest.NewChain().Grow(t, n, 1) // the first one is unharmed
}

// A child that is being started holds copies of all descriptors until it runs its program; the
// directory is unlocked all the same.
func TestDirectoryIsFreeThoughADescriptorLives(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	copied, err := syscall.Dup(descriptor(t, filepath.Join(n.Config.DataDir, "LOCK")))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, syscall.Close(copied)) })
	n.Stop(t)
	again, err := bus.StartServer(t.Context(), n.Config)
	require.NoError(t, err)
	require.NoError(t, again.Close(t.Context()))
}

// descriptor returns the number under which this process has the file open.
func descriptor(t *testing.T, path string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, e := range entries {
		if target, _ := os.Readlink("/proc/self/fd/" + e.Name()); target == path {
			fd, err := strconv.Atoi(e.Name())
			require.NoError(t, err)
			return fd
		}
	}
	require.Fail(t, "not open", path)
	return -1
}

func TestDataDirIsPrivate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Mkdir(dir, 0o755))
	n := bustest.NewNode(t, bus.ServerConfig{DataDir: dir})
	for name, want := range map[string]os.FileMode{".": 0o700, "auth.json": 0o600, "node.json": 0o600, "LOCK": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Equal(t, want, info.Mode().Perm(), name)
	}
	before := bustest.Passwords(t, dir)
	for _, user := range []string{bus.OperatorUser, bus.WorkerUser} {
		assert.Regexp(t, "^orch_[0-9A-Za-z]{43}$", before[user], "256 bits in base62")
	}
	assert.NotEqual(t, before[bus.OperatorUser], before[bus.WorkerUser])
	n.Stop(t)
	assert.NoFileExists(t, filepath.Join(dir, "node.json"))
	n.Start(t)
	assert.Equal(t, before, bustest.Passwords(t, dir), "credentials stay")
	assert.FileExists(t, filepath.Join(dir, "node.json"))
}

// A client of a data directory finds the node again that has restarted on another port.
func TestClientFollowsTheNode(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	client, err := bus.Dial(t.Context(), bus.DialConfig{DataDir: n.Config.DataDir})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	require.NoError(t, client.NodeEnded())
	before := n.Server.Addr()
	n.Stop(t)
	assert.True(t, fault.Has(client.NodeEnded(), fault.Unavailable))
	taken, err := net.Listen("tcp", strings.TrimPrefix(before, "nats://"))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, taken.Close()) })

	n.Start(t)
	require.NotEqual(t, before, n.Server.Addr())
	assert.True(t, fault.Has(client.NodeEnded(), fault.Unavailable), "another node runs there, not the one that was dialled")
	require.Eventually(t, func() bool { return client.NATS().FlushTimeout(time.Second) == nil }, time.Minute, 10*time.Millisecond)
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	damaged := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(damaged, "auth.json"), []byte(`{}`), 0o600))
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	port := taken.Addr().(*net.TCPAddr).Port
	for name, tc := range map[string]struct {
		cfg  bus.ServerConfig
		want fault.Code
	}{
		"no directory":        {bus.ServerConfig{}, fault.RequiredField},
		"a file":              {bus.ServerConfig{DataDir: file}, fault.Internal},
		"durability":          {bus.ServerConfig{DataDir: t.TempDir(), Durability: "maybe"}, fault.ValidationError},
		"port":                {bus.ServerConfig{DataDir: t.TempDir(), Port: 70000}, fault.ValidationError},
		"damaged credentials": {bus.ServerConfig{DataDir: damaged}, fault.DataLoss},
		"taken port":          {bus.ServerConfig{DataDir: t.TempDir(), Port: port}, fault.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := bus.StartServer(t.Context(), tc.cfg)
			assert.Equal(t, tc.want, fault.CodeOf(err), "%v", err)
		})
	}
}

// one listener, on loopback.
func TestListensOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	host, port, err := net.SplitHostPort(strings.TrimPrefix(n.Server.Addr(), "nats://"))
	require.NoError(t, err)
	assert.Equal(t, "127.0.0.1", host)
	addrs, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range addrs {
		ip, _, err := net.ParseCIDR(a.String())
		require.NoError(t, err)
		if ip.IsLoopback() || ip.IsLinkLocalUnicast() {
			continue
		}
		d := net.Dialer{Timeout: time.Second}
		_, err = d.DialContext(t.Context(), "tcp", net.JoinHostPort(ip.String(), port))
		require.Error(t, err, "reachable at %s", ip)
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	_, err := bustest.ConnectPlain(n.Server.Addr())
	require.ErrorIs(t, err, nats.ErrAuthorization, "nobody gets in without a credential")
	_, err = bus.Dial(t.Context(), bus.DialConfig{URL: n.Server.Addr(), User: bus.WorkerUser, Password: "wrong"})
	require.ErrorIs(t, err, &fault.Error{Code: fault.Unauthorized})
	_, err = bus.Dial(t.Context(), bus.DialConfig{DataDir: t.TempDir()})
	require.ErrorIs(t, err, &fault.Error{Code: fault.Unavailable})
	_, err = bus.Dial(t.Context(), bus.DialConfig{})
	require.ErrorIs(t, err, &fault.Error{Code: fault.RequiredField})
	_, err = bus.Dial(t.Context(), bus.DialConfig{URL: "nats://127.0.0.1:1"})
	require.ErrorIs(t, err, &fault.Error{Code: fault.Unavailable})
}

// A data directory of an earlier version has credentials in another format.
func TestOldCredentialsKeepWorking(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := `{"operator":"` + strings.Repeat("0a", 32) + `","worker":"` + strings.Repeat("1b", 32) + `"}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "auth.json"), []byte(old), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "nats"), 0o700))
	n := bustest.NewNode(t, bus.ServerConfig{DataDir: dir})
	assert.Equal(t, strings.Repeat("0a", 32), bustest.Passwords(t, dir)[bus.OperatorUser])
	client, err := bustest.ConnectPlain(n.Server.Addr(), bustest.Operator(t, dir))
	require.NoError(t, err)
	client.Close()
}

func TestWorkerMayOnlyWork(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	operators := []string{bus.CommandPrefix, bus.TokenPrefix, bus.ServersPrefix}
	for _, prefix := range append(operators, bus.WorkPrefix) {
		end, err := rpc.Serve(n.Conn, prefix, map[string]rpc.Method{"echo": rpc.Handle(echo[greeting])}, rpc.EndpointConfig{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, end.Close(t.Context())) })
	}
	w := bustest.Dial(t, n, bus.WorkerUser)
	require.NoError(t, rpc.Call(t.Context(), w, bus.WorkPrefix+".echo", greeting{}, nil))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	require.Error(t, rpc.Call(ctx, w, bus.CommandPrefix+".echo", greeting{}, nil), "commands are not for workers")
	_, err := w.OpenStore(ctx, bus.StoreConfig{})
	require.Error(t, err, "the log is not for workers")

	refused := make(chan error, 8)
	nc, err := bustest.ConnectPlain(n.Server.Addr(), nats.UserInfo(bus.WorkerUser, bustest.Passwords(t, n.Config.DataDir)[bus.WorkerUser]),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	require.NoError(t, err)
	defer nc.Close()
	for _, subject := range []string{"_INBOX.>", ">", "orch.ev.>", bus.WorkPrefix + ".>"} {
		_, err := nc.SubscribeSync(subject)
		require.NoError(t, err)
		require.ErrorIs(t, <-refused, nats.ErrPermissionViolation, "listening to %s", subject)
	}
	require.NoError(t, nc.Publish("orch.ev.00."+string(eventstest.NewChain().Task), []byte("forged")))
	require.ErrorIs(t, <-refused, nats.ErrPermissionViolation)
	for _, prefix := range operators {
		require.NoError(t, rpc.NewRemote(n.Conn).Ask(t.Context(), prefix+".echo", greeting{}, nil))
		require.NoError(t, nc.Publish(prefix+".echo", []byte("{}")))
		require.ErrorIs(t, <-refused, nats.ErrPermissionViolation, "asking %s", prefix)
	}
}

// the limit of a message.
func TestCommitTooLarge(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	r := eventstest.NewChain().Next(t, "node")
	r.Data = make([]byte, bus.MaxPayload)
	_, err := eventstest.Append(n, r)
	require.ErrorIs(t, err, &fault.Error{Code: fault.ValidationError})
	r.Data = make([]byte, bus.MaxPayload-8<<10)
	_, err = eventstest.Append(n, r)
	require.NoError(t, err)
}

func TestClosedStore(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	c := eventstest.NewChain()
	c.Grow(t, n, 1)
	n.Stop(t)
	_, err := eventstest.Append(n, c.Next(t, "node"))
	require.ErrorIs(t, err, &fault.Error{Code: fault.Unavailable})
	require.NoError(t, n.Close(t.Context()), "closing twice is harmless")
	require.NoError(t, n.Server.Close(t.Context()))
}

func TestStatus(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	eventstest.NewChain().Grow(t, n, 3)
	eventstest.NewChain().Grow(t, n, 1)
	st, err := n.Status(t.Context())
	require.NoError(t, err)
	assert.Equal(t, bus.Fsync, st.Durability)
	assert.Equal(t, []uint64{1, 4, 4, 2}, []uint64{st.First, st.Last, st.Commits, st.Tasks})
	assert.Positive(t, st.Free)
	assert.Positive(t, st.MinFree)
	assert.Positive(t, st.Used)
	assert.Zero(t, st.MaxStore, "the disk alone is the limit")
	assert.Nil(t, st.Refusing)
}

const childVariable = "ORCH_TEST_BUS_CHILD"

// TestChild is the body of the process that TestKill ends: it appends and prints what was acknowledged.
func TestChild(t *testing.T) { //nolint:paralleltest // it is a process of its own
	dir := os.Getenv(childVariable)
	if dir == "" {
		return
	}
	n := bustest.NewNode(t, bus.ServerConfig{DataDir: dir, Durability: bus.Durability(os.Getenv(childVariable + "_LEVEL"))})
	acks := make(chan string, 4096)
	for range 64 {
		go func() {
			for {
				c := eventstest.NewChain()
				for range 5 {
					r := c.Next(t, "node")
					seq, err := eventstest.Append(n, r)
					if err != nil {
						return
					}
					c.Accept(r, seq)
					acks <- fmt.Sprintf("ACK %s %d %s", c.Task, seq, events.Hash(r.Data))
				}
			}
		}()
	}
	for line := range acks {
		_, _ = fmt.Fprintln(os.Stdout, line)
	}
}

// A process that is killed loses nothing that it acknowledged, and leaves no stale lock.
func TestKill(t *testing.T) {
	t.Parallel()
	for _, level := range []bus.Durability{bus.Fsync, bus.Relaxed} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			acked := map[uint64]string{}
			for range 3 {
				killAfter(t, dir, level, 1000, acked)
			}
			n := bustest.NewNode(t, bus.ServerConfig{DataDir: dir, Durability: level})
			stored := map[uint64]string{}
			for s, err := range n.Scan(t.Context(), 0) {
				require.NoError(t, err)
				stored[s.Seq] = events.Hash(s.Data)
			}
			for seq, hash := range acked {
				require.Equal(t, hash, stored[seq], "position %d", seq)
			}
			requireIntact(t, n)
		})
	}
}

// killAfter runs a child until it has acknowledged so many appends, and kills it.
func killAfter(t *testing.T, dir string, level bus.Durability, count int, acked map[uint64]string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChild$", "-test.v")
	cmd.Env = append(os.Environ(), childVariable+"="+dir, childVariable+"_LEVEL="+string(level))
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var task, hash string
		var seq uint64
		if n, _ := fmt.Sscanf(lines.Text(), "ACK %s %d %s", &task, &seq, &hash); n != 3 {
			continue
		}
		_, used := acked[seq]
		require.False(t, used, "a position is used once")
		acked[seq] = hash
		if count--; count == 0 {
			require.NoError(t, cmd.Process.Kill())
		}
	}
	require.Error(t, cmd.Wait(), "it was killed")
	require.LessOrEqual(t, count, 0)
}

func requireIntact(t *testing.T, n *bustest.Node) {
	t.Helper()
	report, err := n.Verify(t.Context(), nil)
	require.NoError(t, err)
	text, err := json.Marshal(report.Problems)
	require.NoError(t, err)
	require.Zero(t, report.Found, "%s", text)
}

// After an unclean end the index of a stream is older than its blocks; that these are read instead is
// no reason to warn.
func TestReadingTheBlocksIsNoWarning(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	n := bustest.NewNode(t, bus.ServerConfig{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	chain := eventstest.NewChain()
	chain.Grow(t, n, 1)
	n.Stop(t)
	old := indexes(t, n.Config.DataDir)
	n.Start(t)
	chain.Grow(t, n, 1)
	n.Stop(t)
	for file, data := range old {
		require.NoError(t, os.WriteFile(file, data, 0o600))
	}
	log.Reset()
	n.Start(t)
	n.Stop(t) // nothing writes to the log any more
	for text, level := range map[string]string{
		"Recovering stream state from index errored":               "level=DEBUG",
		"Stream state outdated, last block has additional entries": "level=DEBUG",
	} {
		var levels []string
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, text) {
				levels = append(levels, strings.Fields(line)[1])
			}
		}
		assert.Equal(t, []string{level}, slices.Compact(levels), text)
	}
}

// indexes returns the indexes of all streams by their files.
func indexes(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "index.db" {
			found[path], err = os.ReadFile(path)
		}
		return err
	}))
	require.NotEmpty(t, found)
	return found
}
