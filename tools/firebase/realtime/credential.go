package realtime

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase/account"
)

// credential authenticates requests to a server.
type credential interface {
	// apply adds the credential to a request.
	apply(ctx context.Context, header http.Header, query url.Values) error
	// refresh makes the next apply obtain a new credential. It returns false if the credential cannot be renewed.
	refresh() bool
	// redact removes the credential from a text.
	redact(text string) string
}

// newCredential returns the credential for Config.Token.
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

// noCredential is for requests without authentication.
type noCredential struct{}

func (noCredential) apply(context.Context, http.Header, url.Values) error { return nil }
func (noCredential) refresh() bool                                        { return false }
func (noCredential) redact(text string) string                            { return text }

// accessToken is an access token, which the operator must renew.
type accessToken string

func (b accessToken) apply(_ context.Context, header http.Header, _ url.Values) error {
	header.Set("Authorization", string(b))
	return nil
}
func (accessToken) refresh() bool { return false }

func (b accessToken) redact(text string) string {
	return redactToken(text, strings.TrimSpace(strings.TrimPrefix(string(b), "Bearer ")))
}

// queryToken is an ID token or a secret of the database. The protocol accepts these only in the query.
type queryToken string

func (s queryToken) apply(_ context.Context, _ http.Header, query url.Values) error {
	query.Set("auth", string(s))
	return nil
}
func (queryToken) refresh() bool               { return false }
func (s queryToken) redact(text string) string { return redactToken(text, string(s)) }

// redactToken replaces a token in a text, also in its URL-encoded form, with the name of the setting.
func redactToken(text, token string) string {
	if token == "" {
		return text
	}
	for _, form := range []string{token, url.QueryEscape(token)} {
		text = strings.ReplaceAll(text, form, "[firebase_realtime_token]")
	}
	return text
}

// serviceAccount obtains access tokens for a service account.
type serviceAccount struct{ *account.Account }

func (r serviceAccount) apply(ctx context.Context, header http.Header, _ url.Values) error {
	token, err := r.Token(ctx)
	if err == nil {
		header.Set("Authorization", "Bearer "+token)
	}
	return err
}

func (r serviceAccount) refresh() bool {
	r.Forget()
	return true
}

func (r serviceAccount) redact(text string) string { return redactToken(text, r.Known()) }
