// Package account gets access tokens of Google for the key of a service account.
package account

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"golang.org/x/oauth2/jwt"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// maxToken is how many bytes the answer of a token server may have.
const maxToken = 64 << 10

// Account is a service account. It is safe for concurrent use.
type Account struct {
	key     *jwt.Config
	project string
	client  *http.Client
	turn    chan struct{} // holds a token while nobody asks for one

	mu  sync.Mutex // guards now
	now *oauth2.Token
}

// New returns the account of a key, the JSON file that the console of Firebase makes, for some scopes. The
// server for tokens that the key names is reached wherever it is. Errors: VALIDATION_ERROR without a field.
func New(net netguard.Config, key string, scopes ...string) (*Account, error) {
	a := &Account{turn: make(chan struct{}, 1)}
	var named struct {
		Project string `json:"project_id"`
	}
	config, err := google.JWTConfigFromJSON([]byte(key), scopes...)
	if err != nil || json.Unmarshal([]byte(key), &named) != nil { // an error may repeat a part of the key
		return nil, fault.New(fault.ValidationError, "it is no key of a service account").
			WithHint("use the JSON file that the console of Firebase makes for a private key")
	}
	a.key, a.project = config, named.Project
	a.client = &http.Client{Transport: netguard.Transport{Client: netguard.New(net.Reaching(config.TokenURL)), Limit: maxToken}}
	a.turn <- struct{}{}
	return a, nil
}

// Project is the project that the key belongs to, "" if it does not say.
func (a *Account) Project() string { return a.project }

// Token returns an access token. One caller at a time asks for a new one. Errors: PERMISSION_DENIED,
// CONNECTION_ERROR, and that of the context.
func (a *Account) Token(ctx context.Context) (string, error) {
	select {
	case <-a.turn:
		defer func() { a.turn <- struct{}{} }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if now := a.known(); now.Valid() {
		return now.AccessToken, nil
	}
	token, err := a.key.TokenSource(context.WithValue(ctx, oauth2.HTTPClient, a.client)).Token()
	if err != nil {
		return "", refused(ctx, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = token
	return token.AccessToken, nil
}

func (a *Account) known() *oauth2.Token {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now
}

// Known returns the access token that the account has at the moment, "" without one.
func (a *Account) Known() string {
	if now := a.known(); now != nil {
		return now.AccessToken
	}
	return ""
}

// Forget makes the next Token ask for another one.
func (a *Account) Forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = nil
}

// refused tells why there is no token. The answer of the token server is not repeated.
func refused(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if answer, ok := errors.AsType[*oauth2.RetrieveError](err); ok && answer.Response != nil && answer.Response.StatusCode < 500 {
		return refusal.New(refusal.PermissionDenied, "the service account got no access token (status %d)", answer.Response.StatusCode).
			WithHint("its key may be revoked, or the clock of this machine be wrong")
	}
	return refusal.New(refusal.ConnectionError, "the server for access tokens does not answer as it should")
}
