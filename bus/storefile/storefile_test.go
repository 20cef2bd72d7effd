package storefile_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus/storefile"
)

// few messages make a small block.
const few = 10

// fill makes a real server write a stream of n messages, some deleted, and returns its store directory.
func fill(t *testing.T, n int, compression jetstream.StoreCompression, body []byte) string {
	t.Helper()
	dir := t.TempDir()
	ns, err := server.NewServer(&server.Options{JetStream: true, StoreDir: dir, Port: -1, NoSigs: true, NoLog: true})
	require.NoError(t, err)
	ns.Start()
	defer func() { ns.Shutdown(); ns.WaitForShutdown() }()
	require.True(t, ns.ReadyForConnections(10*time.Second))
	nc, err := nats.Connect(ns.ClientURL())
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "S", Subjects: []string{"s.>"}, Storage: jetstream.FileStorage, Compression: compression,
	})
	require.NoError(t, err)
	for i := range n {
		m := &nats.Msg{Subject: "s.x", Data: body}
		if i%2 == 0 {
			m.Header = nats.Header{"K": {"v"}}
		}
		_, err := js.PublishMsg(t.Context(), m)
		require.NoError(t, err)
	}
	require.NoError(t, s.DeleteMsg(t.Context(), 2))
	if n > few { // an erased message has random content, so that its subject cannot be separated from its body
		require.NoError(t, s.SecureDeleteMsg(t.Context(), 3))
	}
	require.NoError(t, s.DeleteMsg(t.Context(), uint64(n)))
	return dir
}

func check(t *testing.T, dir string, good storefile.Believable) storefile.Stream {
	t.Helper()
	streams, err := storefile.Check(t.Context(), storefile.Dir(dir), good)
	require.NoError(t, err)
	require.Len(t, streams, 1)
	return streams[0]
}

func anything(string, storefile.Record) bool { return true }

func TestWholeStore(t *testing.T) {
	t.Parallel()
	for name, compression := range map[string]jetstream.StoreCompression{"plain": jetstream.NoCompression, "s2": jetstream.S2Compression} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := fill(t, 40, compression, make([]byte, 512<<10))
			messages := 0
			s := check(t, dir, func(stream string, r storefile.Record) bool {
				messages++
				return stream == "S" && r.Subject == "s.x" && len(r.Message) == 512<<10
			})
			assert.Empty(t, s.Damage)
			assert.Equal(t, uint64(40), s.Last, "the deletion of the last message counts")
			assert.GreaterOrEqual(t, messages, 37)
			blocks, err := filepath.Glob(filepath.Join(storefile.Dir(dir), "S", "msgs", "*.blk"))
			require.NoError(t, err)
			assert.Greater(t, len(blocks), 1)
		})
	}
}

// Every single bit of a block matters.
func TestEveryBit(t *testing.T) {
	t.Parallel()
	dir := fill(t, 6, jetstream.NoCompression, []byte(`{"a":"b"}`))
	path := filepath.Join(storefile.Dir(dir), "S", "msgs", "1.blk")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	good := func(_ string, r storefile.Record) bool { return r.Subject == "s.x" && len(r.Message) == 9 }
	require.Empty(t, check(t, dir, good).Damage)
	for at := range data {
		for bit := range 8 {
			data[at] ^= 1 << bit
			require.NoError(t, os.WriteFile(path, data, 0o600))
			assert.NotEmpty(t, check(t, dir, good).Damage, "bit %d of byte %d", bit, at)
			data[at] ^= 1 << bit
		}
	}
}

func TestDamageIsPlaced(t *testing.T) {
	t.Parallel()
	dir := fill(t, 9, jetstream.NoCompression, []byte("some body"))
	path := filepath.Join(storefile.Dir(dir), "S", "msgs", "1.blk")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	whole := check(t, dir, anything)
	require.Empty(t, whole.Damage)

	data[len(data)/2] ^= 4
	require.NoError(t, os.WriteFile(path, data, 0o600))
	s := check(t, dir, anything)
	require.Len(t, s.Damage, 1)
	d := s.Damage[0]
	assert.Equal(t, "msgs/1.blk", d.File)
	assert.Less(t, d.Offset, len(data)/2)
	assert.NotZero(t, d.After)
	assert.False(t, d.Tail, "what follows is whole")
	assert.Equal(t, whole.Last, s.Last)

	require.NoError(t, os.Truncate(path, int64(len(data)-1)))
	data[len(data)/2] ^= 4
	require.NoError(t, os.WriteFile(path, data[:len(data)-1], 0o600))
	s = check(t, dir, anything)
	require.Len(t, s.Damage, 1)
	assert.True(t, s.Damage[0].Tail, "it looks like a write that was cut short")
}

func TestDescription(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(dir string) error{
		"no description": func(dir string) error { return os.Remove(filepath.Join(dir, "meta.inf")) },
		"no sum":         func(dir string) error { return os.Remove(filepath.Join(dir, "meta.sum")) },
		"other sum":      func(dir string) error { return os.WriteFile(filepath.Join(dir, "meta.sum"), []byte("00"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := fill(t, 4, jetstream.NoCompression, []byte("x"))
			require.NoError(t, damage(filepath.Join(storefile.Dir(dir), "S")))
			s := check(t, dir, anything)
			require.Len(t, s.Damage, 1)
			assert.True(t, s.Damage[0].Meta)
		})
	}
}

func TestNoStore(t *testing.T) {
	t.Parallel()
	streams, err := storefile.Check(t.Context(), filepath.Join(t.TempDir(), "none"), anything)
	require.NoError(t, err)
	assert.Empty(t, streams)
	dir := fill(t, 4, jetstream.NoCompression, []byte("x"))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err = storefile.Check(ctx, storefile.Dir(dir), anything)
	assert.ErrorIs(t, err, context.Canceled)
}
