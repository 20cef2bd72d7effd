package realtime

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
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

// credential shows a server who asks.
type credential interface {
	// apply puts the credential into a request.
	apply(ctx context.Context, header http.Header, query url.Values) error
	// renew makes the next apply show another one. It reports false when there is no other.
	renew() bool
	// conceal takes the credential out of a text.
	conceal(text string) string
}

func newCredential(cfg Config) (credential, error) {
	switch token := strings.TrimSpace(cfg.Token); {
	case token == "":
		return nobody{}, nil
	case strings.HasPrefix(token, "{"):
		return newAccount(cfg.Net, token)
	case strings.HasPrefix(token, "Bearer "):
		return bearer(token), nil
	default:
		return secret(token), nil
	}
}

// nobody shows nothing.
type nobody struct{}

func (nobody) apply(context.Context, http.Header, url.Values) error { return nil }
func (nobody) renew() bool                                          { return false }
func (nobody) conceal(text string) string                           { return text }

// bearer is an access token that somebody else renews.
type bearer string

func (b bearer) apply(_ context.Context, header http.Header, _ url.Values) error {
	header.Set("Authorization", string(b))
	return nil
}
func (bearer) renew() bool { return false }

func (b bearer) conceal(text string) string {
	return concealed(text, strings.TrimSpace(strings.TrimPrefix(string(b), "Bearer ")))
}

// secret is an ID token or a secret of the database: the protocol has no header for it.
type secret string

func (s secret) apply(_ context.Context, _ http.Header, query url.Values) error {
	query.Set("auth", string(s))
	return nil
}
func (secret) renew() bool                  { return false }
func (s secret) conceal(text string) string { return concealed(text, string(s)) }

func concealed(text, token string) string {
	if token == "" {
		return text
	}
	for _, form := range []string{token, url.QueryEscape(token)} {
		text = strings.ReplaceAll(text, form, "[firebase_realtime_token]")
	}
	return text
}

// account is a service account, which gets access tokens for its key.
type account struct {
	key    *jwt.Config
	client *http.Client
	turn   chan struct{} // holds a token while nobody asks for one

	mu  sync.Mutex // guards now
	now *oauth2.Token
}

func newAccount(net netguard.Config, text string) (*account, error) {
	key, err := google.JWTConfigFromJSON([]byte(text),
		"https://www.googleapis.com/auth/firebase.database", "https://www.googleapis.com/auth/userinfo.email")
	if err != nil { // it may repeat a part of the text
		return nil, fault.New(fault.ValidationError, "it begins like the JSON of a service account and is none").
			WithField("firebase_realtime_token").WithHint("use the file that the console of Firebase makes for a private key")
	}
	a := &account{key: key, turn: make(chan struct{}, 1)}
	a.client = &http.Client{Transport: guarded{netguard.New(net.Reaching(key.TokenURL))}}
	a.turn <- struct{}{}
	return a, nil
}

func (a *account) apply(ctx context.Context, header http.Header, _ url.Values) error {
	token, err := a.token(ctx)
	if err != nil {
		return err
	}
	header.Set("Authorization", "Bearer "+token.AccessToken)
	return nil
}

// token returns an access token. One caller at a time asks for a new one.
func (a *account) token(ctx context.Context) (*oauth2.Token, error) {
	select {
	case <-a.turn:
		defer func() { a.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if now := a.known(); now.Valid() {
		return now, nil
	}
	token, err := a.key.TokenSource(context.WithValue(ctx, oauth2.HTTPClient, a.client)).Token()
	if err != nil {
		return nil, refusedToken(ctx, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = token
	return token, nil
}

func (a *account) known() *oauth2.Token {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now
}

func (a *account) renew() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = nil
	return true
}

func (a *account) conceal(text string) string {
	if now := a.known(); now != nil {
		return concealed(text, now.AccessToken)
	}
	return text
}

// refusedToken tells why there is no token. The answer of the token server is not repeated.
func refusedToken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if answer, ok := errors.AsType[*oauth2.RetrieveError](err); ok && answer.Response != nil && answer.Response.StatusCode < 500 {
		return refusal.New(refusal.PermissionDenied, "the service account got no access token (status %d)", answer.Response.StatusCode).
			WithHint("the key in firebase_realtime_token may be revoked, or the clock of this machine be wrong")
	}
	return refusal.New(refusal.ConnectionError, "the server for access tokens did not answer as it should")
}

// guarded carries the requests for tokens.
type guarded struct{ client *netguard.Client }

// RoundTrip makes a request.
func (g guarded) RoundTrip(req *http.Request) (*http.Response, error) {
	u, err := g.client.Parse(req.URL.String())
	if err != nil {
		return nil, err
	}
	var body strings.Builder
	if req.Body != nil {
		defer req.Body.Close()
		if _, err := io.Copy(&body, req.Body); err != nil {
			return nil, err
		}
	}
	res, err := g.client.Do(req.Context(), netguard.Request{
		Method: req.Method, URL: u, Header: req.Header, Body: body.String(), Limit: maxToken,
	})
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(res.Status), StatusCode: res.Status, Header: res.Header, Request: req,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(bytes.NewReader(res.Body)), ContentLength: int64(len(res.Body)),
	}, nil
}
