package node_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/tools/firebase"
)

// A write of a worker whose node is lost meanwhile is in doubt, and is not repeated. A request that no node has received waits
// for a node, and so does a read whose answer was lost.
func TestWriteElsewhereIsInDoubt(t *testing.T) {
	t.Parallel()
	s, err := bus.StartServer(t.Context(), bus.ServerConfig{DataDir: t.TempDir(), Durability: bus.Relaxed})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close(context.Background())) })
	connect := func() *bus.Conn {
		c, err := s.Connect(t.Context())
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c
	}
	silent, reads := make(chan string, 10), make(chan string, 10)
	serve := func(answered bool) *rpc.Endpoint {
		method := func(name string, out []byte) rpc.Method {
			return func(ctx context.Context, _ []byte) ([]byte, error) {
				if answered {
					reads <- name
					return out, nil
				}
				silent <- name
				<-ctx.Done()
				return nil, fault.From(ctx.Err())
			}
		}
		end, err := rpc.Serve(connect(), bus.DatabasePrefix, map[string]rpc.Method{
			"read": method("read", []byte(`{"Exists":true,"Data":1}`)), "write": method("write", []byte(`{"Key":"k"}`)),
		}, rpc.EndpointConfig{})
		require.NoError(t, err)
		return end
	}
	closeNow := func(e *rpc.Endpoint) {
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer stop()
		_ = e.Close(ctx) // its requests have no end
	}

	worker, err := bus.Dial(t.Context(), bus.DialConfig{DataDir: s.DataDir(), User: bus.OperatorUser})
	require.NoError(t, err)
	t.Cleanup(worker.Close)
	d := node.ElsewhereDatabase(worker)
	before := serve(false)
	type end struct {
		written firebase.Written
		err     error
	}
	ends := make(chan end, 1)
	write := func() {
		written, err := d.Write(t.Context(), "a", firebase.Write{Operation: firebase.Push, Data: 1})
		ends <- end{written, err}
	}
	go write()
	require.Equal(t, "write", <-silent)
	worker.NATS().ForceReconnect() //nolint:errcheck // the connection is there
	e := <-ends
	assert.True(t, fault.Has(e.err, fault.InDoubt), "%v", e.err)

	closeNow(before)
	go write() // nobody is there, or not yet
	after := serve(true)
	e = <-ends
	require.NoError(t, e.err)
	assert.Equal(t, "k", e.written.Key)
	assert.Equal(t, "write", <-reads)
	got, err := d.Read(t.Context(), "a", firebase.Query{})
	require.NoError(t, err)
	assert.True(t, got.Exists)
	closeNow(after)
}
