package election_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus/election"
	"github.com/orch-dev/orch/fault"
)

// connect connects to a server of the test.
func connect(t *testing.T, s *server.Server) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(s))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

func startServer(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{DontListen: true, JetStream: true, StoreDir: t.TempDir(), NoSigs: true})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(10*time.Second))
	return s
}

func join(t *testing.T, nc *nats.Conn, id string) *election.Member {
	t.Helper()
	m, err := election.Join(t.Context(), election.Config{Conn: nc, Self: election.Info{ID: id, Since: time.Now()}})
	require.NoError(t, err)
	t.Cleanup(func() { m.Leave(context.WithoutCancel(t.Context())) })
	return m
}

// One of many candidates holds the lease, for longer than the TTL of a lease without renewals.
func TestOneHolds(t *testing.T) {
	t.Parallel()
	nc := connect(t, startServer(t))
	var group sync.WaitGroup
	won := make(chan *election.Lease, 8)
	a := join(t, nc, "a")
	for range cap(won) {
		group.Go(func() {
			l, err := a.TryAcquire(t.Context())
			if err == nil {
				won <- l
				return
			}
			assert.True(t, fault.Has(err, fault.Conflict), "%v", err)
		})
	}
	group.Wait()
	require.Len(t, won, 1)
	l := <-won
	assert.True(t, l.Held())
	for began := time.Now(); time.Since(began) < election.TTL+election.TTL/2; {
		_, err := a.TryAcquire(t.Context())
		require.True(t, fault.Has(err, fault.Conflict), "%v", err)
		pause(t, election.RenewEvery/2)
	}
	require.NoError(t, l.Release(t.Context()))
	assert.False(t, l.Held())
}

// pause waits.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
	case <-time.After(d):
	}
}

// A released lease is acquired at once, one whose holder has died when it has expired; each has a higher epoch.
func TestTheNextOne(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	lost := connect(t, s)
	a, b, c := join(t, connect(t, s), "a"), join(t, lost, "b"), join(t, connect(t, s), "c")
	first, err := a.Campaign(t.Context())
	require.NoError(t, err)
	require.NoError(t, first.Release(t.Context()))
	second, err := b.TryAcquire(t.Context())
	require.NoError(t, err, "at once")
	assert.Greater(t, second.Epoch(), first.Epoch())

	lost.Close() // b receives and renews nothing
	third, err := c.Campaign(t.Context())
	require.NoError(t, err)
	assert.False(t, second.Held(), "it knows by its clock")
	assert.Greater(t, third.Epoch(), second.Epoch())
	assert.True(t, third.Held())
	require.NoError(t, third.Release(t.Context()))
	_ = second.Release(t.Context()) // it reaches nobody
}

// A holder that finds another lease in place of its own has lost it.
func TestLost(t *testing.T) {
	t.Parallel()
	nc := connect(t, startServer(t))
	l, err := join(t, nc, "a").Campaign(t.Context())
	require.NoError(t, err)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	kv, err := js.KeyValue(t.Context(), election.Bucket)
	require.NoError(t, err)
	_, err = kv.Put(t.Context(), "active", []byte(`{"id":"b"}`))
	require.NoError(t, err)
	select {
	case <-l.Lost():
	case <-time.After(time.Minute):
		t.Fatal("it does not notice")
	}
	assert.False(t, l.Held())
	require.NoError(t, l.Release(t.Context()))
	entry, err := kv.Get(t.Context(), "active")
	require.NoError(t, err)
	assert.JSONEq(t, `{"id":"b"}`, string(entry.Value()), "what is another's is not released")
}

// A renewal whose acknowledgement was lost is still the holder's.
func TestUnacknowledgedRenewal(t *testing.T) {
	t.Parallel()
	nc := connect(t, startServer(t))
	m := join(t, nc, "a")
	l, err := m.Campaign(t.Context())
	require.NoError(t, err)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	kv, err := js.KeyValue(t.Context(), election.Bucket)
	require.NoError(t, err)
	entry, err := kv.Get(t.Context(), "active")
	require.NoError(t, err)
	_, err = kv.Put(t.Context(), "active", entry.Value()) // as if by the holder itself
	require.NoError(t, err)
	pause(t, election.TTL)
	assert.True(t, l.Held())
	require.NoError(t, l.Release(t.Context()))
}

