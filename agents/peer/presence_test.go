package peer_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/agents/peer"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

// recordingNode is a node with one call that records the requests.
type recordingNode struct {
	t    *testing.T
	give agents.Assignment
	// mute answers no heartbeat that names a call. taken refuses all heartbeats, because another process acts for the
	// agent.
	mute, taken bool

	mu        sync.Mutex
	given     bool
	instances map[string]bool
	left      int
	reports   []agents.Report
	// named has a word for each heartbeat with a call.
	named chan struct{}
}

// ServeHTTP implements http.Handler.
func (b *recordingNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var answer any = struct{}{}
	switch r.URL.Path {
	case agents.TasksPath:
		answer = b.claim(r)
	case agents.StatusPath:
		if !b.beat(w, r) {
			return
		}
	case agents.ResultsPath:
		var said agents.Report
		assert.NoError(b.t, json.NewDecoder(r.Body).Decode(&said))
		b.mu.Lock()
		b.reports = append(b.reports, said)
		b.mu.Unlock()
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (b *recordingNode) claim(r *http.Request) agents.Work {
	var said agents.Claim
	if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
		b.t.Error(err)
	}
	b.mu.Lock()
	b.instances[said.Instance] = true
	given := b.given
	b.given = true
	b.mu.Unlock()
	if given {
		gone(r)
		return agents.Work{}
	}
	return agents.Work{Calls: []agents.Assignment{b.give}}
}

func (b *recordingNode) beat(w http.ResponseWriter, r *http.Request) bool {
	var said agents.Heartbeat
	if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
		b.t.Error(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.instances[said.Instance] = true
	if said.Leaving {
		b.left++
	}
	if len(said.Calls) > 0 {
		select {
		case b.named <- struct{}{}:
		default:
		}
	}
	switch {
	case b.taken:
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(fault.New(fault.Conflict, "another process is the agent"))
		return false
	case b.mute && len(said.Calls) > 0:
		panic(http.ErrAbortHandler)
	}
	return true
}

// run runs a peer and returns a function that stops it and returns its error.
func (b *recordingNode) run(handler peer.Handler) (stop func() error) {
	b.t.Helper()
	b.instances, b.named = map[string]bool{}, make(chan struct{}, 10)
	server := httptest.NewServer(b)
	b.t.Cleanup(server.Close)
	p, err := peer.New(peer.Config{Credential: peer.Credential{URL: server.URL, Secret: "s"}, Handler: handler})
	require.NoError(b.t, err)
	ctx, cancel := context.WithCancel(b.t.Context())
	b.t.Cleanup(cancel)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

func (b *recordingNode) said() []agents.Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reports
}

// A process uses one instance name, reports its exit, and sends null as the result of an empty report.
func TestPeerIsOneProcessAndSaysGoodbye(t *testing.T) {
	t.Parallel()
	b := &recordingNode{t: t, give: call(time.Now().Add(time.Hour), time.Hour)}
	stop := b.run(func(context.Context, agents.Assignment, func(work.Progress)) agents.Report { return agents.Report{} })
	require.Eventually(t, func() bool { return len(b.said()) == 1 }, time.Minute, time.Millisecond)
	require.NoError(t, stop())
	assert.JSONEq(t, `null`, string(b.said()[0].Result))
	assert.Equal(t, 1, b.left)
	require.Len(t, b.instances, 1)
	for name := range b.instances {
		assert.NotEmpty(t, name)
		assert.LessOrEqual(t, len(name), 64)
	}
}

// A call starts only after the node has confirmed that this process has it: until then it may also be delivered to the
// next process. A call that has not started is not in doubt when the agent stops.
func TestCallBeginsWhenItIsNamed(t *testing.T) {
	t.Parallel()
	b := &recordingNode{t: t, give: call(time.Now().Add(time.Hour), time.Hour), mute: true}
	stop := b.run(func(context.Context, agents.Assignment, func(work.Progress)) agents.Report {
		t.Error("the call has begun")
		return agents.Report{}
	})
	heard(t, b.named, "the call is not named")
	heard(t, b.named, "the call is not named again")
	require.NoError(t, stop())
	require.Len(t, b.said(), 1)
	assert.NotNil(t, b.said()[0].HandTo)
	assert.False(t, b.said()[0].Release)
}

// A process that was replaced by another one ends, and does not report the exit of the agent.
func TestPeerThatIsFollowedEnds(t *testing.T) {
	t.Parallel()
	b := &recordingNode{t: t, give: call(time.Now().Add(time.Hour), time.Hour), taken: true}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	b.instances, b.named = map[string]bool{}, make(chan struct{}, 10)
	p, err := peer.New(peer.Config{Credential: peer.Credential{URL: server.URL, Secret: "s"}, Handler: func(context.Context, agents.Assignment, func(work.Progress)) agents.Report {
		t.Error("the call has begun")
		return agents.Report{}
	}})
	require.NoError(t, err)
	assert.Equal(t, fault.Conflict, fault.CodeOf(p.Run(t.Context())))
	assert.Zero(t, b.left)
}

// An agent can exit even if the node does not answer.
func TestGoodbyeToANodeThatHangs(t *testing.T) {
	t.Parallel()
	came := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		came <- struct{}{}
		gone(r)
	}))
	t.Cleanup(server.Close)
	p, err := peer.New(peer.Config{Credential: peer.Credential{URL: server.URL, Secret: "s"}, Handler: func(context.Context, agents.Assignment, func(work.Progress)) agents.Report {
		return agents.Report{}
	}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	heard(t, came, "nothing was asked")
	cancel()
	began := time.Now()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
	assert.Less(t, time.Since(began), 20*time.Second, "it waits for 2 s, not as long as for other answers")
}
