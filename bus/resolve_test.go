package bus_test

import (
	"context"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/eventstest"
)

// remoteStore opens the store of a server over a proxy, as with an external server.
func remoteStore(t *testing.T, level bus.Durability) (*bus.Store, *bus.Server, *bustest.Proxy) {
	t.Helper()
	dir := t.TempDir()
	server, err := bus.StartServer(t.Context(), bus.ServerConfig{DataDir: dir, Durability: level})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close(t.Context())) })
	p := bustest.NewProxy(t, server.Addr())
	appender := bus.Appender(server)
	appender.URL = p.Address()
	c, err := bus.Dial(t.Context(), appender)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	s, err := c.OpenStore(t.Context(), bus.StoreConfig{Durability: level})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close(context.WithoutCancel(t.Context()))) })
	return s, server, p
}

// A read whose answer is lost with the connection is sent again at once.
func TestLostReads(t *testing.T) {
	t.Parallel()
	s, _, p := remoteStore(t, bus.Relaxed)
	c := eventstest.NewChain()
	c.Grow(t, s, 3)
	reads := map[string]func() error{
		"a history": func() error { return firstError(s.Read(t.Context(), c.Task, 1)) },
		"the log":   func() error { return firstError(s.Scan(t.Context(), 1)) },
		"the heads": func() error { return firstError(s.HeadsAfter(t.Context(), 0)) },
	}
	for name, read := range reads {
		dropped := p.Dropped.Load()
		p.Deaf.Store(true)
		began, done := time.Now(), make(chan error, 1)
		go func() { done <- read() }()
		require.Eventually(t, func() bool { return p.Dropped.Load() > dropped }, 10*time.Second, time.Millisecond, name)
		p.Deaf.Store(false)
		p.Cut()
		require.NoError(t, <-done, name)
		assert.Less(t, time.Since(began), 15*time.Second, "%s: it waited for the lost answer", name)
	}
}

// firstError returns the first error of a sequence.
func firstError[T any](seq iter.Seq2[T, error]) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

// The server stores the commits, its answers are lost, the connection breaks: every caller still gets
// the right result, and no commit is in the log twice.
func TestLostAcknowledgements(t *testing.T) {
	t.Parallel()
	for _, level := range []bus.Durability{bus.Fsync, bus.Relaxed} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			s, _, p := remoteStore(t, level)
			const tasks = 300
			chains := make([]*eventstest.Chain, tasks)
			records := make([]events.Record, tasks)
			seqs, errs := make([]uint64, tasks), make([]error, tasks)
			var answered sync.WaitGroup
			answered.Add(tasks)
			p.Deaf.Store(true)
			for i := range chains {
				chains[i] = eventstest.NewChain()
				records[i] = chains[i].Next(t, "node")
				s.Append(records[i], func(seq uint64, err error) {
					seqs[i], errs[i] = seq, err
					answered.Done()
				})
			}
			p.Deaf.Store(false)
			p.Cut()
			answered.Wait()
			stored := map[uint64]events.Stored{}
			for c, err := range s.Scan(t.Context(), 0) {
				require.NoError(t, err)
				stored[c.Seq] = c
			}
			for i := range chains {
				if errs[i] == nil {
					assert.Equal(t, records[i].Data, stored[seqs[i]].Data)
					delete(stored, seqs[i])
				}
			}
			assert.Empty(t, stored, "what was refused is not in the log, and nothing is there twice")
		})
	}
}

// The answer is lost without an error: after a while the log is read.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	s, server, p := remoteStore(t, bus.Relaxed)
	c := eventstest.NewChain()
	c.Grow(t, s, 1)
	r := c.Next(t, "node")
	p.Deaf.Store(true)
	var seq uint64
	answer := make(chan error, 1)
	s.Append(r, func(n uint64, err error) {
		seq = n
		answer <- err
	})
	direct, err := server.Connect(t.Context())
	require.NoError(t, err)
	t.Cleanup(direct.Close)
	witness, err := direct.OpenStore(t.Context(), bus.StoreConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, witness.Close(context.WithoutCancel(t.Context()))) })
	require.Eventually(t, func() bool {
		return len(eventstest.History(t, witness, c.Task, 1)) == 2
	}, time.Minute, time.Millisecond)
	p.Deaf.Store(false)
	require.NoError(t, <-answer)
	c.Accept(r, seq)
	c.Grow(t, s, 1)
	assert.Len(t, eventstest.History(t, s, c.Task, 1), 3)
}
