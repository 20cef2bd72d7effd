// Package peer is the other side of package agents: a program that is an agent. It claims calls over HTTP, keeps its
// leases, and reports how the calls ended. What an agent does is up to its Handler.
package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// Credential is what an agent speaks with, and where.
type Credential struct {
	// URL is where the node serves HTTP, without a path.
	URL string `json:"url"`
	// Agent is the id of the agent, Name its name, MaxTasks how many calls it takes at the same time.
	Agent    string `json:"agent"`
	Name     string `json:"name"`
	MaxTasks int    `json:"max_tasks"`
	// Secret is the bearer token. Next is the one that takes its place when the node has heard of it, which it may have when
	// its answer was lost; "" for none.
	Secret    string    `json:"secret"`
	Next      string    `json:"next,omitempty"`
	IssuedAt  time.Time `json:"issued_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Ended is when the credential is good no more, whatever became of its next secret: that was asked for in its life, and is
// good for no longer than another one.
func (c *Credential) Ended() time.Time {
	if c.Next == "" {
		return c.ExpiresAt
	}
	return c.ExpiresAt.Add(max(agents.CredentialLife, c.ExpiresAt.Sub(c.IssuedAt)))
}

// client speaks to the node.
type client struct {
	http *http.Client
	// save keeps the credential; nil keeps none.
	save func(Credential) error

	mu   sync.Mutex
	cred Credential
	// renewing is held while the credential is replaced.
	renewing sync.Mutex
}

const (
	// maxAnswer bounds the bytes of an answer of the node.
	maxAnswer = 64 << 20
	// patience is how long the node may take beyond what it was allowed to wait.
	patience = 30 * time.Second
)

func (c *client) credential() Credential {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cred
}

func (c *client) heartbeat(ctx context.Context, b agents.Heartbeat) (w agents.Work, err error) {
	err = c.post(ctx, agents.StatusPath, b, &w, patience)
	return w, err
}

func (c *client) claim(ctx context.Context, in agents.Claim) (w agents.Work, err error) {
	err = c.post(ctx, agents.TasksPath, in, &w, in.Wait+patience)
	return w, err
}

func (c *client) report(ctx context.Context, r agents.Report) error {
	return c.post(ctx, agents.ResultsPath, r, nil, patience)
}

// keep saves a credential, and then speaks with it.
func (c *client) keep(cred Credential) error {
	if c.save != nil {
		if err := c.save(cred); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cred = cred
	return nil
}

// renew replaces the credential. The next secret is kept before the node hears of it, so that no lost answer, and no end of
// this process, leaves the agent without one. Nothing is to be done when what was seen was replaced meanwhile.
func (c *client) renew(ctx context.Context, seen Credential, now time.Time) error {
	c.renewing.Lock()
	defer c.renewing.Unlock()
	cred := c.credential()
	if cred.Secret != seen.Secret {
		return nil
	}
	if cred.Next == "" {
		cred.Next = agents.NewSecret()
		if err := c.keep(cred); err != nil {
			return err
		}
	}
	err := c.turnOver(ctx, cred.Secret, now)
	if fault.Has(err, fault.Unauthorized) {
		err = c.turnOver(ctx, cred.Next, now)
	}
	return err
}

// turnOver makes the next secret the one to speak with, in the name of one that the node knows. The lock of renewing is
// held.
func (c *client) turnOver(ctx context.Context, known string, now time.Time) error {
	cred := c.credential()
	ask := cred
	ask.Secret = known
	var got struct {
		ExpiresAt time.Time `json:"expires_at"`
	}
	if err := c.send(ctx, ask, agents.CredentialPath, agents.Renewal{Digest: agents.DigestOf(cred.Next)}, &got, patience); err != nil {
		return err
	}
	cred.Secret, cred.Next, cred.ExpiresAt, cred.IssuedAt = cred.Next, "", got.ExpiresAt, now
	err := c.keep(cred)
	if err != nil { // the next start finds the secret where it was kept before
		c.mu.Lock()
		c.cred = cred
		c.mu.Unlock()
	}
	return err
}

// fresh returns the credential that takes the place of one that was refused, or why there is none. refused is the error
// of the refusal.
func (c *client) fresh(ctx context.Context, used Credential, refused error) (Credential, error) {
	c.renewing.Lock() // the answer with the new one may be on its way
	defer c.renewing.Unlock()
	cred := c.credential()
	switch {
	case cred.Secret != used.Secret:
		return cred, nil
	case cred.Next == "":
		return cred, refused
	}
	err := c.turnOver(ctx, cred.Next, events.Time(time.Now()))
	switch cred = c.credential(); {
	case cred.Secret != used.Secret: // whether it could be kept or not
		return cred, nil
	case passing(err):
		return cred, err
	default:
		return cred, refused
	}
}

// post sends a request and decodes its answer. One that is refused because the credential was replaced meanwhile is sent
// again with the new one.
func (c *client) post(ctx context.Context, path string, in, out any, within time.Duration) error {
	used := c.credential()
	err := c.send(ctx, used, path, in, out, within)
	if !fault.Has(err, fault.Unauthorized) && !fault.Has(err, fault.TokenExpired) {
		return err
	}
	cred, err := c.fresh(ctx, used, err)
	if err != nil {
		return err
	}
	return c.send(ctx, cred, path, in, out, within)
}

// send sends a request and decodes its answer. Errors are those of the node, UNAVAILABLE when it cannot be reached.
func (c *client) send(ctx context.Context, cred Credential, path string, in, out any, within time.Duration) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fault.Wrap(fault.InvalidFormat, err, "the request cannot be encoded")
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(cred.URL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return fault.New(fault.InvalidFormat, "the address of the node is none").WithField("url")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+cred.Secret)
	answer, err := c.http.Do(r)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the node cannot be reached at "+cred.URL).WithHint("start it with: orch serve")
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the answer of the node has no end")
	}
	if answer.StatusCode != http.StatusOK {
		return refusal(answer, content)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(content, out); err != nil {
		return fault.Wrap(fault.Unavailable, err, "the answer of the node cannot be read").WithHint("use the same version of orch on both sides")
	}
	return nil
}

// refusal is the error of an answer.
func refusal(answer *http.Response, content []byte) error {
	f := new(fault.Error)
	if json.Unmarshal(content, f) == nil && f.Code != "" {
		return f
	}
	return fault.New(fault.Unavailable, "the node answered with status %d", answer.StatusCode).WithHint("is this the address of a node? orch doctor")
}

// passing reports whether it helps to ask again.
func passing(err error) bool {
	var f *fault.Error
	if !errors.As(err, &f) {
		return true
	}
	switch f.Code {
	case fault.Unavailable, fault.Timeout, fault.Internal, fault.RateLimited, fault.QuotaExceeded, fault.DiskFull, fault.Cancelled:
		return true
	default:
		return false
	}
}
