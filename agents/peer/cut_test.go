package peer_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/agents/peer"
	"github.com/orch-dev/orch/work"
)

// A drain lasts until the calls end, or until it is cut: then running calls are released. Before a stop, cutting has no
// effect.
func TestDrainIsCut(t *testing.T) {
	t.Parallel()
	b := &recordingNode{t: t, give: call(time.Now().Add(time.Hour), time.Hour), instances: map[string]bool{}, named: make(chan struct{}, 10)}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	begun, cut := make(chan struct{}), make(chan struct{})
	p, err := peer.New(peer.Config{
		Credential: peer.Credential{URL: server.URL, Secret: "s"}, Drain: time.Hour, Cut: cut,
		Handler: func(ctx context.Context, _ agents.Assignment, _ func(work.Progress)) agents.Report {
			close(begun)
			<-ctx.Done()
			return agents.Report{}
		},
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	heard(t, begun, "the call has not begun")
	stop()
	select {
	case err := <-ended:
		t.Fatalf("it has not waited for its call: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	assert.Empty(t, b.said())
	close(cut)
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		t.Fatal("it still waits")
	}
	require.Len(t, b.said(), 1)
	assert.True(t, b.said()[0].Release)
	assert.Equal(t, 1, b.left)
}
