package load_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/memory"
)

// unread opens a stream at /rpc, reads the answer to its call, and nothing more.
func unread(t *testing.T, host string, n int) error {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", host)
	if err != nil {
		return err
	}
	t.Cleanup(func() { _ = conn.Close() })
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(4 << 10) // else it takes some more to fill
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"firebase.subscribe","params":{"subscriptionId":"stuck%d","database":"realtime","path":"large"}}`, n)
	if _, err := fmt.Fprintf(conn, "POST /rpc HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer load\r\nAccept: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", host, len(body), body); err != nil {
		return err
	}
	for lines := bufio.NewReaderSize(conn, 512); ; {
		line, err := lines.ReadString('\n')
		if err != nil || strings.HasPrefix(line, "data: ") && strings.Contains(line, `"success":true`) {
			return err
		}
	}
}

// S3-045: the buffers of streams that do not read share one memory limit, and each event is stored once for all
// streams. A session that reads is not delayed.
func TestStuckStreams(t *testing.T) { //nolint:paralleltest // it measures
	streams := 300
	if os.Getenv(envFull) != "" {
		streams = 1990
	}
	realtime := memory.NewRealtime(memory.Config{})
	face := startFace(t, func(cfg *node.Config) { cfg.Realtime = realtime })
	at, err := url.Parse(face)
	require.NoError(t, err)
	quick := open(t, face)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	arrived := make(chan arrival, 1000)
	stop := quick.listen(ctx, arrived)
	defer stop()
	quick.subscribe(1, "quick")
	var group sync.WaitGroup
	const callers = 8
	for caller := range callers {
		group.Go(func() {
			for n := caller; n < streams; n += callers {
				if err := unread(t, at.Host, n); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()

	set := func(path string, data any) {
		_, err := realtime.Write(t.Context(), path, firebase.Write{Operation: firebase.Set, Data: data})
		require.NoError(t, err)
	}
	const mib, size = 1 << 20, 900_000
	before, most := heap(), 0
	set("large", strings.Repeat("x", size))
	require.Eventually(t, func() bool { most = max(most, heap()-before); return most > firebase.MaxLarge*8/10 }, 2*time.Minute, 10*time.Millisecond)
	for n := range 20 {
		set("quick/0/k"+strconv.Itoa(n), float64(n))
		select {
		case <-arrived:
		case <-time.After(time.Minute):
			require.FailNow(t, "another session waits for those that are stuck")
		}
		most = max(most, heap()-before)
	}
	t.Logf("%d MiB of events for %d streams that do not read: the heap grew by %d MiB", streams*size/mib, streams, most/mib)
	assert.Less(t, most, firebase.MaxLarge*3/2)
}
