package bus_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
)

// What is written arrives whole and in order, also what is still in the buffer when the connection is closed.
func TestBufferedPipe(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	p := bus.NewBufferedPipe(near)
	read := make(chan []byte, 1)
	go func() {
		all, _ := io.ReadAll(far)
		read <- all
	}()
	var written bytes.Buffer
	for i := range 2_000 {
		part := bytes.Repeat([]byte{byte(i)}, 1+i*37%4096)
		written.Write(part)
		n, err := p.Write(part)
		require.NoError(t, err)
		require.Equal(t, len(part), n)
	}
	require.NoError(t, p.Close())
	assert.True(t, bytes.Equal(written.Bytes(), <-read))
	_, err := p.Write([]byte("late"))
	require.ErrorIs(t, err, net.ErrClosed)
	require.NoError(t, p.Close(), "again")
}

// While nobody reads, writes succeed until the buffer is full. Close ends a write that waits, and does not wait for ever itself.
func TestBufferedPipeNobodyReads(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	p := bus.NewBufferedPipe(near)
	for range 2 {
		_, err := p.Write(make([]byte, 30_000))
		require.NoError(t, err)
	}
	ended := make(chan error, 1)
	var group sync.WaitGroup
	group.Go(func() {
		for {
			if _, err := p.Write(make([]byte, 10_000)); err != nil {
				ended <- err
				return
			}
		}
	})
	began := time.Now()
	require.NoError(t, p.Close())
	assert.Less(t, time.Since(began), 10*time.Second)
	require.Error(t, <-ended)
	group.Wait()
	require.NoError(t, far.Close())
}

// A write after the other end was closed fails.
func TestBufferedPipeClosedByTheServer(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	p := bus.NewBufferedPipe(near)
	require.NoError(t, far.Close())
	require.Eventually(t, func() bool {
		_, err := p.Write([]byte("x"))
		return err != nil
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, p.Close())
}
