package peer_test

import (
	"context"
	"encoding/json"
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
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

// fakeNode is a node with one call; its reports are sent to reports.
type fakeNode struct {
	t       *testing.T
	give    agents.Assignment
	reports chan agents.Report
	// renew answers a renewal. refuse returns why a request is refused, or nil.
	renew  func(in agents.Renewal) any
	refuse func(r *http.Request, said agents.Report) error

	mu    sync.Mutex
	given bool
}

func (d *fakeNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var answer any = struct{}{}
	var said agents.Report
	switch r.URL.Path {
	case "/agents/tasks":
		answer = d.claim(r)
	case "/agents/credential":
		var in agents.Renewal
		assert.NoError(d.t, json.NewDecoder(r.Body).Decode(&in))
		answer = d.renew(in)
	case "/agents/results":
		assert.NoError(d.t, json.NewDecoder(r.Body).Decode(&said))
	}
	if d.refuse != nil {
		if err := d.refuse(r, said); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(fault.From(err))
			return
		}
	}
	if r.URL.Path == "/agents/results" {
		d.reports <- said
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// claim returns the call the first time, and nothing afterwards.
func (d *fakeNode) claim(r *http.Request) agents.Work {
	d.mu.Lock()
	given := d.given
	d.given = true
	d.mu.Unlock()
	if given {
		gone(r)
		return agents.Work{}
	}
	return agents.Work{Calls: []agents.Assignment{d.give}}
}

// reported runs a peer until a report arrives, and returns it.
func (d *fakeNode) reported(cred peer.Credential, handler peer.Handler) agents.Report {
	d.t.Helper()
	d.reports = make(chan agents.Report, 1)
	server := httptest.NewServer(d)
	defer server.Close()
	cred.URL = server.URL
	p, err := peer.New(peer.Config{Credential: cred, Handler: handler, Save: func(peer.Credential) error { return nil }})
	require.NoError(d.t, err)
	ctx, stop := context.WithCancel(d.t.Context())
	var group sync.WaitGroup
	group.Go(func() { assert.NoError(d.t, p.Run(ctx)) })
	defer group.Wait()
	defer stop()
	select {
	case r := <-d.reports:
		return r
	case <-time.After(time.Minute):
		d.t.Error("no report has come")
		return agents.Report{}
	}
}

func call(deadline time.Time, left time.Duration) agents.Assignment {
	return agents.Assignment{
		Ref: work.Ref{Task: "TASK_01JD0000000000000000000000", Step: "a", Attempt: 1}, Deadline: deadline, Remaining: left, Lease: time.Minute,
	}
}

// A report that is refused because the credential is just being replaced is sent again with the new one.
func TestReportDuringRenewal(t *testing.T) {
	t.Parallel()
	ended, refused := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var digest atomic.Value
	d := &fakeNode{t: t, give: call(time.Now().Add(time.Hour), 0)}
	d.renew = func(in agents.Renewal) any {
		digest.Store(in.Digest)
		close(ended)
		<-refused
		return map[string]any{"expires_at": time.Now().Add(time.Hour)}
	}
	d.refuse = func(r *http.Request, _ agents.Report) error {
		secret := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if r.URL.Path != "/agents/results" || agents.DigestOf(secret) == digest.Load() {
			return nil
		}
		once.Do(func() { close(refused) })
		return fault.New(fault.Unauthorized, "the credential was replaced")
	}
	now := time.Now()
	r := d.reported(peer.Credential{Secret: "old", IssuedAt: now.Add(-9 * time.Hour), ExpiresAt: now.Add(time.Hour)},
		func(context.Context, agents.Assignment, func(work.Progress)) agents.Report {
			<-ended
			return agents.Report{Result: json.RawMessage(`1`)}
		})
	assert.Empty(t, r.Error)
	assert.JSONEq(t, `1`, string(r.Result))
}

// The time limit of a call does not depend on the clock of the agent.
func TestClockOfTheAgentIsAnother(t *testing.T) {
	t.Parallel()
	d := &fakeNode{t: t, give: call(time.Now().Add(-time.Hour), time.Hour)}
	r := d.reported(peer.Credential{Secret: "s"}, func(ctx context.Context, _ agents.Assignment, _ func(work.Progress)) agents.Report {
		if ctx.Err() != nil {
			return agents.Report{Error: "there is no time"}
		}
		return agents.Report{Result: json.RawMessage(`1`)}
	})
	assert.Empty(t, r.Error)
}

// The end of a call is reported even if the node rejects the content of the report.
func TestRefusedErrorIsToldOtherwise(t *testing.T) {
	t.Parallel()
	d := &fakeNode{t: t, give: call(time.Now().Add(time.Hour), 0)}
	d.refuse = func(r *http.Request, said agents.Report) error {
		if r.URL.Path == "/agents/results" && strings.HasPrefix(said.Error, "bad") {
			return fault.New(fault.ValidationError, "is no error")
		}
		return nil
	}
	r := d.reported(peer.Credential{Secret: "s"}, func(context.Context, agents.Assignment, func(work.Progress)) agents.Report {
		return agents.Report{Error: "bad"}
	})
	assert.Contains(t, r.Error, "the report was refused")
}

// A peer without a free slot continues to claim, and so learns immediately of a call to stop.
func TestFullPeerHearsOfStops(t *testing.T) {
	t.Parallel()
	given, began := call(time.Now().Add(time.Hour), 0), make(chan struct{})
	var full atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in agents.Claim
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&in))
		answer := agents.Work{}
		switch {
		case r.URL.Path != agents.TasksPath:
		case in.Free > 0 && !full.Swap(true):
			answer.Calls = []agents.Assignment{given}
		case in.Free == 0:
			<-began
			assert.Equal(t, []work.Ref{given.Ref}, in.Has)
			answer.Stop = in.Has
		default:
			gone(r)
		}
		assert.NoError(t, json.NewEncoder(w).Encode(answer))
	}))
	defer server.Close()
	ended := make(chan struct{})
	p, err := peer.New(peer.Config{
		Credential: peer.Credential{URL: server.URL, Secret: "s", MaxTasks: 1, IssuedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)},
		Handler: func(ctx context.Context, _ agents.Assignment, _ func(work.Progress)) agents.Report {
			close(began)
			<-ctx.Done()
			close(ended)
			return agents.Report{}
		},
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { assert.NoError(t, p.Run(ctx)) })
	<-ended
	stop()
	group.Wait()
}
