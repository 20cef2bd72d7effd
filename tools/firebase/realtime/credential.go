package realtime

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase/account"
)

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
		return noCredential{}, nil
	case strings.HasPrefix(token, "{"):
		key, err := account.New(cfg.Net, token,
			"https://www.googleapis.com/auth/firebase.database", "https://www.googleapis.com/auth/userinfo.email")
		if err != nil {
			return nil, fault.From(err).WithField("firebase_realtime_token")
		}
		return serviceAccount{key}, nil
	case strings.HasPrefix(token, "Bearer "):
		return accessToken(token), nil
	default:
		return queryToken(token), nil
	}
}

// noCredential shows nothing.
type noCredential struct{}

func (noCredential) apply(context.Context, http.Header, url.Values) error { return nil }
func (noCredential) renew() bool                                          { return false }
func (noCredential) conceal(text string) string                           { return text }

// accessToken is an access token that somebody else renews.
type accessToken string

func (b accessToken) apply(_ context.Context, header http.Header, _ url.Values) error {
	header.Set("Authorization", string(b))
	return nil
}
func (accessToken) renew() bool { return false }

func (b accessToken) conceal(text string) string {
	return concealed(text, strings.TrimSpace(strings.TrimPrefix(string(b), "Bearer ")))
}

// queryToken is an ID token or a secret of the database: the protocol has no header for it.
type queryToken string

func (s queryToken) apply(_ context.Context, _ http.Header, query url.Values) error {
	query.Set("auth", string(s))
	return nil
}
func (queryToken) renew() bool                  { return false }
func (s queryToken) conceal(text string) string { return concealed(text, string(s)) }

func concealed(text, token string) string {
	if token == "" {
		return text
	}
	for _, form := range []string{token, url.QueryEscape(token)} {
		text = strings.ReplaceAll(text, form, "[firebase_realtime_token]")
	}
	return text
}

// serviceAccount is a service account.
type serviceAccount struct{ *account.Account }

func (r serviceAccount) apply(ctx context.Context, header http.Header, _ url.Values) error {
	token, err := r.Token(ctx)
	if err == nil {
		header.Set("Authorization", "Bearer "+token)
	}
	return err
}

func (r serviceAccount) renew() bool {
	r.Forget()
	return true
}

func (r serviceAccount) conceal(text string) string { return concealed(text, r.Known()) }
