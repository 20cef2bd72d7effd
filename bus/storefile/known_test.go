package storefile_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus/storefile"
)

// Known blocks are not read again until their files change, and count like those that are read.
func TestKnownBlocks(t *testing.T) {
	t.Parallel()
	dir := fill(t, 40, jetstream.NoCompression, make([]byte, 512<<10))
	assert.Empty(t, check(t, dir, anything).Blocks, "they were written just now")
	<-time.After(1100 * time.Millisecond)
	all := check(t, dir, anything)
	require.NotEmpty(t, all.Blocks)
	known := storefile.Known{"S": {}}
	for _, b := range all.Blocks {
		known["S"][b.Number] = b
	}
	again := checkNew(t, dir, known)
	assert.Equal(t, len(all.Blocks), again.Trusted)
	assert.Equal(t, known, storefile.TrustedBlocks([]storefile.Stream{again}, known))
	again.Trusted = 0
	assert.Equal(t, all, again)

	one := filepath.Join(storefile.Dir(dir), "S", "msgs", "1.blk")
	info, err := os.Stat(one)
	require.NoError(t, err)
	data, err := os.ReadFile(one)
	require.NoError(t, err)
	data[100] ^= 1
	require.NoError(t, os.WriteFile(one, data, 0o600))
	require.NoError(t, os.Chtimes(one, time.Time{}, info.ModTime()))
	again = checkNew(t, dir, known)
	assert.Equal(t, len(all.Blocks)-1, again.Trusted)
	assert.NotEmpty(t, again.Damage)
}

func checkNew(t *testing.T, dir string, known storefile.Known) storefile.Stream {
	t.Helper()
	streams, err := storefile.CheckNew(t.Context(), storefile.Dir(dir), anything, known)
	require.NoError(t, err)
	require.Len(t, streams, 1)
	return streams[0]
}

// Behind a start, known blocks are read: damage in a file that nobody has changed is reported, any other is not.
func TestCheckTrusted(t *testing.T) {
	t.Parallel()
	dir := fill(t, few, jetstream.NoCompression, []byte("x"))
	<-time.After(1100 * time.Millisecond)
	one := check(t, dir, anything).Blocks
	require.Len(t, one, 1)
	known := storefile.Known{"S": {one[0].Number: one[0]}}
	damage := func(good storefile.Believable) (found int) {
		err := storefile.CheckTrusted(storefile.Dir(dir), known, good, func(string, storefile.Damage) { found++ }, func() error { return nil })
		require.NoError(t, err)
		return found
	}
	nothing := func(string, storefile.Record) bool { return false }
	assert.Zero(t, damage(anything))
	assert.NotZero(t, damage(nothing), "as if the disk had changed it")
	require.NoError(t, os.Chtimes(filepath.Join(storefile.Dir(dir), "S", "msgs", "1.blk"), time.Time{}, time.Now()))
	assert.Zero(t, damage(nothing), "the server has written to it")
}
