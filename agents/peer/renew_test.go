package peer_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
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

// lock is a node with one agent. It stores the digest of the agent's secret, and has no calls.
type lock struct {
	t *testing.T

	mu     sync.Mutex
	digest string
	// lose accepts renewals without answering, deaf accepts none; renewed counts accepted renewals.
	lose, deaf bool
	renewed    int
	// asked receives a value for each renewal request, came for each other accepted request.
	asked, came chan struct{}
}

func newLock(t *testing.T, secret string) (*lock, peer.Credential) {
	t.Helper()
	l := &lock{t: t, digest: agents.DigestOf(secret), asked: make(chan struct{}, 100), came: make(chan struct{}, 100)}
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	now := time.Now()
	return l, peer.Credential{URL: server.URL, Secret: secret, IssuedAt: now.Add(-9 * time.Hour), ExpiresAt: now.Add(time.Hour)}
}

// ServeHTTP implements http.Handler.
func (l *lock) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == agents.CredentialPath {
		l.renewal(w, r)
		return
	}
	l.mu.Lock()
	known := l.knows(r)
	l.mu.Unlock()
	if !known {
		refuse(w, fault.New(fault.Unauthorized, "this is no token"))
		return
	}
	select {
	case l.came <- struct{}{}:
	default:
	}
	if r.URL.Path == agents.TasksPath {
		gone(r)
	}
	_ = json.NewEncoder(w).Encode(struct{}{})
}

func (l *lock) renewal(w http.ResponseWriter, r *http.Request) {
	var in agents.Renewal
	assert.NoError(l.t, json.NewDecoder(r.Body).Decode(&in))
	assert.NoError(l.t, in.Check())
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() {
		select {
		case l.asked <- struct{}{}:
		default:
		}
	}()
	switch {
	case !l.knows(r):
		refuse(w, fault.New(fault.Unauthorized, "this is no token"))
		return
	case l.deaf:
		panic(http.ErrAbortHandler)
	case l.digest != in.Digest:
		l.digest = in.Digest
		l.renewed++
	}
	if l.lose {
		panic(http.ErrAbortHandler)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"key": "TOK_2", "expires_at": time.Now().Add(24 * time.Hour)})
}

// knows reports whether a request has the agent's secret. l.mu must be held.
func (l *lock) knows(r *http.Request) bool {
	return agents.DigestOf(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")) == l.digest
}

// gone waits until the client of a request has disconnected. The server notices that only after reading the request.
func gone(r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

func refuse(w http.ResponseWriter, err error) {
	w.WriteHeader(http.StatusUnauthorized)
	_ = json.NewEncoder(w).Encode(fault.From(err))
}

// file stores a credential, for a process that may end at any time.
type file struct {
	mu   sync.Mutex
	cred peer.Credential
	// full makes saving fail.
	full bool
}

func (f *file) save(c peer.Credential) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full {
		return fault.New(fault.DiskFull, "there is no room")
	}
	f.cred = c
	return nil
}

func (f *file) read() peer.Credential {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cred
}

// process runs an agent with the stored credential and returns a function that stops it.
func process(t *testing.T, f *file) (stop func() error) {
	t.Helper()
	p, err := peer.New(peer.Config{Credential: f.read(), Save: f.save, Handler: func(context.Context, agents.Assignment, func(work.Progress)) agents.Report {
		return agents.Report{}
	}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

func heard(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Fatal(what)
	}
}

// The node sees only the digest of the next secret, and the stored secret is the one that the node accepts.
func TestRenewal(t *testing.T) {
	t.Parallel()
	l, cred := newLock(t, agents.NewSecret())
	f := &file{cred: cred}
	stop := process(t, f)
	require.Eventually(t, func() bool { got := f.read(); return got.Secret != cred.Secret && got.Next == "" }, time.Minute, time.Millisecond)
	require.NoError(t, stop())
	assert.Equal(t, l.digest, agents.DigestOf(f.read().Secret))
	assert.True(t, agents.IsSecret(f.read().Secret))
	assert.Equal(t, 1, l.renewed)
	assert.True(t, f.read().ExpiresAt.After(cred.ExpiresAt))
}

// After a renewal with a lost answer the agent is accepted: immediately, or when another process starts with the stored
// credential.
func TestLostAnswerOfARenewal(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"at once": false, "after a crash": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, cred := newLock(t, agents.NewSecret())
			l.lose = true
			f := &file{cred: cred}
			stop := process(t, f)
			heard(t, l.asked, "no renewal was asked for")
			kept := f.read()
			assert.Equal(t, cred.Secret, kept.Secret)
			assert.Equal(t, l.digest, agents.DigestOf(kept.Next), "what the node knows was kept before")
			if again {
				require.NoError(t, stop())
			}
			l.mu.Lock()
			l.lose = false
			l.mu.Unlock()
			if again {
				f = &file{cred: kept}
				stop = process(t, f)
			}
			require.Eventually(t, func() bool { return f.read().Secret == kept.Next }, time.Minute, time.Millisecond)
			heard(t, l.came, "it is not let in")
			require.NoError(t, stop())
			assert.Equal(t, 1, l.renewed, "it is one renewal")
		})
	}
}

// An agent that stored the next secret without sending the renewal continues with the current one.
func TestRenewalThatWasNotAskedFor(t *testing.T) {
	t.Parallel()
	l, cred := newLock(t, agents.NewSecret())
	l.deaf = true
	f := &file{cred: cred}
	stop := process(t, f)
	heard(t, l.asked, "no renewal was asked for")
	heard(t, l.came, "it is not let in")
	require.NoError(t, stop())
	assert.Zero(t, l.renewed)
	kept := f.read()
	require.NotEmpty(t, kept.Next)

	l.deaf = false
	stop = process(t, f)
	require.Eventually(t, func() bool { return f.read().Secret == kept.Next }, time.Minute, time.Millisecond)
	require.NoError(t, stop())
}

// A renewal is not requested if the next secret cannot be stored: it would be lost in a crash.
func TestSecretThatCannotBeKept(t *testing.T) {
	t.Parallel()
	l, cred := newLock(t, agents.NewSecret())
	f := &file{cred: cred, full: true}
	stop := process(t, f)
	heard(t, l.came, "it is not let in")
	require.NoError(t, stop())
	assert.Zero(t, l.renewed)
	assert.Empty(t, l.asked)
}

// An agent that is refused with all it has ends.
func TestRefusedAgentEnds(t *testing.T) {
	t.Parallel()
	_, cred := newLock(t, agents.NewSecret())
	cred.Secret, cred.Next = agents.NewSecret(), agents.NewSecret()
	p, err := peer.New(peer.Config{Credential: cred, Save: (&file{}).save, Handler: func(context.Context, agents.Assignment, func(work.Progress)) agents.Report {
		return agents.Report{}
	}})
	require.NoError(t, err)
	assert.Equal(t, fault.Unauthorized, fault.CodeOf(p.Run(t.Context())))
}
