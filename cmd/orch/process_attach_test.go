package main

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/rpc"
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

// A command at the node of another command goes on with a node of its own when that one has ended.
func TestCommandOutlivesNodeOfAnother(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ other, own mode }{
		"reads beside one that reads":     {idle, idle},
		"reads beside one that works":     {working, idle},
		"works beside one that works":     {working, working},
		"detaches from one that works":    {working, detached},
		"detaches from one that detached": {detached, detached},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := reconnectConfig(t)
			p := newProcessNodes(io.Discard)
			other, err := p.Open(t.Context(), cfg, c.other)
			require.NoError(t, err)
			cn := &connector{env: &env{now: time.Now, cfg: cfg}, nodes: p}
			s, err := cn.open(t.Context(), c.own)
			require.NoError(t, err)
			require.False(t, s.Embedded())
			require.NoError(t, other.Close(t.Context()))
			_, err = s.List(t.Context(), api.ListRequest{})
			require.NoError(t, err)
			assert.True(t, s.Embedded())
			require.NoError(t, s.Close(t.Context()))
		})
	}
}

// Ready does not wait for a node that has ended.
func TestReadyOfAnEndedNode(t *testing.T) {
	t.Parallel()
	cfg := reconnectConfig(t)
	p := processNodes{logs: &bytes.Buffer{}}
	passing, err := p.Open(t.Context(), cfg, idle)
	require.NoError(t, err)
	s, err := p.Dial(t.Context(), cfg)
	require.NoError(t, err)
	require.NoError(t, passing.Close(t.Context()))
	client, ok := s.(remote).client.(*rpc.Remote)
	require.True(t, ok)
	err = client.Ready(t.Context())
	assert.True(t, fault.Has(err, fault.Unavailable), err)
	require.ErrorContains(t, err, "no node runs on the data directory")
	require.NoError(t, s.Close(t.Context()))
}

// passingNode is a session at a node that may have ended.
type passingNode struct {
	session

	ended bool
}

func (passingNode) Embedded() bool              { return false }
func (passingNode) Close(context.Context) error { return nil }

func (n passingNode) List(context.Context, api.ListRequest) (api.ListReply, error) {
	if n.ended {
		return api.ListReply{}, fault.New(fault.Unavailable, "no node serves it")
	}
	return api.ListReply{}, nil
}

// Beside a loop of short commands, the node to which a session goes on may have ended as well. A request is repeated some times.
func TestRequestIsRepeatedAtLaterNodes(t *testing.T) {
	t.Parallel()
	for ended, served := range map[int]bool{1: true, 3: true, renewals: true, renewals + 1: false} {
		opened := 1
		s := newReconnectingSession(passingNode{ended: true}, func() (session, error) {
			opened++
			return passingNode{ended: opened <= ended}, nil
		}, time.Now)
		_, err := s.List(t.Context(), api.ListRequest{})
		if served {
			require.NoError(t, err, "%d nodes end", ended)
			assert.Equal(t, ended+1, opened)
			continue
		}
		assert.True(t, fault.Has(err, fault.Unavailable), "%d nodes end: %v", ended, err)
		assert.Equal(t, renewals+1, opened)
	}
}
