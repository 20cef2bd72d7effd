// Package account obtains Google access tokens with the key of a service account.
package account

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"golang.org/x/oauth2/jwt"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

const (
	// maxToken is the maximum size of the response of a token server in bytes.
	maxToken = 64 << 10
	// tokenTime bounds a request for a token.
	tokenTime = 30 * time.Second
)

// Account obtains access tokens of a service account. It is safe for concurrent use.
type Account struct {
	key     *jwt.Config
	project string
	client  netguard.Transport
	sem     chan struct{} // semaphore: contains a value while no token is being requested

	mu    sync.Mutex // guards token
	token *oauth2.Token
}

// New returns the account of a key for the given scopes. The key is the content of a JSON file from the Firebase console.
// The token server in the key may be at any address. Errors: VALIDATION_ERROR without a field.
func New(net netguard.Config, key string, scopes ...string) (*Account, error) {
	a := &Account{sem: make(chan struct{}, 1)}
	var named struct {
		Project string `json:"project_id"`
	}
	config, err := google.JWTConfigFromJSON([]byte(key), scopes...)
	if err != nil || json.Unmarshal([]byte(key), &named) != nil { // the error may contain a part of the key
		return nil, fault.New(fault.ValidationError, "must be the key of a service account").
			WithHint("use the JSON file that the console of Firebase makes for a private key")
	}
	a.key, a.project = config, named.Project
	a.client = netguard.Transport{Client: netguard.New(net.Reaching(config.TokenURL)), Limit: maxToken}
	a.sem <- struct{}{}
	return a, nil
}

// Project returns the project of the key, "" if the key does not contain it.
func (a *Account) Project() string { return a.project }

// Token returns an access token. It requests a new token if the current one has expired; only one caller at a time does
// so. Errors: PERMISSION_DENIED, CONNECTION_ERROR, and the error of ctx.
func (a *Account) Token(ctx context.Context) (string, error) {
	select {
	case <-a.sem:
		defer func() { a.sem <- struct{}{} }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if token := a.current(); token.Valid() {
		return token.AccessToken, nil
	}
	token, err := a.request(ctx)
	if err != nil {
		return "", tokenError(ctx, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.token = token
	return token.AccessToken, nil
}

// request requests a token. The library does not pass on the context.
func (a *Account) request(ctx context.Context) (*oauth2.Token, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenTime)
	defer cancel()
	client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		return a.client.RoundTrip(r.WithContext(ctx))
	})}
	return a.key.TokenSource(context.WithValue(ctx, oauth2.HTTPClient, client)).Token()
}

// roundTripper is a function that makes requests.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (a *Account) current() *oauth2.Token {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.token
}

// Known returns the current access token, which may have expired; "" if there is none.
func (a *Account) Known() string {
	if token := a.current(); token != nil {
		return token.AccessToken
	}
	return ""
}

// Forget makes the next Token request a new token.
func (a *Account) Forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.token = nil
}

// tokenError converts the error of a token request. The result does not contain the response of the token server.
func tokenError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if retrieve, ok := errors.AsType[*oauth2.RetrieveError](err); ok && retrieve.Response != nil && retrieve.Response.StatusCode < 500 {
		return refusal.New(refusal.PermissionDenied, "the service account got no access token (status %d)", retrieve.Response.StatusCode).
			WithHint("its key may be revoked, or the clock of this machine be wrong")
	}
	return refusal.New(refusal.ConnectionError, "the server for access tokens does not answer as it should")
}
