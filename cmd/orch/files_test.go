package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
)

// A read from a pipe to which nobody writes ends with its context.
func TestReadFromAPipeIsInterrupted(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	ctx, stop := context.WithCancel(t.Context())
	begun, ended := make(chan struct{}), make(chan struct{})
	go func() { <-begun; stop() }()
	_, err := interruptible(ctx, func() ([]byte, error) {
		defer close(ended)
		close(begun)
		return os.ReadFile(pipe) // blocks until somebody opens the other end
	})
	assert.True(t, fault.Has(err, fault.Cancelled), "%v", err)
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	<-ended
	text, err := interruptible(t.Context(), func() (string, error) { return "read", io.ErrUnexpectedEOF })
	assert.Equal(t, "read", text)
	assert.Equal(t, io.ErrUnexpectedEOF, err)
}
