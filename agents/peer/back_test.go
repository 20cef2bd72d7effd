package peer_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/agents/peer"
	"github.com/orch-dev/orch/work"
)

// sharedLog is a log that is read while it is written.
type sharedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *sharedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *sharedLog) count(word string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), word)
}

// After the node was unavailable, the agent logs once that it is available again.
func TestPeerSaysThatItsNodeIsBack(t *testing.T) {
	t.Parallel()
	var up atomic.Bool
	var log sharedLog
	asked := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if r.URL.Path == agents.TasksPath {
			select {
			case asked <- struct{}{}:
			default:
			}
		}
		_, _ = w.Write([]byte(`{}`))
	}))
	t.Cleanup(server.Close)
	p, err := peer.New(peer.Config{
		Credential: peer.Credential{URL: server.URL, Secret: "s"}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Handler: func(context.Context, agents.Assignment, func(work.Progress)) agents.Report { return agents.Report{} },
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	require.Eventually(t, func() bool {
		return log.count("agent_claim_failed") > 0 && log.count("agent_heartbeat_failed") > 0
	}, time.Minute, time.Millisecond)
	assert.Zero(t, log.count("agent_node_back"))
	up.Store(true)
	require.Eventually(t, func() bool { return log.count("level=WARN msg=agent_node_back url=") > 0 }, time.Minute, time.Millisecond)
	for range 3 { // it goes on, and says no more
		<-asked
	}
	cancel()
	require.NoError(t, <-ended)
	assert.LessOrEqual(t, log.count("agent_node_back"), 2, "one request may have failed while the other was answered")
}
