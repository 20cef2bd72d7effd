package oauth

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/url"
	"os"

	"github.com/orch-dev/orch/fault"
)

// Logout deletes the login of a server, and requests the authorization server to revoke the tokens if it supports that. It reports
// whether all tokens were revoked. It uses only s.Name and s.ClientSecret. It returns NOT_FOUND if there is no login.
func (l *Logins) Logout(ctx context.Context, s Server) (revoked bool, err error) {
	g, err := l.forget(ctx, s.Name)
	if err != nil || g.RevokeURL == "" {
		return false, err
	}
	revoked = true
	for hint, token := range map[string]string{"refresh_token": g.Refresh, "access_token": g.Access} {
		if token == "" {
			continue
		}
		_, err := l.post(ctx, g.RevokeURL, g.Client.withSecretOf(s), url.Values{"token": {token}, "token_type_hint": {hint}})
		if err != nil {
			revoked = false
			l.log.WarnContext(ctx, "mcp_token_not_revoked", slog.String("server", s.Name), slog.String("token", hint), slog.Any("error", err))
		}
	}
	return revoked, nil
}

// forget deletes the file of a login and returns its content. It returns a zero grant if the file is damaged, and NOT_FOUND if there
// is no login.
func (l *Logins) forget(ctx context.Context, name string) (grant, error) {
	none := fault.New(fault.NotFound, "there is no login at the MCP server %s", name)
	if _, err := os.Stat(l.files.path(name)); !validName(name) || errors.Is(err, fs.ErrNotExist) {
		return grant{}, none
	}
	unlock, err := l.files.lock(ctx, name)
	if err != nil {
		return grant{}, err
	}
	defer unlock()
	g, err := l.files.read(name)
	if err != nil {
		g = grant{} // the file is damaged: delete it nevertheless
	}
	switch err := os.Remove(l.files.path(name)); {
	case errors.Is(err, fs.ErrNotExist):
		return grant{}, none
	case err != nil:
		return grant{}, l.files.unsaved(err)
	}
	return g, nil
}
