// Package peer implements the client side of package agents: a program that works as an agent. It claims calls over
// HTTP, renews their leases, and reports their results. A Handler executes the claimed calls.
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

// Credential is the credential of an agent and the node that issued it.
type Credential struct {
	// URL is the URL of the node's HTTP server, without a path.
	URL string `json:"url"`
	// Agent is the id of the agent, Name its name, MaxTasks the limit of its concurrent calls.
	Agent    string `json:"agent"`
	Name     string `json:"name"`
	MaxTasks int    `json:"max_tasks"`
	// Secret is the bearer token. Next is the token that replaces it during a renewal; "" for none. If the answer to
	// the renewal was lost, the node may already require Next.
	Secret    string    `json:"secret"`
	Next      string    `json:"next,omitempty"`
	IssuedAt  time.Time `json:"issued_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

// LatestExpiry returns when the credential has certainly expired, whether or not the renewal with Next succeeded: Next
// was requested before Secret expired, and has the same lifetime.
func (c *Credential) LatestExpiry() time.Time {
	if c.Next == "" {
		return c.ExpiresAt
	}
	return c.ExpiresAt.Add(max(agents.CredentialLife, c.ExpiresAt.Sub(c.IssuedAt)))
}

// client sends requests to the node.
type client struct {
	http *http.Client
	// save stores the credential; if nil, the credential is not stored.
	save func(Credential) error

	mu   sync.Mutex
	cred Credential
	// renewing serializes renewals of the credential.
	renewing sync.Mutex
}

const (
	// maxAnswer bounds an answer of the node, in bytes.
	maxAnswer = 64 << 20
	// patience is how long the node may take to answer, in addition to the wait that the request allows.
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

// saveCredential stores a credential and then uses it.
func (c *client) saveCredential(cred Credential) error {
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

// renew replaces the credential. It stores the next secret before it sends the request, so that neither a lost answer
// nor a crash locks the agent out. It does nothing if the credential is no longer the one in seen.
func (c *client) renew(ctx context.Context, seen Credential, now time.Time) error {
	c.renewing.Lock()
	defer c.renewing.Unlock()
	cred := c.credential()
	if cred.Secret != seen.Secret {
		return nil
	}
	if cred.Next == "" {
		cred.Next = agents.NewSecret()
		if err := c.saveCredential(cred); err != nil {
			return err
		}
	}
	err := c.rotate(ctx, cred.Secret, now)
	if fault.Has(err, fault.Unauthorized) {
		err = c.rotate(ctx, cred.Next, now)
	}
	return err
}

// rotate registers the next secret with the node and makes it the current one. The request is authenticated with
// secret. c.renewing must be held.
func (c *client) rotate(ctx context.Context, secret string, now time.Time) error {
	cred := c.credential()
	auth := cred
	auth.Secret = secret
	var got struct {
		ExpiresAt time.Time `json:"expires_at"`
	}
	if err := c.send(ctx, auth, agents.CredentialPath, agents.Renewal{Digest: agents.DigestOf(cred.Next)}, &got, patience); err != nil {
		return err
	}
	cred.Secret, cred.Next, cred.ExpiresAt, cred.IssuedAt = cred.Next, "", got.ExpiresAt, now
	err := c.saveCredential(cred)
	if err != nil { // the saved credential still has this secret as Next, so a restart finds it
		c.mu.Lock()
		c.cred = cred
		c.mu.Unlock()
	}
	return err
}

// replacementFor returns the credential that replaces used after the node refused it. If there is no replacement, it
// returns refused, the error of the node, or the error of a renewal that may succeed later.
func (c *client) replacementFor(ctx context.Context, used Credential, refused error) (Credential, error) {
	c.renewing.Lock() // a renewal may be in progress
	defer c.renewing.Unlock()
	cred := c.credential()
	switch {
	case cred.Secret != used.Secret:
		return cred, nil
	case cred.Next == "":
		return cred, refused
	}
	err := c.rotate(ctx, cred.Next, events.Time(time.Now()))
	switch cred = c.credential(); {
	case cred.Secret != used.Secret: // whether or not it could be saved
		return cred, nil
	case temporary(err):
		return cred, err
	default:
		return cred, refused
	}
}

// post sends a request and decodes its answer. If the node refuses it because the credential was replaced meanwhile,
// post sends it again with the new credential.
func (c *client) post(ctx context.Context, path string, in, out any, timeout time.Duration) error {
	used := c.credential()
	err := c.send(ctx, used, path, in, out, timeout)
	if !fault.Has(err, fault.Unauthorized) && !fault.Has(err, fault.TokenExpired) {
		return err
	}
	cred, err := c.replacementFor(ctx, used, err)
	if err != nil {
		return err
	}
	return c.send(ctx, cred, path, in, out, timeout)
}

// send sends a request and decodes its answer. It returns the error of the node, or UNAVAILABLE when the node cannot be
// reached.
func (c *client) send(ctx context.Context, cred Credential, path string, in, out any, timeout time.Duration) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fault.Wrap(fault.InvalidFormat, err, "the request cannot be encoded")
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(cred.URL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return fault.New(fault.InvalidFormat, "%q is not a valid URL", cred.URL).WithField("url")
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
		return fault.Wrap(fault.Unavailable, err, "the connection broke before the answer of the node was complete")
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

// refusal returns the error in an answer.
func refusal(answer *http.Response, content []byte) error {
	f := new(fault.Error)
	if json.Unmarshal(content, f) == nil && f.Code != "" {
		return f
	}
	return fault.New(fault.Unavailable, "the node answered with status %d", answer.StatusCode).WithHint("is this the address of a node? orch doctor")
}

// temporary reports whether the request may succeed when it is sent again.
func temporary(err error) bool {
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
