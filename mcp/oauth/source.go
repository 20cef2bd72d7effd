package oauth

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/orch-dev/orch/fault"
)

// Source provides the token of a login for the requests to one server. It is safe for concurrent use.
type Source struct {
	l      *Logins
	server Server

	mu sync.Mutex
	// secrets are the most recent secrets of the login, which Conceal hides.
	secrets []string
}

// Source returns the source for a server. The login need not exist yet.
func (l *Logins) Source(s Server) *Source { return &Source{l: l, server: s} }

// Token returns the token for a request, "" if there is no login for this server. It renews a token that is about to expire. The
// error matches ErrLogin if a person must log in.
func (s *Source) Token(ctx context.Context) (string, error) {
	g, err := s.read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil || g.Access == "":
		return "", loginExpired(s.server.Name)
	case !g.stale(s.l.now()):
		return g.Access, nil
	}
	token, err := s.renew(ctx, g.Access)
	if err != nil && !errors.Is(err, ErrLogin) && s.l.now().Before(g.Expires) {
		return g.Access, nil // the token is still valid, and the next call tries to renew it again
	}
	return token, err
}

// Renew returns a new token after the server has refused a request. refused is the token of that request, "" for none. The error
// matches ErrLogin if a person must log in.
func (s *Source) Renew(ctx context.Context, refused string) (string, error) {
	if refused == "" {
		return "", loginRequired(s.server.Name)
	}
	return s.renew(ctx, refused)
}

// Refused returns the error to report after the server has refused a token that was just renewed. It matches ErrLogin.
func (s *Source) Refused() error { return loginExpired(s.server.Name) }

// Conceal replaces the secrets of the login in a text by asterisks.
func (s *Source) Conceal(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, secret := range s.secrets {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return text
}

// read returns the grant of the server, and records its secrets. The error matches fs.ErrNotExist if there is no grant, or if the
// grant is for a different definition of the server.
func (s *Source) read() (grant, error) {
	g, err := s.l.files.read(s.server.Name)
	if err != nil {
		return grant{}, err
	}
	if !g.matches(s.server) {
		return grant{}, fs.ErrNotExist
	}
	s.remember(g.Access, g.Refresh, g.Client.Secret)
	return g, nil
}

// remember records secrets for Conceal.
func (s *Source) remember(secrets ...string) {
	const maxSecrets = 32
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, secret := range secrets {
		if secret != "" && !slices.Contains(s.secrets, secret) {
			s.secrets = append(s.secrets, secret)
		}
	}
	s.secrets = s.secrets[max(0, len(s.secrets)-maxSecrets):]
}

// renew returns a new token in place of former, which is no longer valid. If another process has already renewed the token, it
// returns that token. The renewal continues if ctx ends: its answer must be stored, because the authorization server may have
// invalidated the former refresh token.
func (s *Source) renew(ctx context.Context, former string) (string, error) {
	type outcome struct {
		token string
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*requestTimeout)
		defer cancel()
		token, err := s.renewNow(detached, former)
		done <- outcome{token, err}
	}()
	select {
	case o := <-done:
		return o.token, o.err
	case <-ctx.Done():
		return "", fault.From(ctx.Err())
	}
}

// renewNow implements renew, with the file of the grant locked.
func (s *Source) renewNow(ctx context.Context, former string) (string, error) {
	unlock, err := s.l.files.lock(ctx, s.server.Name)
	if err != nil {
		return "", err
	}
	defer unlock()
	g, err := s.read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", loginRequired(s.server.Name)
	case err != nil:
		return "", loginExpired(s.server.Name)
	case g.Access != "" && g.Access != former && !g.stale(s.l.now()):
		return g.Access, nil
	case g.Refresh == "":
		return "", loginExpired(s.server.Name)
	}
	answer, err := s.l.post(ctx, g.TokenURL, g.Client.withSecretOf(s.server), url.Values{
		"grant_type": {"refresh_token"}, "refresh_token": {g.Refresh}, "resource": {g.Resource},
	})
	s.remember(answer.Access, answer.Refresh)
	if err == nil {
		err = g.update(answer, s.l.now())
	}
	if err != nil {
		return "", s.renewError(ctx, g, err)
	}
	if err := s.l.files.write(s.server.Name, g); err != nil {
		return "", err
	}
	s.l.log.InfoContext(ctx, "mcp_login_renewed", slog.String("server", s.server.Name), slog.String("issuer", g.Issuer))
	return g.Access, nil
}

// renewError returns the error for a failed renewal. It deletes the tokens from the grant if the authorization server has rejected
// them, so that they are not used again.
func (s *Source) renewError(ctx context.Context, g grant, err error) error {
	s.l.log.WarnContext(ctx, "mcp_login_not_renewed", slog.String("server", s.server.Name), slog.Any("error", err))
	refused, ok := errors.AsType[*refusal](err)
	if !ok {
		return err
	}
	if refused.code == "invalid_grant" {
		g.Access, g.Refresh = "", ""
		if err := s.l.files.write(s.server.Name, g); err != nil {
			return err
		}
	}
	return loginExpired(s.server.Name)
}
