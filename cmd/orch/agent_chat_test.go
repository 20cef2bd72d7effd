package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Ctrl-C leaves a chat at once, also while nobody types.
func TestChatReadsUntilInterrupted(t *testing.T) {
	t.Parallel()
	c := &agentCommands{connector: &connector{env: &env{}}}
	ctx, cancel := context.WithCancel(t.Context())
	line, err := c.readMessage(ctx, bufio.NewReader(strings.NewReader("  hello \n")))
	require.NoError(t, err)
	assert.Equal(t, "hello", line)
	silent, typed := io.Pipe()
	t.Cleanup(func() { assert.NoError(t, typed.Close()) })
	cancel()
	_, err = c.readMessage(ctx, bufio.NewReader(silent))
	require.ErrorIs(t, err, context.Canceled)
}
