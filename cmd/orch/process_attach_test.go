package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
)

// A command that executes calls does not rely on the node of one that does not: it waits until that one has ended, and is the node itself.
func TestAttachLeavesPassingNodes(t *testing.T) {
	t.Parallel()
	cfg := reconnectConfig(t)
	p := processNodes{logs: &bytes.Buffer{}}
	passing, err := p.Open(t.Context(), cfg, idle)
	require.NoError(t, err)
	require.True(t, passing.Embedded())
	reading, err := p.Attach(t.Context(), cfg, idle)
	require.NoError(t, err)
	require.NoError(t, reading.Close(t.Context()))
	_, err = p.Attach(t.Context(), cfg, working)
	assert.True(t, fault.Has(err, fault.Unavailable), err)
	opened := make(chan session)
	go func() {
		s, err := p.Open(t.Context(), cfg, working)
		assert.NoError(t, err)
		opened <- s
	}()
	require.NoError(t, passing.Close(t.Context()))
	s := <-opened
	require.NotNil(t, s)
	assert.True(t, s.Embedded())
	beside, err := p.Attach(t.Context(), cfg, working)
	require.NoError(t, err)
	assert.False(t, beside.Embedded())
	require.NoError(t, beside.Close(t.Context()))
	require.NoError(t, s.Close(t.Context()))
}