// Every member sees all members, and which one is active.
func TestMembers(t *testing.T) {
	t.Parallel()
	nc := connect(t, startServer(t))
	a, b := join(t, nc, "a"), join(t, nc, "b")
	l, err := b.Campaign(t.Context())
	require.NoError(t, err)
	all, err := a.Members(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
	assert.Equal(t, "b", all[0].ID)
	assert.True(t, all[0].Active)
	assert.NotNil(t, all[0].ActiveSince)
	assert.Equal(t, "a", all[1].ID)
	assert.False(t, all[1].Active)
	require.NoError(t, l.Release(t.Context()))
	all, err = a.Members(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
	assert.False(t, all[0].Active || all[1].Active)
}

// A lease also expires while the machine sleeps, when the clock of the process stops.
func TestALeaseRunsOutAsleep(t *testing.T) {
	t.Parallel()
	nc := connect(t, startServer(t))
	var up atomic.Int64
	m, err := election.Join(t.Context(), election.Config{Conn: nc, Clock: func() time.Duration { return time.Duration(up.Load()) }})
	require.NoError(t, err)
	l, err := m.TryAcquire(t.Context())
	require.NoError(t, err)
	nc.Close() // no renewal comes
	assert.True(t, l.Held())
	up.Store(int64(election.TTL))
	assert.False(t, l.Held())
	_ = l.Release(t.Context()) // it reaches nobody
	m.Leave(t.Context())
}

// A member with other settings leaves the bucket unchanged.
func TestJoiningLowersNothing(t *testing.T) {
	t.Parallel()
	nc := connect(t, startServer(t))
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	_, err = js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: election.Bucket, Description: "as it is", LimitMarkerTTL: time.Hour})
	require.NoError(t, err)
	join(t, nc, "a")
	stream, err := js.Stream(t.Context(), "KV_"+election.Bucket)
	require.NoError(t, err)
	assert.Equal(t, "as it is", stream.CachedInfo().Config.Description)
	assert.Equal(t, time.Hour, stream.CachedInfo().Config.SubjectDeleteMarkerTTL)
}

// A candidate is notified that the lease is free: it does not wait for its next try, whether the holder has released it or has died.
func TestACandidateIsTold(t *testing.T) {
	t.Parallel()
	for name, give := range map[string]func(*nats.Conn, *election.Lease){
		"released": func(_ *nats.Conn, l *election.Lease) { assert.NoError(t, l.Release(t.Context())) },
		"gone":     func(nc *nats.Conn, _ *election.Lease) { nc.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			theirs, ours := connect(t, s), connect(t, s)
			held, err := join(t, theirs, "holder").TryAcquire(t.Context())
			require.NoError(t, err)
			defer func() { _ = held.Release(context.WithoutCancel(t.Context())) }()
			m, err := election.Join(t.Context(), election.Config{Conn: ours, Self: election.Info{ID: "candidate"}, TryEvery: time.Hour})
			require.NoError(t, err)
			defer m.Leave(context.WithoutCancel(t.Context()))
			won := make(chan *election.Lease)
			go func() {
				l, err := m.Campaign(t.Context())
				assert.NoError(t, err)
				won <- l
			}()
			require.Eventually(t, func() bool { return watchers(t, ours) == 2 }, time.Minute, time.Millisecond, "the holder watches, too")
			give(theirs, held)
			select {
			case l := <-won:
				assert.Greater(t, l.Epoch(), held.Epoch())
				require.NoError(t, l.Release(t.Context()))
			case <-time.After(time.Minute):
				t.Fatal("nobody takes the lease")
			}
		})
	}
}

// watchers returns the number of watches of the bucket.
func watchers(t *testing.T, nc *nats.Conn) int {
	t.Helper()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), "KV_"+election.Bucket)
	require.NoError(t, err)
	return stream.CachedInfo().State.Consumers
}

// A holder is notified that another node has the lease, before its next renewal.
func TestAHolderIsTold(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(jetstream.KeyValue) error{
		"taken": func(kv jetstream.KeyValue) error {
			_, err := kv.Put(t.Context(), "active", []byte(`{"id":"b"}`))
			return err
		},
		"gone": func(kv jetstream.KeyValue) error { return kv.Delete(t.Context(), "active") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nc := connect(t, startServer(t))
			m, err := election.Join(t.Context(), election.Config{Conn: nc, RenewEvery: time.Hour})
			require.NoError(t, err)
			defer m.Leave(context.WithoutCancel(t.Context()))
			l, err := m.TryAcquire(t.Context())
			require.NoError(t, err)
			require.Eventually(t, func() bool { return watchers(t, nc) == 1 }, time.Minute, time.Millisecond)
			js, err := jetstream.New(nc)
			require.NoError(t, err)
			kv, err := js.KeyValue(t.Context(), election.Bucket)
			require.NoError(t, err)
			require.NoError(t, take(kv))
			select {
			case <-l.Lost():
			case <-time.After(time.Minute):
				t.Fatal("it does not notice")
			}
			require.NoError(t, l.Release(t.Context()))
		})
	}
}

// Servers without the required features are refused.
func TestOldServersAreRefused(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2.11.0", "2.12.3-RC.1", "v2.14.0", "3.0.0", "", "dev"} {
		require.NoError(t, election.CheckServer(version), version)
	}
	for _, version := range []string{"1.4.1", "2.9.25", "2.10.29"} {
		err := election.CheckServer(version)
		require.True(t, fault.Has(err, fault.ValidationError), version)
		assert.Contains(t, err.Error(), version)
	}
}
